//! Handles of tensors: [`Tensor`], its erased form [`AnyTensor`], and where it is in native memory.
//!
//! A handle is a generational id with a count: cheap to clone, valid to keep for ever, never an owner (L1).
//! Not here: what the manager keeps of a tensor (`engine/tensors.rs`).

use std::any::TypeId;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use bytemuck::Pod;
use smallvec::SmallVec;
use typed_builder::TypedBuilder;

use crate::backend::Backend;
use crate::engine::Engine;
use crate::engine::execution::ExecutionCell;
use crate::engine::tensors::{ElementType, TensorCell};
use crate::engine::wakers::{Waiter, WaiterId};
use crate::error::{BackendError, BackendErrorKind, EndOfLife, Error, Site};
use crate::view::{TensorUse, View};

/// What a tensor can hold: plain data of at least one byte.
pub trait Element: Pod + Send + Sync {}

impl<T: Pod + Send + Sync> Element for T {}

pub(crate) fn element_type<T: Element>() -> ElementType {
    const { assert!(size_of::<T>() > 0, "an element has at least one byte") };
    ElementType { id: TypeId::of::<T>(), name: std::any::type_name::<T>(), bytes: size_of::<T>() as u64 }
}

/// Identifies a tensor of one manager, for as long as the manager lives and after. Ids are never reused. Their order says nothing of
/// tensors that several threads made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub(crate) u64);

/// How to make a tensor. Made by `TensorOptions::builder()`, the options that are wanted, and `.build()`.
///
/// | option | takes | default |
/// | --- | --- | --- |
/// | `shape` | an array or slice of `u64`: the extent of each dimension, in elements | has to be given |
/// | `label` | text: the name, for errors, events and reports | "tensor" |
#[derive(Clone, Debug, TypedBuilder)]
pub struct TensorOptions {
    /// Extent of each dimension, in elements.
    #[builder(setter(transform = |shape: impl AsRef<[u64]>| SmallVec::from_slice(shape.as_ref())))]
    pub(crate) shape: SmallVec<[u64; 4]>,
    /// The name, for errors, events and reports.
    #[builder(default, setter(transform = |label: impl Into<Arc<str>>| Label(Some(label.into()))))]
    pub(crate) label: Label,
}

/// The name of a tensor, if it has one of its own. Those that have none share no count, at which threads would meet.
#[derive(Clone, Default)]
#[doc(hidden)]
pub struct Label(Option<Arc<str>>);

const DEFAULT_LABEL: &str = "tensor";

static UNNAMED: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(DEFAULT_LABEL));

impl Label {
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or(DEFAULT_LABEL)
    }

    /// For errors, events and reports.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        self.0.as_ref().unwrap_or(&UNNAMED).clone()
    }
}

impl PartialEq for Label {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            _ => self.as_str() == other.as_str(),
        }
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// What every handle and recording of one tensor shares: the last one retires the tensor (L2, L5).
///
/// The tensor itself is in it. What the manager and scopes keep of a tensor is weak: it ends with its last handle.
pub(crate) struct TensorHandle {
    pub(crate) cell: TensorCell,
}

impl Drop for TensorHandle {
    fn drop(&mut self) {
        if !self.cell.has_ended() && !self.cell.engine.is_foreign_process() {
            let engine = &self.cell.engine;
            engine.end_tensor(&self.cell, EndOfLife::Destroyed(self.cell.site));
        }
    }
}

