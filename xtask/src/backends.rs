//! The one table of backends. Every command reads it; adding a backend to the tooling is one row here.
//!
//! Not here: how a backend is built, run or installed. What a row needs from the system is installed by
//! `test/setup.rs`.

use std::path::Path;

use crate::test;
use crate::workspace::Problem;

/// A backend, or a device of one, that can be named on the command line.
#[derive(Debug)]
pub struct Backend {
    /// What `--backend` and `--require` call it, and what the suite itself is told.
    pub name: &'static str,
    /// The cargo feature of the conformance package that selects it.
    pub feature: &'static str,
    /// A package whose library the suite loads at run time: it is built beside the suite.
    pub library: Option<&'static str>,
    /// Variables that its process is started with, such as the one that points a loader at a driver.
    pub environment: &'static [(&'static str, &'static str)],
    /// What its devices are.
    pub nature: Nature,
    /// Whether the machine has what it needs, as far as can be seen: `cargo xtask test` requires it then.
    pub expected: fn() -> bool,
    /// What the machine has to have.
    pub needs: &'static str,
    /// The command, or the sentence, that mends a machine where it is unavailable.
    pub fix: &'static str,
}

/// What the devices of a backend are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// The machine's own processors: no device, and no emulation of one.
    Processor,
    /// Devices behind a driver, in hardware or in software.
    Device,
}

/// All backends, in the order of reports.
pub const BACKENDS: &[Backend] = &[
    Backend {
        name: "host",
        feature: "host",
        library: None,
        environment: &[],
        nature: Nature::Processor,
        expected: || true,
        needs: "nothing: it runs on this machine's processors",
        fix: "nothing can be missing: please report this as a bug",
    },
    Backend {
        name: "vulkan",
        feature: "vulkan",
        library: None,
        environment: &[],
        nature: Nature::Device,
        expected: test::has_vulkan,
        needs: VULKAN_NEEDS,
        fix: VULKAN_FIX,
    },
    // The same devices, as if the host did not reach their memory.
    Backend {
        name: "vulkan-staged",
        feature: "vulkan",
        library: None,
        environment: &[],
        nature: Nature::Device,
        expected: test::has_vulkan,
        needs: VULKAN_NEEDS,
        fix: VULKAN_FIX,
    },
    Backend {
        name: "wgpu",
        feature: "wgpu",
        library: None,
        environment: &[],
        nature: Nature::Device,
        expected: test::has_vulkan,
        needs: "a device with a driver for Vulkan, Metal or Direct3D 12; one in software will do",
        fix: VULKAN_FIX,
    },
    Backend {
        name: "cuda",
        feature: "cuda",
        library: None,
        environment: &[],
        nature: Nature::Device,
        expected: has_nvidia_device,
        needs: "an NVIDIA device with a driver of CUDA 12.0 or newer",
        fix: "install NVIDIA's driver: https://www.nvidia.com/drivers",
    },
    // The same backend on a driver in software. It is a device of its own so that nobody takes one for the other.
    Backend {
        name: "softcuda",
        feature: "cuda",
        library: Some("tenure-softcuda"),
        environment: &[("TENURE_SOFTCUDA", "1")],
        nature: Nature::Device,
        expected: || cfg!(target_os = "linux"),
        needs: "Linux: the driver in software is part of this repository, and built before",
        fix: "run it on Linux",
    },
];

/// Whether the system has made a file for an NVIDIA device. True says that the suite has to run on it.
fn has_nvidia_device() -> bool {
    Path::new("/dev/nvidiactl").exists()
}

const VULKAN_NEEDS: &str = "a Vulkan 1.2 driver, and its validation layer for the layer's checks";
const VULKAN_FIX: &str = test::VULKAN_PACKAGES;

/// The backends that a list of names selects, in the table's order and each once. `all` selects all.
///
/// # Errors
/// A name that is not in the table: the message lists those that are.
pub fn select(names: &[String]) -> Result<Vec<&'static Backend>, Problem> {
    if let Some(unknown) = names.iter().find(|name| *name != "all" && find(name).is_none()) {
        return Err(unknown_backend(unknown));
    }
    let all = names.iter().any(|name| name == "all");
    Ok(BACKENDS.iter().filter(|backend| all || names.iter().any(|name| name == backend.name)).collect())
}

/// The backend of that name.
pub fn find(name: &str) -> Option<&'static Backend> {
    BACKENDS.iter().find(|backend| backend.name == name)
}

fn unknown_backend(name: &str) -> Problem {
    let known: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
    Problem::new(format!("there is no backend `{name}`; there is: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn all_selects_each_once() {
        assert_eq!(select(&names(&["all"])).unwrap().len(), BACKENDS.len());
        assert_eq!(select(&names(&["host", "all", "host"])).unwrap().len(), BACKENDS.len());
        assert_eq!(select(&names(&["host", "host"])).unwrap().len(), 1);
    }

    #[test]
    fn an_unknown_name_lists_what_exists() {
        let message = select(&names(&["host", "metal"])).unwrap_err().to_string();
        assert!(message.contains("no backend `metal`"), "{message}");
        assert!(message.contains("there is: host"), "{message}");
    }
}
