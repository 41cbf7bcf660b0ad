//! How the driver behaves: what the environment says, and what tests change while it runs.
//!
//! Here: settings. In `faults.rs`: which call fails with what, and how often each was called. In `random.rs`: the
//! generator behind seeded delays. Not here: what the settings do.

pub mod faults;
pub mod random;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use self::faults::Faults;

/// When an error of earlier work is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// By the next call that waits or asks for work; from then on by every call.
    Late,
    /// By the next call of any kind.
    AtOnce,
}

/// What was read from the environment when the library was first used.
#[derive(Debug)]
pub struct Settings {
    /// `SOFTCUDA_DEVICES`: how many devices there are; 1.
    pub devices: usize,
    /// `SOFTCUDA_MEMORY`: bytes of a device; 2 GiB. With a suffix `K`, `M` or `G`.
    pub memory: u64,
    /// `SOFTCUDA_CHECK`: whether the order of uses is checked; on.
    pub check: bool,
    /// `SOFTCUDA_CHECK_UNINITIALISED`: whether kernels may read only what was written; off.
    pub uninitialised: bool,
    /// `SOFTCUDA_QUIET`: whether violations and leaks are only counted, not printed; off.
    pub quiet: bool,
    /// `SOFTCUDA_STRICT`: whether a process with violations or leaks ends with code 86; off.
    pub strict: bool,
    /// `SOFTCUDA_POOLS`: whether devices say that they have memory pools; on.
    pub pools: bool,
    /// `SOFTCUDA_FAULTS`, and what tests add.
    pub faults: Faults,
    at_once: AtomicBool,
    seed: AtomicU64,
}

impl Settings {
    /// Reads the variables. What cannot be read is said on stderr and taken as absent.
    pub fn from_environment() -> Settings {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Settings::from_variables(&variable)
    }

    fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Settings {
        let read = |name: &str, default: u64| match variable(name) {
            None => default,
            Some(text) => bytes(&text).unwrap_or_else(|| {
                eprintln!("softcuda: {name}={text} is no number; {default} is taken");
                default
            }),
        };
        let errors = match variable("SOFTCUDA_ERRORS").as_deref() {
            None | Some("late") => Errors::Late,
            Some("at-once") => Errors::AtOnce,
            Some(other) => {
                eprintln!("softcuda: SOFTCUDA_ERRORS={other} is neither late nor at-once; late is taken");
                Errors::Late
            }
        };
        let plan = variable("SOFTCUDA_FAULTS").unwrap_or_default();
        Settings {
            devices: read("SOFTCUDA_DEVICES", 1) as usize,
            memory: read("SOFTCUDA_MEMORY", 2 << 30),
            check: read("SOFTCUDA_CHECK", 1) != 0,
            uninitialised: read("SOFTCUDA_CHECK_UNINITIALISED", 0) != 0,
            quiet: read("SOFTCUDA_QUIET", 0) != 0,
            strict: read("SOFTCUDA_STRICT", 0) != 0,
            pools: read("SOFTCUDA_POOLS", 1) != 0,
            faults: Faults::parse(&plan).unwrap_or_else(|problem| {
                eprintln!("softcuda: SOFTCUDA_FAULTS: {problem}; no fault is planned");
                Faults::default()
            }),
            at_once: AtomicBool::new(errors == Errors::AtOnce),
            seed: AtomicU64::new(read("SOFTCUDA_SEED", 0)),
        }
    }

    /// When errors are told.
    pub fn errors(&self) -> Errors {
        if self.at_once.load(Ordering::Relaxed) { Errors::AtOnce } else { Errors::Late }
    }

    /// Changes when errors are told.
    pub fn set_errors(&self, errors: Errors) {
        self.at_once.store(errors == Errors::AtOnce, Ordering::Relaxed);
    }

    /// `SOFTCUDA_SEED`: what delays between tasks are drawn from; 0 for no delays.
    pub fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }

    /// Changes the seed, for streams from their next task on.
    pub fn set_seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
    }
}

/// A number, with a suffix for its power of 1,024.
fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.trim().strip_suffix(['K', 'M', 'G', 'k', 'm', 'g']) {
        None => (text.trim(), 0),
        Some(digits) => match text.trim().to_ascii_uppercase().chars().next_back() {
            Some('K') => (digits, 10),
            Some('M') => (digits, 20),
            _ => (digits, 30),
        },
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(bytes("12"), Some(12));
        assert_eq!(bytes("12K"), Some(12 << 10));
        assert_eq!(bytes("3 m"), Some(3 << 20));
        assert_eq!(bytes("2G"), Some(2 << 30));
        assert_eq!(bytes("G"), None);
        assert_eq!(bytes("99999999999G"), None);
    }

    #[test]
    fn defaults_and_values() {
        let none = Settings::from_variables(&|_| None);
        assert_eq!((none.devices, none.memory, none.check), (1, 2 << 30, true));
        assert_eq!((none.errors(), none.seed()), (Errors::Late, 0));
        let some = Settings::from_variables(&|name| {
            Some(match name {
                "SOFTCUDA_DEVICES" => "3".to_owned(),
                "SOFTCUDA_ERRORS" => "at-once".to_owned(),
                "SOFTCUDA_FAULTS" => String::new(),
                _ => "0".to_owned(),
            })
        });
        assert_eq!((some.devices, some.check, some.errors()), (3, false, Errors::AtOnce));
    }
}
