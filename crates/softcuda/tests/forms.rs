//! Forms of instructions that compilers are known to make: all are taken. And texts that nobody makes: no panic.
//!
//! Not here: what they compute.

mod common;

use common::{ENTRY, HEAD};
use proptest::prelude::*;
use softcuda::ptx::Module;

/// Seen in the output of compilers, by opcode.
const SEEN: &str = "
abs.f32 %f1, %f2; add.f32 %f1, %f2, 0f3F800000; add.s32 %r1, %r2, -1; add.s64 %rd1, %rd2, 8; add.u64 %rd1, %rd2, %rd3;
and.b32 %r1, %r2, 31; atom.global.add.f32 %f1, [%rd1], %f2; atom.global.add.u32 %r1, [%rd1+4], 1;
atom.global.cas.b32 %r1, [%rd1], %r2, %r3; atom.shared.add.u32 %r1, [%rd1], 1; atom.relaxed.gpu.add.u32 %r1, [%rd1], 1;
bar.sync 0; bfi.b64 %rd1, %rd2, %rd3, 32, 32; bra NEXT; NEXT: bra.uni LAST; LAST:
cvt.rn.f32.f64 %f1, %d1; cvt.rn.f32.s32 %f1, %r1; cvt.rn.f64.s64 %d1, %rd1; cvt.rni.s32.f32 %r1, %f1;
cvt.s64.s32 %rd1, %r1; cvt.sat.f32.f32 %f1, %f2; cvt.u32.u64 %r1, %rd1; cvt.u64.u32 %rd1, %r1; cvt.u32.u8 %r1, %h1;
cvt.rzi.ftz.u32.f32 %r1, %f1; cvt.f64.f32 %d1, %f1; cvt.rmi.ftz.f32.f32 %f1, %f2; cvt.rn.f16x2.f32 %r1, %f1, %f2;
cvta.to.global.u64 %rd1, %rd2; cvta.global.u64 %rd1, %rd2; cvta.local.u64 %rd1, %rd2;
ex2.approx.ftz.f32 %f1, %f2; lg2.approx.ftz.f32 %f1, %f2; tanh.approx.f32 %f1, %f2; sin.approx.ftz.f32 %f1, %f2;
fma.rm.f32 %f1, %f2, %f3, %f4; fma.rn.f32 %f1, %f2, 0fBF800000, %f4; fma.rn.f64 %d1, %d2, %d3, %d4;
fma.rn.ftz.f32 %f1, %f2, %f3, %f4; fma.rn.f16x2 %r1, %r2, %r3, %r4; fma.rn.bf16 %h1, %h2, %h3, %h4;
ld.global.f32 %f1, [%rd1]; ld.global.f64 %d1, [%rd1+-8]; ld.global.nc.f32 %f1, [%rd1]; ld.global.nc.u32 %r1, [%rd1];
ld.global.u32 %r1, [%rd1]; ld.global.u8 %h1, [%rd1]; ld.global.u8 %rd2, [%rd1]; ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
ld.global.nc.v2.u64 {%rd2, %rd3}, [%rd1]; ld.local.f32 %f1, [%rd1]; ld.local.u32 %r1, [%rd1]; ld.param.u64 %rd1, [base];
ld.param.u32 %r1, [base+4]; ld.shared.f32 %f1, [%rd1]; ld.shared.u32 %r1, [%r2+128]; ld.volatile.global.u32 %r1, [%rd1];
mad.lo.s32 %r1, %r2, %r3, %r4; mad.wide.u32 %rd1, %r1, 4, %rd2; mad.wide.s32 %rd1, %r1, 4, %rd2; mad.lo.s64 %rd1, %rd2, 3, %rd3;
max.f32 %f1, %f2, 0f00000000; min.f32 %f1, %f2, %f3; min.u32 %r1, %r2, 7; max.s32 %r1, %r2, %r3; max.s64 %rd1, %rd2, %rd3;
mov.b32 %f1, %r1; mov.f32 %f1, 0f00000000; mov.pred %p1, %p2; mov.u32 %r1, %tid.x; mov.u64 %rd1, 0; mov.b16 %h1, 1;
mov.b64 {%r1, %r2}, %rd1; mov.b64 %rd1, {%r1, %r2}; mov.f64 %d1, 0d3FF0000000000000; mov.b32 {%h1, %h2}, %r1; mov.u16 %h1, %h2;
mul.f32 %f1, %f2, %f3; mul.f64 %d1, %d2, %d3; mul.lo.s32 %r1, %r2, %r3; mul.lo.s64 %rd1, %rd2, %rd3; mul.rn.f32 %f1, %f2, %f3;
mul.wide.s32 %rd1, %r1, 4; mul.wide.u32 %rd1, %r1, 4; mul.hi.u32 %r1, %r2, -858993459; mul.wide.u16 %r1, %h1, 4;
neg.f32 %f1, %f2; neg.s32 %r1, %r2; neg.ftz.f32 %f1, %f2; not.pred %p1, %p2; not.b32 %r1, %r2; or.b32 %r1, %r2, %r3;
or.pred %p1, %p2, %p3; and.pred %p1, %p2, %p3; and.b16 %h1, %h2, 255; xor.b16 %h1, %h2, 1; shl.b16 %h1, %h2, 8; shr.u16 %h1, %h2, 8;
rcp.approx.ftz.f32 %f1, %f2; rcp.rn.f32 %f1, %f2; rsqrt.approx.f32 %f1, %f2; rsqrt.approx.f64 %d1, %d2; sqrt.rn.f32 %f1, %f2;
rcp.approx.ftz.f64 %d1, %d2; sqrt.approx.ftz.f32 %f1, %f2; div.rn.f32 %f1, %f2, %f3; div.approx.ftz.f32 %f1, %f2, %f3;
div.full.f32 %f1, %f2, %f3; div.rn.f64 %d1, %d2, %d3; div.u32 %r1, %r2, %r3; rem.s32 %r1, %r2, %r3; rem.u64 %rd1, %rd2, %rd3;
selp.b32 %r1, 1, 0, %p1; selp.f32 %f1, %f2, 0f00000000, %p1; selp.b64 %rd1, %rd2, %rd3, %p1; selp.s32 %r1, -1, 0, %p1;
setp.eq.b32 %p1, %r1, %r2; setp.eq.f32 %p1, %f1, %f2; setp.eq.s32 %p1, %r1, 0; setp.ge.f32 %p1, %f1, %f2; setp.ge.u64 %p1, %rd1, %rd2;
setp.lt.and.f32 %p1, %f1, %f2, %p3; setp.gtu.ftz.f32 %p1, %f1, %f2; setp.neu.f32 %p1, %f1, 0f00000000; setp.ltu.f32 %p1, %f1, %f2;
setp.ne.s16 %p1, %h1, 0; setp.nan.f32 %p1, %f1, %f1; setp.eq.or.s32 %p1, %r1, 7, !%p2;
shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1; shfl.sync.down.b32 %r1, %r2, %r3, 31, -1; shfl.sync.idx.b32 %f1|%p1, %f2, 0, 31, -1;
shl.b32 %r1, %r2, 2; shl.b64 %rd1, %rd2, 2; shr.s32 %r1, %r2, 31; shr.u32 %r1, %r2, 5; shr.u64 %rd1, %rd2, 32; shr.s64 %rd1, %rd2, 63;
st.global.f32 [%rd1], %f1; st.global.f64 [%rd1], %d1; st.global.u32 [%rd1+4], %r1; st.global.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};
st.global.u8 [%rd1], %h1; st.global.u8 [%rd1], %r1; st.global.u32 [%rd1], 7; st.local.v4.b32 [%rd1], {%r1, %r1, %r1, %r1};
st.local.u32 [%rd1], %r1; st.shared.f32 [%r1], %f1; st.shared.u32 [%rd1], %r1; st.u32 [%rd1], %r1; st.volatile.shared.f32 [%rd1], %f1;
sub.f32 %f1, %f2, %f3; sub.s32 %r1, 0, %r2; sub.s64 %rd1, %rd2, %rd3; sub.ftz.f32 %f1, %f2, %f3; sub.s16 %h1, %h2, %h3; trap;
xor.b32 %r1, %r2, -1; xor.pred %p1, %p2, %p3; lop3.b32 %r1, %r2, %r3, %r4, 0x96; shf.l.wrap.b32 %r1, %r2, %r3, 13; prmt.b32 %r1, %r2, 0, 291;
bfe.u32 %r1, %r2, 8, 8; bfe.s32 %r1, %r2, 8, 8; popc.b32 %r1, %r2; clz.b64 %r1, %rd1; brev.b32 %r1, %r2; dp4a.s32.s32 %r1, %r2, %r3, %r4;
vote.sync.ballot.b32 %r1, %p1, -1; vote.sync.any.pred %p1, !%p2, -1; match.any.sync.b32 %r1, %r2, -1; redux.sync.add.s32 %r1, %r2, -1;
bar.warp.sync -1; barrier.sync 1, 64; bar.red.popc.u32 %r1, 0, %p1; activemask.b32 %r1; membar.sys; fence.sc.gpu; nanosleep.u32 20;
red.global.add.f32 [%rd1], %f1; red.shared.or.b32 [%r1], %r2; atom.shared.cas.b32 %r1, [%r2], %r3, %r4; red.relaxed.gpu.global.add.u32 [%rd1], 1;
atom.global.exch.b64 %rd1, [%rd2], %rd3; atom.acq_rel.gpu.global.inc.u32 %r1, [%rd1], 7; prefetch.global.L2 [%rd1];
isspacep.shared %p1, %rd1; mov.u64 %rd1, %clock64; mov.u32 %r1, %laneid; mov.u32 %r1, %lanemask_lt; mov.u32 %r1, WARP_SZ;
";

