//! The weights of blurs on the device, made once for a batch and shared by its images.
//!
//! They belong to the manager, not to a scope: no image may take them along when it ends. The batch clears them by
//! a hook (`batch.rs`). Not here: the weights themselves (`tenure-kernels`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tenure::{Error, Manager, Tensor};
use tenure_kernels::gaussian_weights;

/// Tensors of weights, by sigma.
#[derive(Debug, Default)]
pub struct WeightCache {
    tensors: Mutex<BTreeMap<u32, Tensor<f32>>>,
}

impl WeightCache {
    /// The weights for `sigma`, in pixels and above 0; made now if they are not there.
    ///
    /// # Errors
    /// As [`Manager::tensor_from`].
    pub fn get(&self, manager: &Manager, sigma: f32) -> Result<Tensor<f32>, Error> {
        let key = sigma.to_bits();
        if let Some(tensor) = self.lock().get(&key) {
            return Ok(tensor.clone());
        }
        let tensor = manager.tensor_from(format!("weights for sigma {sigma}"), &gaussian_weights(sigma))?;
        Ok(self.lock().entry(key).or_insert(tensor).clone())
    }

    /// Lets go of all of them. Their memory is given back once no execution uses them (L4). Returns how many there were.
    pub fn clear(&self) -> usize {
        // Dropped after the lock: what a drop leads to is not this file's to know.
        let tensors = std::mem::take(&mut *self.lock());
        tensors.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Tensor<f32>>> {
        // Every change is one step: a panic of a holder leaves a valid map.
        self.tensors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_made_once_and_given_back() {
        let manager = tenure::open("host").unwrap();
        let cache = WeightCache::default();
        let first = cache.get(&manager, 1.0).unwrap();
        assert_eq!(first, cache.get(&manager, 1.0).unwrap());
        assert_ne!(first, cache.get(&manager, 2.0).unwrap());
        assert_eq!(first.read().unwrap(), gaussian_weights(1.0));
        assert_eq!(manager.memory().tensors, 2);
        drop(first);
        assert_eq!(cache.clear(), 2);
        assert_eq!(manager.memory().tensors, 0);
        assert!(manager.close().unwrap().is_clean());
    }
}
