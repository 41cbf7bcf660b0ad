//! All that the driver knows, behind one lock, and how to reach it.
//!
//! Locks: the state first; then, never two of them at once, those of a queue, of a completion, of an allocation's marks.
//! Nothing of the caller's runs while the state is locked. Not here: what is done with the parts.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::capture::Capture;
use super::context::Context;
use super::event::Event;
use super::executable::Executable;
use super::graph::Graph;
use super::health::Health;
use super::module::{Function, Module};
use super::stream::Stream;
use crate::code::{Answer, Code};
use crate::memory::{Handle, Map, Pool};
use crate::modes::Settings;
use crate::order::Order;
use crate::order::report::in_words;

/// The driver of this process.
#[derive(Debug)]
pub struct Driver {
    /// How it behaves.
    pub settings: Settings,
    /// Whether its devices work.
    pub health: Health,
    started: AtomicBool,
    state: Mutex<State>,
}

/// All that the driver knows.
#[derive(Debug)]
pub struct State {
    /// By ordinal.
    pub devices: Vec<Device>,
    /// Contexts.
    pub contexts: HashMap<Handle, Context>,
    /// Streams, those that callers have no handle of included.
    pub streams: HashMap<Handle, Stream>,
    /// Events.
    pub events: HashMap<Handle, Event>,
    /// Modules.
    pub modules: HashMap<Handle, Module>,
    /// Kernels of modules.
    pub functions: HashMap<Handle, Function>,
    /// Graphs.
    pub graphs: HashMap<Handle, Graph>,
    /// Graphs that can be launched.
    pub executables: HashMap<Handle, Executable>,
    /// Captures under way.
    pub captures: HashMap<Handle, Capture>,
    /// Memory pools.
    pub pools: HashMap<Handle, Pool>,
    /// Allocations.
    pub map: Map,
    /// The order of work.
    pub order: Order,
    /// Objects that died with their context before they were destroyed.
    pub leaked: u64,
    /// Allocations whose free was submitted, by its serial, until nothing submitted before it can reach them.
    dying: BTreeMap<u64, u64>,
    handles: u64,
}

/// One device.
#[derive(Debug)]
pub struct Device {
    /// Its primary context, while somebody retains it.
    pub primary: Option<Handle>,
    /// Flags for the primary context.
    pub primary_flags: u32,
    /// The pool that is always there.
    pub default_pool: Handle,
    /// The pool that `cuMemAllocAsync` takes from.
    pub pool: Handle,
    /// Bytes of `cuMemAlloc` and of modules.
    pub taken: u64,
}

/// The driver. The first use reads the environment.
pub fn driver() -> &'static Driver {
    static DRIVER: LazyLock<Driver> = LazyLock::new(Driver::new);
    &DRIVER
}

impl Driver {
    fn new() -> Driver {
        let settings = Settings::from_environment();
        let mut state = State {
            devices: Vec::new(),
            contexts: HashMap::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            graphs: HashMap::new(),
            executables: HashMap::new(),
            captures: HashMap::new(),
            pools: HashMap::new(),
            map: Map::default(),
            order: Order::new(settings.check, settings.quiet),
            leaked: 0,
            dying: BTreeMap::new(),
            handles: 0,
        };
        for device in 0..settings.devices {
            let pool = state.new_handle();
            state.pools.insert(pool, Pool::new(device, true, 0));
            state.devices.push(Device {
                primary: None,
                primary_flags: 0,
                default_pool: pool,
                pool,
                taken: 0,
            });
        }
        Driver {
            settings,
            health: Health::default(),
            started: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Locks the state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// `cuInit` was called.
    pub fn start(&self) {
        self.started.store(true, Ordering::SeqCst);
    }

    /// Whether `cuInit` was called.
    pub fn is_started(&self) -> bool {
        self.started.load(Ordering::SeqCst)
    }
}

impl State {
    /// A handle that no object had before. It is no address of anything.
    pub fn new_handle(&mut self) -> Handle {
        self.handles += 1;
        0x50f7_0000_0000 + self.handles * 16
    }

    /// The ordinal of a device.
    ///
    /// # Errors
    /// `INVALID_DEVICE` if there is none.
    pub fn device(&self, ordinal: i32) -> Answer<usize> {
        usize::try_from(ordinal)
            .ok()
            .filter(|ordinal| *ordinal < self.devices.len())
            .ok_or(Code::INVALID_DEVICE)
    }

    /// Bytes of a device that nobody holds.
    pub fn free_bytes(&self, device: usize) -> u64 {
        let pools: u64 =
            self.pools.values().filter(|pool| pool.device == device).map(|pool| pool.reserved().0).sum();
        driver().settings.memory.saturating_sub(pools + self.devices[device].taken)
    }

    /// An allocation's free was submitted; its memory goes when nothing from before can reach it.
    pub fn condemn(&mut self, address: u64, serial: u64) {
        if let Some(allocation) = self.map.at(address) {
            allocation.set_freed(serial);
        }
        self.dying.insert(serial, address);
        self.bury();
    }

    /// Lets the memory of freed allocations go that nothing can reach any more.
    pub fn bury(&mut self) {
        let oldest = self.order.oldest_pending();
        while let Some(entry) = self.dying.first_entry()
            && *entry.key() < oldest
        {
            let address = entry.remove();
            self.map.remove(address);
            self.order.gone(address);
        }
    }

    /// Reports a conflict on the allocation at an address.
    pub fn report(&mut self, address: u64, conflict: Option<crate::order::history::Conflict>) {
        if let Some(conflict) = conflict {
            let allocation = match self.map.at(address) {
                Some(allocation) => allocation.in_words(),
                None => format!("memory {address:#x}"),
            };
            self.order.report.add(in_words(&conflict, &allocation));
        }
    }
}