impl fmt::Debug for TensorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`#{}", self.cell.label.as_str(), self.cell.id())
    }
}

/// One reference to a tensor: of a handle, a view, or a recording.
///
/// The last to go hands the tensor over whole, so that the next one of its size can be made of it.
#[derive(Clone)]
pub(crate) struct TensorRef(Option<Arc<TensorHandle>>);

impl TensorRef {
    pub(crate) fn new(handle: Arc<TensorHandle>) -> Self {
        TensorRef(Some(handle))
    }

    /// Whether both are of one tensor.
    pub(crate) fn is(&self, other: &TensorRef) -> bool {
        Arc::ptr_eq(self, other)
    }
}

impl Deref for TensorRef {
    type Target = Arc<TensorHandle>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("only a reference that is being dropped is empty")
    }
}

impl Drop for TensorRef {
    #[inline]
    fn drop(&mut self) {
        // Most are not the last, and cost no more than an `Arc`.
        if self.0.as_ref().is_some_and(|handle| Arc::strong_count(handle) == 1)
            && let Some(handle) = self.0.take()
        {
            Engine::end_last(handle);
        }
    }
}

impl fmt::Debug for TensorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (***self).fmt(f)
    }
}

/// Handle of a tensor of elements `T`.
///
/// Every method answers [`Error::Stale`], with the label and where it was destroyed, once the tensor is
/// destroyed, its scope has finished, or its manager has closed (L3).
pub struct Tensor<T> {
    pub(crate) handle: TensorRef,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Tensor<T> {
    fn clone(&self) -> Self {
        Tensor { handle: self.handle.clone(), element: PhantomData }
    }
}

impl<T> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("label", &self.handle.cell.label)
            .field("id", &self.handle.cell.id())
            .field("shape", &self.handle.cell.shape)
            .finish()
    }
}

impl<T> PartialEq for Tensor<T> {
    fn eq(&self, other: &Self) -> bool {
        self.handle.is(&other.handle)
    }
}

impl<T> Eq for Tensor<T> {}

impl<T: Element> Tensor<T> {
    pub(crate) fn new(handle: TensorRef) -> Self {
        Tensor { handle, element: PhantomData }
    }

    fn cell(&self) -> &TensorCell {
        &self.handle.cell
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty, reason = "`is_empty` is below")]
    pub fn len(&self) -> u64 {
        self.cell().bytes / self.cell().element.bytes
    }

    /// True if it has no elements. Such a tensor costs no driver memory (L22).
    pub fn is_empty(&self) -> bool {
        self.cell().bytes == 0
    }

    /// Extent of each dimension, in elements.
    pub fn shape(&self) -> &[u64] {
        &self.cell().shape
    }

    /// The name given when it was made.
    pub fn label(&self) -> &str {
        self.cell().label.as_str()
    }

    /// Its size in bytes, as asked for.
    pub fn bytes(&self) -> u64 {
        self.cell().bytes
    }

    /// Its identity.
    pub fn id(&self) -> TensorId {
        TensorId(self.cell().id())
    }

    /// Where it was made.
    pub fn site(&self) -> Site {
        self.cell().site
    }

    /// True until its life has ended.
    pub fn is_live(&self) -> bool {
        !self.cell().engine.is_foreign_process() && self.cell().check_live().is_ok()
    }

    /// Copies `data` to the device, once, after all work that uses the tensor. Blocks until done.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Length`] (nothing is written), [`Error::DeviceLost`], [`Error::Backend`].
    pub fn write(&self, data: &[T]) -> Result<(), Error> {
        self.whole().write(data)
    }

    /// Copies the elements to the host, after all work that writes the tensor. Blocks until done.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::DeviceLost`], [`Error::Backend`].
    pub fn read(&self) -> Result<Vec<T>, Error> {
        self.whole().read()
    }

    /// As [`Tensor::read`], into a slice of exactly the tensor's length.
    ///
    /// # Errors
    /// As [`Tensor::read`], and [`Error::Length`].
    pub fn read_into(&self, data: &mut [T]) -> Result<(), Error> {
        self.whole().read_into(data)
    }

    /// A future of the elements, after all work that writes the tensor. It keeps the tensor alive; dropping
    /// it cancels the wait only (L18).
    pub fn read_async(&self) -> ReadFuture<T> {
        ReadFuture { view: self.whole(), waits: None }
    }

    /// A range of elements. It counts as a use of the whole tensor's memory.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let tensor = manager.tensor_from("row", &[1_u32, 2, 3, 4])?;
    /// let middle = tensor.view(1..3)?;
    /// middle.write(&[20, 30])?;
    /// assert_eq!(tensor.read()?, [1, 20, 30, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the range is not inside the tensor, [`Error::Stale`].
    pub fn view(&self, range: Range<u64>) -> Result<View<T>, Error> {
        self.whole().view(range)
    }

    pub(crate) fn whole(&self) -> View<T> {
        View {
            used: TensorUse { handle: self.handle.clone(), range: 0..self.cell().bytes },
            element: PhantomData,
        }
    }

    /// Ends the tensor's life now, under all handles and recordings. Memory goes back when the device has
    /// finished with it (L4). Twice is Ok (L2).
    ///
    /// # Errors
    /// [`Error::ForkedProcess`].
    #[track_caller]
    pub fn destroy(&self) -> Result<(), Error> {
        let site = std::panic::Location::caller();
        self.cell().engine.check_process()?;
        self.cell().engine.end_tensor(self.cell(), EndOfLife::Destroyed(site));
        Ok(())
    }

    /// Gives the tensor to the parent of its scope, or to the manager if there is none: it then outlives its
    /// scope (L2). A manager's tensor stays what it is.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let scope = manager.scope("load")?;
    /// let weights = scope.tensor_from("weights", &[0.5_f32; 16])?;
    /// weights.promote()?;
    /// scope.finish_blocking()?;
    /// assert_eq!(weights.read()?, [0.5; 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Stale`], or [`Error::ScopeFinishing`] if the parent takes nothing any more.
    pub fn promote(&self) -> Result<(), Error> {
        self.cell().engine.move_tensor(&self.handle, |from| from.parent())
    }

    /// Gives the tensor to the manager: it lives until its last handle goes.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn promote_to_manager(&self) -> Result<(), Error> {
        self.cell().engine.move_tensor(&self.handle, |_| None)
    }

    /// Shows the memory in the backend's own terms, for interoperation: a `wgpu::Buffer`, a buffer of Vulkan, a device
    /// pointer. What `look` returns is returned. Nothing is waited for or ordered.
    ///
    /// While `look` runs the memory stays where it is, whatever ends the tensor, and closing waits. Beyond that it is the
    /// tensor's: an engine that goes on with what it saw, in work of its own, keeps a handle and destroys nothing until that
    /// work is complete, and orders that work against tenure's.
    ///
    /// ```
    /// # use tenure_backend_host::HostBackend;
    /// # use tenure_core::{Manager, ManagerOptions};
    /// let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default())?;
    /// let tensor = manager.tensor::<f32>(256)?;
    /// let room = tensor.native::<HostBackend, _>(|native| native.block.map(|block| block.bytes()))?;
    /// assert!(room >= Some(1024));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::DeviceLost`]; [`Error::Backend`] with `Unsupported` if the manager's backend is not `B`.
    pub fn native<B: Backend, R>(&self, look: impl FnOnce(NativeTensor<'_, B>) -> R) -> Result<R, Error> {
        let cell = self.cell();
        let Some(backend) = cell.engine.driver.as_any().downcast_ref::<B>() else {
            let text = format!("the backend is no {}", std::any::type_name::<B>());
            return Err(Error::Backend(BackendError::new(BackendErrorKind::Unsupported, "native", text)));
        };
        cell.engine.look_at_memory(cell, |place| {
            let block = place.and_then(|(native, _)| native.of::<B>());
            let offset = place.map_or(0, |(_, offset)| offset);
            look(NativeTensor { backend, block, offset, bytes: cell.bytes })
        })
    }

    /// The same handle without its element type.
    pub fn erase(&self) -> AnyTensor {
        AnyTensor { handle: self.handle.clone() }
    }
}

