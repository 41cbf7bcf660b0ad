//! The exported functions, by group. Each file starts with the list of what it exports.
//!
//! Not here: what they act on (`device/`, `memory/`).

#[macro_use]
mod ffi;

pub mod atexit;
pub mod capture;
pub mod context;
pub mod control;
pub mod copy;
pub mod device;
pub mod entry;
pub mod event;
pub mod fill;
pub mod function;
pub mod graph;
pub mod graph_exec;
pub mod initialise;
pub mod launch;
pub mod memory;
pub mod module;
pub mod nodes;
pub mod pool;
pub mod stream;
pub mod words;

/// The address of an exported function.
pub fn address_of(name: &str) -> Option<usize> {
    let groups: [fn(&str) -> Option<usize>; 17] = [
        capture::address_of,
        context::address_of,
        copy::address_of,
        device::address_of,
        event::address_of,
        fill::address_of,
        function::address_of,
        graph::address_of,
        graph_exec::address_of,
        initialise::address_of,
        launch::address_of,
        memory::address_of,
        module::address_of,
        nodes::address_of,
        pool::address_of,
        stream::address_of,
        words::address_of,
    ];
    groups.iter().find_map(|group| group(name))
}
