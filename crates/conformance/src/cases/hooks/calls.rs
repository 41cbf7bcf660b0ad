//! Every public call in one function, and a thread that keeps the manager busy meanwhile (L15).
//!
//! Not here: the places that the calls are made from (`locks.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_core::{
    Error, ExecutionStatus, ManagedScope, Manager, Outcome, RunError, ScopeOptions, ScopeRef, SequenceState,
    Tensor, TensorOptions, hook, op,
};

use super::support::{Count, fill, poll_once, work};

/// Makes every public call that neither waits for `scope`, which user code is running for, nor closes the manager.
/// Fails by panicking; a lock that is held would hang it.
pub(super) fn every_call(manager: &Manager, scope: &ScopeRef) {
    on_the_manager(manager);
    on_the_scope(scope);
    let other = manager.scope("other").unwrap();
    on_scopes(manager, &other);
    on_sequences(&other);
    on_tensors(manager, &other);
    other.finish_blocking().unwrap();
}

fn on_the_manager(manager: &Manager) {
    let clone = manager.clone();
    assert!(!clone.label().is_empty() && !clone.info().name.is_empty() && clone.capabilities().queues > 0);
    let memory = clone.memory();
    assert_eq!(memory.reserved, memory.live + memory.retired + memory.cached);
    // Some devices have no such figure.
    let _figures = clone.driver_memory();
    clone.trim().unwrap();
    clone.poll().unwrap();
    // The other thread submits all the time.
    let _idle = clone.wait_idle_timeout(Duration::from_millis(1));
    let log = clone.record_events();
    drop(clone.tensor::<u32>(4).unwrap());
    assert!(!log.take().is_empty());
    assert!(clone.take_errors().is_empty());
    let (value, _) = clone.run("run", |scope| work(scope).wait().map(|()| 5)).unwrap();
    assert_eq!(value, 5);
    let body = |scope: Arc<ManagedScope>| async move { work(&scope).await };
    pollster::block_on(clone.run_async("run", body)).unwrap();
    let failed = clone.run("fails", |_| Err::<(), _>("body"));
    assert!(matches!(failed, Err(RunError::Body { error: "body", .. })));
}

/// On the scope that user code runs for: it takes entries if this is inside its hooks.
fn on_the_scope(scope: &ScopeRef) {
    assert!(!scope.label().is_empty() && scope.id() > 0 && !scope.is_cancelled());
    assert!(scope.live_bytes() < u64::MAX && scope.manager().is_ok());
    assert!(matches!(scope.find("nobody"), Err(Error::UnknownName { .. })));
    let listed = scope.named_sequences().len() + scope.anonymous_sequences().len();
    let tensor = match scope.tensor_from("own", &[1_u32; 64]) {
        Ok(tensor) => tensor,
        Err(Error::ScopeFinished { .. }) => return,
        Err(other) => panic!("{other}"),
    };
    assert!(listed < 100);
    fill(scope, &tensor, 2).wait().unwrap();
    assert_eq!(tensor.read().unwrap(), [2; 64]);
    scope.register(hook::once("own", |_| Ok(()))).unwrap();
    scope.register_on(scope, hook::after_release("own", |_| Ok(())).key("own")).unwrap();
    scope.adopt("own", tensor, |_, _| Ok(())).unwrap();
    scope.scope("own").unwrap().finish_blocking().unwrap();
    scope.replace("own").unwrap().destroy().unwrap();
}

fn on_scopes(manager: &Manager, other: &ManagedScope) {
    let runs = Count::default();
    let seen = runs.clone();
    let counts = hook::each("counts", move |_| {
        seen.add();
        Ok(())
    });
    let child = other.scope_with(ScopeOptions::builder().label("child").build()).unwrap();
    child.register(counts).unwrap();
    work(&child);
    assert_eq!(pollster::block_on(child.finish()).unwrap().executions, 1);
    assert_eq!(runs.get(), 1);
    let dropped = other.scope("dropped").unwrap();
    work(&dropped);
    drop(dropped);
    let cancelled = manager.scope("cancelled").unwrap();
    cancelled.cancel();
    assert_eq!(cancelled.finish_blocking().unwrap().outcome, Outcome::Cancelled);
    let moved = other.scope("moved").unwrap().move_out().unwrap();
    assert!(moved.finish_with::<_, Error>(Ok(())).is_ok());
    // Its scope is dropped at once: the cleanup thread may be at it, or done with it.
    let half = manager.scope("half").unwrap().finish();
    assert!(matches!(pollster::block_on(half), Ok(_) | Err(Error::ScopeFinished { .. })));
    let left = other.scope("left").unwrap();
    let mut finish = left.finish();
    let _maybe = poll_once(&mut finish);
    drop(finish);
}

