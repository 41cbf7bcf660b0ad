//! Ctrl-C, sent to the command while an image is on the device.
//!
//! Not here: cancelling a scope, which is a matter of conformance cases.

use crate::support::interrupt::interrupted;
use crate::support::{Folders, names};

#[test]
fn ctrl_c_ends_the_batch_and_leaves_nothing() {
    let folders = Folders::with_samples("interrupt");
    let run = interrupted(&folders, &["--pause-after", "2"], "0002-noise.png", "INT");
    assert_eq!(run.code, Some(130), "{run:#?}");
    // What was done stays, of the image in between there is no part.
    assert_eq!(names(&folders.output()), ["0000-gradient.png", "0001-checkerboard.png"]);
    assert_eq!(run.figure("images"), "2 of 4 done, 0 failed, 2 left");
    assert!(run.err.contains("cancelled: 2 of 4 images were done"), "{run:#?}");
    assert!(run.out.contains("scope `batch`: Cancelled"), "{run:#?}");
    // Two whole images with five nodes each, one node of the third: two hooks each, and the batch's (L11, L12).
    assert_eq!(run.figure("scopes"), "15 finished, 11 executions");
    assert_eq!(run.figure("hooks"), "23 run, 0 failed");
    assert!(run.out.contains("hook `clear weights` (AfterRelease): 1 runs, 0 failed"), "{run:#?}");
    // Nothing is held, and the close report has no complaint.
    assert_eq!((run.figure("live"), run.figure("cached")), ("0 B", "0 B"));
    assert!(!run.err.contains("error"), "{run:#?}");
}

#[test]
fn termination_is_the_same() {
    let folders = Folders::with_samples("terminate");
    let run = interrupted(&folders, &["--pause-after", "0"], "0000-gradient.png", "TERM");
    assert_eq!(run.code, Some(130), "{run:#?}");
    assert!(names(&folders.output()).is_empty());
    assert_eq!(run.figure("images"), "0 of 4 done, 0 failed, 4 left");
    assert_eq!(run.figure("live"), "0 B");
}

#[test]
fn a_failure_before_ctrl_c_is_still_told() {
    let folders = Folders::with_samples("both");
    folders.put("0000-a.png", b"this is no image");
    let run = interrupted(&folders, &["--pause-after", "1", "--quiet"], "0000-gradient.png", "INT");
    assert_eq!(run.code, Some(130), "{run:#?}");
    assert!(run.err.contains("error: 1 of 5 images failed:"), "{run:#?}");
    assert!(run.err.contains("cancelled: 0 of 5 images were done"), "{run:#?}");
    assert!(run.out.is_empty(), "{run:#?}");
}
