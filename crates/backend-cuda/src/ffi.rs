//! The context and the objects in it, each with one owner that destroys it: the unsafe code.
//!
//! A call is made with the context current on the thread: [`Current`] shows that it is, and restores what was current before.
//! An object shares the [`Context`], so the context goes after everything that was made in it. Dropping destroys at once: that
//! the device has finished with an object is the duty of who drops it, which is core's by the SPI (L4) and this crate's
//! for what it makes for itself. The safe functions here stand on that duty, and on handles of this crate being of this
//! context. Once the device is lost nothing is destroyed: what there is, is abandoned (L23). Not here: memory
//! (`buffer/ffi.rs`, `heap/ffi.rs`), kernels (`kernel/ffi.rs`), what a recording does (`commands/ffi.rs`), graphs
//! (`graph/ffi.rs`).

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::ptr;
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

/// Calls of a thread in this mode are no concern of a capture that an engine makes, on whatever thread.
const CAPTURE_MODE_RELAXED: u32 = 2;

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
        // From here on dropping takes back what was pushed.
        let mut current = Current { context: self, capture_mode: None, _thread: PhantomData };
        current.capture_mode = Some(current.exchange_capture_mode(CAPTURE_MODE_RELAXED)?);
        Ok(current)
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
    /// What the thread's mode was before.
    capture_mode: Option<u32>,
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

    /// Gives the thread another mode for captures of others. The one that it had.
    fn exchange_capture_mode(&self, mode: u32) -> Result<u32, BackendError> {
        let mut place = mode;
        // SAFETY: the place has a mode, and takes another.
        let exchanged = unsafe { (self.functions().cuThreadExchangeStreamCaptureMode)(&mut place) };
        self.check("cuThreadExchangeStreamCaptureMode", exchanged)?;
        Ok(place)
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
        if let Some(mode) = self.capture_mode {
            // It fails where the device is lost only, and then nothing is captured any more.
            let _ = self.exchange_capture_mode(mode);
        }
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