fn on_sequences(other: &ManagedScope) {
    let tensor = other.tensor::<u32>(64).unwrap();
    let named = other.named("named").unwrap();
    assert!(named.is_empty() && named.is_named() && named.name() == "named");
    let (read, values) = op::download(&tensor);
    named.record(op::fill(&tensor, 3)).unwrap().record(read).unwrap();
    let mut execution = named.evaluate().unwrap();
    let _running = poll_once(&mut execution);
    execution.wait().unwrap();
    assert_eq!((execution.status(), named.state()), (ExecutionStatus::Completed, SequenceState::Finished));
    assert_eq!((values.get().unwrap(), named.len()), (vec![3; 64], 2));
    named.reset().unwrap();
    named.record(op::upload(&tensor, &[4; 64])).unwrap();
    named.run().unwrap();
    assert!(matches!(other.named("named"), Err(Error::NameTaken { .. })));
    other.destroy("named").unwrap();
    let anonymous = other.sequence().unwrap();
    anonymous.record(op::fill(&tensor, 5)).unwrap();
    pollster::block_on(anonymous.evaluate().unwrap()).unwrap();
    assert_eq!(other.clear_anonymous(), 1);
    assert_eq!(other.clear(), 0);
}

fn on_tensors(manager: &Manager, other: &ManagedScope) {
    let options = TensorOptions::builder().shape([8, 8]).label("shaped").build();
    let tensor: Tensor<u32> = other.tensor_with(options).unwrap();
    tensor.write(&[6; 64]).unwrap();
    assert_eq!((tensor.read().unwrap(), tensor.read_async().wait().unwrap()), (vec![6; 64], vec![6; 64]));
    assert_eq!(pollster::block_on(tensor.read_async()).unwrap(), [6; 64]);
    let view = tensor.view(0..4).unwrap();
    view.write(&[7; 4]).unwrap();
    assert_eq!(view.read().unwrap(), [7; 4]);
    tensor.erase().cast::<u32>().unwrap().promote().unwrap();
    let managers = manager.tensor_from("manager's", &[8_u32; 4]).unwrap();
    managers.promote_to_manager().unwrap();
    managers.destroy().unwrap();
    assert!(!managers.is_live() && tensor.is_live());
    assert!(matches!(managers.read(), Err(Error::Stale { .. })));
    drop(tensor.read_async());
}

/// Another thread that makes, uses and drops everything, until it is dropped.
pub(super) struct Hammer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Hammer {
    pub(super) fn new(manager: &Manager) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, manager) = (stop.clone(), manager.clone());
        let work = move || {
            while !seen.load(Ordering::SeqCst) {
                match strike(&manager) {
                    Ok(()) | Err(Error::OutOfMemory(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        };
        let thread = std::thread::Builder::new().name("hammer".into()).spawn(work).unwrap();
        Hammer { stop, thread: Some(thread) }
    }
}

impl Drop for Hammer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(|thread| thread.join().is_ok());
        assert!(ended == Some(true) || std::thread::panicking(), "the other thread failed");
    }
}

fn strike(manager: &Manager) -> Result<(), Error> {
    let scope = manager.scope("hammer")?;
    scope.register(hook::each("each", |_| Ok(())))?;
    scope.register(hook::once("once", |_| Ok(())))?;
    let tensor = scope.tensor::<u32>(64)?;
    let execution = scope.evaluate([op::fill(&tensor, 1)])?;
    let inner = scope.scope("inner")?;
    inner.evaluate([op::fill(&tensor, 2)])?;
    execution.wait()?;
    drop(inner);
    manager.memory();
    manager.trim()?;
    scope.finish_blocking().map(drop)
}
