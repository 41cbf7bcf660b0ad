//! Tests of a program on every device backend that it is built with, beside the embedded one: for a test target without a
//! harness of its own.
//!
//! A test is named after its backend. Where the device is in software its name stands before the test, so that no such line reads
//! as one of hardware. Where a backend has no device on this machine a line says why, and its tests count as ignored. Not
//! here: the suite (`harness.rs`), and which devices may be missing (`presence.rs`).

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use tenure_core::{Error, Manager};

use crate::presence::Presence;

/// A test, which gets the backend's name. It fails by panicking.
pub type Test = fn(&str);

/// Runs each of the named tests on each of the `backends` but `host`, which they compare with. The command line is that of test
/// programs.
///
/// ```no_run
/// # fn same_as_the_host(_backend: &str) {}
/// # fn open(_name: &str) -> Result<tenure_core::Manager, tenure_core::Error> { unreachable!() }
/// fn main() -> std::process::ExitCode {
///     // Of the facade: `tenure::BACKENDS` and `tenure::open`.
///     tenure_conformance::trials::run(&["host", "wgpu"], open, &[("same_as_the_host", same_as_the_host)])
/// }
/// ```
pub fn run(
    backends: &[&'static str],
    open: fn(&str) -> Result<Manager, Error>,
    tests: &[(&'static str, Test)],
) -> ExitCode {
    let mut trials = Vec::new();
    for backend in backends.iter().copied().filter(|backend| *backend != "host") {
        let presence = Presence::of(backend, || open(backend));
        if let Presence::Missing(why) = &presence {
            eprintln!("{backend} is not run: {why}");
        }
        trials.extend(tests.iter().map(|(name, test)| trial(backend, &presence, name, *test)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(backend: &'static str, presence: &Presence, name: &str, test: Test) -> Trial {
    let name = format!("{backend}::{name}");
    match presence.clone() {
        Presence::Here(info) => {
            let trial = Trial::test(name, move || {
                test(backend);
                Ok(())
            });
            if info.software { trial.with_kind(format!("{}, in software", info.device)) } else { trial }
        }
        Presence::Missing(_) => Trial::test(name, || Ok(())).with_ignored_flag(true),
        Presence::Broken(why) => Trial::test(name, || Err(Failed::from(why))),
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::BackendInfo;

    use super::*;

    fn here(software: bool) -> Presence {
        Presence::Here(BackendInfo { name: "b".to_owned(), device: "d".to_owned(), software })
    }

    #[test]
    fn a_device_in_software_stands_before_its_tests() {
        let trial = |presence| trial("b", &presence, "t", |_| ());
        let [hard, soft, missing] = [here(false), here(true), Presence::Missing("no".to_owned())].map(trial);
        assert_eq!((hard.name(), hard.kind()), ("b::t", ""));
        assert_eq!((soft.name(), soft.kind()), ("b::t", "d, in software"));
        assert!(missing.has_ignored_flag() && !soft.has_ignored_flag());
    }
}
