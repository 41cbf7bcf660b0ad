//! `cargo xtask bench`: builds the benches for release and runs a topic. `--peers` adds the benches beside heavy peers,
//! which are workspaces of their own under `integrations`.
//!
//! Not here: what is measured (`crates/bench`, `integrations`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::workspace::{Problem, Verdict, cargo, root};

/// The command line of `cargo xtask bench`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// What to measure: graph.
    topic: String,
    /// Write the rows to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the figures to this file as SVG.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Measure only rows whose id contains this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// A tenth of the work: to see that it runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Then run the bench beside the topic's heavy peer, in its own workspace: graph has Burn.
    #[arg(long)]
    peers: bool,
}

/// Runs the topic.
///
/// # Errors
/// If cargo cannot be started, or the topic has no peers and they were asked for.
pub fn command(arguments: &Arguments) -> Verdict {
    let own = cargo(["run", "--release", "--package", "tenure-bench", "--", &arguments.topic]);
    if !run(own, arguments)? {
        return Ok(false);
    }
    if !arguments.peers {
        return Ok(true);
    }
    let manifest = match arguments.topic.as_str() {
        "graph" => root().join("integrations/burn/Cargo.toml"),
        topic => return Err(Problem::new(format!("there is no bench beside peers for `{topic}`"))),
    };
    let mut peers = cargo(["run", "--release", "--manifest-path"]);
    peers.arg(manifest).arg("--").arg("bench");
    let status = peers.status().map_err(Problem::while_doing("starting cargo"))?;
    Ok(status.success())
}

fn run(mut command: Command, arguments: &Arguments) -> Verdict {
    let current = std::env::current_dir().map_err(Problem::while_doing("asking where this is"))?;
    for (flag, file) in [("--json", &arguments.json), ("--chart", &arguments.chart)] {
        if let Some(file) = file {
            // Cargo is started in the root of the repository; the file is named from here.
            command.arg(flag).arg(current.join(file));
        }
    }
    if let Some(filter) = &arguments.filter {
        command.args([OsString::from("--filter"), filter.into()]);
    }
    if arguments.quick {
        command.arg("--quick");
    }
    let status = command.status().map_err(Problem::while_doing("starting cargo"))?;
    Ok(status.success())
}
