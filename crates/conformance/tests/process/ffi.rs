//! System calls that the scenarios need: fork, signals, handlers of exit.
//!
//! Not here: what the processes do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::scenario::{Ends, LIMIT_SECONDS};

/// Ends this process by a signal after so many seconds. A child of a fork has to ask anew.
pub(crate) fn end_after(seconds: u32) {
    // SAFETY: the call takes a number; the default action of SIGALRM ends the process.
    let _ = unsafe { libc::alarm(seconds) };
}

/// Runs `child` in a fork of this process, which then ends without running anything else: with 0, or with 1 if `child`
/// panicked. Returns how it ended.
pub(crate) fn fork(child: impl FnOnce()) -> Ends {
    // SAFETY: the child goes on with the one thread that it has, runs `child`, and leaves by `_exit`: no destructor and
    // no handler of the parent's runs in it.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "the system forks");
    if pid == 0 {
        end_after(LIMIT_SECONDS);
        let code = i32::from(catch_unwind(AssertUnwindSafe(child)).is_err());
        leave(code);
    }
    let mut status = 0;
    // SAFETY: `status` is a place for the answer, and the child is one of this process that nobody else waits for.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid, "the child is waited for");
    if libc::WIFEXITED(status) {
        Ends::Code(libc::WEXITSTATUS(status))
    } else {
        Ends::Signal(libc::WTERMSIG(status))
    }
}

/// Ends this process at once: no destructor and no handler runs.
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: the call takes a number and does not come back.
    unsafe { libc::_exit(code) }
}

/// Runs `handler` when the process exits. The last one that was added runs first.
pub(crate) fn at_exit(handler: extern "C" fn()) {
    // SAFETY: the handler is a function of this program and takes nothing.
    let answer = unsafe { libc::atexit(handler) };
    assert_eq!(answer, 0, "the handler is taken");
}

/// Sends a signal to this process.
pub(crate) fn raise(signal: i32) {
    // SAFETY: the call takes a number; what the signal does is the scenario's.
    let answer = unsafe { libc::raise(signal) };
    assert_eq!(answer, 0, "the signal is sent");
}

/// The end of a pipe that the handler writes to; -1 for none.
static PIPE: AtomicI32 = AtomicI32::new(-1);
static CAUGHT: AtomicBool = AtomicBool::new(false);

/// From now on this signal only wakes [`wait_for_signal`]. Returns what that needs.
pub(crate) fn catch(signal: i32) -> i32 {
    let mut ends = [0; 2];
    // SAFETY: there is room for the two ends.
    let answer = unsafe { libc::pipe(ends.as_mut_ptr()) };
    assert_eq!(answer, 0, "the system gives a pipe");
    PIPE.store(ends[1], Ordering::SeqCst);
    let handler = on_signal as extern "C" fn(i32) as libc::sighandler_t;
    // SAFETY: the handler only touches atomics and writes to a pipe, which is allowed in a signal handler.
    let before = unsafe { libc::signal(signal, handler) };
    assert_ne!(before, libc::SIG_ERR, "the handler is taken");
    ends[0]
}

extern "C" fn on_signal(_: i32) {
    CAUGHT.store(true, Ordering::SeqCst);
    let byte = 0_u8;
    // SAFETY: one byte is there to be written; a failure is seen as a scenario that does not end.
    let _ = unsafe { libc::write(PIPE.load(Ordering::SeqCst), (&raw const byte).cast(), 1) };
}

/// Blocks until the signal has come.
pub(crate) fn wait_for_signal(pipe: i32) {
    let mut byte = 0_u8;
    while !CAUGHT.load(Ordering::SeqCst) {
        // SAFETY: there is room for one byte. The signal itself may interrupt the read: then the loop looks again.
        let _ = unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) };
    }
}
