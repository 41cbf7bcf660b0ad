//! Asks the driver for its devices: the unsafe code.
//!
//! Not here: choosing one, and what is made of the answers (`device.rs`).

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use cudarc::driver::sys;
use tenure_core::BackendError;

use crate::device::{Facts, choose, is_software};
use crate::error::{Code, DRIVER_FIX, INVALID_VALUE, SUCCESS, failed, unavailable};
use crate::ffi::{Current, describe};
use crate::library::Library;

/// The newest driver that lacks something that is used here is older than this.
const OLDEST_DRIVER: c_int = 12_000;

/// The devices of an initialised driver.
pub(crate) struct Devices {
    library: &'static Library,
    names: Vec<String>,
}

impl Devices {
    pub(crate) fn new(library: &'static Library) -> Result<Self, BackendError> {
        // SAFETY: it may be called at any time; there are no flags.
        let begun = unsafe { (library.functions.cuInit)(0) };
        check(library, "cuInit", begun)?;
        let mut version: c_int = 0;
        // SAFETY: the place takes a number.
        let got = unsafe { (library.functions.cuDriverGetVersion)(&mut version) };
        check(library, "cuDriverGetVersion", got)?;
        if version < OLDEST_DRIVER {
            let reason = format!("the CUDA driver is of version {}.{}", version / 1000, version % 1000 / 10);
            return Err(unavailable("cuDriverGetVersion", reason, DRIVER_FIX));
        }
        let mut count: c_int = 0;
        // SAFETY: the place takes a number.
        let got = unsafe { (library.functions.cuDeviceGetCount)(&mut count) };
        check(library, "cuDeviceGetCount", got)?;
        let devices = Devices { library, names: Vec::new() };
        let names = (0..count).map(|at| devices.name(devices.get(at)?)).collect::<Result<_, _>>()?;
        Ok(Devices { names, ..devices })
    }

    /// The device that is meant.
    pub(crate) fn choose(&self, wanted: Option<&str>, index: u32) -> Result<sys::CUdevice, BackendError> {
        self.get(choose(&self.names, wanted, index)? as c_int)
    }

    fn get(&self, at: c_int) -> Result<sys::CUdevice, BackendError> {
        let mut device = 0;
        // SAFETY: the place takes a device.
        let got = unsafe { (self.library.functions.cuDeviceGet)(&mut device, at) };
        check(self.library, "cuDeviceGet", got)?;
        Ok(device)
    }

    fn name(&self, device: sys::CUdevice) -> Result<String, BackendError> {
        let mut name = [0 as c_char; 256];
        // SAFETY: the place has the room that is said.
        let got = unsafe {
            (self.library.functions.cuDeviceGetName)(name.as_mut_ptr(), name.len() as c_int, device)
        };
        check(self.library, "cuDeviceGetName", got)?;
        // SAFETY: the driver ends the name with a zero, and the array began with nothing else.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        Ok(name.to_string_lossy().into_owned())
    }

    fn attribute(
        &self,
        device: sys::CUdevice,
        attribute: sys::CUdevice_attribute,
    ) -> Result<u32, BackendError> {
        let mut value: c_int = 0;
        // SAFETY: the place takes a number.
        let got = unsafe { (self.library.functions.cuDeviceGetAttribute)(&mut value, attribute, device) };
        check(self.library, "cuDeviceGetAttribute", got)?;
        Ok(u32::try_from(value).unwrap_or_default())
    }

    /// All that is asked of a device.
    pub(crate) fn facts(&self, device: sys::CUdevice) -> Result<Facts, BackendError> {
        use sys::CUdevice_attribute as A;
        let mut memory_bytes = 0;
        // SAFETY: the place takes a number.
        let got = unsafe { (self.library.functions.cuDeviceTotalMem_v2)(&mut memory_bytes, device) };
        check(self.library, "cuDeviceTotalMem", got)?;
        let name = self.name(device)?;
        let get = |attribute| self.attribute(device, attribute);
        Ok(Facts {
            software: is_software(self.library, &name),
            name,
            memory_bytes: memory_bytes as u64,
            compute: (
                get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            max_threads: get(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            max_block: [
                get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ],
            max_grid: [
                get(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                get(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                get(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
            usual_shared_bytes: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
            max_shared_bytes: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                .max(get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?),
            pools: get(A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0,
            unified_addresses: get(A::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)? != 0,
        })
    }
}

/// Holds the device's primary context, which other parts of the process share.
pub(crate) fn retain(library: &Library, device: sys::CUdevice) -> Result<sys::CUcontext, BackendError> {
    let mut context = ptr::null_mut();
    // SAFETY: the place takes a handle; it is let go of when the `Context` drops.
    let retained = unsafe { (library.functions.cuDevicePrimaryCtxRetain)(&mut context, device) };
    check(library, "cuDevicePrimaryCtxRetain", retained)?;
    Ok(context)
}

/// The device that a context is of.
pub(crate) fn device_of(current: &Current<'_>) -> Result<sys::CUdevice, BackendError> {
    let mut device = 0;
    // SAFETY: the context is current, and the place takes a device.
    let got = unsafe { (current.functions().cuCtxGetDevice)(&mut device) };
    current.check("cuCtxGetDevice", got)?;
    Ok(device)
}

/// The device that has memory at this address; none if the driver knows of no memory there.
pub(crate) fn device_at(
    current: &Current<'_>,
    address: sys::CUdeviceptr,
) -> Result<Option<sys::CUdevice>, BackendError> {
    let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    let mut device: c_int = 0;
    // SAFETY: any address may be asked for, and this attribute is a number of 32 bits.
    let answer = unsafe {
        (current.functions().cuPointerGetAttribute)(ptr::from_mut(&mut device).cast(), attribute, address)
    };
    if answer == INVALID_VALUE {
        return Ok(None);
    }
    current.check("cuPointerGetAttribute", answer).map(|()| Some(device))
}

/// A failure before there is a context: there is no device to use, and the driver says why.
fn check(library: &Library, operation: &'static str, code: Code) -> Result<(), BackendError> {
    if code == SUCCESS {
        return Ok(());
    }
    let error = describe(&library.functions, code);
    // An error of earlier work, of whoever's in this process.
    if matches!(code, 700..=721) {
        return Err(failed(operation, error));
    }
    Err(unavailable(operation, &error, DRIVER_FIX).with_source(error))
}
