//! What the tests do beside the backend: the driver's own calls, as an engine makes them, and the functions that only
//! the driver in software has.
//!
//! Not here: the tests.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use libloading::os::unix::{Library, Symbol};
use tenure_backend_cuda::cudarc::driver::sys;
use tenure_backend_cuda::{CudaBackend, CudaMemory, CudaOptions};
use tenure_core::kernel::CudaProgram;
use tenure_core::{BackendError, Error, KernelSource, Manager, Tensor, TensorOptions};

/// A function of the driver that is open. Its symbols are everybody's.
fn function<F>(name: &str) -> Symbol<F> {
    // SAFETY: callers name the function's own type.
    let found = unsafe { Library::this().get(name.as_bytes()) };
    found.unwrap_or_else(|error| panic!("no driver in software is open: {error}"))
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no zero in it")
}

/// How often a function of the driver was called.
pub fn calls(name: &str) -> u64 {
    let calls = function::<unsafe extern "C" fn(*const c_char) -> u64>("softcuda_calls");
    let name = text(name);
    // SAFETY: the name ends with a zero.
    unsafe { calls(name.as_ptr()) }
}

/// Live objects of a kind.
pub fn live(kind: &str) -> u64 {
    let live = function::<unsafe extern "C" fn(*const c_char) -> u64>("softcuda_live");
    let kind = text(kind);
    // SAFETY: the kind ends with a zero.
    unsafe { live(kind.as_ptr()) }
}

/// How many uses the driver found to be out of order.
pub fn violations() -> u64 {
    let violations = function::<unsafe extern "C" fn() -> u64>("softcuda_violations");
    // SAFETY: it takes nothing.
    unsafe { violations() }
}

/// Lets a call of a function fail, counted from now on.
pub fn inject(name: &str, call: u64, code: u32) {
    let inject = function::<unsafe extern "C" fn(*const c_char, u64, u32, c_int) -> c_int>("softcuda_inject");
    let name = text(name);
    // SAFETY: the name ends with a zero.
    let answer = unsafe { inject(name.as_ptr(), call, code, 0) };
    assert_eq!(answer, 0);
}

/// Work takes its time, by chance.
pub fn delay(seed: u64) {
    let set = function::<unsafe extern "C" fn(u64) -> c_int>("softcuda_set_seed");
    // SAFETY: it takes a number.
    let answer = unsafe { set(seed) };
    assert_eq!(answer, 0);
}

/// A stream that does nothing until this is opened, or dropped.
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Closes a stream.
    pub fn close(stream: sys::CUstream) -> Gate {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let launch = function::<
            unsafe extern "C" fn(sys::CUstream, extern "C" fn(*mut c_void), *mut c_void) -> c_uint,
        >("cuLaunchHostFunc");
        let data = Arc::into_raw(gate.clone()).cast_mut().cast();
        // SAFETY: the stream is alive, and the function takes back what it is given.
        let launched = unsafe { launch(stream, wait, data) };
        assert_eq!(launched, 0, "the stream takes it");
        Gate(gate)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let (open, opened) = &*self.0;
        *open.lock().unwrap() = true;
        opened.notify_all();
    }
}

