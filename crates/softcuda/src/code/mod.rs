//! The error codes of the driver interface: numbers, names, sentences.
//!
//! Not here: which function answers which code.

use std::ffi::CStr;

/// What a driver function answers: `CUresult`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

/// What the functions behind the exported ones answer.
pub type Answer<T = ()> = Result<T, Code>;

/// A literal with a zero at its end, so that C can read it.
macro_rules! cstring {
    ($text:literal) => {
        match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("a zero inside of a literal"),
        }
    };
}

macro_rules! codes {
    ($($constant:ident = $number:literal, $name:literal, $sentence:literal;)*) => {
        impl Code {
            $(#[doc = $sentence] pub const $constant: Code = Code($number);)*
        }

        const TABLE: &[(u32, &CStr, &CStr)] = &[$(($number, cstring!($name), cstring!($sentence)),)*];
    };
}

codes! {
    SUCCESS = 0, "CUDA_SUCCESS", "no error";
    INVALID_VALUE = 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OUT_OF_MEMORY = 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NOT_INITIALIZED = 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error";
    DEINITIALIZED = 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down";
    DEVICE_UNAVAILABLE = 46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable";
    NO_DEVICE = 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    INVALID_IMAGE = 200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid";
    INVALID_CONTEXT = 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    NO_BINARY_FOR_GPU = 209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device";
    ECC_UNCORRECTABLE = 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered";
    UNSUPPORTED_LIMIT = 215, "CUDA_ERROR_UNSUPPORTED_LIMIT", "limit is not supported on this architecture";
    PEER_ACCESS_UNSUPPORTED = 217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices";
    INVALID_PTX = 218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain.";
    INVALID_SOURCE = 300, "CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid";
    FILE_NOT_FOUND = 301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found";
    OPERATING_SYSTEM = 304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    ILLEGAL_STATE = 401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NOT_READY = 600, "CUDA_ERROR_NOT_READY", "device not ready";
    ILLEGAL_ADDRESS = 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated";
    PEER_ACCESS_ALREADY_ENABLED = 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled";
    PRIMARY_CONTEXT_ACTIVE = 708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED = 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed";
    ASSERT = 710, "CUDA_ERROR_ASSERT", "device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR = 714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address";
    INVALID_ADDRESS_SPACE = 717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space";
    INVALID_PC = 718, "CUDA_ERROR_INVALID_PC", "invalid program counter";
    LAUNCH_FAILED = 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch";
    NOT_PERMITTED = 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted";
    NOT_SUPPORTED = 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    SYSTEM_NOT_READY = 802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized";
    STREAM_CAPTURE_UNSUPPORTED = 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture";
    STREAM_CAPTURE_MERGE = 902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences";
    STREAM_CAPTURE_UNMATCHED = 903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED = 904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread";
    TIMEOUT = 909, "CUDA_ERROR_TIMEOUT", "wait operation timed out";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    UNKNOWN = 999, "CUDA_ERROR_UNKNOWN", "unknown error";
}

impl Code {
    /// `CUDA_ERROR_INVALID_VALUE` and the like; `None` for a number that has no name here.
    pub fn name(self) -> Option<&'static CStr> {
        self.row().map(|row| row.1)
    }

    /// What the code says, in words.
    pub fn sentence(self) -> Option<&'static CStr> {
        self.row().map(|row| row.2)
    }

    /// The name, or the number, for messages.
    pub fn in_words(self) -> String {
        self.name().map_or_else(|| format!("code {}", self.0), |name| name.to_string_lossy().into_owned())
    }

    fn row(self) -> Option<&'static (u32, &'static CStr, &'static CStr)> {
        TABLE.iter().find(|row| row.0 == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_sentences() {
        assert_eq!(Code::INVALID_VALUE.name().unwrap().to_str(), Ok("CUDA_ERROR_INVALID_VALUE"));
        assert_eq!(Code(700).sentence().unwrap().to_str(), Ok("an illegal memory access was encountered"));
        assert_eq!(Code(12345).name(), None);
        assert_eq!(Code(12345).in_words(), "code 12345");
    }

    #[test]
    fn numbers_rise_and_are_unique() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
