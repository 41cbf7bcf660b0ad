//! Letting go of nodes: the last hold removes a node, and what only it kept alive, in a loop (L24).
//!
//! Each thread has a list of work. A payload's destructor that lets go of other nodes adds to the list of the loop that
//! it runs in: nothing recurses, however nodes and payloads are linked.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::engine::quiet::quietly;
use crate::graph::Payload;
use crate::graph::cell::{GraphCell, NodeCell, Parents};
use crate::graph::report::SweepReport;
use crate::sync::atomic::Ordering;
use crate::sync::thread_local;

/// What is left of a removed node.
pub(crate) struct Dead<N: Payload> {
    pub payload: Option<N>,
    pub parents: Parents<N>,
    /// Of the payload, if it is there.
    pub bytes: u64,
}

/// A hold on a node of any payload.
trait Hold {
    fn release(self: Arc<Self>);
}

impl<N: Payload> Hold for NodeCell<N> {
    fn release(self: Arc<Self>) {
        // Of several threads that let go at the same time, exactly one gets the node.
        if let Some(node) = Arc::into_inner(self) {
            remove(node);
        }
    }
}

/// A loop runs on this thread.
const RUNNING: u8 = 1;
/// Its list is not empty.
const PENDING: u8 = 2;

thread_local! {
    /// How the loop of this thread stands: the hot path looks at this alone.
    static STATE: Cell<u8> = Cell::new(0);
    /// What the loop has still to let go of. The newest goes first: a node before its ancestors.
    static WORK: RefCell<Vec<Arc<dyn Hold>>> = RefCell::new(Vec::new());
    /// Nodes and bytes that this thread has removed.
    static TALLY: Cell<(u64, u64)> = Cell::new((0, 0));
}

fn state() -> u8 {
    STATE.try_with(Cell::get).unwrap_or(0)
}

fn set_state(state: u8) {
    let _ = STATE.try_with(|cell| cell.set(state));
}

/// The loop of this thread; it ends when this is dropped, also if something in it panics.
struct Running;

impl Running {
    /// Begins a loop; none if one runs on this thread already.
    fn begin() -> Option<Self> {
        if state() != 0 {
            return None;
        }
        set_state(RUNNING);
        Some(Running)
    }

    /// Works until the list is empty.
    fn run(&self) {
        while state() & PENDING != 0 {
            set_state(RUNNING);
            while let Ok(Some(next)) = WORK.try_with(|work| work.borrow_mut().pop()) {
                next.release();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        set_state(0);
    }
}

/// Lets go of one hold on a node.
pub(super) fn let_go<N: Payload>(cell: Arc<NodeCell<N>>) {
    if state() != 0 {
        return push(cell);
    }
    let Some(node) = Arc::into_inner(cell) else { return };
    let running = Running::begin();
    remove(node);
    if let Some(running) = running {
        running.run();
    }
}

fn push<N: Payload>(cell: Arc<NodeCell<N>>) {
    let mut cell = Some(cell);
    // The list is gone while the thread's own destructors run: then this one is let go of right here.
    let _ = WORK.try_with(|work| work.borrow_mut().push(cell.take().expect("pushed once")));
    match cell {
        Some(cell) => cell.release(),
        None => set_state(RUNNING | PENDING),
    }
}

/// Removes a node that nothing holds, or retires it under a pin. What only it kept alive goes too: along its first
/// parent here, along the others by the list.
fn remove<N: Payload>(node: NodeCell<N>) {
    let mut next = Some(node);
    while let Some(node) = next {
        let consumed = node.is_consumed();
        let (graph, dead) = node.into_dead();
        if consumed {
            graph.count_consumed_out();
        }
        if graph.pins.load(Ordering::SeqCst) > 0 {
            let mut retired = graph.retired.lock();
            graph.retired_nodes.fetch_add(1, Ordering::Relaxed);
            retired.push(dead);
            return;
        }
        next = bury(&graph, dead).and_then(Arc::into_inner);
        if graph.retired_nodes.load(Ordering::Relaxed) > 0 {
            // What a pin has left over goes with the next node that goes.
            bury_retired(&graph);
        }
    }
}

/// The payload goes now. Returns the first parent, which the caller lets go of; the others go by the list.
fn bury<N: Payload>(graph: &GraphCell<N>, dead: Dead<N>) -> Option<Arc<NodeCell<N>>> {
    let Dead { payload, parents, bytes } = dead;
    graph.count_out(bytes);
    let _ = TALLY.try_with(|tally| {
        let (nodes, sum) = tally.get();
        tally.set((nodes + 1, sum + bytes));
    });
    let mut parents = parents.into_iter();
    let first = parents.next();
    for parent in parents.rev() {
        push(parent);
    }
    // User code, with no lock held; its panic keeps no other node from going (L25).
    if std::mem::needs_drop::<N>() && quietly(|| drop(payload)).is_none() {
        graph.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(target: "tenure", "graph `{}`: a payload's destructor panicked", graph.label);
    }
    first
}

fn bury_retired<N: Payload>(graph: &GraphCell<N>) {
    for dead in take_retired(graph) {
        if let Some(parent) = bury(graph, dead) {
            push(parent);
        }
    }
}

fn take_retired<N: Payload>(graph: &GraphCell<N>) -> Vec<Dead<N>> {
    let mut retired = graph.retired.lock();
    let taken = std::mem::take(&mut *retired);
    graph.retired_nodes.fetch_sub(taken.len() as u64, Ordering::Relaxed);
    taken
}

/// Removes what has retired, and what only that kept alive, unless the graph is pinned.
pub(super) fn sweep<N: Payload>(graph: &GraphCell<N>) -> SweepReport {
    let pinned = graph.retired_nodes.load(Ordering::Relaxed);
    if graph.pins.load(Ordering::SeqCst) > 0 {
        return SweepReport { pinned, ..SweepReport::default() };
    }
    let before = TALLY.try_with(Cell::get).unwrap_or_default();
    let running = Running::begin();
    bury_retired(graph);
    if let Some(running) = running {
        running.run();
    }
    let after = TALLY.try_with(Cell::get).unwrap_or_default();
    SweepReport { nodes: after.0 - before.0, bytes: after.1 - before.1, pinned: 0 }
}
