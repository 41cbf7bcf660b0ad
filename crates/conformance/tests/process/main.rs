//! Tests about the end of a process and about forks, after the reports C27 and C28 of the collection: L6, L11 and L28 at
//! their edge. Process exit and fork are outside of "hooks run on every exit path"; they must not hang, crash or touch
//! what is another process's.
//!
//! Each scenario needs a process of its own: this program starts itself again with the scenario's name in the
//! environment, and judges how that process ended. Not here: handles dropped as a thread ends (`cases/field`).

#[cfg(unix)]
mod exit;
#[cfg(unix)]
mod ffi;
#[cfg(unix)]
mod fork;
#[cfg(unix)]
mod scenario;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    scenario::main(&[exit::SCENARIOS, fork::SCENARIOS])
}

#[cfg(not(unix))]
fn main() {}
