//! How things are measured (`measure.rs`, `resident.rs`, `scaling.rs`) and told (`report.rs`, `chart.rs`), for the
//! program of this package and for benches beside heavy peers, which are workspaces of their own under `integrations`. And
//! a backend with no device (`null.rs`), under which only core's own cost is left.
//!
//! Not here: what is measured. One module a topic, in the program.

pub mod chart;
pub mod measure;
pub mod null;
pub mod report;
pub mod resident;
pub mod scaling;
