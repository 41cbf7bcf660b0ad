//! The last word: what is left when the process ends.
//!
//! Not here: counting it (`control/`).

mod ffi;

use std::sync::Once;

use crate::device::driver;

/// What a process ends with that is held to have no leaks and no violations, and has.
const NOT_GOOD: i32 = 86;

/// Sees to it that leaks are told at the end of the process.
pub fn arrange() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| ffi::at_exit(tell));
}

/// Called when the process ends. Threads of streams may still run then.
extern "C" fn tell() {
    // There is nobody to tell that telling failed.
    let Ok(is_good) = std::panic::catch_unwind(tell_all) else { return };
    if !is_good && driver().settings.strict {
        ffi::end_with(NOT_GOOD);
    }
}

/// Whether there is nothing to complain about.
fn tell_all() -> bool {
    let is_loud = !driver().settings.quiet;
    let leaks = super::control::leaks_in_words();
    if let Some(leaks) = leaks.as_ref().filter(|_| is_loud) {
        eprintln!("softcuda: leaks at the end of the process: {leaks}");
    }
    let found = driver().lock().order.report.found();
    if found > 0 && is_loud {
        eprintln!("softcuda: {found} violations");
    }
    leaks.is_none() && found == 0
}
