//! Adding nodes to graphs.
//!
//! Not here: what they do when they are launched (`device/operation.rs`).

use std::ffi::c_void;
use std::sync::Arc;

use super::launch::{Size, prepare};
use crate::caller::{HostFunction, HostPointer, In, Out};
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::graph::Action;
use crate::device::operation::{Fill, Operation, Place};
use crate::memory::Handle;

exports! {
    Health cuGraphAddKernelNode_v2(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<KernelNode>,
    ) = add(node, graph, after, count, Action::Operation(kernel(parameters.get()?)?));
    Health cuGraphAddMemcpyNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<CopyNode>,
        _context: Handle,
    ) = add(node, graph, after, count, Action::Operation(copy(&parameters.get()?)?));
    Health cuGraphAddMemsetNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<FillNode>,
        _context: Handle,
    ) = add(node, graph, after, count, Action::Operation(fill(&parameters.get()?)?));
    Health cuGraphAddHostNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<HostNode>,
    ) = add(node, graph, after, count, Action::Operation(host(parameters.get()?)?));
    Health cuGraphAddEmptyNode(node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize) =
        add(node, graph, after, count, Action::Operation(Operation::Nothing));
    Health cuGraphAddEventRecordNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        event: Handle,
    ) = add(node, graph, after, count, Action::Record(known_event(event)?));
    Health cuGraphAddEventWaitNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        event: Handle,
    ) = add(node, graph, after, count, Action::Wait(known_event(event)?));
    Health cuGraphAddChildGraphNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        child: Handle,
    ) = {
        let child = driver().lock().graphs.get(&child).cloned().ok_or(Code::INVALID_VALUE)?;
        add(node, graph, after, count, Action::Child(child))
    };
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNode {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    parameters: In<HostPointer>,
    extra: In<HostPointer>,
    kernel: u64,
    context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FillNode {
    address: u64,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostNode {
    function: HostFunction,
    data: HostPointer,
}

/// One side of `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Side {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: u32,
    host: HostPointer,
    device: u64,
    array: u64,
    reserved: In<c_void>,
    pitch: usize,
    rows: usize,
}

/// `CUDA_MEMCPY3D`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopyNode {
    from: Side,
    to: Side,
    width: usize,
    height: usize,
    depth: usize,
}

fn add(out: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, action: Action) -> Answer {
    let after = after.all(count)?;
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver().lock();
    let handle = state.new_handle();
    let graph = state.graphs.get_mut(&graph).ok_or(Code::INVALID_VALUE)?;
    let after = graph.indices(&after)?;
    graph.add(handle, action, after);
    out.set(handle)
}

fn known_event(event: Handle) -> Answer<Handle> {
    if driver().lock().events.contains_key(&event) { Ok(event) } else { Err(Code::INVALID_HANDLE) }
}

/// A kernel with the arguments as they are now.
pub fn kernel(node: KernelNode) -> Answer<Operation> {
    let size = Size { grid: node.grid, block: node.block, shared: node.shared };
    Ok(Operation::Kernel(Arc::new(prepare(node.function, size, node.parameters, node.extra)?)))
}

/// Rows of equal elements.
pub fn fill(node: &FillNode) -> Answer<Operation> {
    let element = node.element as usize;
    if !matches!(element, 1 | 2 | 4) || node.width == 0 || node.height == 0 {
        return Err(Code::INVALID_VALUE);
    }
    Ok(Operation::Fill(Fill {
        address: node.address,
        value: node.value,
        element,
        width: node.width as u64,
        height: node.height as u64,
        pitch: if node.height == 1 { 0 } else { node.pitch as u64 },
    }))
}

/// A row of bytes. Planes, volumes and arrays are not supported.
pub fn copy(node: &CopyNode) -> Answer<Operation> {
    if node.width == 0 || node.height != 1 || node.depth != 1 {
        return Err(if node.width == 0 { Code::INVALID_VALUE } else { Code::NOT_SUPPORTED });
    }
    Ok(Operation::Copy { to: place(&node.to)?, from: place(&node.from)?, bytes: node.width as u64 })
}

fn place(side: &Side) -> Answer<Place> {
    const HOST: u32 = 1;
    const DEVICE: u32 = 2;
    const UNIFIED: u32 = 4;
    let rows = side.z.saturating_mul(side.rows).saturating_add(side.y);
    let offset = side.pitch.saturating_mul(rows).saturating_add(side.x);
    let state = driver().lock();
    let is_known = |address: u64| state.map.find(address, 1).is_ok();
    match side.kind {
        DEVICE | UNIFIED => Ok(Place::Device(side.device.wrapping_add(offset as u64))),
        HOST => {
            let pointer = side.host.offset(offset);
            let is_pinned = is_known(pointer.address());
            Ok(if is_pinned { Place::Device(pointer.address()) } else { Place::Pageable(pointer) })
        }
        _ => Err(Code::NOT_SUPPORTED),
    }
}

fn host(node: HostNode) -> Answer<Operation> {
    if node.function.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    Ok(Operation::Host { function: node.function, data: node.data })
}
