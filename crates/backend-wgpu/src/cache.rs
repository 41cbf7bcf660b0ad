//! Caches with a bound: compiled kernels by their text, and bind groups by what they bind.
//!
//! A cache that is full forgets the half that was not used for longest. Not here: making what is cached.

use std::collections::HashMap;
use std::hash::Hash;

use smallvec::SmallVec;

/// A map of at most `capacity` entries.
#[derive(Debug)]
pub(crate) struct Bounded<K, V> {
    entries: HashMap<K, Entry<V>>,
    capacity: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    used: u64,
}

impl<K: Eq + Hash + Clone, V: Clone> Bounded<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Bounded { entries: HashMap::new(), capacity: capacity.max(1), clock: 0 }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.clock;
        Some(entry.value.clone())
    }

    /// Returns what was forgotten to make room.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Vec<(K, V)> {
        let mut forgotten = Vec::new();
        if self.entries.len() >= self.capacity && !self.entries.contains_key(&key) {
            let mut times: Vec<u64> = self.entries.values().map(|entry| entry.used).collect();
            let middle = times.len() / 2;
            let limit = *times.select_nth_unstable(middle).1;
            let old = self.entries.extract_if(|_, entry| entry.used <= limit);
            forgotten = old.map(|(key, entry)| (key, entry.value)).collect();
        }
        self.clock += 1;
        self.entries.insert(key, Entry { value, used: self.clock });
        forgotten
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key).map(|entry| entry.value)
    }

    pub(crate) fn take_all(&mut self) -> Vec<V> {
        self.entries.drain().map(|(_, entry)| entry.value).collect()
    }
}

/// What one bind group binds: the kernel whose layout it has, and the ranges as buffer, offset and bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BindGroupKey {
    pub kernel: u64,
    pub ranges: SmallVec<[(u64, u64, u64); 4]>,
}

/// Bind groups, which keep their buffers alive: so a buffer that goes takes its bind groups with it.
#[derive(Debug)]
pub(crate) struct BindGroups<V = wgpu::BindGroup> {
    groups: Bounded<BindGroupKey, V>,
    by_buffer: HashMap<u64, Vec<BindGroupKey>>,
}

impl<V: Clone> BindGroups<V> {
    pub(crate) fn new(capacity: usize) -> Self {
        BindGroups { groups: Bounded::new(capacity), by_buffer: HashMap::new() }
    }

    pub(crate) fn get(&mut self, key: &BindGroupKey) -> Option<V> {
        self.groups.get(key)
    }

    /// Returns what was forgotten, to be dropped outside the lock.
    pub(crate) fn insert(&mut self, key: BindGroupKey, group: V) -> Vec<V> {
        for buffer in buffers(&key) {
            let known = self.by_buffer.entry(buffer).or_default();
            if !known.contains(&key) {
                known.push(key.clone());
            }
        }
        let mut dropped = Vec::new();
        for (key, group) in self.groups.insert(key, group) {
            self.unlink(&key, None);
            dropped.push(group);
        }
        dropped
    }

    /// Forgets all that binds the buffer.
    pub(crate) fn forget(&mut self, buffer: u64) -> Vec<V> {
        let keys = self.by_buffer.remove(&buffer).unwrap_or_default();
        let mut dropped = Vec::new();
        for key in keys {
            self.unlink(&key, Some(buffer));
            dropped.extend(self.groups.remove(&key));
        }
        dropped
    }

    pub(crate) fn take_all(&mut self) -> Vec<V> {
        self.by_buffer.clear();
        self.groups.take_all()
    }

    fn unlink(&mut self, key: &BindGroupKey, except: Option<u64>) {
        for buffer in buffers(key).filter(|buffer| Some(*buffer) != except) {
            let Some(known) = self.by_buffer.get_mut(&buffer) else { continue };
            known.retain(|other| other != key);
            if known.is_empty() {
                self.by_buffer.remove(&buffer);
            }
        }
    }
}

fn buffers(key: &BindGroupKey) -> impl Iterator<Item = u64> {
    key.ranges.iter().map(|(buffer, _, _)| *buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_forgets_what_was_not_used() {
        let mut cache = Bounded::new(4);
        for key in 0..4 {
            assert!(cache.insert(key, key).is_empty());
        }
        assert_eq!(cache.get(&0), Some(0));
        let mut forgotten: Vec<_> = cache.insert(4, 4).into_iter().map(|(key, _)| key).collect();
        forgotten.sort_unstable();
        assert_eq!(forgotten, [1, 2, 3]);
        assert_eq!((cache.get(&0), cache.get(&1), cache.get(&4)), (Some(0), None, Some(4)));
    }

    #[test]
    fn an_endless_loop_keeps_a_bounded_number() {
        let mut cache = Bounded::new(8);
        for key in 0..10_000 {
            cache.insert(key, ());
            assert!(cache.entries.len() <= 8);
        }
    }

    fn key(kernel: u64, buffers: &[u64]) -> BindGroupKey {
        BindGroupKey { kernel, ranges: buffers.iter().map(|buffer| (*buffer, 0, 4)).collect() }
    }

    #[test]
    fn a_buffer_that_goes_takes_its_bind_groups_and_leaves_no_trace() {
        let mut groups = BindGroups::new(16);
        for temporary in 10..1_000 {
            groups.insert(key(1, &[1, temporary]), temporary);
            groups.insert(key(2, &[temporary, temporary]), temporary);
            assert_eq!(groups.get(&key(1, &[1, temporary])), Some(temporary));
            assert_eq!(groups.forget(temporary).len(), 2);
            assert_eq!(groups.get(&key(1, &[1, temporary])), None);
        }
        assert!(groups.by_buffer.is_empty(), "{:?}", groups.by_buffer.len());
        assert!(groups.groups.entries.is_empty());
    }

    #[test]
    fn what_is_forgotten_for_room_leaves_no_trace() {
        let mut groups = BindGroups::new(8);
        for temporary in 10..1_000 {
            groups.insert(key(1, &[1, temporary]), temporary);
        }
        assert!(groups.by_buffer.len() <= 9, "{}", groups.by_buffer.len());
        assert!(groups.by_buffer[&1].len() <= 8);
        assert!((1..=8).contains(&groups.take_all().len()));
        assert!(groups.by_buffer.is_empty());
    }
}
