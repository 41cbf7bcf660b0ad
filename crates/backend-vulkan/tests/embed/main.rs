//! Embedding in an engine's instance, device and queue: tenure destroys what it made and nothing else, submits under the
//! engine's lock, and lets go of the keep-alive at the end (L6).
//!
//! Where there is no device the test says so and ends. Not here: what works on any device (`vulkan.rs`).

mod ffi;

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_backend_vulkan::{QueueLock, VulkanOptions};
use tenure_core::{Manager, ManagerOptions, op};

/// Counts how often it was taken.
#[derive(Default)]
struct CountingLock {
    taken: Mutex<u64>,
}

impl QueueLock for CountingLock {
    fn locked(&self, submit: &mut dyn FnMut()) {
        *self.taken.lock() += 1;
        submit();
    }
}

#[test]
fn the_engines_device_outlives_tenure() {
    let engine = match ffi::Engine::new() {
        Ok(engine) => engine,
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    let lock = Arc::new(CountingLock::default());
    let keep_alive = Arc::new(());
    for force_staging in [false, true] {
        let options = VulkanOptions::builder().force_staging(force_staging).build();
        let backend = ffi::embed(engine.raw(lock.clone(), keep_alive.clone()), &options);
        let manager = Manager::open_with(backend, ManagerOptions::default()).unwrap();
        assert_eq!(Arc::strong_count(&keep_alive), 2);
        let before = *lock.taken.lock();
        let tensor = manager.tensor_from("values", &[1_u32, 2, 3]).unwrap();
        manager.run("fill", |scope| scope.evaluate([op::fill(&tensor, 7)])?.wait()).unwrap();
        assert_eq!(tensor.read().unwrap(), [7, 7, 7]);
        assert!(*lock.taken.lock() > before, "it submits under the engine's lock");
        drop(tensor);
        assert!(manager.close().unwrap().is_clean());
        assert_eq!(Arc::strong_count(&keep_alive), 1, "everything is gone when it has closed");
        engine.is_alive();
    }
    assert_eq!(engine.destroy(), [""; 0], "nothing of tenure's is left on the device");
}
