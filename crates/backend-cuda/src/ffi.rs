//! The context and the objects in it, each with one owner that destroys it: the unsafe code.
//!
//! A call is made with the context current on the thread: [`Current`] shows that it is, and restores what was current before.
//! An object shares the [`Context`], so the context goes after everything that was made in it. Dropping destroys at once: that
//! the device has finished with an object is the duty of who drops it, which is core's by the SPI (L4) and this crate's
//! for what it makes for itself. The safe functions here stand on that duty, and on handles of this crate being of this
//! context. Once the device is lost nothing is destroyed: what there is, is abandoned (L23). Not here: kernels
//! (`kernel/ffi.rs`), what a recording does (`commands/ffi.rs`), graphs (`graph/ffi.rs`).

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys;
use tenure_core::BackendError;

use crate::error::{Code, CudaError, Loss, NOT_READY, SUCCESS, failed, loss_of};
use crate::library::ffi::Functions;
use crate::timeline::Waiters;

/// A stream does not wait for the stream that nobody named, nor that one for it.
const STREAM_NON_BLOCKING: u32 = 1;

/// A thread that waits for an event sleeps; and events measure no time.
const EVENT_FLAGS: u32 = 1 | 2;

/// Pinned memory is so for every context.
const HOST_PORTABLE: u32 = 1;

/// What ended CUDA in this process, if anything did.
static PROCESS_LOSS: OnceLock<BackendError> = OnceLock::new();

/// # Errors
/// The first cause, once CUDA has ended in this process.
pub(crate) fn process_alive() -> Result<(), BackendError> {
    PROCESS_LOSS.get().map_or(Ok(()), |error| Err(error.clone()))
}

/// A handle of the driver's.
pub(crate) struct Handle<T>(pub *mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: handles of the driver belong to no thread, and its functions may be called from any.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// Who made the context.
pub(crate) enum Ownership {
    /// It is the device's primary context, and is let go of with this object.
    Retained(sys::CUdevice),
    /// It is an engine's, which lives while this is held (L6).
    Foreign { _keep_alive: Arc<dyn Send + Sync> },
}

/// A context of one device, and whether it is lost.
pub(crate) struct Context {
    pub functions: &'static Functions,
    pub raw: Handle<sys::CUctx_st>,
    /// Those who wait for points. They are told of a loss.
    pub waiters: Waiters,
    ownership: Ownership,
    /// The first cause (L23).
    lost: OnceLock<BackendError>,
}

impl Context {
    pub(crate) fn new(functions: &'static Functions, raw: sys::CUcontext, ownership: Ownership) -> Arc<Self> {
        let (raw, waiters) = (Handle(raw), Waiters::default());
        Arc::new(Context { functions, raw, waiters, ownership, lost: OnceLock::new() })
    }

    /// What the driver answered. A loss is remembered, and told to who waits.
    pub(crate) fn check(&self, operation: &'static str, code: Code) -> Result<(), BackendError> {
        if code == SUCCESS {
            return Ok(());
        }
        let error = failed(operation, describe(self.functions, code));
        Err(match loss_of(code) {
            Some(loss) => self.lose(loss, error),
            None => error,
        })
    }

    /// The device is lost from now on. The first cause of all.
    pub(crate) fn lose(&self, loss: Loss, error: BackendError) -> BackendError {
        if loss == Loss::Process {
            PROCESS_LOSS.get_or_init(|| error.clone());
        }
        let first = self.lost.get_or_init(|| error).clone();
        self.waiters.wake();
        first
    }

    /// # Errors
    /// The first cause, once the device is lost.
    pub(crate) fn alive(&self) -> Result<(), BackendError> {
        self.lost.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Makes the context current on this thread until the guard drops.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Current<'_>, BackendError> {
        self.alive()?;
        // SAFETY: the context is alive: it is retained here, or its owner keeps it.
        let pushed = unsafe { (self.functions.cuCtxPushCurrent_v2)(self.raw.0) };
        self.check("cuCtxPushCurrent", pushed)?;
        Ok(Current { context: self, _thread: PhantomData })
    }

    /// Destroys with the context current; on a lost device nothing is destroyed (L23).
    pub(crate) fn destroying(self: &Arc<Self>, destroy: impl FnOnce(&Functions) -> (&'static str, Code)) {
        let Ok(current) = self.enter() else { return };
        let (operation, code) = destroy(current.context.functions);
        // A loss that shows here is remembered. There is nothing to do about anything else.
        let _ = current.check(operation, code);
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.alive().is_err() {
            return;
        }
        if let Ownership::Retained(device) = self.ownership {
            // SAFETY: it was retained once for this object, and everything made in it is gone.
            let _ = unsafe { (self.functions.cuDevicePrimaryCtxRelease_v2)(device) };
        }
    }
}

/// The name and the sentence of a code.
pub(crate) fn describe(functions: &Functions, code: Code) -> CudaError {
    let text = |get: unsafe extern "system" fn(Code, *mut *const c_char) -> Code| {
        let mut text: *const c_char = ptr::null();
        // SAFETY: any number may be asked for; the pointer stays null for one that the driver does not know.
        let answer = unsafe { get(code, &mut text) };
        if answer != SUCCESS || text.is_null() {
            return String::new();
        }
        // SAFETY: the driver's texts end with a zero, and stay.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    CudaError { code, name: text(functions.cuGetErrorName), text: text(functions.cuGetErrorString) }
}

/// The context is current on this thread, for as long as this is there.
pub(crate) struct Current<'a> {
    pub context: &'a Arc<Context>,
    /// It stays on its thread.
    _thread: PhantomData<*const ()>,
}

impl Current<'_> {
    pub(crate) fn check(&self, operation: &'static str, code: Code) -> Result<(), BackendError> {
        self.context.check(operation, code)
    }

    pub(crate) fn functions(&self) -> &'static Functions {
        self.context.functions
    }

    /// Free and all memory of the device, in bytes.
    pub(crate) fn device_memory(&self) -> Result<(usize, usize), BackendError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both places take a number.
        let got = unsafe { (self.functions().cuMemGetInfo_v2)(&mut free, &mut total) };
        self.check("cuMemGetInfo", got)?;
        Ok((free, total))
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: what was pushed by `enter` is on top of this thread's stack: guards drop in the reverse order.
        let _ = unsafe { (self.functions().cuCtxPopCurrent_v2)(&mut popped) };
    }
}

