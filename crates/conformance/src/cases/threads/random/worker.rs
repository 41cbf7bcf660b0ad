//! One thread of the lives at random: what it has, and what it does next.
//!
//! Not here: what threads share, and what has to hold in the end (`random.rs`).

use std::time::Duration;

use tenure_core::{Error, Execution, ManagedScope, Tensor, hook, op};

use super::{Registered, World};
use crate::cases::hooks::support::{Count, poll_once};
use crate::random::Random;

/// What goes round at most.
const SHARED: usize = 6;

/// Elements of 4 bytes: the last is too large for a page.
const SIZES: [u64; 4] = [64, 1000, 1 << 14, 5 << 14];

/// A scope of one thread.
struct Owned {
    scope: ManagedScope,
    /// Those of its hooks among them.
    executions: Count,
}

/// A tensor of one thread.
struct Kept {
    tensor: Tensor<u32>,
    /// What every element is, if known.
    value: Option<u32>,
    /// The scope that it ends with.
    scope: Option<u64>,
}

pub(super) struct Worker<'a> {
    world: &'a World,
    random: Random,
    scopes: Vec<Owned>,
    tensors: Vec<Kept>,
    ended: Vec<Tensor<u32>>,
    executions: Vec<Execution>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(world: &'a World, seed: u64) -> Self {
        let (scopes, tensors, ended, executions) = Default::default();
        Worker { world, random: Random::new(seed), scopes, tensors, ended, executions }
    }

    pub(super) fn step(&mut self) {
        match self.random.index(30) {
            0..=6 => self.make(),
            7..=9 => self.drop_a_tensor(),
            10..=14 => self.evaluate(),
            15 => self.read(),
            16 => self.write(),
            17 => self.promote(),
            18 => self.destroy(),
            19 => self.use_an_ended_one(),
            20..=21 => self.pass_round(),
            22 => self.register(),
            23 => self.wait(),
            24 => self.hold_for_a_while(),
            25 => self.open(),
            26..=27 => self.end_a_scope(),
            28 => _ = self.world.expect(self.world.manager.trim()),
            _ => self.look(),
        }
    }

    /// By one of several lines of the program, in a scope or not.
    fn make(&mut self) {
        let len = SIZES[self.random.index(SIZES.len())];
        let (line, place) = (self.random.index(2), self.random.index(self.scopes.len() + 1));
        let (answer, scope) = match self.scopes.get(place) {
            Some(owned) if line == 0 => (owned.scope.tensor(len), Some(owned.scope.id())),
            Some(owned) => (owned.scope.tensor(len), Some(owned.scope.id())),
            None if line == 0 => (self.world.manager.tensor(len), None),
            None => (self.world.manager.tensor(len), None),
        };
        let Some(tensor) = self.world.expect(answer) else { return };
        assert!(self.world.closes || tensor.is_live());
        self.tensors.push(Kept { tensor, value: None, scope });
        if self.tensors.len() > 12 {
            self.drop_a_tensor();
        }
    }

    fn pick(&mut self) -> Option<usize> {
        (!self.tensors.is_empty()).then(|| self.random.index(self.tensors.len()))
    }

    fn drop_a_tensor(&mut self) {
        let Some(at) = self.pick() else { return };
        let kept = self.tensors.swap_remove(at);
        let clone = (self.random.index(2) == 0).then(|| kept.tensor.clone());
        drop(kept);
        drop(clone);
    }

    /// One operation, or two, on tensors of this thread's or on one that goes round.
    fn evaluate(&mut self) {
        if self.scopes.is_empty() {
            self.open();
        }
        let (Some(at), false) = (self.pick(), self.scopes.is_empty()) else { return };
        let place = self.random.index(self.scopes.len());
        let value = self.random.below(1 << 20) as u32;
        let same = |kept: &&Kept| kept.tensor.len() == self.tensors[at].tensor.len();
        let from = self.tensors.iter().rev().find(same).filter(|kept| kept.tensor != self.tensors[at].tensor);
        let foreign = self.world.shared.lock().last().cloned().filter(|_| value.is_multiple_of(4));
        let (first, becomes) = match from {
            Some(from) if value.is_multiple_of(2) => {
                (op::copy(&from.tensor, &self.tensors[at].tensor), from.value)
            }
            _ => (op::fill(&self.tensors[at].tensor, value), Some(value)),
        };
        let owned = &mut self.scopes[place];
        let operations = [Some(first), foreign.map(|tensor| op::fill(&tensor, value))];
        let Some(execution) = self.world.expect(owned.scope.evaluate(operations.into_iter().flatten()))
        else {
            return;
        };
        owned.executions.add();
        self.tensors[at].value = becomes;
        match value % 8 {
            0..=2 => _ = self.world.expect(execution.wait()),
            3 => {
                let mut future = execution;
                let _ = poll_once(&mut future);
            }
            _ => self.executions.push(execution),
        }
    }

    fn read(&mut self) {
        let Some(at) = self.pick() else { return };
        let kept = &self.tensors[at];
        if let Some(elements) = self.world.expect(kept.tensor.read())
            && let Some(value) = kept.value
        {
            assert!(elements.iter().all(|element| *element == value), "{:?} is not all {value}", kept.tensor);
        }
    }

    fn write(&mut self) {
        let Some(at) = self.pick() else { return };
        let value = self.random.below(1 << 20) as u32;
        let kept = &mut self.tensors[at];
        let data = vec![value; kept.tensor.len() as usize];
        if self.world.expect(kept.tensor.write(&data)).is_some() {
            kept.value = Some(value);
        }
    }

    fn promote(&mut self) {
        let Some(at) = self.pick() else { return };
        let kept = &mut self.tensors[at];
        if self.world.expect(kept.tensor.promote_to_manager()).is_some() {
            kept.scope = None;
        }
    }

    fn destroy(&mut self) {
        let Some(at) = self.pick() else { return };
        let Kept { tensor, .. } = self.tensors.swap_remove(at);
        tensor.destroy().unwrap();
        self.ended.push(tensor);
    }

    fn use_an_ended_one(&mut self) {
        if self.ended.is_empty() {
            return;
        }
        let tensor = self.ended.swap_remove(self.random.index(self.ended.len()));
        assert!(!tensor.is_live());
        assert!(matches!(tensor.read(), Err(Error::Stale { .. })));
        tensor.destroy().unwrap();
    }

    /// A tensor of the manager's goes to the others, or one of theirs goes here.
    fn pass_round(&mut self) {
        let mine = self.tensors.iter().rposition(|kept| kept.scope.is_none());
        let mut shared = self.world.shared.lock();
        let taken = if shared.len() >= SHARED { Some(shared.remove(0)) } else { None };
        if let Some(at) = mine {
            let Kept { tensor, .. } = self.tensors.swap_remove(at);
            shared.push(tensor);
        }
        drop(shared);
        // Others may still use it: dropped here, or there.
        drop(taken);
    }

    fn register(&mut self) {
        if self.scopes.is_empty() {
            return;
        }
        let (place, period) = (self.random.index(self.scopes.len()), self.random.index(3));
        let owned = &mut self.scopes[place];
        let runs = Count::default();
        let (seen, executions) = (runs.clone(), owned.executions.clone());
        let run = move |context: &tenure_core::CleanupContext| {
            seen.add();
            // L15: every call is legal here.
            if let Ok(manager) = context.manager() {
                let _ = manager.tensor::<u32>(64);
            }
            if let Ok(tensor) = context.scope().tensor::<u32>(64)
                && context.scope().evaluate([op::fill(&tensor, 1)]).is_ok()
            {
                executions.add();
            }
            Ok(())
        };
        let hook = match period {
            0 => hook::once("once", run),
            1 => hook::after_release("after", run),
            _ => {
                let seen = runs.clone();
                hook::each("each", move |_| {
                    seen.add();
                    Ok(())
                })
            }
        };
        let answer = owned.scope.register(hook).map_err(Error::from);
        if self.world.expect(answer).is_some() {
            let before = owned.executions.get();
            let executions = (period == 2).then(|| (owned.executions.clone(), before));
            self.world.hooks.lock().push(Registered { runs, executions });
        }
    }

    fn wait(&mut self) {
        let Some(execution) = self.executions.pop() else { return };
        match self.random.index(3) {
            0 => match execution.wait_timeout(Duration::ZERO) {
                Err(Error::TimedOut { .. }) => self.executions.push(execution),
                answer => _ = self.world.expect(answer),
            },
            1 if self.world.threads => _ = self.world.expect(pollster::block_on(execution)),
            _ => _ = self.world.expect(execution.wait()),
        }
    }

    /// The device stands still while this thread goes on, with what never waits for it.
    fn hold_for_a_while(&mut self) {
        let Some(owned) = self.scopes.last_mut() else { return };
        self.world.probe.hold();
        for kept in self.tensors.iter_mut().rev().take(3) {
            if self.world.expect(owned.scope.evaluate([op::fill(&kept.tensor, 9)])).is_some() {
                owned.executions.add();
                kept.value = Some(9);
            }
        }
        self.drop_a_tensor();
        if self.random.index(4) == 0 {
            self.abandon();
        }
        self.world.probe.release_all();
    }

    fn open(&mut self) {
        let answer = match self.scopes.last() {
            Some(parent) if self.random.index(3) == 0 => parent.scope.scope("child"),
            _ => self.world.manager.scope("root"),
        };
        if let Some(scope) = self.world.expect(answer) {
            self.scopes.push(Owned { scope, executions: Count::default() });
        }
        if self.scopes.len() > 3 {
            self.end_a_scope();
        }
    }

    /// Takes the newest scope: its tensors end with it.
    fn take_a_scope(&mut self) -> Option<ManagedScope> {
        let Owned { scope, .. } = self.scopes.pop()?;
        let id = scope.id();
        for kept in self.tensors.extract_if(.., |kept| kept.scope == Some(id)) {
            self.ended.push(kept.tensor);
        }
        self.ended.truncate(8);
        Some(scope)
    }

    fn end_a_scope(&mut self) {
        let kept = self.ended.len();
        match self.random.index(4) {
            0 => return self.abandon(),
            1 => {
                // L18: the rest goes to the cleanup thread.
                if let Some(scope) = self.take_a_scope() {
                    let _ = poll_once(&mut scope.finish());
                }
                // Who finishes may still be at it.
                return self.ended.truncate(kept);
            }
            _ => {}
        }
        if let Some(scope) = self.take_a_scope() {
            self.world.expect(scope.finish_blocking());
        }
    }

    fn abandon(&mut self) {
        let kept = self.ended.len();
        drop(self.take_a_scope());
        self.ended.truncate(kept);
    }

    fn look(&mut self) {
        let memory = self.world.manager.memory();
        assert_eq!(memory.reserved, memory.live + memory.retired + memory.cached);
        if let Some(budget) = memory.budget {
            assert!(memory.peak_reserved_bytes <= budget, "{memory}");
        }
        self.world.expect(self.world.manager.poll());
    }

    /// Ends what is left, the newest scope first.
    pub(super) fn end(mut self) {
        while let Some(scope) = self.take_a_scope() {
            self.world.expect(scope.finish_blocking());
        }
    }
}