fn text() -> String {
    format!("{HEAD}{ENTRY}{SEEN}ret;\n}}\n")
}

#[test]
fn every_form_that_was_seen_is_taken() {
    if let Err(error) = Module::parse(&text()) {
        panic!("{error}\n{}", text().lines().nth(error.line as usize - 1).unwrap_or_default());
    }
}

#[test]
fn nesting_has_an_end() {
    for (open, close) in [("{", "}"), ("mov.u32 %r1, (", "")] {
        let depth = 100_000;
        let text = format!("{HEAD}{ENTRY}{}{} ret; }}", open.repeat(depth), close.repeat(depth));
        assert!(Module::parse(&text).is_err());
    }
    let parentheses = format!("{HEAD}{ENTRY} mov.u32 %r1, {}1; ret; }}", "(".repeat(100_000));
    assert!(Module::parse(&parentheses).unwrap_err().message.contains("nested"));
    let signs = format!("{HEAD}{ENTRY} mov.u32 %r1, {}1; ret; }}", "-".repeat(100_000));
    assert!(Module::parse(&signs).unwrap_err().message.contains("nested"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// A text with some of its pieces left out, doubled or changed for others is refused or taken, without a panic.
    #[test]
    fn changed_texts_do_not_panic(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3), 1..4)) {
        let text = text();
        let mut pieces: Vec<&str> = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()).collect();
        for (at, from, kind) in changes {
            let (at, from) = (at.index(pieces.len()), from.index(pieces.len()));
            match kind {
                0 => drop(pieces.remove(at)),
                1 => pieces.insert(at, pieces[from]),
                _ => pieces[at] = pieces[from],
            }
        }
        if let Err(error) = Module::parse(&pieces.concat()) {
            prop_assert!(error.line >= 1 && !error.message.is_empty());
        }
    }

    /// Whatever registers hold, instructions without memory run to the end.
    #[test]
    fn no_operand_is_too_much(picks in proptest::collection::vec(any::<prop::sample::Index>(), 60), values in proptest::collection::vec(any::<u64>(), 33)) {
        let outside = ["ld.", "st.", "atom.", "red.", "bra", "bar", "NEXT", "LAST", "trap", "prefetch"];
        let plain: Vec<&str> = SEEN
            .split_inclusive(';')
            .map(str::trim)
            .filter(|form| !form.is_empty() && !outside.iter().any(|start| form.starts_with(start)))
            .collect();
        let mut body = String::from(
            "mov.u32 %r99, %tid.x; mul.wide.u32 %rd99, %r99, 8; add.u64 %rd99, %rd99, %base; ld.global.u64 %rd1, [%rd99];
            mov.b64 {%r1, %r2}, %rd1; mov.b32 %f1, %r1; mov.b64 %d1, %rd1; mov.b32 {%h1, %h2}, %r2; mov.u64 %rd3, %rd1;
            mov.u32 %r3, %r2; mov.u32 %r4, %r1; mov.b32 %f2, %r2; mov.f32 %f3, %f1; mov.f64 %d2, %d1; not.b64 %rd2, %rd1;\n",
        );
        for pick in picks {
            body += plain[pick.index(plain.len())];
            body.push('\n');
        }
        let memory = common::Flat::new(values.len() * 8);
        for (index, value) in values.iter().enumerate() {
            memory.write(index * 8, &value.to_le_bytes());
        }
        let module = common::module(&common::text(&body));
        let end = common::launch(module.kernel("k").unwrap(), values.len() as u32, &memory, 0);
        prop_assert_eq!(end, Ok(()), "{}", body);
    }
}
