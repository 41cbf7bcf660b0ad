//! Atomic operations in every space.
//!
//! Not here: loads and stores (`memory.rs`).

mod common;

use common::operation::{cases, rows};
use common::{Flat, launch, module, run_words, text};
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases())]

    /// All lanes change one word after the other; each gets what it was before.
    #[test]
    fn atomic_operations_in_every_space(rows in rows()) {
        let operands: Vec<u32> = rows.iter().map(|row| row[0] as u32).take(8).collect();
        type Change = fn(u32, u32) -> u32;
        let changes: [(&str, Change); 11] = [
            ("add.u32", |old, b| old.wrapping_add(b)),
            ("add.s32", |old, b| old.wrapping_add(b)),
            ("min.u32", |old, b| old.min(b)),
            ("max.u32", |old, b| old.max(b)),
            ("min.s32", |old, b| (old as i32).min(b as i32) as u32),
            ("max.s32", |old, b| (old as i32).max(b as i32) as u32),
            ("and.b32", |old, b| old & b),
            ("or.b32", |old, b| old | b),
            ("xor.b32", |old, b| old ^ b),
            ("inc.u32", |old, b| if old >= b { 0 } else { old + 1 }),
            ("dec.u32", |old, b| if old == 0 || old > b { b } else { old - 1 }),
        ];
        for (name, change) in changes.into_iter().chain([("exch.b32", (|_, b| b) as Change)]) {
            for (space, address) in [("global.", "%base+64"), ("", "%base+64"), ("shared.", "part")] {
                let body = format!("
                    .shared .align 4 .b8 part[4]; ld.global.u32 %r4, [%base+64]; st.shared.u32 [part], %r4;
                    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %base; ld.global.u32 %r2, [%rd1];
                    atom.{space}{name} %r3, [{address}], %r2; st.global.u32 [%rd1+32], %r3;
                    bar.warp.sync 0xff; ld.{space}u32 %r4, [{address}]; st.global.u32 [%base+64], %r4;");
                let mut words = operands.clone();
                words.resize(16, 0);
                words.push(rows[9][1] as u32);
                let memory = Flat::of_words(&words);
                launch(module(&text(&body)).kernel("k").unwrap(), 8, &memory, 0).unwrap();
                let mut value = rows[9][1] as u32;
                for (lane, b) in operands.iter().enumerate() {
                    prop_assert_eq!(memory.words()[8 + lane], value, "{} of {:#x}", name, b);
                    value = change(value, *b);
                }
                prop_assert_eq!(memory.words()[16], value);
            }
        }
    }

    #[test]
    fn compare_and_exchange(rows in rows()) {
        // Each row is a word of its own: old, compare, new.
        let rows: Vec<[u64; 4]> = rows.into_iter().enumerate()
            .map(|(i, [a, b, c, _])| [a, if i % 2 == 0 { a } else { b }, c, 0]).collect();
        for (bits, kind, mask) in [(16_u32, "h", 0xffff_u64), (32, "r", 0xffff_ffff), (64, "rd", u64::MAX)] {
            for row in &rows {
                let text = text(&format!("
                    ld.global.b{bits} %{kind}1, [%base+8]; ld.global.b{bits} %{kind}2, [%base+16];
                    atom.global.cas.b{bits} %{kind}3, [%base], %{kind}1, %{kind}2; st.global.b{bits} [%base+24], %{kind}3;"));
                let memory = Flat::new(32);
                for (index, value) in row.iter().enumerate() {
                    memory.write(8 * index, &value.to_le_bytes());
                }
                launch(module(&text).kernel("k").unwrap(), 1, &memory, 0).unwrap();
                let [old, compare, new, _] = *row;
                let expected = if (old ^ compare) & mask == 0 { old & !mask | new & mask } else { old };
                prop_assert_eq!((memory.longs()[0], memory.longs()[3] & mask), (expected, old & mask));
            }
        }
    }
}

#[test]
fn sums_of_floats_and_longs_are_atomic() {
    let body = "
        mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1; cvt.rn.f64.u32 %d1, %r1; cvt.u64.u32 %rd1, %r1;
        red.global.add.f32 [%base], %f1; red.global.add.f64 [%base+8], %d1; red.global.add.u64 [%base+16], %rd1;
        red.relaxed.gpu.global.max.s64 [%base+24], %rd1; atom.global.min.u64 %rd2, [%base+32], %rd1;
        mov.b32 %r2, 0x00400000; mov.b32 %f2, %r2; red.global.add.f32 [%base+40], %f2;";
    let words = run_words(body, 64, 11).unwrap();
    let long = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
    assert_eq!(f32::from_bits(words[0]), 2016.0);
    assert_eq!(f64::from_bits(long(2)), 2016.0);
    assert_eq!((long(4), long(6), long(8)), (2016, 63, 0));
    // Devices flush subnormals here.
    assert_eq!(words[10], 0);
}

#[test]
fn halves_of_a_word_are_changed_apart() {
    let body = "
        mov.b16 %h1, 0x3c00; red.global.add.noftz.f16 [%base+2], %h1; red.global.add.noftz.f16 [%base+2], %h1;";
    assert_eq!(run_words(body, 1, 1).unwrap(), [0x4000_0000]);
}
