//! Notices that this process is a fork of the one that opened a manager.
//!
//! A child inherits handles and locks whose threads are gone: there, no driver call and no lock of tenure's
//! is touched. A relaxed load tells; nothing is asked of the system on hot paths.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static INSTALL: Once = Once::new();

#[cfg(unix)]
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The number of forks between the first manager's process and this one. Equal numbers: the same process.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Begins to count forks.
pub(crate) fn watch() {
    INSTALL.call_once(|| {
        #[cfg(unix)]
        {
            // SAFETY: the handler only touches an atomic, which is safe in a forked child.
            let answer = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            if answer != 0 {
                tracing::warn!("pthread_atfork failed with {answer}: use after fork is not detected");
            }
        }
    });
}
