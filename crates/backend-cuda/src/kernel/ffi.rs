//! Programs in the driver, and NVIDIA's run-time compiler: the unsafe code.
//!
//! Not here: which form of a kernel is taken (`kernel.rs`), and launching (`commands/ffi.rs`).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;
use cudarc::nvrtc;
use tenure_core::BackendError;
use tenure_core::kernel::CudaProgram;

use crate::error::{
    Code, INVALID_PTX, NO_BINARY_FOR_GPU, OUT_OF_MEMORY, SUCCESS, UNSUPPORTED_PTX_VERSION, loss_of,
};
use crate::ffi::{Context, Current, Handle, describe};

/// Room for what the driver says of a program.
const LOG_BYTES: usize = 16 << 10;

/// One function of a program that the driver has loaded.
pub(crate) struct Program {
    module: Handle<sys::CUmod_st>,
    pub function: Handle<sys::CUfunc_st>,
    /// How many pointers the function takes, and nothing else.
    pub pointers: usize,
    /// Whether the last of them is to the bindings' lengths.
    pub lengths: bool,
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// What the function has of its own beside.
    pub static_shared_bytes: u32,
    /// Most threads of a block, as compiled.
    pub most_threads: u32,
    context: Arc<Context>,
}

/// Why a program was not loaded.
pub(crate) enum Refusal {
    /// The driver or the device takes no program of this kind. Another form may do.
    Kind(String),
    /// The text is wrong; what the compiler said.
    Text(String),
    /// Something that has nothing to do with the program.
    Driver(BackendError),
}

impl Program {
    pub(crate) fn load(
        current: &Current<'_>,
        text: &str,
        entry: &str,
        pointers: Option<usize>,
        asked: &CudaProgram,
    ) -> Result<Self, Refusal> {
        let no_zero = |_| Refusal::Text("it has a zero in it".to_owned());
        let (text, name) = (CString::new(text).map_err(no_zero)?, CString::new(entry).map_err(no_zero)?);
        let mut log = vec![0_u8; LOG_BYTES];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The size is passed in place of a pointer.
        let mut values: [*mut c_void; 2] =
            [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_BYTES - 1)];
        let mut module = ptr::null_mut();
        // SAFETY: the text ends with a zero, there are as many values as options, and the log has the room that is said.
        let loaded = unsafe {
            (current.functions().cuModuleLoadDataEx)(
                &mut module,
                text.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if loaded != SUCCESS {
            return Err(refusal(current, loaded, &log));
        }
        // From here on dropping unloads it.
        let mut program = Program {
            module: Handle(module),
            function: Handle(ptr::null_mut()),
            pointers: 0,
            lengths: asked.lengths,
            block: asked.block,
            shared_bytes: asked.shared_bytes,
            static_shared_bytes: 0,
            most_threads: 0,
            context: current.context.clone(),
        };
        let mut function = ptr::null_mut();
        // SAFETY: the module is alive, and the name ends with a zero.
        let found =
            unsafe { (current.functions().cuModuleGetFunction)(&mut function, module, name.as_ptr()) };
        match found {
            SUCCESS => program.function = Handle(function),
            _ if current.context.alive().is_err() || loss_of(found).is_some() => {
                return Err(refusal(current, found, &[]));
            }
            _ => return Err(Refusal::Text(format!("it has no function `{entry}` to start"))),
        }
        program.pointers = pointers
            .ok_or_else(|| Refusal::Text(format!("function `{entry}` takes something else than pointers")))?;
        use sys::CUfunction_attribute as Attribute;
        let shared = program.attribute(current, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
        program.static_shared_bytes = shared.map_err(Refusal::Driver)?;
        let threads = program.attribute(current, Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        program.most_threads = threads.map_err(Refusal::Driver)?;
        Ok(program)
    }

    fn attribute(
        &self,
        current: &Current<'_>,
        attribute: sys::CUfunction_attribute,
    ) -> Result<u32, BackendError> {
        let mut value: c_int = 0;
        // SAFETY: the function is alive, and the place takes a number.
        let got = unsafe { (current.functions().cuFuncGetAttribute)(&mut value, attribute, self.function.0) };
        current.check("cuFuncGetAttribute", got)?;
        Ok(u32::try_from(value).unwrap_or_default())
    }

    /// Asks for the shared memory that the function is launched with, where that is more than what is `usual`.
    pub(crate) fn allow_shared(&self, usual: u32, current: &Current<'_>) -> Result<(), BackendError> {
        if self.shared_bytes + self.static_shared_bytes <= usual {
            return Ok(());
        }
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = c_int::try_from(self.shared_bytes).expect("it is within the device's limit");
        // SAFETY: the function is alive.
        let set = unsafe { (current.functions().cuFuncSetAttribute)(self.function.0, attribute, bytes) };
        current.check("cuFuncSetAttribute", set)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.context.destroying(|functions| {
            // SAFETY: it is unloaded once, and no submission that names it is unfinished (L4).
            ("cuModuleUnload", unsafe { (functions.cuModuleUnload)(self.module.0) })
        });
    }
}

fn refusal(current: &Current<'_>, code: Code, log: &[u8]) -> Refusal {
    let error = describe(current.functions(), code);
    match code {
        NO_BINARY_FOR_GPU | UNSUPPORTED_PTX_VERSION => Refusal::Kind(error.to_string()),
        _ if code == OUT_OF_MEMORY || loss_of(code).is_some() => {
            let failed = current.check("cuModuleLoadDataEx", code);
            Refusal::Driver(failed.expect_err("it is no success"))
        }
        _ => {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            let log = String::from_utf8_lossy(&log[..end]).trim_end().to_owned();
            let said = if log.is_empty() { String::new() } else { format!("\n{log}") };
            let what = if code == INVALID_PTX { "the PTX is not valid" } else { "it was not loaded" };
            Refusal::Text(format!("{what}: {error}{said}"))
        }
    }
}

/// Whether NVIDIA's run-time compiler is installed.
pub(crate) fn has_compiler() -> bool {
    // SAFETY: what loading the library runs is as sound as the machine's toolkit.
    unsafe { nvrtc::sys::is_culib_present() }
}

/// CUDA C++ as PTX, or what the compiler said. For a compiler that is installed.
pub(crate) fn ptx_of(text: &str, architecture: &str) -> Result<String, String> {
    let text = CString::new(text).map_err(|_| "it has a zero in it".to_owned())?;
    let program = Source::new(&text)?;
    // SAFETY: the program is alive.
    let compiled = unsafe { nvrtc::result::compile_program(program.0, &[architecture]) };
    if let Err(error) = compiled {
        // SAFETY: as above.
        let log = unsafe { nvrtc::result::get_program_log(program.0) };
        let log = log.map(|log| text_of(&log)).unwrap_or_default();
        return Err(format!("{error}\n{}", log.trim_end()));
    }
    // SAFETY: as above; it was compiled.
    let ptx = unsafe { nvrtc::result::get_ptx(program.0) };
    ptx.map(|ptx| text_of(&ptx)).map_err(|error| error.to_string())
}

/// A program of the run-time compiler.
struct Source(nvrtc::sys::nvrtcProgram);

impl Source {
    fn new(text: &CStr) -> Result<Self, String> {
        nvrtc::result::create_program(text, None).map(Source).map_err(|error| error.to_string())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once. There is nothing to do about a failure.
        let _ = unsafe { nvrtc::result::destroy_program(self.0) };
    }
}

/// A text of C's up to its zero.
fn text_of(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
