//! Whether the devices of this process still work.
//!
//! An error of a kernel is for all devices and for ever: as with the real driver, only a new process gets rid of it.
//! Not here: what counts as an error.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::code::{Answer, Code};
use crate::modes::Errors;

/// The first error that stays, and whether the program was told.
#[derive(Debug, Default)]
pub struct Health {
    /// 0 while all is well.
    error: AtomicU32,
    told: AtomicBool,
}

impl Health {
    /// From now on nothing works. The first error is the one that stays.
    pub fn fail(&self, code: Code) {
        let _ = self.error.compare_exchange(0, code.0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The error, if there is one, whether told or not.
    pub fn error(&self) -> Option<Code> {
        match self.error.load(Ordering::SeqCst) {
            0 => None,
            code => Some(Code(code)),
        }
    }

    /// Tells the program, because it waited for work or asked for its state.
    pub fn tell(&self) -> Answer {
        match self.error() {
            None => Ok(()),
            Some(code) => {
                self.told.store(true, Ordering::SeqCst);
                Err(code)
            }
        }
    }

    /// Tells the program if it was told before, or if errors are told at once.
    pub fn check(&self, errors: Errors) -> Answer {
        if errors == Errors::AtOnce || self.told.load(Ordering::SeqCst) { self.tell() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_stays_and_is_told_when_asked() {
        let health = Health::default();
        assert_eq!(health.tell(), Ok(()));
        health.fail(Code::ILLEGAL_ADDRESS);
        health.fail(Code::LAUNCH_FAILED);
        assert_eq!(health.check(Errors::Late), Ok(()), "nobody waited yet");
        assert_eq!(health.tell(), Err(Code::ILLEGAL_ADDRESS));
        assert_eq!(health.check(Errors::Late), Err(Code::ILLEGAL_ADDRESS));
    }

    #[test]
    fn at_once_needs_no_waiting() {
        let health = Health::default();
        health.fail(Code::ASSERT);
        assert_eq!(health.check(Errors::AtOnce), Err(Code::ASSERT));
    }
}
