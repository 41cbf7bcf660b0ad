//! Scenarios of C28: a process forks while it has a manager (pytorch/pytorch#17357). In the child every use is
//! `ForkedProcess` at once, dropping touches nothing, and a new manager works; the parent notices nothing.
//!
//! L6 and L11 across a fork: handles of the parent's are never given back by the child, and hooks run in the parent, once.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_backend_host::HostBackend;
use tenure_conformance::instrument::Instrumented;
use tenure_conformance::{CallSet, KernelSet, Probe};
use tenure_core::{
    Error, Execution, ManagedScope, ManagedSequence, Manager, ManagerOptions, MemoryReport, Outcome,
    ScopeState, Tensor, hook, op,
};

use crate::ffi;
use crate::scenario::{Ends, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario("fork::dropped_in_the_child", dropped_in_the_child),
    scenario("fork::dropped_in_the_child_with_threads", dropped_in_the_child_with_threads),
    scenario("fork::the_last_handle_goes_in_the_child", the_last_handle_goes_in_the_child),
    scenario("fork::a_kernel_goes_in_the_child", a_kernel_goes_in_the_child),
    scenario("fork::used_in_the_child", used_in_the_child),
    scenario("fork::used_in_the_child_with_threads", used_in_the_child_with_threads),
    scenario("fork::in_flight_in_the_parent", in_flight_in_the_parent),
    scenario("fork::a_new_manager_in_the_child", a_new_manager_in_the_child),
    scenario("fork::a_new_manager_after_the_parents", a_new_manager_after_the_parents),
];

const fn scenario(name: &'static str, run: fn() -> ExitCode) -> Scenario {
    Scenario { name, run, ends: Ends::Code(0), says: "" }
}

/// Handles of every kind, at rest.
struct Parent {
    manager: Manager,
    probe: Probe,
    scope: ManagedScope,
    tensor: Tensor<u32>,
    owned: Tensor<u32>,
    sequence: ManagedSequence,
    execution: Execution,
    /// Runs of the scope's hooks.
    hooks: Arc<AtomicU64>,
}

