//! Devices: how many, what they are called, what they can do.
//!
//! Not here: their memory pools (`pool.rs`), primary contexts (`context.rs`).

use std::ffi::c_int;

use crate::caller::Out;
use crate::code::{Answer, Code};
use crate::device::driver;

exports! {
    Start cuDeviceGet(device: Out<c_int>, ordinal: c_int) = {
        driver().lock().device(ordinal)?;
        device.set(ordinal)
    };
    Start cuDeviceGetCount(count: Out<c_int>) = count.set(driver().settings.devices as c_int);
    Start cuDeviceGetName(name: Out<u8>, length: c_int, device: c_int) = name_of(name, length, device);
    Start cuDeviceGetUuid(id: Out<[u8; 16]>, device: c_int) = uuid_of(id, device);
    Start cuDeviceGetUuid_v2(id: Out<[u8; 16]>, device: c_int) = uuid_of(id, device);
    Start cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) = {
        driver().lock().device(device)?;
        bytes.set(driver().settings.memory as usize)
    };
    Start cuDeviceGetAttribute(value: Out<c_int>, attribute: u32, device: c_int) = {
        let device = driver().lock().device(device)?;
        value.set(attribute_of(attribute, device))
    };
    Start cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: c_int) = {
        driver().lock().device(device)?;
        major.set(CAPABILITY.0)?;
        minor.set(CAPABILITY.1)
    };
    Start cuDeviceCanAccessPeer(yes: Out<c_int>, device: c_int, peer: c_int) = {
        let state = driver().lock();
        yes.set(c_int::from(state.device(device)? != state.device(peer)?))
    };
    Start cuDeviceGetP2PAttribute(value: Out<c_int>, attribute: u32, device: c_int, peer: c_int) = {
        let state = driver().lock();
        let differ = state.device(device)? != state.device(peer)?;
        // 1 and 2: access, and atomics over it.
        value.set(c_int::from(differ && matches!(attribute, 2 | 3)))
    };
    Start cuDeviceGetPCIBusId(id: Out<u8>, length: c_int, device: c_int) = {
        let device = driver().lock().device(device)?;
        write_text(id, length, &format!("0000:{:02x}:00.0", device + 1))
    };
}

/// What the devices claim to be able to run: compute capability 8.0, the architecture that kernels are compiled for.
pub const CAPABILITY: (c_int, c_int) = (8, 0);

/// The most threads of a block, and of each of its dimensions.
pub const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];

/// The most blocks of each dimension of a grid.
pub const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// The most threads of a block.
pub const MAX_THREADS: u32 = 1024;

/// Shared memory of a block that every kernel may have.
pub const SHARED: u32 = 48 << 10;

/// Shared memory of a block that a kernel may have if it asks for it.
pub const SHARED_ON_REQUEST: u32 = 163 << 10;

/// Threads that a multiprocessor holds.
pub const MULTIPROCESSOR_THREADS: u32 = 2048;

/// Shared memory of a multiprocessor.
pub const MULTIPROCESSOR_SHARED: u32 = 164 << 10;

/// Blocks that a multiprocessor holds.
pub const MULTIPROCESSOR_BLOCKS: u32 = 32;

fn name_of(name: Out<u8>, length: c_int, device: c_int) -> Answer {
    driver().lock().device(device)?;
    write_text(name, length, "softcuda CPU device (not NVIDIA)")
}

/// Writes as much of a text as fits, with a zero at its end.
fn write_text(place: Out<u8>, length: c_int, text: &str) -> Answer {
    let room = usize::try_from(length).ok().filter(|room| *room > 0).ok_or(Code::INVALID_VALUE)?;
    let mut bytes: Vec<u8> = text.bytes().take(room - 1).collect();
    bytes.push(0);
    place.set_all(&bytes)
}

fn uuid_of(id: Out<[u8; 16]>, device: c_int) -> Answer {
    let device = driver().lock().device(device)?;
    let mut bytes = *b"softcuda-device\0";
    bytes[15] = device as u8;
    id.set(bytes)
}

/// Attributes by their numbers in the driver's interface. What is not in the table is 0: not there.
fn attribute_of(attribute: u32, device: usize) -> c_int {
    let signed = |value: u32| value as c_int;
    match attribute {
        1 => signed(MAX_THREADS),
        2..=4 => signed(MAX_BLOCK[attribute as usize - 2]),
        5..=7 => signed(MAX_GRID[attribute as usize - 5]),
        8 => signed(SHARED),
        9 => 64 << 10,             // constant memory
        10 => 32,                  // warp size
        11 => c_int::MAX,          // pitch
        12 => 64 << 10,            // registers of a block
        13 => 1_000_000,           // clock in kHz
        14 => 512,                 // alignment of textures
        15 | 40 => 1,              // copies beside kernels
        16 => 4,                   // multiprocessors
        19 => 1,                   // maps host memory
        31 => 1,                   // kernels beside kernels
        33 => device as c_int + 1, // PCI bus
        36 => 1_000_000,           // memory clock in kHz
        37 => 256,                 // width of the memory bus
        38 => 4 << 20,             // cache
        39 => signed(MULTIPROCESSOR_THREADS),
        41 => 1, // one address space
        75 => CAPABILITY.0,
        76 => CAPABILITY.1,
        78 => 1,      // priorities
        79 | 80 => 1, // caches
        81 => signed(MULTIPROCESSOR_SHARED),
        82 => 64 << 10, // registers of a multiprocessor
        83 | 89 => 1,   // managed memory
        86 => 0,        // atomics of the host on device memory
        90 | 91 => 1,   // preemption, host pointers of registered memory
        92..=94 => 1,   // stream memory operations
        95 => 0,        // cooperative launches
        97 => signed(SHARED_ON_REQUEST),
        99 => 1, // registering host memory
        106 => signed(MULTIPROCESSOR_BLOCKS),
        111 => 1 << 10, // shared memory that the system takes of a block
        115 => c_int::from(driver().settings.pools),
        _ => 0,
    }
}
