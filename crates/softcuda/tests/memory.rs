//! Loads and stores: widths, vectors, spaces, and what is refused.
//!
//! Not here: atomic operations that succeed (`atomic.rs`), the driver's own memory.

mod common;

use std::sync::Mutex;

use common::{BASE, ENTRY, Flat, HEAD, launch, module, run_words, text};
use softcuda::execute::{Fault, FaultKind, Memory, MemoryFault, MemoryFaultKind};

/// The fault of a body, of which the last line of the text is that of `ret`.
fn fault(body: &str, threads: u32, words: usize) -> Fault {
    run_words(body, threads, words).unwrap_err()
}

/// The line at which a part of the text of a body stands.
fn line_of(body: &str, part: &str) -> u32 {
    let text = text(body);
    let at = text.find(part).unwrap();
    text[..at].lines().count() as u32
}

fn memory_fault(fault: &Fault) -> MemoryFault {
    match fault.kind {
        FaultKind::Memory(fault) => fault,
        _ => panic!("{fault}"),
    }
}

#[test]
fn narrow_loads_fill_the_register() {
    let body = "
        mov.u32 %r1, 0x80ff8001; st.global.u32 [%base], %r1;
        ld.global.s8 %r2, [%base+1]; ld.global.u8 %r3, [%base+1]; ld.global.s16 %r4, [%base]; ld.global.b16 %r5, [%base];
        ld.global.s8 %h1, [%base+3]; cvt.u32.u16 %r6, %h1; ld.global.s32 %rd1, [%base]; shr.u64 %rd2, %rd1, 32;
        cvt.u32.u64 %r7, %rd2;
        st.global.v4.u32 [%base+16], {%r2, %r3, %r4, %r5}; st.global.v2.u32 [%base+32], {%r6, %r7};";
    let words = run_words(body, 1, 10).unwrap();
    assert_eq!(words[4..], [0xffff_ff80, 0x80, 0xffff_8001, 0x8001, 0xff80, 0xffff_ffff]);
}

