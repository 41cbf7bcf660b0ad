//! The driver's graphs: the unsafe code.
//!
//! Not here: when one is made (`sequence.rs`), and what its nodes are (`graph.rs`).

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;
use smallvec::SmallVec;
use tenure_core::BackendError;

use crate::commands::Launch;
use crate::commands::ffi::arguments_of;
use crate::error::Code;
use crate::ffi::{Context, Current, Handle, Stream};
use crate::graph::{Copy, Set, Side, Work};
use crate::library::ffi::Functions;

/// A graph that nodes are added to.
pub(crate) struct Template {
    raw: Handle<sys::CUgraph_st>,
    /// By number, in the order in which they were added.
    nodes: Vec<Handle<sys::CUgraphNode_st>>,
    context: Arc<Context>,
}

impl Template {
    pub(crate) fn new(current: &Current<'_>) -> Result<Self, BackendError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the place takes a handle; there are no flags.
        let made = unsafe { (current.functions().cuGraphCreate)(&mut raw, 0) };
        current.check("cuGraphCreate", made)?;
        Ok(Template { raw: Handle(raw), nodes: Vec::new(), context: current.context.clone() })
    }

    /// Adds a node after those with these numbers: work, or nothing but the order. What work names lives as long as what is made
    /// of the graph: see [`Stream::put`].
    pub(crate) fn add(
        &mut self,
        current: &Current<'_>,
        work: Option<&Work<'_>>,
        after: &[usize],
    ) -> Result<(), BackendError> {
        let (graph, context) = (self.raw.0, self.context.raw.0);
        match work {
            None => self.node(current, "cuGraphAddEmptyNode", after, |functions, node, after| {
                // SAFETY: the graph is alive, and the nodes before are its own.
                unsafe { (functions.cuGraphAddEmptyNode)(node, graph, after.as_ptr(), after.len()) }
            }),
            Some(Work::Copy(copy)) => {
                let parameters = copy_parameters(copy);
                self.node(current, "cuGraphAddMemcpyNode", after, |functions, node, after| {
                    let (first, count) = (after.as_ptr(), after.len());
                    // SAFETY: as above, and the parameters are complete.
                    unsafe {
                        (functions.cuGraphAddMemcpyNode)(node, graph, first, count, &parameters, context)
                    }
                })
            }
            Some(Work::Set(set)) => {
                let parameters = set_parameters(set);
                self.node(current, "cuGraphAddMemsetNode", after, |functions, node, after| {
                    let (first, count) = (after.as_ptr(), after.len());
                    // SAFETY: as above.
                    unsafe {
                        (functions.cuGraphAddMemsetNode)(node, graph, first, count, &parameters, context)
                    }
                })
            }
            Some(Work::Launch(launch)) => {
                let mut arguments = arguments_of(launch);
                let parameters = launch_parameters(launch, &mut arguments);
                self.node(current, "cuGraphAddKernelNode", after, |functions, node, after| {
                    let (first, count) = (after.as_ptr(), after.len());
                    // SAFETY: as above; there are as many arguments as the function takes, and they are copied before this
                    // returns.
                    unsafe { (functions.cuGraphAddKernelNode_v2)(node, graph, first, count, &parameters) }
                })
            }
        }
    }

    /// Lets `add` make a node after others.
    fn node(
        &mut self,
        current: &Current<'_>,
        operation: &'static str,
        after: &[usize],
        add: impl FnOnce(&Functions, &mut sys::CUgraphNode, &[sys::CUgraphNode]) -> Code,
    ) -> Result<(), BackendError> {
        let after: SmallVec<[sys::CUgraphNode; 8]> = after.iter().map(|at| self.nodes[*at].0).collect();
        let mut node = ptr::null_mut();
        let added = add(current.functions(), &mut node, &after);
        current.check(operation, added)?;
        self.nodes.push(Handle(node));
        Ok(())
    }