/// Where a tensor is in the memory of a device. Shown by [`Tensor::native`].
pub struct NativeTensor<'a, B: Backend> {
    /// The backend.
    pub backend: &'a B,
    /// The block that holds it, possibly with other tensors; none for an empty tensor.
    pub block: Option<&'a B::Block>,
    /// Where in the block it begins, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

impl<B: Backend> fmt::Debug for NativeTensor<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeTensor")
            .field("offset", &self.offset)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Handle of a tensor whose element type is checked when it is used.
#[derive(Clone, Debug)]
pub struct AnyTensor {
    handle: TensorRef,
}

impl AnyTensor {
    /// The typed handle.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the tensor holds something else.
    pub fn cast<T: Element>(&self) -> Result<Tensor<T>, Error> {
        let wanted = element_type::<T>();
        let has = self.handle.cell.element;
        if has.id != wanted.id {
            return Err(Error::WrongType {
                label: self.handle.cell.label.to_shared(),
                expected: has.name,
                actual: wanted.name,
            });
        }
        Ok(Tensor { handle: self.handle.clone(), element: PhantomData })
    }

    /// The name given when the tensor was made.
    pub fn label(&self) -> &str {
        self.handle.cell.label.as_str()
    }

    /// Its identity.
    pub fn id(&self) -> TensorId {
        TensorId(self.handle.cell.id())
    }

    /// Its size in bytes, as asked for.
    pub fn bytes(&self) -> u64 {
        self.handle.cell.bytes
    }
}

/// A future of a tensor's elements. Made by [`Tensor::read_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct ReadFuture<T> {
    view: View<T>,
    /// Once it was polled: who waits, and for which execution.
    waits: Option<(WaiterId, Arc<ExecutionCell>)>,
}

impl<T> fmt::Debug for ReadFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadFuture").field("tensor", &self.view.used.handle).finish_non_exhaustive()
    }
}

impl<T> Drop for ReadFuture<T> {
    fn drop(&mut self) {
        if let Some((waiter, execution)) = self.waits.take()
            && !execution.engine().is_foreign_process()
        {
            execution.forget_waiter(waiter);
        }
    }
}

impl<T: Element> ReadFuture<T> {
    /// Blocks until the elements are there.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn wait(self) -> Result<Vec<T>, Error> {
        self.view.read()
    }
}

impl<T: Element> Future for ReadFuture<T> {
    type Output = Result<Vec<T>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = self.view.used.handle.clone();
        let cell = &handle.cell;
        let id = self.waits.take().map_or_else(WaiterId::new, |(id, _)| id);
        if let Err(error) = cell.check_live() {
            return Poll::Ready(Err(error));
        }
        if !cell.engine.options.threads {
            cell.engine.retire_and_queue_hooks();
        }
        while let Some(point) = cell.engine.unretired_write(cell) {
            if let Some(execution) = cell.engine.poll_point(point, &Waiter::new(id, context.waker())) {
                self.waits = Some((id, execution));
                return Poll::Pending;
            }
        }
        Poll::Ready(self.view.read())
    }
}
