//! A device memory in a vector, and short ways to run a text on it.
//!
//! Not here: tests.

#![allow(dead_code, reason = "each test uses its part")]

pub mod operation;

use std::sync::Mutex;

use softcuda::execute::{Fault, Launch, Limits, Memory, MemoryFault, MemoryFaultKind, run_within};
use softcuda::ptx::{Kernel, Module};

/// Where the memory starts.
pub const BASE: u64 = 0x7000_0000;

/// Memory from [`BASE`] on.
pub struct Flat {
    bytes: Mutex<Vec<u8>>,
}

impl Flat {
    pub fn new(bytes: usize) -> Flat {
        Flat { bytes: Mutex::new(vec![0; bytes]) }
    }

    /// Memory that holds these words.
    pub fn of_words(words: &[u32]) -> Flat {
        Flat { bytes: Mutex::new(words.iter().flat_map(|word| word.to_le_bytes()).collect()) }
    }

    pub fn words(&self) -> Vec<u32> {
        let bytes = self.bytes.lock().unwrap();
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    pub fn longs(&self) -> Vec<u64> {
        let bytes = self.bytes.lock().unwrap();
        bytes.chunks_exact(8).map(|long| u64::from_le_bytes(long.try_into().unwrap())).collect()
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.bytes.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn write_floats(&self, at: usize, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.write(at, &bytes);
    }

    pub fn floats(&self, at: usize, count: usize) -> Vec<f32> {
        let bytes = self.bytes.lock().unwrap();
        let part = &bytes[at..at + 4 * count];
        part.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    fn place(&self, address: u64, bytes: usize, size: usize) -> Result<usize, MemoryFault> {
        let place = address.wrapping_sub(BASE);
        if place.checked_add(bytes as u64).is_none_or(|end| end > size as u64) {
            return Err(MemoryFault { address, bytes, kind: MemoryFaultKind::OutOfRange });
        }
        Ok(place as usize)
    }
}

impl Memory for Flat {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        let bytes = self.bytes.lock().unwrap();
        let place = self.place(address, into.len(), bytes.len())?;
        into.copy_from_slice(&bytes[place..place + into.len()]);
        Ok(())
    }

    fn store(&self, address: u64, from: &[u8]) -> Result<(), MemoryFault> {
        let mut bytes = self.bytes.lock().unwrap();
        let place = self.place(address, from.len(), bytes.len())?;
        bytes[place..place + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn atomic(
        &self,
        address: u64,
        size: usize,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemoryFault> {
        let mut bytes = self.bytes.lock().unwrap();
        let place = self.place(address, size, bytes.len())?;
        let mut old = [0; 8];
        old[..size].copy_from_slice(&bytes[place..place + size]);
        let old = u64::from_le_bytes(old);
        bytes[place..place + size].copy_from_slice(&change(old).to_le_bytes()[..size]);
        Ok(old)
    }
}

/// Parameters that are all of 8 bytes.
pub fn parameters(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A module that has to be right.
pub fn module(text: &str) -> Module {
    match Module::parse(text) {
        Ok(module) => module,
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// The message of a module that has to be wrong, with its line.
pub fn refused(text: &str) -> (u32, String) {
    match Module::parse(text) {
        Ok(_) => panic!("nothing is wrong with\n{text}"),
        Err(error) => (error.line, error.message),
    }
}

/// A text around a body: the kernel `k` with one parameter, the address of memory, which is in `%base`.
///
/// There are registers `%r`, `%rd`, `%h`, `%f`, `%d` and `%p` of 100 each.
pub fn text(body: &str) -> String {
    format!("{HEAD}{ENTRY}{body}\nret;\n}}\n")
}

pub const HEAD: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";

pub const ENTRY: &str = ".visible .entry k(.param .u64 base)
{
.reg .b16 %h<100>; .reg .b32 %r<100>; .reg .b64 %rd<100>; .reg .f32 %f<100>; .reg .f64 %d<100>; .reg .pred %p<100>;
.reg .b64 %base; ld.param.u64 %base, [base];
";

/// Runs a kernel on one block.
pub fn launch(kernel: &Kernel, threads: u32, memory: &dyn Memory, shared: u32) -> Result<(), Fault> {
    let parameters = parameters(&[BASE]);
    let launch = Launch {
        grid: [1; 3],
        block: [threads, 1, 1],
        dynamic_shared_bytes: shared,
        parameters: &parameters,
    };
    run_within(kernel, &launch, memory, &Limits { steps: 10_000_000 })
}

/// Runs a body of [`text`] with this many threads of one block on `words` words of zeros.
pub fn run_words(body: &str, threads: u32, words: usize) -> Result<Vec<u32>, Fault> {
    let memory = Flat::new(words * 4);
    let module = module(&text(body));
    launch(module.kernel("k").unwrap(), threads, &memory, 0)?;
    Ok(memory.words())
}
