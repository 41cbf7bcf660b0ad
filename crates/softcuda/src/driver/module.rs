//! Loading modules of PTX.
//!
//! Not here: reading the text (`ptx/`), kernels (`function.rs`).

use crate::caller::{HostPointer, In, Out, Text};
use crate::code::{Answer, Code};
use crate::device::driver;
use crate::memory::Handle;
use crate::ptx;

exports! {
    Health cuModuleLoad(module: Out<Handle>, path: Text) = {
        let path = path.to_owned()?;
        let text = std::fs::read(path).map_err(|_| Code::FILE_NOT_FOUND)?;
        load(module, &text, &Log::default())
    };
    Health cuModuleLoadData(module: Out<Handle>, image: HostPointer) = load_image(module, image, &Log::default());
    Health cuModuleLoadDataEx(
        module: Out<Handle>,
        image: HostPointer,
        count: u32,
        options: In<u32>,
        values: In<HostPointer>,
    ) = load_image(module, image, &Log::of_options(options.all(count as usize)?, values, count)?);
    Health cuModuleLoadFatBinary(_module: Out<Handle>, _image: HostPointer) = Err(Code::NO_BINARY_FOR_GPU);
    Health cuModuleUnload(module: Handle) = unload(module);
    Health cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text) = {
        let name = name.to_owned()?;
        let handle = driver().lock().function(module, &name)?;
        function.set(handle)
    };
    Health cuModuleGetFunctionCount(count: Out<u32>, module: Handle) = {
        let state = driver().lock();
        let module = state.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        count.set(module.content.kernels().count() as u32)
    };
    Health cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<usize>, module: Handle, name: Text) = {
        let name = name.to_owned()?;
        let state = driver().lock();
        let module = state.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        let (start, size) = module.variables.get(&name).ok_or(Code::NOT_FOUND)?;
        address.set_if_wanted(*start);
        bytes.set_if_wanted(*size as usize);
        Ok(())
    };
    Health cuModuleGetLoadingMode(mode: Out<u32>) = mode.set(1);
}

/// Where a caller wants the words of the compiler.
#[derive(Default)]
struct Log {
    place: Option<HostPointer>,
    room: usize,
    /// Where the caller gave the size: there goes how much of it was used.
    used: Option<(In<HostPointer>, usize)>,
}

/// `CU_JIT_ERROR_LOG_BUFFER`
const ERROR_LOG: u32 = 5;

/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`
const ERROR_LOG_SIZE: u32 = 6;

impl Log {
    fn of_options(options: Vec<u32>, values: In<HostPointer>, count: u32) -> Answer<Log> {
        let mut log = Log::default();
        for (index, (option, value)) in options.iter().zip(values.all(count as usize)?).enumerate() {
            match *option {
                ERROR_LOG => log.place = Some(value),
                // The value is no pointer here but a number in a pointer's place.
                ERROR_LOG_SIZE => {
                    log.room = value.address() as u32 as usize;
                    log.used = Some((values, index));
                }
                _ => {}
            }
        }
        Ok(log)
    }

    fn write(&self, text: &str) {
        let Some(place) = self.place.filter(|place| !place.is_null() && self.room > 0) else { return };
        let mut bytes: Vec<u8> = text.bytes().take(self.room - 1).collect();
        bytes.push(0);
        place.write(&bytes);
        if let Some((values, index)) = &self.used {
            values.replace_number(*index, bytes.len());
        }
    }
}

/// What a compiled image starts with: programs for devices cannot be run here.
const BINARIES: [[u8; 4]; 2] = [*b"\x7fELF", [0x50, 0xed, 0x55, 0xba]];

fn load_image(module: Out<Handle>, image: HostPointer, log: &Log) -> Answer {
    if image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let mut start = [0];
    image.read(&mut start);
    if BINARIES.iter().any(|binary| binary[0] == start[0] && starts_with(image, *binary)) {
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    let text = image.as_text().to_owned()?;
    load(module, text.as_bytes(), log)
}

fn starts_with(image: HostPointer, binary: [u8; 4]) -> bool {
    // Byte by byte: a text may end before the fourth.
    binary.iter().enumerate().all(|(index, expected)| {
        let mut byte = [0];
        image.offset(index).read(&mut byte);
        byte[0] == *expected
    })
}

fn load(out: Out<Handle>, text: &[u8], log: &Log) -> Answer {
    let (context, device) = driver().lock().current_device()?;
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let text = text.strip_suffix(&[0]).unwrap_or(text);
    let parsed = std::str::from_utf8(text).map_err(|error| format!("the text is not UTF-8: {error}"));
    let parsed = parsed.and_then(|text| {
        ptx::Module::parse(text)
            .map_err(|error| format!("line {}, column {}: {}", error.line, error.column, error.message))
    });
    let content = parsed.map_err(|problem| {
        let words = format!("softcuda: PTX: {problem}");
        log.write(&words);
        if !driver().settings.quiet {
            eprintln!("{words}");
        }
        Code::INVALID_PTX
    })?;
    let handle = driver().lock().load_module(context, device, content)?;
    out.set(handle)
}

fn unload(handle: Handle) -> Answer {
    let work = {
        let mut state = driver().lock();
        let context = state.modules.get(&handle).ok_or(Code::INVALID_HANDLE)?.context;
        state.work_of_context(context)?
    };
    work.wait()?;
    driver().lock().end_module(handle).map(|_| ()).ok_or(Code::INVALID_HANDLE)
}
