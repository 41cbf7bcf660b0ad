//! [`Device`]: what the backend, its arenas and its recordings share, and what is known of the device.
//!
//! Not here: finding the driver (`library.rs`), and what is made on the device (`buffer.rs`, `kernel.rs`, `sequence.rs`).

pub(crate) mod ffi;

use std::sync::Arc;

use cudarc::driver::sys;
use tenure_core::backend::DriverMemory;
use tenure_core::{BackendError, Capabilities};

use crate::backend::CudaOptions;
use crate::buffer::{Allocator, DeviceMemory};
use crate::device::ffi::{Devices, device_of, retain};
use crate::error::{DRIVER_FIX, unavailable};
use crate::ffi::{Context, Ownership, process_alive};
use crate::heap::Heap;
use crate::heap::ffi::Pinned;
use crate::library::{self, Library};
use crate::timeline::Timelines;
use crate::transfer::Transfers;

/// Bytes that stand in for empty tensors.
const DUMMY_BYTES: usize = 256;

/// What every block and tensor begins at a multiple of: what the driver's own allocations do.
const ALIGNMENT: u64 = 256;

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub name: String,
    pub software: bool,
    pub memory_bytes: u64,
    /// Compute capability, as major and minor.
    pub compute: (u32, u32),
    pub max_threads: u32,
    pub max_block: [u32; 3],
    pub max_grid: [u32; 3],
    /// Shared memory of a block: what it may have at most, and without asking.
    pub max_shared_bytes: u32,
    pub usual_shared_bytes: u32,
    pub pools: bool,
    pub unified_addresses: bool,
}

/// An open device. Everything in it shares the [`Context`], which goes after all else.
pub(crate) struct Device {
    pub timelines: Arc<Timelines>,
    pub transfers: Transfers,
    pub pinned: Arc<Heap<Pinned>>,
    pub parameters: Arc<Heap<DeviceMemory>>,
    /// Bound where a tensor is empty.
    pub dummy: DeviceMemory,
    pub allocator: Arc<Allocator>,
    /// The driver's number of it.
    pub ordinal: sys::CUdevice,
    pub facts: Facts,
    pub context: Arc<Context>,
}

impl Device {
    /// Opens a device of this machine.
    pub(crate) fn open(options: &CudaOptions) -> Result<Self, BackendError> {
        let library = library::open(options.library.as_deref())?;
        process_alive()?;
        let devices = Devices::new(library)?;
        let chosen = devices.choose(options.device.as_deref(), options.index)?;
        let facts = devices.facts(chosen)?;
        facts.check()?;
        let raw = retain(library, chosen)?;
        let context = Context::new(&library.functions, raw, Ownership::Retained(chosen));
        Device::on(context, facts, chosen, options)
    }

    /// Embeds in a context that an engine made.
    pub(crate) fn embed(
        raw: sys::CUcontext,
        options: &CudaOptions,
        keep_alive: Arc<dyn Send + Sync>,
    ) -> Result<Self, BackendError> {
        let library = library::open(options.library.as_deref())?;
        process_alive()?;
        let devices = Devices::new(library)?;
        let ownership = Ownership::Foreign { _keep_alive: keep_alive };
        let context = Context::new(&library.functions, raw, ownership);
        let device = device_of(&context.enter()?)?;
        let facts = devices.facts(device)?;
        facts.check()?;
        Device::on(context, facts, device, options)
    }

    fn on(
        context: Arc<Context>,
        facts: Facts,
        device: sys::CUdevice,
        options: &CudaOptions,
    ) -> Result<Self, BackendError> {
        let current = context.enter()?;
        let allocator = Allocator::new(&current, device)?;
        let from = allocator.clone();
        let made = Device {
            timelines: Timelines::new(&current, options.queues.max(1))?,
            transfers: Transfers::new(&current)?,
            pinned: Heap::new(&context, options.staging_bytes, Pinned::new),
            // Parameters are small: none has memory of its own that would be worth keeping.
            parameters: Heap::new(&context, 0, move |current, bytes| {
                DeviceMemory::new(current, &from, bytes)
            }),
            dummy: DeviceMemory::new(&current, &allocator, DUMMY_BYTES)?,
            allocator,
            ordinal: device,
            facts,
            context: context.clone(),
        };
        drop(current);
        Ok(made)
    }

