//! A decorator over any backend: it counts what taking memory from the driver and giving it back costs, and can add to
//! that a cost that is stated, as a model of a driver for which that is dear.
//!
//! Everything else goes straight to the backend. Not here: the calls (`ffi.rs`).

mod ffi;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure::Backend;

/// A backend whose calls for memory are counted, and cost more.
pub struct Costed<B> {
    inner: B,
    costs: Costs,
    tally: Arc<Tally>,
}

/// Added to each call, by a processor that is kept busy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// To taking a block from the driver.
    pub allocate: Duration,
    /// To giving one back.
    pub free: Duration,
}

/// What calls for memory have cost so far.
#[derive(Debug, Default)]
pub struct Tally {
    allocating: AtomicU64,
    giving_back: AtomicU64,
    frees: AtomicU64,
}

impl Tally {
    /// Seconds in which blocks were taken from the driver.
    pub fn allocating(&self) -> f64 {
        self.allocating.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// Seconds in which blocks, and what the backend caches, were given back.
    pub fn giving_back(&self) -> f64 {
        self.giving_back.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// Blocks that were given back.
    pub fn frees(&self) -> u64 {
        self.frees.load(Ordering::Relaxed)
    }
}

impl<B: Backend> Costed<B> {
    /// The backend, with what its calls for memory cost beside their own.
    pub fn new(inner: B, costs: Costs) -> Self {
        Costed { inner, costs, tally: Arc::default() }
    }

    /// What is counted; it outlives the backend.
    pub fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }
}

/// Does it, keeps the processor busy for `cost` beside that, and adds the time of both.
fn timed<R>(sum: &AtomicU64, cost: Duration, call: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let answer = call();
    if !cost.is_zero() {
        let called = Instant::now();
        while called.elapsed() < cost {
            std::hint::spin_loop();
        }
    }
    sum.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::{Manager, ManagerOptions, TrimPolicy, host::HostBackend};

    #[test]
    fn what_it_costs_is_counted() {
        let costs = Costs { allocate: Duration::from_millis(2), free: Duration::from_millis(3) };
        let backend = Costed::new(HostBackend::new(), costs);
        let tally = backend.tally();
        let manager =
            Manager::open_with(backend, ManagerOptions::builder().trim(TrimPolicy::Never).build()).unwrap();
        let tensor = manager.tensor_from("values", &[1_u32, 2, 3]).unwrap();
        assert_eq!(tensor.read().unwrap(), [1, 2, 3]);
        drop(tensor);
        assert_eq!(tally.frees(), 0);
        manager.trim().unwrap();
        assert!(manager.close().unwrap().is_clean());
        assert_eq!(tally.frees(), 1);
        assert!(tally.allocating() >= 0.002 && tally.giving_back() >= 0.003);
    }
}
