//! Which call fails with which code, and how often each function was called.
//!
//! Not here: how a call asks (`driver/entry.rs`).

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::code::Code;

/// A plan of faults, and the counts that it goes by.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
}

/// What a call that is planned to fail does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it answers.
    pub code: Code,
    /// Whether the device answers it to everything from then on.
    pub sticky: bool,
}

#[derive(Debug, Default)]
struct State {
    calls: HashMap<String, u64>,
    planned: Vec<Planned>,
}

#[derive(Debug)]
struct Planned {
    function: String,
    /// The number of the call, from 1 on, since the library was loaded.
    call: u64,
    fault: Fault,
}

impl Faults {
    /// Reads `function:call:code` or `function:call:code:sticky`, several of them separated by `;`.
    ///
    /// # Errors
    /// Says which entry cannot be read.
    pub fn parse(plan: &str) -> Result<Faults, String> {
        let faults = Faults::default();
        for entry in plan.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let wrong = || format!("`{entry}` is not function:call:code or function:call:code:sticky");
            let parts: Vec<&str> = entry.split(':').map(str::trim).collect();
            let (function, call, code, sticky) = match parts[..] {
                [function, call, code] => (function, call, code, false),
                [function, call, code, "sticky"] => (function, call, code, true),
                _ => return Err(wrong()),
            };
            let call = call.parse().ok().filter(|call| *call > 0).ok_or_else(wrong)?;
            let code = Code(code.parse().map_err(|_| wrong())?);
            faults.plan(function, call, Fault { code, sticky });
        }
        Ok(faults)
    }

    /// Lets the `call`-th call of a function fail, counted from the next one, which is 1.
    pub fn plan(&self, function: &str, call: u64, fault: Fault) {
        let mut state = self.state.lock();
        let before = state.calls.get(function).copied().unwrap_or(0);
        state.planned.push(Planned { function: function.to_owned(), call: before + call, fault });
    }

    /// Counts a call, and says whether it is to fail.
    pub fn count(&self, function: &str) -> Option<Fault> {
        let mut state = self.state.lock();
        let number = match state.calls.get_mut(function) {
            Some(calls) => {
                *calls += 1;
                *calls
            }
            None => {
                state.calls.insert(function.to_owned(), 1);
                1
            }
        };
        let hit = |planned: &Planned| planned.call == number && planned.function == function;
        let index = state.planned.iter().position(hit)?;
        Some(state.planned.swap_remove(index).fault)
    }

    /// How often a function was called; all functions together for an empty name.
    pub fn calls(&self, function: &str) -> u64 {
        let state = self.state.lock();
        if function.is_empty() {
            state.calls.values().sum()
        } else {
            state.calls.get(function).copied().unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planned_call_fails_once() {
        let faults = Faults::parse("cuA:2:700:sticky; cuB:1:2;").unwrap();
        assert_eq!(faults.count("cuA"), None);
        assert_eq!(faults.count("cuB"), Some(Fault { code: Code(2), sticky: false }));
        assert_eq!(faults.count("cuA"), Some(Fault { code: Code(700), sticky: true }));
        assert_eq!(faults.count("cuA"), None);
        assert_eq!((faults.calls("cuA"), faults.calls("cuC"), faults.calls("")), (3, 0, 4));
    }

    #[test]
    fn later_plans_count_from_now() {
        let faults = Faults::default();
        assert_eq!(faults.count("cuA"), None);
        faults.plan("cuA", 1, Fault { code: Code(2), sticky: false });
        assert!(faults.count("cuA").is_some());
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        for plan in ["cuA", "cuA:1", "cuA:0:2", "cuA:x:2", "cuA:1:x", "cuA:1:2:late", "cuA:1:2:sticky:x"] {
            assert!(Faults::parse(plan).unwrap_err().contains(plan), "{plan}");
        }
    }
}