#[test]
fn vectors_of_every_shape() {
    let body = "
        ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%base]; st.global.v4.u8 [%base+16], {%h4, %h3, %h2, %h1};
        ld.global.v2.b16 {%h5, %h6}, [%base+4]; st.global.v2.b16 [%base+20], {%h6, %h5};
        ld.global.v2.b64 {%rd1, %rd2}, [%base]; st.global.v2.b64 [%base+32], {%rd2, %rd1};
        ld.global.v4.f32 {%f1, _, %f3, %f4}, [%base]; st.global.v2.f32 [%base+48], {%f4, %f1};";
    let memory = Flat::of_words(&[0x0403_0201, 0x0605_0807, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let module = module(&text(body));
    launch(module.kernel("k").unwrap(), 1, &memory, 0).unwrap();
    assert_eq!(
        memory.words()[4..],
        [0x0102_0304, 0x0807_0605, 0, 0, 3, 4, 0x0403_0201, 0x0605_0807, 4, 0x0403_0201]
    );
}

#[test]
fn every_modifier_of_order_and_cache_is_taken() {
    let body = "
        ld.volatile.global.u32 %r1, [%base]; ld.relaxed.gpu.global.u32 %r1, [%base]; ld.acquire.sys.global.u32 %r1, [%base];
        ld.global.nc.u32 %r1, [%base]; ld.global.ca.u32 %r1, [%base]; ld.global.cg.u32 %r1, [%base];
        ld.global.L1::no_allocate.L2::128B.u32 %r1, [%base]; ld.weak.global.u32 %r1, [%base]; ldu.global.u32 %r1, [%base];
        add.u32 %r1, %r1, 5; st.volatile.global.u32 [%base], %r1; st.release.gpu.global.u32 [%base+4], %r1;
        st.global.wt.u32 [%base+8], %r1; prefetch.global.L2 [%base]; prefetchu.L1 [%base];
        membar.gl; fence.acq_rel.gpu; fence.sc.sys; membar.cta;";
    assert_eq!(run_words(body, 1, 3).unwrap(), [5, 5, 5]);
}

#[test]
fn generic_addresses_find_every_space() {
    let body = "
        .shared .align 8 .b8 shared_part[64]; .local .align 8 .b8 local_part[64];
        mov.u64 %rd1, shared_part; cvta.shared.u64 %rd2, %rd1; mov.u64 %rd3, local_part; cvta.local.u64 %rd4, %rd3;
        mov.u32 %r1, %tid.x; mul.wide.u32 %rd5, %r1, 4; add.u64 %rd6, %rd2, %rd5; add.u64 %rd7, %base, %rd5;
        st.u32 [%rd6], %r1; st.u32 [%rd4+8], %r1; st.u32 [%rd7], %r1;
        // Odd lanes to shared memory, even ones to local memory, in one instruction.
        and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1; add.u64 %rd8, %rd4, 8; selp.b64 %rd9, %rd6, %rd8, %p1;
        ld.u32 %r3, [%rd9]; add.u32 %r3, %r3, 100; st.u32 [%rd9], %r3;
        ld.shared.u32 %r4, [shared_part+12]; ld.local.u32 %r5, [local_part+8]; ld.u32 %r6, [%rd7];
        isspacep.shared %p2, %rd9; isspacep.local %p3, %rd9; isspacep.global %p4, %rd7; isspacep.global %p5, %rd9;
        selp.u32 %r7, 1, 0, %p2; selp.u32 %r8, 2, 0, %p3; or.b32 %r7, %r7, %r8; selp.u32 %r8, 4, 0, %p4;
        or.b32 %r7, %r7, %r8; selp.u32 %r8, 8, 0, %p5; or.b32 %r7, %r7, %r8;
        cvta.to.shared.u64 %rd10, %rd6; ld.shared.u32 %r9, [%rd10];
        mul.wide.u32 %rd11, %r1, 20; add.u64 %rd11, %rd11, %base;
        st.u32 [%rd11], %r4; st.u32 [%rd11+4], %r5; st.u32 [%rd11+8], %r6; st.u32 [%rd11+12], %r7; st.u32 [%rd11+16], %r9;";
    let words = run_words(body, 4, 20).unwrap();
    assert_eq!(words[..5], [103, 100, 0, 6, 0]);
    assert_eq!(words[5..10], [103, 1, 1, 5, 101]);
    assert_eq!(words[15..], [103, 3, 3, 5, 103]);
}

#[test]
fn shared_addresses_may_have_32_bits() {
    let body = "
        .shared .align 4 .b8 first[16]; .shared .align 4 .b8 second[16];
        mov.u32 %r1, second; add.u32 %r1, %r1, 4; st.shared.u32 [%r1+-4], 7; st.shared.u32 [%r1], 8;
        ld.shared.v2.u32 {%r2, %r3}, [second]; st.global.v2.u32 [%base], {%r2, %r3};
        mov.u32 %r4, first; st.global.u32 [%base+8], %r4;";
    // `second` is used first, so that it lies first.
    assert_eq!(run_words(body, 1, 3).unwrap()[..2], [7, 8]);
}

#[test]
fn dynamic_shared_memory_follows_the_static() {
    let text = format!(
        "{HEAD}.extern .shared .align 16 .b8 more[];\n{ENTRY}
        .shared .align 4 .b8 fixed[20];
        st.shared.u32 [fixed+16], 1; mov.u64 %rd1, more; st.shared.u32 [%rd1+12], 2;
        mov.u32 %r1, %dynamic_smem_size; mov.u32 %r2, %total_smem_size; cvt.u32.u64 %r3, %rd1;
        ld.shared.u32 %r4, [fixed+16]; st.global.v4.u32 [%base], {{%r1, %r2, %r3, %r4}}; ret; }}"
    );
    let module = module(&text);
    let kernel = module.kernel("k").unwrap();
    assert_eq!(kernel.static_shared_bytes(), 20);
    let memory = Flat::new(16);
    launch(kernel, 1, &memory, 16).unwrap();
    assert_eq!(memory.words(), [16, 48, 32, 1]);
    let fault = launch(kernel, 1, &memory, 12).unwrap_err();
    assert_eq!(memory_fault(&fault).kind, MemoryFaultKind::OutOfRange);
    assert_eq!(memory_fault(&fault).bytes, 4);
}

#[test]
fn shared_memory_starts_as_no_result_and_is_new_in_each_block() {
    let body = "
        .shared .align 4 .b8 part[4]; ld.shared.u32 %r1, [part]; st.shared.u32 [part], 1;
        mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd1, %r2, 4; add.u64 %rd1, %rd1, %base; st.global.u32 [%rd1], %r1;";
    let memory = Flat::new(8);
    let parameters = common::parameters(&[BASE]);
    let launch = softcuda::execute::Launch {
        grid: [2, 1, 1],
        block: [1; 3],
        dynamic_shared_bytes: 0,
        parameters: &parameters,
    };
    softcuda::execute::run(module(&text(body)).kernel("k").unwrap(), &launch, &memory).unwrap();
    assert_eq!(memory.words(), [0xcdcd_cdcd; 2]);
}

