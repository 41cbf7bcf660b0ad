//! Starting, versions, names of errors, finding functions.
//!
//! Not here: devices.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;

use crate::caller::{HostPointer, In, Out, Text};
use crate::code::{Answer, Code};
use crate::device::driver;

exports! {
    Outside cuInit(flags: u32) = initialise(flags);
    Outside cuDriverGetVersion(version: Out<c_int>) = version.set(VERSION);
    Nothing cuGetErrorName(code: Code, text: Out<*const c_char>) =
        text_of(code.name(), text);
    Nothing cuGetErrorString(code: Code, text: Out<*const c_char>) =
        text_of(code.sentence(), text);
    Outside cuGetProcAddress(name: Text, function: Out<*mut c_void>, _version: c_int, _flags: u64) =
        find(&name, function, None);
    Outside cuGetProcAddress_v2(
        name: Text,
        function: Out<*mut c_void>,
        _version: c_int,
        _flags: u64,
        status: Out<u32>,
    ) = find(&name, function, Some(status));
    Outside cuGetExportTable(table: Out<*const c_void>, _id: In<[u8; 16]>) = no_table(table);
    Health cuProfilerStart() = Ok(());
    Health cuProfilerStop() = Ok(());
}

/// 12.9, as the driver's interface writes it.
const VERSION: c_int = 12_090;

fn initialise(flags: u32) -> Answer {
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let driver = driver();
    if driver.settings.devices == 0 {
        return Err(Code::NO_DEVICE);
    }
    super::atexit::arrange();
    driver.start();
    Ok(())
}

fn text_of(found: Option<&'static std::ffi::CStr>, text: Out<*const c_char>) -> Answer {
    match found {
        Some(found) => text.set(found.as_ptr()),
        None => {
            text.set(null())?;
            Err(Code::INVALID_VALUE)
        }
    }
}

/// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`
const NO_SUCH_SYMBOL: u32 = 1;

/// Names are asked for without the suffix of their version; the latest is meant.
fn find(name: &Text, function: Out<*mut c_void>, status: Option<Out<u32>>) -> Answer {
    let name = name.to_owned()?;
    let versions = ["_v4", "_v3", "_v2", ""];
    let found = versions.iter().find_map(|version| super::address_of(&format!("{name}{version}")));
    function.set(HostPointer::from_address(found.unwrap_or(0) as u64))?;
    if let Some(status) = status {
        status.set_if_wanted(if found.is_some() { 0 } else { NO_SUCH_SYMBOL });
    }
    found.map(|_| ()).ok_or(Code::NOT_FOUND)
}

/// Tables that only NVIDIA's own libraries know. Some of them look for this function and call it, so it is here.
fn no_table(table: Out<*const c_void>) -> Answer {
    table.set_if_wanted(null());
    Err(Code::NOT_FOUND)
}
