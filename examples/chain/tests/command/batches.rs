//! Batches from the command line: what is written, what is reported, and the exit code.
//!
//! Not here: commands that come to no batch (`refusals.rs`), and Ctrl-C (`cancellation.rs`).

use std::fs;

use crate::support::{Folders, by_hand, names, samples};
use chain::image;

/// A PNG file of a header alone.
fn header(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let encoder = png::Encoder::new(&mut bytes, width, height);
    drop(encoder.write_header().unwrap());
    bytes
}

#[test]
fn a_good_batch_is_what_naive_sums_make_of_it() {
    let folders = Folders::with_samples("good");
    let run = folders.run(&[]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(names(&folders.output()), names(&samples()));
    for name in names(&samples()) {
        let source = image::load(&samples().join(&name), 1 << 20).unwrap();
        let result = image::load(&folders.output().join(&name), 1 << 20).unwrap();
        let expected = by_hand::chain(&source);
        by_hand::assert_same(&name, &result, &expected.image, &expected.on_the_fence);
    }
}

#[test]
fn the_report_counts_nodes_scopes_and_hooks() {
    let folders = Folders::with_samples("report");
    let run = folders.run(&[]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    for node in ["load", "upscale", "blur", "sharpen", "save"] {
        let row = run.out.lines().find(|line| line.starts_with(&format!("| {node} "))).unwrap();
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[2..4], ["4", "0"], "{run:#?}");
    }
    assert_eq!(run.figure("images"), "4 of 4 done, 0 failed, 0 left");
    // The batch, its images, their nodes.
    assert_eq!(run.figure("scopes"), "25 finished, 20 executions");
    // Two for each node, and one for the batch, whatever the number of images that asked for it (L12).
    assert_eq!(run.figure("hooks"), "41 run, 0 failed");
    assert!(run.out.contains("hook `clear weights` (AfterRelease): 1 runs, 0 failed"), "{run:#?}");
    assert_eq!(run.figure("live"), "0 B");
}

#[test]
fn trimming_is_by_the_policy() {
    let folders = Folders::with_samples("trim");
    let at_the_end = folders.run(&["--trim", "on-finish"]);
    assert_eq!(at_the_end.figure("cached"), "0 B");
    assert!(at_the_end.figure("trimmed").ends_with("1 trims in all"), "{at_the_end:#?}");

    let never = folders.run(&["--trim", "never"]);
    assert_ne!(never.figure("cached"), "0 B");
    assert_eq!(never.figure("trimmed"), "0 B at the end; 0 trims in all");
    assert_eq!(never.figure("live"), "0 B");

    let always = folders.run(&["--trim", "every-execution"]);
    let trims: u64 = always.figure("trimmed").split_whitespace().rev().nth(3).unwrap().parse().unwrap();
    assert!(trims > 1, "{always:#?}");
    for run in [at_the_end, never, always] {
        assert_eq!(run.code, Some(0), "{run:#?}");
    }
}

#[test]
fn a_corrupt_file_is_named_and_the_others_are_done() {
    let folders = Folders::with_samples("corrupt");
    folders.put("0001-a.png", b"this is no image");
    let whole = fs::read(samples().join("0002-noise.png")).unwrap();
    folders.put("0001-b.png", &whole[..whole.len() / 2]);
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0x10;
    folders.put("0001-c.png", &damaged);
    folders.put("0001-d.png", b"");
    let run = folders.run(&[]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert_eq!(names(&folders.output()), names(&samples()));
    assert!(run.err.contains("error: 4 of 8 images failed:"), "{run:#?}");
    for name in ["0001-a.png", "0001-b.png", "0001-c.png", "0001-d.png"] {
        let path = folders.input().join(name);
        let line = format!("  {} is not a readable PNG image: ", path.display());
        assert!(run.err.contains(&line), "{name}: {run:#?}");
    }
    assert_eq!(run.figure("images"), "4 of 8 done, 4 failed, 0 left");
    assert_eq!(run.figure("live"), "0 B");
    assert!(run.out.contains("scope `batch`: Failed"), "{run:#?}");
}

#[test]
fn a_huge_header_is_refused_before_anything_is_allocated() {
    let folders = Folders::with_samples("huge");
    folders.put("huge.png", &header(i32::MAX as u32, i32::MAX as u32));
    let run = folders.run(&[]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    let message =
        "huge.png has 4611686014132420609 pixels (2147483647x2147483647), at most 64000000 are taken";
    assert!(run.err.contains(message), "{run:#?}");
    assert_eq!(run.figure("images"), "4 of 5 done, 1 failed, 0 left");
}

#[test]
fn an_image_that_is_too_wide_for_the_kernels_is_named_and_leaves_nothing() {
    let folders = Folders::with_samples("wide");
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 32_768, 1);
    encoder.set_color(png::ColorType::Rgba);
    encoder.write_header().unwrap().write_image_data(&[0; 4 * 32_768]).unwrap();
    folders.put("0001-wide.png", &bytes);
    let run = folders.run(&[]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.err.contains("target `upscaled` of 65536 pixels from 32768"), "{run:#?}");
    assert_eq!((run.figure("images"), run.figure("live")), ("4 of 5 done, 1 failed, 0 left", "0 B"));
}

#[test]
fn the_largest_size_can_be_chosen() {
    let folders = Folders::with_samples("largest");
    // 64x48, 40x40, 32x24 and 64x32.
    let run = folders.run(&["--max-pixels", "2047"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert_eq!(names(&folders.output()), ["0001-checkerboard.png", "0002-noise.png"]);
    assert!(run.err.contains("0003-text.png has 2048 pixels (64x32), at most 2047 are taken"), "{run:#?}");
}

#[test]
fn fail_fast_stops_at_the_first() {
    let folders = Folders::with_samples("fast");
    folders.put("0000-a.png", b"this is no image");
    folders.put("0009-z.png", b"this neither");
    let run = folders.run(&["--fail-fast"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert_eq!(run.figure("images"), "0 of 6 done, 1 failed, 5 left");
    assert!(names(&folders.output()).is_empty());
    assert!(run.err.contains("0000-a.png") && !run.err.contains("0009-z.png"), "{run:#?}");
}

#[test]
fn a_result_that_cannot_be_written_is_named_and_leaves_nothing() {
    let folders = Folders::with_samples("unwritable");
    // A folder is in the way of one result.
    fs::create_dir_all(folders.output().join("0001-checkerboard.png")).unwrap();
    let run = folders.run(&[]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    let target = folders.output().join("0001-checkerboard.png");
    assert!(run.err.contains(&format!("cannot write {}: ", target.display())), "{run:#?}");
    assert_eq!(names(&folders.output()), names(&samples()));
    assert!(names(&target).is_empty());
}

#[test]
fn results_replace_older_ones() {
    let folders = Folders::with_samples("older");
    fs::create_dir(folders.output()).unwrap();
    let target = folders.output().join("0000-gradient.png");
    fs::write(&target, "old").unwrap();
    let run = folders.run(&[]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(image::load(&target, 1 << 20).is_ok());
}

#[test]
fn images_can_be_generated() {
    let folders = Folders::new("generate");
    fs::remove_dir(folders.input()).unwrap();
    let run = folders.run(&["--generate", "5"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(names(&folders.input()).len(), 5);
    assert_eq!(names(&folders.output()), names(&folders.input()));

    // What is there is not added to.
    let again = folders.run(&["--generate", "9"]);
    assert_eq!(again.code, Some(0), "{again:#?}");
    assert!(again.err.contains("is not empty: no samples are made"), "{again:#?}");
    assert_eq!(names(&folders.input()).len(), 5);
}

#[test]
fn lines_tell_how_far_it_is() {
    let folders = Folders::with_samples("lines");
    folders.put("0001-a.png", b"this is no image");
    let run = folders.run(&[]);
    let lines: Vec<_> = run.err.lines().collect();
    assert!(lines[0].starts_with("[1/5] 0000-gradient.png: done in "), "{run:#?}");
    assert!(lines[1].starts_with("[2/5] 0001-a.png: failed: is not a readable PNG image: "), "{run:#?}");
    assert!(lines[4].starts_with("[5/5] 0003-text.png: done in "), "{run:#?}");
}

#[test]
fn quiet_means_errors_only() {
    let folders = Folders::with_samples("quiet");
    let run = folders.run(&["--quiet"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(0), "", ""));

    folders.put("0001-a.png", b"this is no image");
    let run = folders.run(&["--quiet"]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    assert_eq!(run.err.lines().count(), 2, "{run:#?}");
}
