//! Operations: [`Op`] as users record them, [`Operation`] as a native sequence gets them, and
//! [`ReadCell`] and [`Download`], where read-backs arrive.
//!
//! Not here: checking an operation against the state of what it names (`engine/recording.rs`).

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use smallvec::SmallVec;

use crate::backend::Backend;
use crate::error::Error;
use crate::kernel::{Access, Kernel};
use crate::sync::Mutex;
use crate::tensor::Element;
use crate::view::{TensorUse, View};

/// The largest pattern that a backend is asked to fill with.
pub const MAX_PATTERN_BYTES: usize = 64;

/// One operation in native terms. What it names is alive, in range and free of overlapping writes.
pub enum Operation<'a, B: Backend> {
    /// Host to device. The bytes are read when the operation is recorded or any time until it is reset.
    Write {
        /// Where to.
        target: BlockRange<'a, B>,
        /// As many bytes as the range has.
        bytes: &'a Arc<[u8]>,
    },
    /// Device to host, delivered by [`Sequence::collect`](crate::backend::Sequence::collect) or before.
    Read {
        /// Where from.
        source: BlockRange<'a, B>,
        /// Where the bytes go.
        into: &'a Arc<ReadCell>,
    },
    /// Device to device; both ranges have the same size.
    Copy {
        /// Where from.
        source: BlockRange<'a, B>,
        /// Where to.
        target: BlockRange<'a, B>,
    },
    /// Repeats `pattern` over the range, whose size is a multiple of the pattern's.
    Fill {
        /// Where to.
        target: BlockRange<'a, B>,
        /// One element, 1 to [`MAX_PATTERN_BYTES`] bytes.
        pattern: &'a [u8],
    },
    /// Runs a kernel.
    Dispatch {
        /// The compiled kernel.
        kernel: &'a B::Kernel,
        /// Bindings 0, 1, 2, ... An empty tensor has a range of 0 bytes in no block.
        bindings: &'a [Binding<'a, B>],
        /// Workgroups in x, y, z.
        groups: [u32; 3],
        /// Parameters, as bytes.
        parameters: &'a [u8],
        /// The kernel's label.
        label: &'a str,
    },
}

/// A range of bytes in a block.
pub struct BlockRange<'a, B: Backend> {
    /// The block; `None` for the range of an empty tensor.
    pub block: Option<&'a B::Block>,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl<B: Backend> Clone for BlockRange<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for BlockRange<'_, B> {}

/// One binding of a dispatch.
pub struct Binding<'a, B: Backend> {
    /// The bytes bound.
    pub range: BlockRange<'a, B>,
    /// How the kernel uses them.
    pub access: Access,
}

/// Where a recorded read delivers its bytes.
#[derive(Debug, Default)]
pub struct ReadCell {
    bytes: Mutex<Option<Vec<u8>>>,
}

impl ReadCell {
    /// Puts the bytes of one execution in place of the last one's. For backends.
    pub fn deliver(&self, bytes: Vec<u8>) {
        *self.bytes.lock() = Some(bytes);
    }

    /// The bytes of the last execution that delivered.
    pub(crate) fn latest<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.bytes.lock().as_deref().map(read)
    }
}

/// The host's side of a recorded download: after each execution, the tensor's elements as they were then.
#[derive(Clone, Debug)]
pub struct Download<T> {
    cell: Arc<ReadCell>,
    label: Arc<str>,
    element: PhantomData<fn() -> T>,
}

impl<T: Element> Download<T> {
    /// A copy of what the last execution delivered.
    ///
    /// # Errors
    /// [`Error::NotReady`] before the first execution has completed.
    pub fn get(&self) -> Result<Vec<T>, Error> {
        self.cell
            .latest(|bytes| bytemuck::allocation::pod_collect_to_vec(bytes))
            .ok_or_else(|| Error::NotReady { what: self.label.clone() })
    }
}

/// One operation to record: see [`upload`], [`download`], [`copy`], [`fill`] and [`dispatch`].
#[derive(Clone, Debug)]
pub struct Op {
    pub(crate) kind: OpKind,
}

#[derive(Clone, Debug)]
pub(crate) enum OpKind {
    Write { target: TensorUse, bytes: Arc<[u8]> },
    Read { source: TensorUse, into: Arc<ReadCell> },
    Copy { source: TensorUse, target: TensorUse },
    Fill { target: TensorUse, pattern: SmallVec<[u8; 16]> },
    Dispatch(DispatchOp),
}

#[derive(Clone, Debug)]
pub(crate) struct DispatchOp {
    pub kernel: Kernel,
    pub bindings: SmallVec<[TensorUse; 4]>,
    pub groups: [u32; 3],
    pub parameters: SmallVec<[u8; 32]>,
}

impl OpKind {
    /// The name for messages.
    pub(crate) fn label(&self) -> &str {
        match self {
            OpKind::Write { .. } => "upload",
            OpKind::Read { .. } => "download",
            OpKind::Copy { .. } => "copy",
            OpKind::Fill { .. } => "fill",
            OpKind::Dispatch(dispatch) => dispatch.kernel.label(),
        }
    }

