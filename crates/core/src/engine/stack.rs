//! The stack of a scope: what finishing takes from the top, and what goes before that from anywhere in it (L8, L10).
//!
//! Ids rise and are never used again, so the entries are sorted by them. Not here: what is done with an entry
//! (`engine/finish.rs`).

use std::sync::Arc;

use smallvec::SmallVec;

use crate::engine::scopes::ScopeCell;
use crate::engine::sequences::SequenceCell;

/// One entry of a scope's stack (L10).
pub(crate) enum Entry {
    Child(Arc<ScopeCell>),
    Sequence(Arc<SequenceCell>),
    /// A hook, by its place among the scope's registrations.
    Hook(usize),
}

/// Below so many gaps nothing is moved together.
const FEW: usize = 32;

#[derive(Default)]
pub(crate) struct Stack {
    /// By rising id. An entry that went leaves a gap, unless it was the last.
    entries: SmallVec<[(u64, Option<Entry>); 4]>,
    gaps: usize,
    last_id: u64,
}

impl Stack {
    /// An id above all others.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Puts an entry on top. Its id is above those of all entries.
    pub(crate) fn push(&mut self, id: u64, entry: Entry) {
        debug_assert!(self.entries.last().is_none_or(|(top, _)| *top < id), "entries are sorted");
        self.entries.push((id, Some(entry)));
    }

    /// Takes the entry on top.
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let (_, entry) = self.entries.pop()?;
        if self.gaps > 0 {
            self.clear_top();
        }
        entry
    }

    /// Takes an entry from wherever it is.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Entry> {
        if self.entries.last()?.0 == id {
            return self.pop();
        }
        let at = self.entries.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let entry = self.entries[at].1.take()?;
        self.gaps += 1;
        if self.gaps > FEW && self.gaps * 2 > self.entries.len() {
            // As many entries as are kept here have gone since the last time: a constant share for each.
            self.entries.retain(|(_, entry)| entry.is_some());
            self.gaps = 0;
        }
        Some(entry)
    }

    /// Takes gaps from the top.
    fn clear_top(&mut self) {
        while self.entries.last().is_some_and(|(_, entry)| entry.is_none()) {
            self.entries.pop();
            self.gaps -= 1;
        }
    }

    /// All entries, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter_map(|(_, entry)| entry.as_ref())
    }

    /// The scopes among them, the oldest first.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Arc<ScopeCell>> {
        self.iter().filter_map(|entry| match entry {
            Entry::Child(child) => Some(child),
            Entry::Sequence(_) | Entry::Hook(_) => None,
        })
    }

    /// The sequences among them, the oldest first.
    pub(crate) fn sequences(&self) -> impl Iterator<Item = &Arc<SequenceCell>> {
        self.iter().filter_map(|entry| match entry {
            Entry::Sequence(sequence) => Some(sequence),
            Entry::Child(_) | Entry::Hook(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn place(entry: Option<Entry>) -> Option<usize> {
        match entry? {
            Entry::Hook(place) => Some(place),
            _ => unreachable!("only hooks were pushed"),
        }
    }

    /// What is asked of the stack.
    #[derive(Clone, Debug)]
    enum Step {
        Push,
        Pop,
        /// The entry at this part of all ids so far.
        Remove(f64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step =
            prop_oneof![3 => Just(Step::Push), 1 => Just(Step::Pop), 3 => (0.0..1.0).prop_map(Step::Remove)];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map(steps in steps()) {
            let (mut stack, mut model) = (Stack::default(), BTreeMap::new());
            let mut last = 0;
            for step in steps {
                match step {
                    Step::Push => {
                        last = stack.next_id();
                        stack.push(last, Entry::Hook(last as usize));
                        model.insert(last, last as usize);
                    }
                    Step::Pop => {
                        prop_assert_eq!(place(stack.pop()), model.pop_last().map(|(_, place)| place));
                    }
                    Step::Remove(part) => {
                        let id = (last as f64 * part) as u64 + 1;
                        prop_assert_eq!(place(stack.remove(id)), model.remove(&id));
                    }
                }
                let places: Vec<_> = stack.iter().map(|entry| match entry {
                    Entry::Hook(place) => *place,
                    _ => unreachable!("only hooks were pushed"),
                }).collect();
                prop_assert_eq!(places, model.values().copied().collect::<Vec<_>>());
                prop_assert!(stack.entries.len() <= 2 * model.len() + FEW + 1, "gaps are bounded");
            }
        }
    }
}