#[test]
fn parameters_are_read_by_offset_and_by_address() {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 base, .param .u8 small, .param .align 8 .b8 many[24], .param .f32 last)
        {{ .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .f32 %f<9>;
        ld.param.u64 %rd1, [base]; ld.param.u8 %h1, [small]; ld.param.u32 %r1, [many+20]; ld.param.f32 %f1, [last];
        mov.b64 %rd2, many; ld.param.u32 %r2, [%rd2+4]; cvta.param.u64 %rd3, %rd2; ld.u32 %r3, [%rd3+8];
        cvt.u32.u16 %r4, %h1; st.global.v4.u32 [%rd1], {{%r1, %r2, %r3, %r4}}; st.global.f32 [%rd1+16], %f1; ret; }}"
    );
    let module = module(&text);
    let kernel = module.kernel("k").unwrap();
    let offsets: Vec<usize> = kernel.parameters().iter().map(|parameter| parameter.offset).collect();
    assert_eq!(offsets, [0, 8, 16, 40]);
    assert_eq!(kernel.parameter_bytes(), 44);
    let mut parameters = vec![0_u8; 44];
    parameters[..8].copy_from_slice(&BASE.to_le_bytes());
    parameters[8] = 200;
    for word in 0..6_u32 {
        parameters[16 + 4 * word as usize] = word as u8;
    }
    parameters[40..].copy_from_slice(&1.5_f32.to_le_bytes());
    let memory = Flat::new(20);
    let launch = |parameters| softcuda::execute::Launch {
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared_bytes: 0,
        parameters,
    };
    softcuda::execute::run(kernel, &launch(&parameters), &memory).unwrap();
    assert_eq!(memory.words(), [5, 1, 2, 200, 1.5_f32.to_bits()]);
    let short = softcuda::execute::run(kernel, &launch(&parameters[..40]), &memory).unwrap_err();
    assert!(matches!(short.kind, FaultKind::Launch(_)), "{short}");
}

#[test]
fn variables_of_the_module_are_where_they_were_placed() {
    let text = format!(
        "{HEAD}.global .align 4 .u32 first = 7; .const .align 8 .b8 table[12] = {{1, 0, 0, 0, 2, 0, 0, 0}};
        .global .align 8 .u64 pointer = table+4; .visible .global .f32 real[2] = {{0f3F800000, 2.5}};\n{ENTRY}
        ld.global.u32 %r1, [first]; ld.const.u32 %r2, [table+4]; ld.global.u64 %rd1, [pointer]; ld.u32 %r3, [%rd1];
        mov.u64 %rd2, real; cvta.global.u64 %rd3, %rd2; ld.f32 %f1, [%rd3+4]; st.global.v2.u32 [%base], {{%r1, %r2}};
        st.global.u32 [%base+8], %r3; st.global.f32 [%base+12], %f1; ret; }}"
    );
    let mut module = module(&text);
    let shapes: Vec<(String, usize, usize, bool)> =
        module.globals().iter().map(|g| (g.name.clone(), g.bytes, g.align, g.constant)).collect();
    let shape = |name: &str, bytes, align, constant| (name.to_owned(), bytes, align, constant);
    assert_eq!(
        shapes,
        [
            shape("first", 4, 4, false),
            shape("table", 12, 8, true),
            shape("pointer", 8, 8, false),
            shape("real", 8, 4, false)
        ]
    );
    let addresses = [32, 48, 64, 80].map(|at| BASE + at);
    module.place_globals(&addresses);
    let memory = Flat::new(96);
    for (global, address) in module.globals().iter().zip(addresses) {
        memory.write((address - BASE) as usize, &global.initial);
    }
    launch(module.kernel("k").unwrap(), 1, &memory, 0).unwrap();
    assert_eq!(memory.words()[..4], [7, 2, 2, 2.5_f32.to_bits()]);
}

#[test]
fn an_access_outside_names_its_thread_line_and_address() {
    let body = "
        mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %base;
        st.global.u32 [%rd1], %r1;";
    let found = fault(body, 48, 40);
    assert_eq!(
        memory_fault(&found),
        MemoryFault { address: BASE + 160, bytes: 4, kind: MemoryFaultKind::OutOfRange }
    );
    assert_eq!((found.thread, found.block, found.kernel.as_str()), ([40, 0, 0], [0; 3], "k"));
    assert_eq!(found.line, line_of(body, "st.global"));
    let text = found.to_string();
    assert!(text.contains("thread (40, 0, 0)") && text.contains("out of range"), "{text}");
}

#[test]
fn an_access_that_is_not_aligned_is_refused_in_every_space() {
    for (body, lane) in [
        ("ld.global.u32 %r1, [%base+2];", 0),
        ("ld.global.v2.u32 {%r1, %r2}, [%base+4];", 0),
        (".shared .align 8 .b8 part[64]; st.shared.u64 [part+4], %rd1;", 0),
        (".local .align 8 .b8 part[64]; mov.u64 %rd1, part; ld.local.u16 %h1, [%rd1+1];", 0),
        (
            "mov.u32 %r1, %tid.x; cvt.u64.u32 %rd1, %r1; add.u64 %rd1, %rd1, %base; ld.global.u16 %h1, [%rd1];",
            1,
        ),
        ("atom.global.add.u32 %r1, [%base+2], 1;", 0),
    ] {
        let found = fault(body, 3, 40);
        assert_eq!(memory_fault(&found).kind, MemoryFaultKind::Misaligned, "{body}");
        assert_eq!(found.thread, [lane, 0, 0], "{body}");
    }
}