    /// The graph as the device takes it.
    pub(crate) fn instantiate(self, current: &Current<'_>) -> Result<Executable, BackendError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the graph is alive, and what is made of it does not need it any more.
        let made = unsafe { (current.functions().cuGraphInstantiateWithFlags)(&mut raw, self.raw.0, 0) };
        current.check("cuGraphInstantiate", made)?;
        Ok(Executable { raw: Handle(raw), context: self.context.clone() })
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        self.context.destroying(|functions| {
            // SAFETY: it is destroyed once, with its nodes.
            ("cuGraphDestroy", unsafe { (functions.cuGraphDestroy)(self.raw.0) })
        });
    }
}

/// A graph that can be launched as often as one likes, once at a time.
pub(crate) struct Executable {
    raw: Handle<sys::CUgraphExec_st>,
    context: Arc<Context>,
}

impl Executable {
    /// Puts the graph at the end of the stream.
    pub(crate) fn launch(&self, current: &Current<'_>, stream: &Stream) -> Result<(), BackendError> {
        // SAFETY: both are alive, and what the graph names is: see `Template::add`.
        let launched = unsafe { (current.functions().cuGraphLaunch)(self.raw.0, stream.raw.0) };
        current.check("cuGraphLaunch", launched)
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        self.context.destroying(|functions| {
            // SAFETY: it is destroyed once, and its last launch has ended (L4).
            ("cuGraphExecDestroy", unsafe { (functions.cuGraphExecDestroy)(self.raw.0) })
        });
    }
}

/// A copy of one row of bytes.
fn copy_parameters(copy: &Copy) -> sys::CUDA_MEMCPY3D {
    let (from, to) = (Address::of(copy.from), Address::of(copy.to));
    sys::CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: from.memory_type,
        srcHost: ptr::with_exposed_provenance(from.host),
        srcDevice: from.device,
        srcArray: ptr::null_mut(),
        reserved0: ptr::null_mut(),
        srcPitch: copy.bytes,
        srcHeight: 1,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: to.memory_type,
        dstHost: ptr::with_exposed_provenance_mut(to.host),
        dstDevice: to.device,
        dstArray: ptr::null_mut(),
        reserved1: ptr::null_mut(),
        dstPitch: copy.bytes,
        dstHeight: 1,
        WidthInBytes: copy.bytes,
        Height: 1,
        Depth: 1,
    }
}

/// A side of a copy in the driver's terms: one of the two addresses counts.
struct Address {
    memory_type: sys::CUmemorytype,
    host: usize,
    device: u64,
}

impl Address {
    fn of(side: Side) -> Self {
        match side {
            Side::Host(host) => {
                Address { memory_type: sys::CUmemorytype::CU_MEMORYTYPE_HOST, host, device: 0 }
            }
            Side::Device(device) => {
                Address { memory_type: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE, host: 0, device }
            }
        }
    }
}

fn set_parameters(set: &Set) -> sys::CUDA_MEMSET_NODE_PARAMS {
    sys::CUDA_MEMSET_NODE_PARAMS {
        dst: set.to,
        pitch: 0,
        value: set.word.value(),
        elementSize: set.word.bytes() as u32,
        width: set.count,
        height: 1,
    }
}

fn launch_parameters(launch: &Launch, arguments: &mut [*mut c_void]) -> sys::CUDA_KERNEL_NODE_PARAMS {
    let ([x, y, z], [bx, by, bz]) = (launch.grid, launch.program.block);
    sys::CUDA_KERNEL_NODE_PARAMS {
        func: launch.program.function.0,
        gridDimX: x,
        gridDimY: y,
        gridDimZ: z,
        blockDimX: bx,
        blockDimY: by,
        blockDimZ: bz,
        sharedMemBytes: launch.program.shared_bytes,
        kernelParams: arguments.as_mut_ptr(),
        extra: ptr::null_mut(),
        kern: ptr::null_mut(),
        ctx: ptr::null_mut(),
    }
}
