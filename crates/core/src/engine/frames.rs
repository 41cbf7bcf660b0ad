//! Which user code of tenure's runs on this thread: a stack of frames, one for each hook or callback.
//!
//! It answers whether a wait would wait for itself (L15) and whether a call comes from inside a hook of a
//! scope that is finishing (L10).

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::scopes::ScopeCell;
use crate::sync::thread_local;

/// One piece of user code on this thread's stack.
#[derive(Clone)]
pub(crate) struct Frame {
    /// Address of the engine, as identity.
    engine: usize,
    /// The scope whose hook runs; none for a callback of the manager's.
    scope: Option<Arc<ScopeCell>>,
    /// The execution whose hook runs.
    execution: Option<u64>,
}

thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = RefCell::new(Vec::new());
    /// Their number: it has no destructor, so that asking costs next to nothing where there is none.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Leaves the frame when dropped, also by unwinding.
pub(crate) struct Inside(());

/// Enters a hook of `scope`, for `execution` if it is an execution hook.
pub(crate) fn enter_hook(scope: &Arc<ScopeCell>, execution: Option<u64>) -> Inside {
    push(Frame { engine: identity(&scope.engine), scope: Some(scope.clone()), execution })
}

/// Enters the out-of-memory callback; none if this thread is inside it already (L20).
pub(crate) fn enter_out_of_memory(engine: &Engine) -> Option<Inside> {
    let engine = std::ptr::from_ref(engine).addr();
    if any(engine, |frame| frame.scope.is_none()) {
        return None;
    }
    Some(push(Frame { engine, scope: None, execution: None }))
}

fn push(frame: Frame) -> Inside {
    // Gone while the thread's own destructors run: a hook that runs there is not known as such.
    let _ = FRAMES.try_with(|frames| {
        frames.borrow_mut().push(frame);
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
    });
    Inside(())
}

impl Drop for Inside {
    fn drop(&mut self) {
        let frame = FRAMES.try_with(|frames| {
            let frame = frames.borrow_mut().pop();
            let _ = DEPTH.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
            frame
        });
        // Dropped after the borrow ended: a frame's scope can be its last owner.
        drop(frame);
    }
}

fn identity(engine: &Arc<Engine>) -> usize {
    Arc::as_ptr(engine).addr()
}

fn any(engine: usize, test: impl Fn(&Frame) -> bool) -> bool {
    if DEPTH.try_with(Cell::get).unwrap_or(0) == 0 {
        return false;
    }
    FRAMES
        .try_with(|frames| frames.borrow().iter().any(|frame| frame.engine == engine && test(frame)))
        .unwrap_or(false)
}

/// True inside any hook or callback of this engine.
pub(crate) fn inside(engine: &Engine) -> bool {
    any(std::ptr::from_ref(engine).addr(), |_| true)
}

/// True inside a hook of this scope or of one below it: waiting for the scope would wait for itself.
pub(crate) fn inside_hook_under(scope: &Arc<ScopeCell>) -> bool {
    any(identity(&scope.engine), |frame| frame.scope.as_ref().is_some_and(|inside| inside.is_under(scope)))
}

/// True inside a hook that runs for this execution of this scope.
pub(crate) fn inside_hook_for(scope: &Arc<ScopeCell>, execution: u64) -> bool {
    any(identity(&scope.engine), |frame| {
        frame.execution == Some(execution)
            && frame.scope.as_ref().is_some_and(|inside| Arc::ptr_eq(inside, scope))
    })
}
