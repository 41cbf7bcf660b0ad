//! What happens at the start and at the end of every exported function.
//!
//! Not here: the functions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::perform::is_in_host_function;

/// What has to be so before a function does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing; it may be called from a host function too.
    Nothing,
    /// Nothing, but it may not be called from a host function.
    Outside,
    /// `cuInit` was called.
    Start,
    /// And the device works, as far as the program was told.
    Health,
}

/// Calls the body of an exported function, if it may run, and makes a code of its end.
pub fn call(name: &'static str, needs: Needs, body: impl FnOnce() -> Answer) -> Code {
    let guarded = AssertUnwindSafe(|| enter(name, needs).and_then(|()| body()));
    match catch_unwind(guarded) {
        Ok(Ok(())) => Code::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => Code::UNKNOWN,
    }
}

fn enter(name: &'static str, needs: Needs) -> Answer {
    if needs == Needs::Nothing {
        return Ok(());
    }
    if is_in_host_function() {
        return Err(Code::NOT_PERMITTED);
    }
    let driver = driver();
    if let Some(fault) = driver.settings.faults.count(name) {
        if fault.sticky {
            driver.health.fail(fault.code);
            // The call itself tells it.
            let _ = driver.health.tell();
        }
        return if fault.code == Code::SUCCESS { Ok(()) } else { Err(fault.code) };
    }
    if needs != Needs::Outside && !driver.is_started() {
        return Err(Code::NOT_INITIALIZED);
    }
    if needs == Needs::Health { driver.health.check(driver.settings.errors()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_panic_gets_out() {
        assert_eq!(call("cuTest", Needs::Nothing, || panic!("on purpose")), Code::UNKNOWN);
        assert_eq!(call("cuTest", Needs::Nothing, || Err(Code::NOT_FOUND)), Code::NOT_FOUND);
        assert_eq!(call("cuTest", Needs::Nothing, || Ok(())), Code::SUCCESS);
    }

    #[test]
    fn nothing_runs_before_the_start() {
        let answer = call("cuTest", Needs::Start, || panic!("it must not be called"));
        assert_eq!(answer, Code::NOT_INITIALIZED);
    }
}