    pub(crate) fn capabilities(&self, queues: u32) -> Capabilities {
        Capabilities {
            queues: queues.max(1),
            max_block_bytes: self.facts.memory_bytes,
            max_binding_bytes: self.facts.memory_bytes,
            max_groups: self.facts.max_grid,
            // The driver has no such limit.
            max_blocks: 1 << 32,
            alignment: ALIGNMENT,
            sub_allocation: true,
            reusable_recordings: true,
            abandons_on_loss: true,
            loss_is_sticky: true,
            unified_memory: false,
        }
    }

    /// What the pool has of the device, and what the device has beside.
    pub(crate) fn memory(&self) -> Result<DriverMemory, BackendError> {
        let current = self.context.enter()?;
        let used = self.allocator.reserved(&current)?;
        let (free, _) = current.device_memory()?;
        Ok(DriverMemory { used, budget: Some(used.saturating_add(free as u64)) })
    }

    /// Gives back what is kept for reuse and in nobody's hands. Returns the bytes beside blocks: what of the pool
    /// was blocks is known to who freed them.
    pub(crate) fn trim(&self) -> Result<u64, BackendError> {
        let current = self.context.enter()?;
        let bytes = self.pinned.trim() + self.parameters.trim() + self.transfers.trim();
        self.allocator.trim(&current)?;
        Ok(bytes)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.timelines.stop();
    }
}

impl Facts {
    /// # Errors
    /// `Unavailable` if the device lacks what this backend needs.
    fn check(&self) -> Result<(), BackendError> {
        if !self.pools || !self.unified_addresses {
            let lacks = if self.pools { "unified addresses" } else { "memory pools" };
            let reason = format!("device `{}` has no {lacks}", self.name);
            return Err(unavailable("open device", reason, DRIVER_FIX));
        }
        Ok(())
    }
}

/// The device that is meant: of those with this part in their names, or of all, the one with this number.
pub(crate) fn choose(names: &[String], wanted: Option<&str>, index: u32) -> Result<usize, BackendError> {
    let wanted = wanted.map(str::to_lowercase);
    let fits = |name: &str| wanted.as_ref().is_none_or(|part| name.to_lowercase().contains(part));
    let fitting: Vec<usize> = (0..names.len()).filter(|at| fits(&names[*at])).collect();
    if let Some(chosen) = fitting.get(index as usize) {
        return Ok(*chosen);
    }
    let named = wanted.map_or_else(String::new, |part| format!(" with `{part}` in its name"));
    let reason = match fitting.len() {
        0 => format!("the CUDA driver has no device{named}"),
        1 => format!("the CUDA driver has 1 device{named}, and none of index {index}"),
        count => format!("the CUDA driver has {count} devices{named}, and none of index {index}"),
    };
    let fix =
        if names.is_empty() { DRIVER_FIX.to_owned() } else { format!("there is: {}", names.join(", ")) };
    Err(unavailable("open device", reason, fix))
}

/// Whether this is the driver in software, or says that its device is.
pub(crate) fn is_software(library: &Library, name: &str) -> bool {
    library.software || name.to_lowercase().contains("softcuda")
}

#[cfg(test)]
mod tests {
    use tenure_core::BackendErrorKind;

    use super::*;

    #[test]
    fn a_device_is_found_by_a_part_of_its_name() {
        let names = ["NVIDIA A100", "NVIDIA H200", "NVIDIA H200"].map(str::to_owned);
        assert_eq!(choose(&names, None, 0).unwrap(), 0);
        assert_eq!(choose(&names, None, 2).unwrap(), 2);
        assert_eq!(choose(&names, Some("h200"), 0).unwrap(), 1);
        assert_eq!(choose(&names, Some("h200"), 1).unwrap(), 2);
        for (names, wanted, index, part) in [
            (
                &names[..],
                Some("B300"),
                0,
                "no device with `b300` in its name; there is: NVIDIA A100, NVIDIA H200",
            ),
            (&names[..], Some("H200"), 2, "2 devices with `h200` in its name, and none of index 2; there is"),
            (&names[..1], None, 1, "1 device, and none of index 1"),
            (&[], None, 0, "no device; install NVIDIA's driver"),
        ] {
            let error = choose(names, wanted, index).unwrap_err();
            assert_eq!(error.kind, BackendErrorKind::Unavailable);
            assert!(error.message.contains(part), "{error}");
        }
    }
}
