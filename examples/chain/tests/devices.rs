//! The command on every device backend of this build, beside the host: the same pixels, the same report.
//!
//! Where a backend has no device on this machine a line says why, and its tests count as ignored. Not here: what a
//! good batch is (`command`).

mod support;

use std::process::ExitCode;

use chain::image::{self, Image};
use support::by_hand::{self, Expected};
use support::{Folders, names, samples};
use tenure_conformance::trials::{self, Test};

const TESTS: &[(&str, Test)] = &[
    ("pixels_are_those_of_the_host", pixels_are_those_of_the_host),
    ("the_report_is_that_of_the_host", the_report_is_that_of_the_host),
    ("trim_policies_end_with_nothing_live", trim_policies_end_with_nothing_live),
    ("an_image_that_fails_leaves_nothing", an_image_that_fails_leaves_nothing),
    #[cfg(unix)]
    ("ctrl_c_leaves_nothing", ctrl_c_leaves_nothing),
];

fn main() -> ExitCode {
    trials::run(tenure::BACKENDS, tenure::open, TESTS)
}

/// The results of a batch of the samples, in the order of their names.
fn results(backend: &str) -> Vec<Image> {
    let folders = Folders::with_samples(&format!("pixels-{backend}"));
    let run = folders.run(&["--backend", backend]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(names(&folders.output()), names(&samples()));
    let load = |name: &String| image::load(&folders.output().join(name), 1 << 20).unwrap();
    names(&samples()).iter().map(load).collect()
}

fn pixels_are_those_of_the_host(backend: &str) {
    let results = results(backend).into_iter().zip(results("host"));
    for (name, (on_device, on_host)) in names(&samples()).iter().zip(results) {
        let source = image::load(&samples().join(name), 1 << 20).unwrap();
        let Expected { image, on_the_fence } = by_hand::chain(&source);
        for (whose, other) in [("host", &on_host), ("naive sums", &image)] {
            by_hand::assert_same(&format!("{name}, {backend} and {whose}"), &on_device, other, &on_the_fence);
        }
    }
}

fn the_report_is_that_of_the_host(backend: &str) {
    let folders = Folders::with_samples(&format!("report-{backend}"));
    let [on_device, on_host] = [backend, "host"].map(|backend| folders.run(&["--backend", backend]));
    assert_eq!(on_device.code, Some(0), "{on_device:#?}");
    for name in ["images", "scopes", "hooks", "live", "cached"] {
        assert_eq!(on_device.figure(name), on_host.figure(name), "{on_device:#?}");
    }
    // A device in software says so.
    let manager = tenure::open(backend).unwrap();
    let info = manager.info();
    let software = if info.software { " (software)" } else { "" };
    assert_eq!(on_device.figure("device"), format!("{}{software}, backend {backend}", info.device));
}

fn trim_policies_end_with_nothing_live(backend: &str) {
    let folders = Folders::with_samples(&format!("trim-{backend}"));
    for (policy, trimmed) in [("on-finish", true), ("every-execution", true), ("never", false)] {
        let run = folders.run(&["--backend", backend, "--trim", policy]);
        assert_eq!((run.code, run.figure("live")), (Some(0), "0 B"), "{policy}: {run:#?}");
        assert_eq!(run.figure("cached") == "0 B", trimmed, "{policy}: {run:#?}");
    }
}

fn an_image_that_fails_leaves_nothing(backend: &str) {
    let folders = Folders::with_samples(&format!("corrupt-{backend}"));
    folders.put("0001-a.png", b"this is no image");
    // One result cannot be written: that image fails with its pictures on the device.
    std::fs::create_dir_all(folders.output().join("0002-noise.png")).unwrap();
    let run = folders.run(&["--backend", backend]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.err.contains("error: 2 of 5 images failed:"), "{run:#?}");
    assert_eq!(run.figure("images"), "3 of 5 done, 2 failed, 0 left");
    assert_eq!((run.figure("live"), run.figure("cached")), ("0 B", "0 B"), "{run:#?}");
}

#[cfg(unix)]
fn ctrl_c_leaves_nothing(backend: &str) {
    let folders = Folders::with_samples(&format!("interrupt-{backend}"));
    let arguments = ["--backend", backend, "--pause-after", "1"];
    let run = support::interrupt::interrupted(&folders, &arguments, "0001-checkerboard.png", "INT");
    assert_eq!(run.code, Some(130), "{run:#?}");
    assert_eq!(names(&folders.output()), ["0000-gradient.png"]);
    assert_eq!(run.figure("images"), "1 of 4 done, 0 failed, 3 left");
    assert_eq!((run.figure("live"), run.figure("cached")), ("0 B", "0 B"), "{run:#?}");
}