extern "C" fn wait(gate: *mut c_void) {
    // SAFETY: it is what `Gate::close` passes, once.
    let gate = unsafe { Arc::from_raw(gate.cast::<(Mutex<bool>, Condvar)>()) };
    let (open, opened) = &*gate;
    drop(opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
}

/// Whether a stream has done all that it has.
pub fn is_idle(stream: sys::CUstream) -> bool {
    let query = function::<unsafe extern "C" fn(sys::CUstream) -> c_uint>("cuStreamQuery");
    // SAFETY: the stream is alive.
    match unsafe { query(stream) } {
        0 => true,
        600 => false,
        code => panic!("the stream says {code}"),
    }
}

/// A context of an engine's.
pub struct EngineContext(pub usize);

impl EngineContext {
    /// Makes one on the first device; it is current on this thread.
    pub fn new() -> Self {
        EngineContext::on(0)
    }

    /// Makes one on a device; it is current on this thread.
    pub fn on(device: i32) -> Self {
        let create =
            function::<unsafe extern "C" fn(*mut sys::CUcontext, c_uint, c_int) -> c_uint>("cuCtxCreate_v2");
        let mut context = ptr::null_mut();
        // SAFETY: the place takes a handle; the driver is initialised.
        let made = unsafe { create(&mut context, 0, device) };
        assert_eq!(made, 0);
        EngineContext(context.expose_provenance())
    }

    pub fn raw(&self) -> sys::CUcontext {
        ptr::with_exposed_provenance_mut(self.0)
    }

    /// A backend in this context.
    pub fn embed(&self, keep_alive: Arc<dyn Send + Sync>) -> Result<CudaBackend, BackendError> {
        // SAFETY: the context is of the driver that is open. Tests that destroy it early do so on purpose, on a driver that
        // knows handles that are gone.
        unsafe { CudaBackend::from_context(self.raw(), &CudaOptions::default(), keep_alive) }
    }

    /// Destroys it.
    pub fn destroy(&self) {
        let destroy = function::<unsafe extern "C" fn(sys::CUcontext) -> c_uint>("cuCtxDestroy_v2");
        // SAFETY: it is the driver's context; it knows handles that are gone.
        let destroyed = unsafe { destroy(self.raw()) };
        assert_eq!(destroyed, 0);
    }
}

/// What is current on this thread.
pub fn current_context() -> usize {
    let get = function::<unsafe extern "C" fn(*mut sys::CUcontext) -> c_uint>("cuCtxGetCurrent");
    let mut context = ptr::null_mut();
    // SAFETY: the place takes a handle.
    let got = unsafe { get(&mut context) };
    assert_eq!(got, 0);
    context.expose_provenance()
}

/// Makes a context current on this thread, or none by 0.
pub fn set_current_context(context: usize) {
    let set = function::<unsafe extern "C" fn(sys::CUcontext) -> c_uint>("cuCtxSetCurrent");
    // SAFETY: it is a context of the driver's that is alive, or none.
    let answer = unsafe { set(ptr::with_exposed_provenance_mut(context)) };
    assert_eq!(answer, 0);
}

/// The device that an address is of.
pub fn device_of(address: u64) -> i32 {
    let get = function::<unsafe extern "C" fn(*mut c_void, c_uint, sys::CUdeviceptr) -> c_uint>(
        "cuPointerGetAttribute",
    );
    let mut device = -1;
    // SAFETY: attribute 9 is a number of 32 bits.
    let got = unsafe { get(ptr::from_mut(&mut device).cast(), 9, address) };
    assert_eq!(got, 0);
    device
}

/// Makes a tensor of memory at an address. True in the flag once it is given back.
pub fn adopt(
    manager: &Manager,
    memory: CudaMemory,
    elements: u64,
    released: &Arc<AtomicBool>,
) -> Result<Tensor<u32>, Error> {
    let options = TensorOptions::builder().shape([elements]).label("lent").build();
    let released = released.clone();
    // SAFETY: the tests lend what they keep until it is given back, or what is refused.
    unsafe { manager.adopt_tensor(memory, options, move || released.store(true, Ordering::Release)) }
}

/// Adds PTX to a source.
pub fn with_ptx(source: KernelSource, program: CudaProgram, entry: &str) -> KernelSource {
    // SAFETY: the tests' programs are those of these files. That one writes where nothing is, is what is tested, on a driver
    // that notices.
    unsafe { source.ptx(program, entry) }
}

/// Adds CUDA C++ to a source.
pub fn with_cuda_cpp(source: KernelSource, program: CudaProgram, entry: &str) -> KernelSource {
    // SAFETY: it is never run.
    unsafe { source.cuda_cpp(program, entry) }
}
