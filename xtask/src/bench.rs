//! `cargo xtask bench`: builds the benches for release and runs a topic. `--peers` adds the benches beside heavy peers,
//! which are workspaces of their own under `integrations`.
//!
//! Not here: what is measured (`crates/bench`, `integrations`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::backends;
use crate::library::{self, Profile};
use crate::workspace::{Problem, Verdict, cargo, root};

/// One topic: what its program is built with, and the heavy peer beside it.
struct Topic {
    name: &'static str,
    /// Features of `tenure-bench`.
    features: &'static [&'static str],
    /// A workspace under `integrations`, and what its program is told.
    peer: Option<(&'static str, &'static [&'static str])>,
    /// The row of `backends.rs` that it measures on, where that has a library or an environment of its own. What is measured on a
    /// driver in software never meets another driver: its process has that one only.
    device: Option<&'static str>,
}

/// All topics. Adding one is a row here, and a module of the program.
const TOPICS: [Topic; 7] = [
    Topic { peer: Some(("burn", &["bench"])), ..topic("graph", &[]) },
    Topic { peer: Some(("cubecl", &["bench", "pool"])), ..topic("pool", &["gpu-allocator"]) },
    Topic { peer: Some(("cubecl", &["bench", "eval"])), ..topic("eval", &["vulkan", "wgpu"]) },
    topic("scope", &[]),
    topic("kompute", &["vulkan"]),
    topic("chain", &["chain", "vulkan", "wgpu"]),
    Topic { device: Some("softcuda"), ..topic("cuda", &["cuda"]) },
];

/// A topic by itself.
const fn topic(name: &'static str, features: &'static [&'static str]) -> Topic {
    Topic { name, features, peer: None, device: None }
}

/// The command line of `cargo xtask bench`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// What to measure: graph, pool, eval, scope, kompute, chain, cuda.
    topic: String,
    /// Write the rows to this file as JSON, those of peers too.
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
    /// Then run the bench beside the topic's heavy peer, in its own workspace: graph has Burn, pool and eval have CubeCL.
    #[arg(long)]
    peers: bool,
}

/// Runs the topic.
///
/// # Errors
/// If cargo cannot be started, there is no such topic, or it has no peers and they were asked for.
pub fn command(arguments: &Arguments) -> Verdict {
    let topic = find(&arguments.topic)?;
    let peer = match (arguments.peers, topic.peer) {
        (true, None) => {
            return Err(Problem::new(format!("there is no bench beside peers for `{}`", topic.name)));
        }
        (true, peer) => peer,
        (false, _) => None,
    };
    let mut own = cargo(["run", "--release", "--package", "tenure-bench"]);
    if !topic.features.is_empty() {
        own.arg("--features").arg(topic.features.join(","));
    }
    own.arg("--").arg(topic.name);
    if let Some(name) = topic.device {
        let device = backends::find(name).ok_or_else(|| Problem::new(format!("no backend `{name}`")))?;
        if !library::build(device, Profile::Release)? {
            return Ok(false);
        }
        own.envs(device.environment.iter().copied());
    }
    if !run(own, arguments)? {
        return Ok(false);
    }
    let Some((workspace, words)) = peer else { return Ok(true) };
    let mut peers = cargo(["run", "--release", "--manifest-path"]);
    peers.arg(root().join("integrations").join(workspace).join("Cargo.toml")).arg("--").args(words);
    if let Some(file) = &arguments.json {
        peers.arg("--json").arg(from_here(file)?);
    }
    let status = peers.status().map_err(Problem::while_doing("starting cargo"))?;
    Ok(status.success())
}

fn find(name: &str) -> Result<&'static Topic, Problem> {
    TOPICS.iter().find(|topic| topic.name == name).ok_or_else(|| {
        let names: Vec<_> = TOPICS.iter().map(|topic| topic.name).collect();
        Problem::new(format!("there is no topic `{name}`; there is: {}", names.join(", ")))
    })
}

/// Cargo is started in the root of the repository; files are named from here.
fn from_here(file: &Path) -> Result<PathBuf, Problem> {
    let current = std::env::current_dir().map_err(Problem::while_doing("asking where this is"))?;
    Ok(current.join(file))
}

fn run(mut command: Command, arguments: &Arguments) -> Verdict {
    for (flag, file) in [("--json", &arguments.json), ("--chart", &arguments.chart)] {
        if let Some(file) = file {
            command.arg(flag).arg(from_here(file)?);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_topic_lists_what_exists() {
        let message = find("speed").map(|topic| topic.name).unwrap_err().to_string();
        assert!(message.contains("no topic `speed`") && message.contains("graph, pool"), "{message}");
    }

    #[test]
    fn what_a_topic_measures_on_is_in_the_table() {
        let devices: Vec<&str> = TOPICS.iter().filter_map(|topic| topic.device).collect();
        assert_eq!(devices, ["softcuda"]);
        let softcuda = backends::find("softcuda").unwrap();
        assert!(softcuda.library.is_some() && !softcuda.environment.is_empty());
    }

    #[test]
    fn topics_with_a_peer_have_its_workspace() {
        for topic in &TOPICS {
            let Some((workspace, _)) = topic.peer else { continue };
            assert!(
                root().join("integrations").join(workspace).join("Cargo.toml").exists(),
                "{}",
                topic.name
            );
        }
    }
}
