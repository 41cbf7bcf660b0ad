//! The driver's graphs: the unsafe code.
//!
//! Not here: when one is made (`sequence.rs`).

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;
use tenure_core::BackendError;

use crate::commands::ffi::arguments_of;
use crate::commands::{Command, Launch, Word};
use crate::ffi::{Context, Current, Handle, Stream};

/// Bytes of one node that copies. Its bytes are a row, and the driver's limit of a row is below 2 GiB.
const MOST_COPIED: usize = 1 << 30;

/// A graph that nodes are added to.
pub(crate) struct Template {
    raw: Handle<sys::CUgraph_st>,
    /// The node that the next one comes after.
    last: Option<Handle<sys::CUgraphNode_st>>,
    context: Arc<Context>,
}

impl Template {
    pub(crate) fn new(current: &Current<'_>) -> Result<Self, BackendError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the place takes a handle; there are no flags.
        let made = unsafe { (current.functions().cuGraphCreate)(&mut raw, 0) };
        current.check("cuGraphCreate", made)?;
        Ok(Template { raw: Handle(raw), last: None, context: current.context.clone() })
    }

    /// Adds a command after all others. What it names lives as long as what is made of the graph: see [`Stream::put`].
    pub(crate) fn add(&mut self, current: &Current<'_>, command: &Command) -> Result<(), BackendError> {
        match *command {
            Command::ToDevice { from, to, bytes } => {
                let copy = Copy { from: Side::Host(from), to: Side::Device(to), bytes };
                self.add_copy(current, &copy)
            }
            Command::ToHost { from, to, bytes } => {
                let copy = Copy { from: Side::Device(from), to: Side::Host(to), bytes };
                self.add_copy(current, &copy)
            }
            Command::Copy { from, to, bytes } => {
                let copy = Copy { from: Side::Device(from), to: Side::Device(to), bytes };
                self.add_copy(current, &copy)
            }
            Command::Set { to, word, count } => self.add_set(current, to, word, count),
            Command::Launch(ref launch) => self.add_launch(current, launch),
        }
    }

    fn add_copy(&mut self, current: &Current<'_>, copy: &Copy) -> Result<(), BackendError> {
        let parts = (0..copy.bytes).step_by(MOST_COPIED);
        parts.map(|start| copy.part(start)).try_for_each(|part| self.add_part(current, &part))
    }

    fn add_part(&mut self, current: &Current<'_>, copy: &Copy) -> Result<(), BackendError> {
        let parameters = copy.parameters();
        let after = self.after();
        let mut node = ptr::null_mut();
        // SAFETY: the graph and the node before are alive, and the parameters are complete.
        let added = unsafe {
            (current.functions().cuGraphAddMemcpyNode)(
                &mut node,
                self.raw.0,
                after.as_ptr(),
                after.len(),
                &parameters,
                self.context.raw.0,
            )
        };
        current.check("cuGraphAddMemcpyNode", added)?;
        self.last = Some(Handle(node));
        Ok(())
    }

    fn add_set(
        &mut self,
        current: &Current<'_>,
        to: u64,
        word: Word,
        count: usize,
    ) -> Result<(), BackendError> {
        let parameters = sys::CUDA_MEMSET_NODE_PARAMS {
            dst: to,
            pitch: 0,
            value: word.value(),
            elementSize: word.bytes() as u32,
            width: count,
            height: 1,
        };
        let after = self.after();
        let mut node = ptr::null_mut();
        // SAFETY: as in `add_copy`.
        let added = unsafe {
            (current.functions().cuGraphAddMemsetNode)(
                &mut node,
                self.raw.0,
                after.as_ptr(),
                after.len(),
                &parameters,
                self.context.raw.0,
            )
        };
        current.check("cuGraphAddMemsetNode", added)?;
        self.last = Some(Handle(node));
        Ok(())
    }

    fn add_launch(&mut self, current: &Current<'_>, launch: &Launch) -> Result<(), BackendError> {
        let mut arguments = arguments_of(launch);
        let ([x, y, z], [bx, by, bz]) = (launch.grid, launch.program.block);
        let parameters = sys::CUDA_KERNEL_NODE_PARAMS {
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
        };
        let after = self.after();
        let mut node = ptr::null_mut();
        // SAFETY: as in `add_copy`; there are as many arguments as the function takes, and they are copied before this
        // returns.
        let added = unsafe {
            (current.functions().cuGraphAddKernelNode_v2)(
                &mut node,
                self.raw.0,
                after.as_ptr(),
                after.len(),
                &parameters,
            )
        };
        current.check("cuGraphAddKernelNode", added)?;
        self.last = Some(Handle(node));
        Ok(())
    }

    /// What the next node comes after.
    fn after(&self) -> Vec<sys::CUgraphNode> {
        self.last.iter().map(|node| node.0).collect()
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
struct Copy {
    from: Side,
    to: Side,
    bytes: usize,
}

#[derive(Clone, Copy)]
enum Side {
    Host(usize),
    Device(u64),
}

impl Side {
    fn at(self, start: usize) -> Self {
        match self {
            Side::Host(address) => Side::Host(address + start),
            Side::Device(address) => Side::Device(address + start as u64),
        }
    }

    fn memory_type(&self) -> sys::CUmemorytype {
        match self {
            Side::Host(_) => sys::CUmemorytype::CU_MEMORYTYPE_HOST,
            Side::Device(_) => sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        }
    }

    fn host(&self) -> usize {
        if let Side::Host(address) = self { *address } else { 0 }
    }

    fn device(&self) -> u64 {
        if let Side::Device(address) = self { *address } else { 0 }
    }
}

impl Copy {
    /// The bytes from `start` on that one node copies.
    fn part(&self, start: usize) -> Self {
        let bytes = (self.bytes - start).min(MOST_COPIED);
        Copy { from: self.from.at(start), to: self.to.at(start), bytes }
    }

    fn parameters(&self) -> sys::CUDA_MEMCPY3D {
        sys::CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: self.from.memory_type(),
            srcHost: ptr::with_exposed_provenance(self.from.host()),
            srcDevice: self.from.device(),
            srcArray: ptr::null_mut(),
            reserved0: ptr::null_mut(),
            srcPitch: self.bytes,
            srcHeight: 1,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: self.to.memory_type(),
            dstHost: ptr::with_exposed_provenance_mut(self.to.host()),
            dstDevice: self.to.device(),
            dstArray: ptr::null_mut(),
            reserved1: ptr::null_mut(),
            dstPitch: self.bytes,
            dstHeight: 1,
            WidthInBytes: self.bytes,
            Height: 1,
            Depth: 1,
        }
    }
}
