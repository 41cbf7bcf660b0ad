//! The last word: what is left when the process ends.
//!
//! Not here: counting it (`control/`).

mod ffi;

use std::sync::Once;

use crate::device::driver;

/// Sees to it that leaks are told at the end of the process.
pub fn arrange() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| ffi::at_exit(tell));
}

/// Called when the process ends. Threads of streams may still run then.
extern "C" fn tell() {
    let told = std::panic::catch_unwind(|| {
        if driver().settings.quiet {
            return;
        }
        if let Some(leaks) = super::control::leaks_in_words() {
            eprintln!("softcuda: leaks at the end of the process: {leaks}");
        }
        let found = driver().lock().order.report.found();
        if found > 0 {
            eprintln!("softcuda: {found} violations");
        }
    });
    // There is nobody to tell that telling failed.
    drop(told);
}