    /// Every tensor range that the operation names, with its access.
    pub(crate) fn uses(&self) -> SmallVec<[(&TensorUse, Access); 4]> {
        let mut uses = SmallVec::new();
        match self {
            OpKind::Write { target, .. } | OpKind::Fill { target, .. } => uses.push((target, Access::Write)),
            OpKind::Read { source, .. } => uses.push((source, Access::Read)),
            OpKind::Copy { source, target } => {
                uses.push((source, Access::Read));
                uses.push((target, Access::Write));
            }
            OpKind::Dispatch(dispatch) => {
                uses.extend(dispatch.bindings.iter().zip(dispatch.kernel.bindings().iter().copied()));
            }
        }
        uses
    }
}

/// Writes `data` to a tensor or view at each execution. The data is copied once, now.
pub fn upload<T: Element>(target: impl Into<View<T>>, data: &[T]) -> Op {
    let bytes: Arc<[u8]> = bytemuck::cast_slice(data).into();
    Op { kind: OpKind::Write { target: target.into().into_use(), bytes } }
}

/// Reads a tensor or view back at each execution; the [`Download`] gives the elements.
pub fn download<T: Element>(source: impl Into<View<T>>) -> (Op, Download<T>) {
    let source = source.into().into_use();
    let cell = Arc::new(ReadCell::default());
    let download = Download { cell: cell.clone(), label: source.label(), element: PhantomData };
    (Op { kind: OpKind::Read { source, into: cell } }, download)
}

/// Copies one tensor or view to another of the same length.
pub fn copy<T: Element>(source: impl Into<View<T>>, target: impl Into<View<T>>) -> Op {
    Op { kind: OpKind::Copy { source: source.into().into_use(), target: target.into().into_use() } }
}

/// Sets every element of a tensor or view to `value`. An element of more than [`MAX_PATTERN_BYTES`] bytes is repeated
/// on the host and uploaded.
pub fn fill<T: Element>(target: impl Into<View<T>>, value: T) -> Op {
    let target = target.into().into_use();
    let pattern = bytemuck::bytes_of(&value);
    if pattern.len() > MAX_PATTERN_BYTES {
        let elements = (target.range.end - target.range.start) as usize / pattern.len();
        return Op { kind: OpKind::Write { target, bytes: pattern.repeat(elements).into() } };
    }
    Op { kind: OpKind::Fill { target, pattern: SmallVec::from_slice(pattern) } }
}

/// Runs a kernel: add its bindings in order with [`Dispatch::bind`], then hand it to `record`.
pub fn dispatch(kernel: &Kernel) -> Dispatch {
    Dispatch {
        op: DispatchOp {
            kernel: kernel.clone(),
            bindings: SmallVec::new(),
            groups: [1, 1, 1],
            parameters: SmallVec::new(),
        },
    }
}

/// A dispatch being put together.
#[derive(Clone, Debug)]
#[must_use = "a dispatch does nothing until it is recorded"]
pub struct Dispatch {
    op: DispatchOp,
}

impl Dispatch {
    /// Binds the next tensor or view. Its access is the one that the kernel declares.
    pub fn bind<T: Element>(mut self, tensor: impl Into<View<T>>) -> Self {
        self.op.bindings.push(tensor.into().into_use());
        self
    }

    /// Number of workgroups in x, y, z. The default is 1, 1, 1.
    pub fn groups(mut self, groups: [u32; 3]) -> Self {
        self.op.groups = groups;
        self
    }

    /// Parameters, passed by value. A struct of one's own derives [`Pod`] of [`bytemuck`].
    pub fn parameters<P: Pod>(mut self, parameters: P) -> Self {
        self.op.parameters = SmallVec::from_slice(bytemuck::bytes_of(&parameters));
        self
    }

    /// As [`Dispatch::parameters`], for parameters whose size is known only now.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Access, KernelSource, Manager, ManagerOptions, op};
    /// # let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let kernel = manager.kernel(&KernelSource::new("set", &[Access::Write]).host(|arguments| {
    ///     let value = arguments.parameters::<u32>();
    ///     arguments.write(0).fill(value);
    /// }))?;
    /// let row = manager.tensor_from("row", &[0_u32; 3])?;
    /// let bytes = 7_u32.to_ne_bytes().to_vec();
    /// let scope = manager.scope("set")?;
    /// scope.evaluate([op::dispatch(&kernel).bind(&row).parameter_bytes(&bytes)])?.wait()?;
    /// assert_eq!(row.read()?, [7; 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parameter_bytes(mut self, bytes: &[u8]) -> Self {
        self.op.parameters = SmallVec::from_slice(bytes);
        self
    }
}

impl From<Dispatch> for Op {
    fn from(dispatch: Dispatch) -> Op {
        Op { kind: OpKind::Dispatch(dispatch.op) }
    }
}

pub(crate) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
