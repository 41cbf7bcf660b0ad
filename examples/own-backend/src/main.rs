//! The conformance suite on a backend of one's own: `cargo run -p own-backend -- --help`.
//!
//! Not here: the backend (`backend.rs` and the files that it names).

mod backend;
mod block;
mod recording;

use std::process::ExitCode;

use tenure_conformance::{Expectations, Suite};

use crate::backend::InlineBackend;

fn main() -> ExitCode {
    // Required: this backend runs host closures and has two queues, so that no case of these may be skipped.
    let expectations = Expectations::new().require("ownership/*").require("hooks/*").require("sequences/*");
    Suite::new("inline", || Ok(InlineBackend::new()))
        .engine_memory::<InlineBackend>(Clone::clone)
        .expectations(expectations)
        .main()
}
