//! What only this driver has: whether it is this one, what it found wrong, what it counts, how to change its ways.
//!
//! Here: the work. In `ffi.rs`: the exported functions. None of them is part of the driver's interface, so a program
//! that looks one of them up learns which driver it has.

mod ffi;

pub use self::ffi::*;
use crate::device::driver;
use crate::memory::Kind;

/// Live objects of a kind: `contexts`, `streams`, `events`, `modules`, `graphs`, `executables`, `pools`, `memory`
/// (device memory, of pools too), `host` (pinned memory); the sum of all these for an empty name. Parts of `executables`
/// have names too: `nodes` and `edges`.
pub fn live(kind: &str) -> u64 {
    let state = driver().lock();
    let allocations = |of: fn(Kind) -> bool| {
        state.map.iter().filter(|allocation| of(allocation.kind) && !allocation.is_freed()).count()
    };
    let count = |kind: &str| match kind {
        "contexts" => state.contexts.len(),
        "streams" => state.streams.values().filter(|stream| stream.owned).count(),
        "events" => state.events.len(),
        "modules" => state.modules.len(),
        "graphs" => state.graphs.len(),
        "executables" => state.executables.len(),
        "nodes" => state.executables.values().map(|executable| executable.nodes.len()).sum(),
        "edges" => state.executables.values().map(|executable| executable.edges()).sum(),
        "pools" => state.pools.values().filter(|pool| !pool.is_default && !pool.destroyed).count(),
        "memory" => allocations(|kind| matches!(kind, Kind::Device | Kind::Pooled(_) | Kind::Managed)),
        "host" => allocations(|kind| matches!(kind, Kind::Host | Kind::Registered)),
        _ => 0,
    };
    (match kind {
        "" => KINDS.iter().map(|kind| count(kind)).sum(),
        kind => count(kind),
    }) as u64
}

/// What `live` counts.
const KINDS: [&str; 9] =
    ["contexts", "streams", "events", "modules", "graphs", "executables", "pools", "memory", "host"];

/// Objects that would be lost if the process ended now, and those that died with their context.
pub fn leaks() -> u64 {
    let lost = driver().lock().leaked;
    lost + live("")
}

/// What is left at the end of the process, in words; nothing if all is well, or if the device failed, for then nothing
/// could be given back.
pub fn leaks_in_words() -> Option<String> {
    if driver().health.error().is_some() {
        return None;
    }
    let left: Vec<String> = KINDS
        .iter()
        .map(|kind| (kind, live(kind)))
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let lost = driver().lock().leaked;
    match (left.is_empty(), lost) {
        (true, 0) => None,
        (true, lost) => Some(format!("{lost} objects died with their context")),
        (false, 0) => Some(format!("left: {}", left.join(", "))),
        (false, lost) => Some(format!("left: {}; {lost} objects died with their context", left.join(", "))),
    }
}