#[test]
fn shared_and_local_memory_have_ends() {
    for (body, address) in [
        (".shared .align 4 .b8 part[64]; st.shared.u32 [part+64], 1;", (1_u64 << 56) + 64),
        (
            ".shared .align 4 .b8 part[64]; mov.u64 %rd1, part; cvta.shared.u64 %rd1, %rd1; st.u32 [%rd1+68], 1;",
            (1 << 56) + 68,
        ),
        (".local .align 4 .b8 part[64]; ld.local.u32 %r1, [part+64];", (2 << 56) + 64),
        (".shared .align 4 .b8 part[64]; atom.shared.add.u32 %r1, [part+64], 1;", (1 << 56) + 64),
    ] {
        let fault = memory_fault(&fault(body, 1, 1));
        assert_eq!((fault.kind, fault.address), (MemoryFaultKind::OutOfRange, address), "{body}");
    }
}

/// Memory that refuses everything.
struct Freed(Mutex<Vec<(u64, usize)>>);

impl Freed {
    fn refuse<T>(&self, address: u64, bytes: usize) -> Result<T, MemoryFault> {
        self.0.lock().unwrap().push((address, bytes));
        Err(MemoryFault { address, bytes, kind: MemoryFaultKind::UseAfterFree })
    }
}

impl Memory for Freed {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        self.refuse(address, into.len())
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.refuse(address, bytes.len())
    }

    fn atomic(&self, address: u64, bytes: usize, _: &mut dyn FnMut(u64) -> u64) -> Result<u64, MemoryFault> {
        self.refuse(address, bytes)
    }
}

#[test]
fn what_the_memory_says_is_passed_on() {
    for body in [
        "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %base; ld.global.u32 %r1, [%rd1];",
        "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %base; st.global.u32 [%rd1], %r1;",
        "red.global.add.u32 [%base], 1;",
    ] {
        let memory = Freed(Mutex::default());
        let found = launch(module(&text(body)).kernel("k").unwrap(), 32, &memory, 0).unwrap_err();
        let expected = MemoryFault { address: BASE, bytes: 4, kind: MemoryFaultKind::UseAfterFree };
        assert_eq!(memory_fault(&found), expected, "{body}");
        assert_eq!(found.thread, [0; 3]);
    }
}

/// Counts the accesses to a memory of zeros.
struct Counting(Mutex<Vec<usize>>);

impl Memory for Counting {
    fn load(&self, _: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        self.0.lock().unwrap().push(into.len());
        Ok(())
    }

    fn store(&self, _: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.0.lock().unwrap().push(bytes.len());
        Ok(())
    }

    fn atomic(&self, _: u64, _: usize, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, MemoryFault> {
        Ok(change(0))
    }
}

#[test]
fn neighbouring_lanes_make_one_access() {
    let body = "
        mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 8; add.u64 %rd1, %rd1, %base;
        ld.global.v2.u32 {%r2, %r3}, [%rd1]; ld.global.u32 %r4, [%base]; st.global.u32 [%rd1], %r4;";
    let memory = Counting(Mutex::default());
    launch(module(&text(body)).kernel("k").unwrap(), 32, &memory, 0).unwrap();
    let mut expected = vec![256, 4];
    expected.extend([4; 32]);
    assert_eq!(*memory.0.lock().unwrap(), expected);
}

#[test]
fn numbers_are_packed_and_taken_apart() {
    let body = "
        mov.u32 %r1, 0x04030201; mov.b32 {%h1, %h2}, %r1; mov.b32 %r2, {%h2, %h1}; mov.b64 %rd1, {%r1, %r2};
        mov.b64 {_, %r3}, %rd1; mov.b64 {%h3, %h4, %h5, %h6}, %rd1; mov.b64 %rd2, {%h6, %h5, %h4, %h3};
        mov.b32 %f1, %r1; mov.b32 %r4, %f1; mov.b64 %d1, %rd1; mov.b64 %rd3, %d1;
        st.global.v4.u32 [%base], {%r2, %r3, %r4, 9}; st.global.v2.u64 [%base+16], {%rd2, %rd3};";
    let words = run_words(body, 1, 8).unwrap();
    assert_eq!(
        words,
        [0x0201_0403, 0x0201_0403, 0x0403_0201, 9, 0x0403_0201, 0x0201_0403, 0x0403_0201, 0x0201_0403]
    );
}