impl Parent {
    fn new(threads: bool) -> Parent {
        let backend = Instrumented::new(HostBackend::new());
        let probe = backend.probe();
        let options = ManagerOptions::builder().label("parent").threads(threads).build();
        let manager = Manager::open_with(backend, options).unwrap();
        let scope = manager.scope("s").unwrap();
        let hooks = Arc::new(AtomicU64::new(0));
        for label in ["first", "second"] {
            let runs = hooks.clone();
            let count = move |_: &tenure_core::CleanupContext| {
                runs.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            scope.register(hook::once(label, count)).unwrap();
        }
        let tensor = scope.tensor_from("scope's", &[1_u32; 64]).unwrap();
        let owned = manager.tensor_from("manager's", &[2_u32; 64]).unwrap();
        let sequence = scope.named("fill").unwrap();
        sequence.record(op::fill(&tensor, 3)).unwrap();
        let execution = sequence.evaluate().unwrap();
        execution.wait().unwrap();
        Parent { manager, probe, scope, tensor, owned, sequence, execution, hooks }
    }

    /// The parent goes on as if there had been no child, and ends in order.
    fn goes_on(self, child: Ends) -> ExitCode {
        assert_eq!(child, Ends::Code(0), "the child has failed");
        assert_eq!(self.tensor.read().unwrap(), [3; 64]);
        assert_eq!(self.owned.read().unwrap(), [2; 64]);
        self.sequence.run().unwrap();
        self.scope.evaluate([op::copy(&self.tensor, &self.owned)]).unwrap().wait().unwrap();
        assert_eq!(self.owned.read().unwrap(), [3; 64]);
        assert_eq!(self.manager.memory().tensors, 2);
        self.scope.finish_blocking().unwrap();
        assert_eq!(self.hooks.load(Ordering::SeqCst), 2);
        let Parent { manager, probe, .. } = self;
        let report = manager.close().unwrap();
        assert_eq!(report.memory.reserved.bytes, 0);
        assert!(probe.violations().is_empty(), "{:?}", probe.violations());
        ExitCode::SUCCESS
    }

    /// Every call that can answer with an error, in the child.
    fn answers(&self) -> Vec<(&'static str, Result<(), Error>)> {
        let Parent { manager, scope, tensor, owned, sequence, execution, .. } = self;
        vec![
            ("tensor.read", tensor.read().map(drop)),
            ("tensor.write", tensor.write(&[9; 64])),
            ("tensor.read_async", pollster::block_on(tensor.read_async()).map(drop)),
            ("tensor.view", tensor.view(0..1).map(drop)),
            ("tensor.promote", tensor.promote()),
            ("tensor.destroy", tensor.destroy()),
            ("owned.read", owned.read().map(drop)),
            ("execution.wait", execution.wait()),
            ("execution.wait_timeout", execution.wait_timeout(Duration::ZERO)),
            ("execution.await", pollster::block_on(execution.clone())),
            ("sequence.record", sequence.record(op::fill(owned, 9)).map(|_| ())),
            ("sequence.evaluate", sequence.evaluate().map(drop)),
            ("sequence.reset", sequence.reset()),
            ("sequence.destroy", sequence.destroy()),
            ("scope.tensor", scope.tensor::<u32>(64).map(drop)),
            ("scope.sequence", scope.sequence().map(drop)),
            ("scope.named", scope.named("other").map(drop)),
            ("scope.replace", scope.replace("fill").map(drop)),
            ("scope.find", scope.find("fill").map(drop)),
            ("scope.destroy", scope.destroy("fill")),
            ("scope.evaluate", scope.evaluate([op::fill(owned, 9)]).map(drop)),
            ("scope.scope", scope.scope("child").map(drop)),
            (
                "scope.register",
                scope.register(hook::once("third", |_| Ok(()))).map(drop).map_err(Error::from),
            ),
            ("scope.adopt", scope.adopt("value", 1_u8, |_, _| Ok(())).map_err(Error::from)),
            ("scope.move_out", scope.move_out().map(drop)),
            ("scope.finish_blocking", scope.finish_blocking().map(drop)),
            ("manager.tensor", manager.tensor::<u32>(64).map(drop)),
            ("manager.scope", manager.scope("other").map(drop)),
            ("manager.driver_memory", manager.driver_memory().map(drop)),
            ("manager.trim", manager.trim().map(drop)),
            ("manager.wait_idle", manager.wait_idle()),
            ("manager.poll", manager.poll().map(drop)),
            ("manager.close", manager.close().map(drop)),
        ]
    }

    fn assert_all_refused(&self) {
        let wrong: Vec<_> = self
            .answers()
            .into_iter()
            .filter(|(_, answer)| !matches!(answer, Err(Error::ForkedProcess { manager }) if &**manager == "parent"))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        // These have no error to answer with: they do nothing, and see nothing.
        self.manager.notify_lost("a child cannot know");
        self.scope.cancel();
        self.scope.clear();
        self.scope.clear_anonymous();
        assert!(self.scope.named_sequences().is_empty() && self.scope.anonymous_sequences().is_empty());
        assert_eq!(self.scope.state(), ScopeState::Finished(Outcome::Abandoned));
        assert_eq!(self.manager.memory(), MemoryReport::default());
        assert!(!self.tensor.is_live() && !self.scope.is_cancelled());
    }
}

/// The child drops all handles: no driver call, no hook. Without threads of tenure's, so that the count is exact.
fn dropped_in_the_child() -> ExitCode {
    let mut parent = Some(Parent::new(false));
    let child = ffi::fork(|| {
        let Parent { manager, probe, scope, tensor, owned, sequence, execution, hooks } =
            parent.take().expect("the child has its own copy");
        let before = probe.calls(CallSet::ALL);
        drop((tensor, owned, sequence, execution));
        drop(scope);
        drop(manager);
        assert_eq!(probe.calls(CallSet::ALL), before);
        assert_eq!(hooks.load(Ordering::SeqCst), 0);
    });
    parent.take().expect("the parent has its own copy").goes_on(child)
}

/// The same with tenure's threads, which the child does not have.
fn dropped_in_the_child_with_threads() -> ExitCode {
    let mut parent = Some(Parent::new(true));
    let child = ffi::fork(|| {
        let parent = parent.take().expect("the child has its own copy");
        let hooks = parent.hooks.clone();
        drop(parent);
        assert_eq!(hooks.load(Ordering::SeqCst), 0);
    });
    parent.take().expect("the parent has its own copy").goes_on(child)
}

/// Nothing is left but the manager, and the child drops it: the device's own threads are not in the child, so nothing
/// may wait for them, and the blocks and the device are the parent's.
fn the_last_handle_goes_in_the_child() -> ExitCode {
    let mut parent = None;
    for threads in [false, true] {
        let Parent { manager, probe, scope, .. } = Parent::new(threads);
        scope.finish_blocking().unwrap();
        drop(scope);
        drop(manager.tensor::<u8>(1 << 20).unwrap());
        parent = Some((manager, probe));
        let child = ffi::fork(|| {
            let (manager, probe) = parent.take().expect("the child has its own copy");
            drop(manager);
            assert!(!probe.is_shut_down());
        });
        assert_eq!(child, Ends::Code(0), "the child has failed, threads: {threads}");
        let (manager, probe) = parent.take().expect("the parent has its own copy");
        let report = manager.close().unwrap();
        assert!(report.is_clean(), "{report}");
        assert!(probe.violations().is_empty(), "{:?}", probe.violations());
    }
    assert!(parent.is_none());
    ExitCode::SUCCESS
}

/// A kernel's handle is dropped in the child: the kernel is the parent's, and goes on.
fn a_kernel_goes_in_the_child() -> ExitCode {
    let parent = Parent::new(true);
    let source = KernelSet::new().increment;
    let mut kernel = Some(parent.manager.kernel(&source).unwrap());
    let child = ffi::fork(|| {
        let kernel = kernel.take().expect("the child has its own copy");
        let refused = parent.scope.evaluate([op::dispatch(&kernel).bind(&parent.tensor)]).map(drop);
        assert!(matches!(refused, Err(Error::ForkedProcess { .. })));
        assert!(matches!(parent.manager.kernel(&source), Err(Error::ForkedProcess { .. })));
        drop(kernel);
    });
    let kernel = kernel.take().expect("the parent has its own copy");
    let counter = parent.manager.tensor_from("counter", &[1_u32; 64]).unwrap();
    parent.scope.evaluate([op::dispatch(&kernel).bind(&counter)]).unwrap().wait().unwrap();
    assert_eq!(counter.read().unwrap(), [2; 64]);
    drop((kernel, counter));
    parent.goes_on(child)
}

/// Every call in the child is refused, and none reaches the driver.
fn used_in_the_child() -> ExitCode {
    let parent = Parent::new(false);
    let child = ffi::fork(|| {
        let before = parent.probe.calls(CallSet::ALL);
        parent.assert_all_refused();
        assert_eq!(parent.probe.calls(CallSet::ALL), before);
    });
    parent.goes_on(child)
}

/// The same with tenure's threads, which the child does not have.
fn used_in_the_child_with_threads() -> ExitCode {
    let parent = Parent::new(true);
    let child = ffi::fork(|| parent.assert_all_refused());
    parent.goes_on(child)
}

/// Work is in flight and other threads wait for it when the process forks: the child hangs in no wait, in no drop.
fn in_flight_in_the_parent() -> ExitCode {
    let parent = Parent::new(true);
    parent.probe.hold();
    let execution = parent.sequence.evaluate().unwrap();
    let waiting = {
        let execution = execution.clone();
        std::thread::spawn(move || execution.wait())
    };
    let child = ffi::fork(|| {
        assert!(matches!(execution.wait(), Err(Error::ForkedProcess { .. })));
        assert!(matches!(parent.tensor.read(), Err(Error::ForkedProcess { .. })));
        assert!(matches!(parent.scope.finish_blocking(), Err(Error::ForkedProcess { .. })));
        drop(parent.tensor.clone());
    });
    parent.probe.release_all();
    waiting.join().unwrap().unwrap();
    parent.goes_on(child)
}

/// The child opens a manager of its own, works with it and closes it, beside the handles that it got from the parent.
fn a_new_manager_in_the_child() -> ExitCode {
    let parent = Parent::new(true);
    let child = ffi::fork(|| {
        let backend = Instrumented::new(HostBackend::new());
        let probe = backend.probe();
        let manager = Manager::open_with(backend, ManagerOptions::default()).unwrap();
        let (values, report) = manager
            .run("in the child", |scope| -> Result<Vec<u32>, Error> {
                let tensor = scope.tensor::<u32>(64)?;
                scope.evaluate([op::fill(&tensor, 5)])?.wait()?;
                let refused = scope.evaluate([op::copy(&parent.tensor, &tensor)]);
                assert!(refused.is_err());
                tensor.read()
            })
            .unwrap();
        assert_eq!((values, report.executions), (vec![5; 64], 1));
        let report = manager.close().unwrap();
        assert!(report.is_clean(), "{report}");
        assert!(probe.violations().is_empty(), "{:?}", probe.violations());
        assert!(matches!(parent.tensor.read(), Err(Error::ForkedProcess { .. })));
    });
    parent.goes_on(child)
}

/// The child drops the parent's manager with all of its tensors, and then opens one of its own: what the parent's left behind
/// is not in its books, and closing waits for none of it.
fn a_new_manager_after_the_parents() -> ExitCode {
    let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default()).unwrap();
    let tensors: Vec<_> = (0..3).map(|_| manager.tensor::<u8>(1 << 20).unwrap()).collect();
    let mut parent = Some((manager, tensors));
    let child = ffi::fork(|| {
        drop(parent.take().expect("the child has its own copy"));
        let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default()).unwrap();
        assert_eq!(manager.memory().tensors, 0);
        drop(manager.tensor::<u8>(1 << 20).unwrap());
        assert!(manager.close().unwrap().is_clean());
    });
    assert_eq!(child, Ends::Code(0), "the child has failed");
    let (manager, tensors) = parent.take().expect("the parent has its own copy");
    assert_eq!(manager.memory().tensors, 3);
    drop(tensors);
    assert!(manager.close().unwrap().is_clean());
    ExitCode::SUCCESS
}
