//! What the driver keeps of devices: contexts, streams and their threads, events, modules, graphs, work.
//!
//! `state.rs` has all of it behind one lock. `submit.rs` and `launch.rs` give work to streams, `perform.rs` does it,
//! `wait.rs` waits for it. Not here: the exported functions (`driver/`), the order of work (`order/`).

pub mod allocate;
pub mod bus;
pub mod capture;
pub mod completion;
pub mod context;
pub mod event;
pub mod executable;
pub mod graph;
pub mod health;
pub mod launch;
pub mod module;
pub mod operation;
pub mod perform;
pub mod queue;
pub mod state;
pub mod stream;
pub mod submit;
pub mod wait;

pub use self::state::{State, driver};
