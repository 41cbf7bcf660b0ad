//! The example as a test: the whole suite passes on the inline backend.
//!
//! Not here: the suite.

use std::process::Command;

#[test]
fn the_suite_passes() {
    let output = Command::new(env!("CARGO_BIN_EXE_own-backend")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("inline: the calling thread; "), "{text}");
}