/// A stream of its own.
pub(crate) struct Stream {
    pub raw: Handle<sys::CUstream_st>,
    context: Arc<Context>,
}

impl Stream {
    pub(crate) fn new(current: &Current<'_>) -> Result<Self, BackendError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the place takes a handle.
        let made = unsafe { (current.functions().cuStreamCreate)(&mut raw, STREAM_NON_BLOCKING) };
        current.check("cuStreamCreate", made)?;
        Ok(Stream { raw: Handle(raw), context: current.context.clone() })
    }

    /// Blocks until the device has done all that the stream has.
    pub(crate) fn synchronize(&self, current: &Current<'_>) -> Result<(), BackendError> {
        // SAFETY: the stream is alive.
        let done = unsafe { (current.functions().cuStreamSynchronize)(self.raw.0) };
        current.check("cuStreamSynchronize", done)
    }

    /// What comes next in the stream waits, on the device, for what the event has recorded.
    pub(crate) fn wait(&self, current: &Current<'_>, event: &Event) -> Result<(), BackendError> {
        // SAFETY: both are alive. What the event has recorded by now counts, whatever it records later.
        let waits = unsafe { (current.functions().cuStreamWaitEvent)(self.raw.0, event.raw.0, 0) };
        current.check("cuStreamWaitEvent", waits)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.context.destroying(|functions| {
            // SAFETY: it is destroyed once, and nothing is in it any more.
            ("cuStreamDestroy", unsafe { (functions.cuStreamDestroy_v2)(self.raw.0) })
        });
    }
}

/// A moment in a stream.
pub(crate) struct Event {
    raw: Handle<sys::CUevent_st>,
    context: Arc<Context>,
}

impl Event {
    pub(crate) fn new(current: &Current<'_>) -> Result<Self, BackendError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the place takes a handle.
        let made = unsafe { (current.functions().cuEventCreate)(&mut raw, EVENT_FLAGS) };
        current.check("cuEventCreate", made)?;
        Ok(Event { raw: Handle(raw), context: current.context.clone() })
    }

    /// The event is now what the stream has so far.
    pub(crate) fn record(&self, current: &Current<'_>, stream: &Stream) -> Result<(), BackendError> {
        // SAFETY: both are alive.
        let recorded = unsafe { (current.functions().cuEventRecord)(self.raw.0, stream.raw.0) };
        current.check("cuEventRecord", recorded)
    }

    /// Whether the device has come so far.
    pub(crate) fn has_come(&self, current: &Current<'_>) -> Result<bool, BackendError> {
        // SAFETY: the event is alive.
        let answer = unsafe { (current.functions().cuEventQuery)(self.raw.0) };
        if answer == NOT_READY {
            return Ok(false);
        }
        current.check("cuEventQuery", answer).map(|()| true)
    }

    /// Blocks until the device has come so far.
    pub(crate) fn synchronize(&self, current: &Current<'_>) -> Result<(), BackendError> {
        // SAFETY: the event is alive.
        let come = unsafe { (current.functions().cuEventSynchronize)(self.raw.0) };
        current.check("cuEventSynchronize", come)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.context.destroying(|functions| {
            // SAFETY: it is destroyed once. A wait that was asked for keeps what it waits for.
            ("cuEventDestroy", unsafe { (functions.cuEventDestroy_v2)(self.raw.0) })
        });
    }
}

