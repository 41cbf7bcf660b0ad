//! Programs that use the driver as any program does: through cudarc, from the shared library, each in a process of its
//! own.
//!
//! Here: what there is of it on a system. In `runner.rs`: starting them. The programs are in `cases/`. An error that stays
//! ends with its process, and settings are read once, so no two programs share one.

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod ffi;
#[cfg(target_os = "linux")]
mod gate;
#[cfg(target_os = "linux")]
mod kit;
#[cfg(target_os = "linux")]
mod ptx;
#[cfg(target_os = "linux")]
mod runner;

#[cfg(target_os = "linux")]
use self::runner::Case;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    runner::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("no program ran: programs find the library by a name that only Linux's loader knows");
}
