//! Graphs: making, looking at, joining nodes.
//!
//! Not here: adding nodes (`nodes.rs`), launching (`graph_exec.rs`).

use crate::caller::{In, Out};
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::graph::{Action, Graph, Node};
use crate::device::operation::Operation;
use crate::memory::Handle;

exports! {
    Health cuGraphCreate(graph: Out<Handle>, flags: u32) = create(graph, flags);
    Health cuGraphDestroy(graph: Handle) =
        driver().lock().graphs.remove(&graph).map(|_| ()).ok_or(Code::INVALID_VALUE);
    Health cuGraphClone(clone: Out<Handle>, graph: Handle) = copy(clone, graph);
    Health cuGraphAddDependencies(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) = {
        let (from, to) = (from.all(count)?, to.all(count)?);
        let mut state = driver().lock();
        let graph = state.graphs.get_mut(&graph).ok_or(Code::INVALID_VALUE)?;
        let (from, to) = (graph.indices(&from)?, graph.indices(&to)?);
        for (earlier, later) in from.into_iter().zip(to) {
            if earlier == later || graph.nodes[later].after.contains(&earlier) {
                return Err(Code::INVALID_VALUE);
            }
            graph.nodes[later].after.push(earlier);
        }
        Ok(())
    };
    Health cuGraphGetNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) =
        list(graph, nodes, count, |_| true);
    Health cuGraphGetRootNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) =
        list(graph, nodes, count, |node| node.after.is_empty());
    Health cuGraphGetEdges(graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) =
        edges(graph, from, to, count);
    Health cuGraphNodeGetType(node: Handle, kind: Out<u32>) = kind.set(kind_of(node)?);
}

fn create(out: Out<Handle>, flags: u32) -> Answer {
    if out.is_null() || flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver().lock();
    let handle = state.new_handle();
    state.graphs.insert(handle, Graph::default());
    out.set(handle)
}

/// The nodes of the copy have handles of their own.
fn copy(out: Out<Handle>, graph: Handle) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver().lock();
    let mut graph = state.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?.clone();
    for node in &mut graph.nodes {
        node.handle = state.new_handle();
    }
    let handle = state.new_handle();
    state.graphs.insert(handle, graph);
    out.set(handle)
}

/// Without a place for them, how many there are; otherwise as many as there is room for.
fn list(graph: Handle, nodes: Out<Handle>, count: Out<usize>, of: impl Fn(&Node) -> bool) -> Answer {
    let state = driver().lock();
    let graph = state.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
    let found: Vec<Handle> = graph.nodes.iter().filter(|node| of(node)).map(|node| node.handle).collect();
    if nodes.is_null() {
        return count.set(found.len());
    }
    let room = count.get()?.min(found.len());
    nodes.set_all(&found[..room])?;
    count.set(room)
}

fn edges(graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) -> Answer {
    let state = driver().lock();
    let graph = state.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
    let mut pairs = (Vec::new(), Vec::new());
    for node in &graph.nodes {
        for earlier in &node.after {
            pairs.0.push(graph.nodes[*earlier].handle);
            pairs.1.push(node.handle);
        }
    }
    if from.is_null() && to.is_null() {
        return count.set(pairs.0.len());
    }
    let room = count.get()?.min(pairs.0.len());
    from.set_all(&pairs.0[..room])?;
    to.set_all(&pairs.1[..room])?;
    count.set(room)
}

/// Numbers of `CUgraphNodeType`.
fn kind_of(handle: Handle) -> Answer<u32> {
    let state = driver().lock();
    let node = state.graphs.values().flat_map(|graph| &graph.nodes).find(|node| node.handle == handle);
    Ok(match node.ok_or(Code::INVALID_VALUE)?.action {
        Action::Operation(Operation::Kernel(_)) => 0,
        Action::Operation(Operation::Copy { .. }) => 1,
        Action::Operation(Operation::Fill(_)) => 2,
        Action::Operation(Operation::Host { .. }) => 3,
        Action::Child(_) => 4,
        Action::Operation(Operation::Nothing) => 5,
        Action::Wait(_) => 6,
        Action::Record(_) => 7,
        Action::Operation(Operation::Write { .. } | Operation::Await { .. }) => 12,
    })
}
