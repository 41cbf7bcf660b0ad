//! Graphs that can be launched: making, changing, launching.
//!
//! Not here: what a launch does (`device/launch.rs`).

use crate::caller::{In, Out};
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::device::graph::Action;
use crate::device::operation::Operation;
use crate::driver::nodes::{CopyNode, FillNode, KernelNode, copy, fill, kernel};
use crate::memory::Handle;

exports! {
    Health cuGraphInstantiateWithFlags(executable: Out<Handle>, graph: Handle, flags: u64) =
        instantiate(executable, graph, flags);
    Health cuGraphInstantiateWithParams(executable: Out<Handle>, graph: Handle, parameters: Out<Parameters>) =
        instantiate_with(executable, graph, parameters);
    Health cuGraphExecDestroy(executable: Handle) = driver().lock().end_executable(executable);
    Health cuGraphUpload(executable: Handle, stream: Handle) = {
        let mut state = driver().lock();
        state.stream(stream)?;
        state.executables.get(&executable).map(|_| ()).ok_or(Code::INVALID_VALUE)
    };
    Health cuGraphLaunch(executable: Handle, stream: Handle) = {
        let mut state = driver().lock();
        let stream = state.stream(stream)?;
        state.launch_graph(executable, stream)
    };
    Health cuGraphExecGetFlags(executable: Handle, flags: Out<u64>) = {
        let state = driver().lock();
        flags.set(state.executables.get(&executable).ok_or(Code::INVALID_VALUE)?.flags)
    };
    Health cuGraphExecKernelNodeSetParams_v2(executable: Handle, node: Handle, parameters: In<KernelNode>) =
        change(executable, node, kernel(parameters.get()?)?);
    Health cuGraphExecMemcpyNodeSetParams(
        executable: Handle,
        node: Handle,
        parameters: In<CopyNode>,
        _context: Handle,
    ) = change(executable, node, copy(&parameters.get()?)?);
    Health cuGraphExecMemsetNodeSetParams(
        executable: Handle,
        node: Handle,
        parameters: In<FillNode>,
        _context: Handle,
    ) = change(executable, node, fill(&parameters.get()?)?);
    Health cuGraphExecUpdate_v2(executable: Handle, graph: Handle, result: Out<UpdateResult>) =
        update(executable, graph, result);
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    flags: u64,
    upload_stream: Handle,
    error_node: Handle,
    result: u32,
}

/// `CUgraphExecUpdateResultInfo`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UpdateResult {
    result: u32,
    error_node: Handle,
    error_from: Handle,
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`: kernels that launch graphs.
const DEVICE_LAUNCH: u64 = 4;

/// All flags of instantiation.
const FLAGS: u64 = 15;

fn instantiate(out: Out<Handle>, graph: Handle, flags: u64) -> Answer {
    if out.is_null() || flags > FLAGS {
        return Err(Code::INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
        return Err(Code::NOT_SUPPORTED);
    }
    let handle = driver().lock().instantiate(graph, flags)?;
    out.set(handle)
}

fn instantiate_with(out: Out<Handle>, graph: Handle, parameters: Out<Parameters>) -> Answer {
    let given = parameters.get()?;
    let answer = instantiate(out, graph, given.flags);
    // 0 and 1 of `CUgraphInstantiateResult`: success, error.
    parameters.set(Parameters { error_node: 0, result: u32::from(answer.is_err()), ..given })?;
    answer
}

/// A node keeps its kind. Launches that are under way keep what they had.
fn change(executable: Handle, node: Handle, operation: Operation) -> Answer {
    let mut state = driver().lock();
    let executable = state.executables.get_mut(&executable).ok_or(Code::INVALID_VALUE)?;
    let node = executable.nodes.iter_mut().find(|other| other.handle == node).ok_or(Code::INVALID_VALUE)?;
    match &mut node.action {
        Action::Operation(old) if std::mem::discriminant(old) == std::mem::discriminant(&operation) => {
            *old = operation;
            Ok(())
        }
        _ => Err(Code::INVALID_VALUE),
    }
}

fn update(executable: Handle, graph: Handle, result: Out<UpdateResult>) -> Answer {
    let answer = driver().lock().update_executable(executable, graph);
    // 0 and 1 of `CUgraphExecUpdateResult`: success, error.
    result.set_if_wanted(UpdateResult { result: u32::from(answer.is_err()), error_node: 0, error_from: 0 });
    answer
}
