//! The driver's library: found at run time, or a driver in software that was asked for by name.
//!
//! cudarc opens `libcuda` by its name at the first need, once a process. The driver in software has that name inside (its
//! SONAME), so that opening it by its path before makes it the one that is found: nothing is installed, and nobody gets
//! it who did not ask. Not here: what the functions do (`ffi.rs`).

pub(crate) mod ffi;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;
use tenure_core::BackendError;

use crate::error::{DRIVER_FIX, unavailable};
use crate::library::ffi::{Functions, exports_software, find_functions, is_present, open_globally};

/// The variable that asks for the driver in software: a path to the library, or `1` for the one beside the program.
pub(crate) const VARIABLE: &str = "TENURE_SOFTCUDA";

/// The library's file name.
const SOFTWARE: &str = "libsoftcuda.so";

/// How to get it.
const SOFTWARE_FIX: &str =
    "build it with `cargo build --package tenure-softcuda`, and set TENURE_SOFTCUDA to 1 or to its path";

/// The one library of this process.
pub(crate) struct Library {
    pub functions: Functions,
    /// It is the driver in software.
    pub software: bool,
}

/// Finds the driver. `asked` is a library in software to open first; else the variable may name one.
///
/// # Errors
/// `Unavailable` with what is missing and what to do about it.
pub(crate) fn open(asked: Option<&Path>) -> Result<&'static Library, BackendError> {
    static FOUND: OnceLock<Library> = OnceLock::new();
    static OPENING: Mutex<()> = Mutex::new(());
    let asked = match asked {
        Some(path) => Some(path.to_owned()),
        None => named(std::env::var_os(VARIABLE))?,
    };
    let _opening = OPENING.lock();
    let library = match FOUND.get() {
        Some(library) => library,
        None => {
            let library = find(asked.as_deref())?;
            FOUND.get_or_init(|| library)
        }
    };
    if asked.is_some() && !library.software {
        let reason = "a driver for hardware is open in this process, and there can be one driver only";
        return Err(unavailable("load CUDA", reason, "ask for the driver in software before"));
    }
    Ok(library)
}

fn find(software: Option<&Path>) -> Result<Library, BackendError> {
    if let Some(path) = software {
        let path = path.canonicalize().map_err(|error| {
            unavailable("load CUDA", format!("{}: {error}", path.display()), SOFTWARE_FIX)
        })?;
        open_globally(&path).map_err(|reason| unavailable("load CUDA", reason, SOFTWARE_FIX))?;
    }
    if !is_present() {
        return Err(unavailable("load CUDA", "there is no CUDA driver on this machine", DRIVER_FIX));
    }
    let functions = find_functions().map_err(|missing| {
        let reason = format!("the CUDA driver is too old: it has no `{missing}`");
        unavailable("load CUDA", reason, DRIVER_FIX)
    })?;
    let library = Library { functions, software: exports_software() };
    if software.is_some() && !library.software {
        let reason = "a driver for hardware was found in place of the one in software";
        return Err(unavailable("load CUDA", reason, SOFTWARE_FIX));
    }
    Ok(library)
}

/// The library that the variable's value names.
fn named(value: Option<OsString>) -> Result<Option<PathBuf>, BackendError> {
    let Some(value) = value.filter(|value| !value.is_empty() && value != "0") else { return Ok(None) };
    if value != "1" {
        return Ok(Some(value.into()));
    }
    beside_program().map(Some).ok_or_else(|| {
        unavailable("load CUDA", format!("there is no {SOFTWARE} beside this program"), SOFTWARE_FIX)
    })
}

/// The library where cargo puts it: in the folder of programs, which tests and examples are one level below.
fn beside_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    program.ancestors().skip(1).take(2).map(|folder| folder.join(SOFTWARE)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use tenure_core::BackendErrorKind;

    use super::*;

    #[test]
    fn the_variable_names_a_path_or_nothing() {
        assert!(named(None).unwrap().is_none());
        assert!(named(Some("".into())).unwrap().is_none());
        assert!(named(Some("0".into())).unwrap().is_none());
        assert_eq!(named(Some("/x/y.so".into())).unwrap(), Some(PathBuf::from("/x/y.so")));
    }

    #[test]
    fn a_library_that_is_not_there_is_an_error_with_a_fix() {
        let Err(error) = find(Some(Path::new("/no/such/library.so"))) else { panic!("it was found") };
        assert_eq!(error.kind, BackendErrorKind::Unavailable);
        assert!(error.message.contains("/no/such/library.so"), "{error}");
        assert!(error.message.contains("cargo build"), "{error}");
    }
}