/// A pool of device memory of our own, from which the driver takes and to which it gives back in the order of a stream.
pub(crate) struct Pool {
    raw: Handle<sys::CUmemPoolHandle_st>,
    context: Arc<Context>,
}

impl Pool {
    /// A pool that keeps everything until it is trimmed.
    pub(crate) fn new(current: &Current<'_>, device: sys::CUdevice) -> Result<Self, BackendError> {
        let properties = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: device,
            },
            win32SecurityAttributes: ptr::null_mut(),
            maxSize: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the properties are complete, and the place takes a handle.
        let made = unsafe { (current.functions().cuMemPoolCreate)(&mut raw, &properties) };
        current.check("cuMemPoolCreate", made)?;
        let pool = Pool { raw: Handle(raw), context: current.context.clone() };
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let mut all = u64::MAX;
        // SAFETY: this attribute is a number of 64 bits.
        let set = unsafe {
            (current.functions().cuMemPoolSetAttribute)(raw, threshold, ptr::from_mut(&mut all).cast())
        };
        current.check("cuMemPoolSetAttribute", set)?;
        Ok(pool)
    }

    /// Memory that is there from this moment of the stream on.
    pub(crate) fn allocate(
        &self,
        current: &Current<'_>,
        bytes: usize,
        stream: &Stream,
    ) -> Result<sys::CUdeviceptr, BackendError> {
        let mut address = 0;
        // SAFETY: pool and stream are alive, and the place takes an address.
        let made = unsafe {
            (current.functions().cuMemAllocFromPoolAsync)(&mut address, bytes, self.raw.0, stream.raw.0)
        };
        current.check("cuMemAllocFromPoolAsync", made)?;
        Ok(address)
    }

    /// Takes memory of the pool back, from this moment of the stream on. The device has finished with it.
    pub(crate) fn free(
        &self,
        current: &Current<'_>,
        address: sys::CUdeviceptr,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        // SAFETY: by the contract of this function nobody uses the memory any more, and its owner frees it once.
        let freed = unsafe { (current.functions().cuMemFreeAsync)(address, stream.raw.0) };
        current.check("cuMemFreeAsync", freed)
    }

    /// Gives what nobody has back to the system.
    pub(crate) fn trim(&self, current: &Current<'_>) -> Result<(), BackendError> {
        // SAFETY: the pool is alive.
        let trimmed = unsafe { (current.functions().cuMemPoolTrimTo)(self.raw.0, 0) };
        current.check("cuMemPoolTrimTo", trimmed)
    }

    /// Bytes that the pool has of the device.
    pub(crate) fn reserved(&self, current: &Current<'_>) -> Result<u64, BackendError> {
        let reserved = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        let mut bytes = 0_u64;
        // SAFETY: the pool is alive, and this attribute is a number of 64 bits.
        let got = unsafe {
            (current.functions().cuMemPoolGetAttribute)(
                self.raw.0,
                reserved,
                ptr::from_mut(&mut bytes).cast(),
            )
        };
        current.check("cuMemPoolGetAttribute", got)?;
        Ok(bytes)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.context.destroying(|functions| {
            // SAFETY: it is destroyed once, and everything was given back to it.
            ("cuMemPoolDestroy", unsafe { (functions.cuMemPoolDestroy)(self.raw.0) })
        });
    }
}

/// Memory of the host that the device copies from and to directly.
pub(crate) struct Pinned {
    place: NonNull<u8>,
    bytes: usize,
    context: Arc<Context>,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Pinned {}
// SAFETY: shared access goes through `write` and `read`, whose callers exclude conflicts.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn new(current: &Current<'_>, bytes: usize) -> Result<Self, BackendError> {
        let mut place: *mut c_void = ptr::null_mut();
        // SAFETY: the place takes an address.
        let made = unsafe { (current.functions().cuMemHostAlloc)(&mut place, bytes, HOST_PORTABLE) };
        current.check("cuMemHostAlloc", made)?;
        let place = NonNull::new(place.cast()).expect("memory that was given has an address");
        Ok(Pinned { place, bytes, context: current.context.clone() })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address for the driver.
    pub(crate) fn address(&self) -> usize {
        self.place.as_ptr().expose_provenance()
    }

    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(inside, "range {offset}+{bytes} is outside {} bytes of pinned memory", self.bytes);
        // SAFETY: the offset is inside the memory, or one past its end.
        unsafe { self.place.add(offset) }
    }

    /// Copies from elsewhere. For ranges that nobody uses.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: `at` checked the range; as the range's only owner the caller knows that nobody else uses it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) }
    }

    /// Copies to elsewhere. For ranges that nobody writes, and that were written.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.at(offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), bytes.len()) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.context.destroying(|functions| {
            // SAFETY: it is freed once, and every copy from and to it has ended (L4).
            ("cuMemFreeHost", unsafe { (functions.cuMemFreeHost)(self.place.as_ptr().cast()) })
        });
    }
}
