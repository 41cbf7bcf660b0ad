//! What threads do together: barriers of the block, shuffles, votes, matches, reductions.
//!
//! Not here: atomic operations (`memory.rs`).

mod common;

use common::operation::cases;
use common::{Flat, launch, module, run_words, text};
use proptest::prelude::*;
use softcuda::execute::FaultKind;

/// Stores `%r9` of each thread.
const STORE: &str = "mul.wide.u32 %rd9, %r1, 4; add.u64 %rd9, %rd9, %base; st.global.u32 [%rd9], %r9;";

#[test]
fn a_barrier_orders_the_warps() {
    // Each thread reads what the last one of the next warp wrote.
    let body = format!(
        ".shared .align 4 .b8 part[512]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, part;
        add.u32 %r3, %r3, %r2; add.u32 %r4, %r1, 100; st.shared.u32 [%r3], %r4; bar.sync 0;
        add.u32 %r5, %r1, 63; and.b32 %r5, %r5, 127; shl.b32 %r5, %r5, 2; mov.u32 %r6, part; add.u32 %r5, %r5, %r6;
        ld.shared.u32 %r9, [%r5]; {STORE}"
    );
    let expected: Vec<u32> = (0..128).map(|thread| (thread + 63) % 128 + 100).collect();
    assert_eq!(run_words(&body, 128, 128).unwrap(), expected);
}

#[test]
fn threads_that_have_ended_count_as_arrived() {
    let body = format!(
        "mov.u32 %r1, %tid.x; mov.u32 %r9, 1; setp.ge.u32 %p1, %r1, 40; @%p1 exit; bar.sync 0; {STORE} bar.sync 0;"
    );
    assert_eq!(run_words(&body, 100, 40).unwrap(), [1; 40]);
}

#[test]
fn a_barrier_is_complete_when_the_last_others_end() {
    // The second warp never comes, it ends after the first waits.
    let body = format!(
        "mov.u32 %r1, %tid.x; mov.u32 %r9, 1; setp.ge.u32 %p1, %r1, 32; @%p1 bra END; bar.sync 0; {STORE}\nEND:"
    );
    assert_eq!(run_words(&body, 64, 32).unwrap(), [1; 32]);
}

#[test]
fn both_ways_of_a_branch_may_have_a_barrier() {
    let body = format!(
        "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra EVEN;
        bar.sync 0; mov.u32 %r9, 1; bra END; EVEN: bar.sync 0; mov.u32 %r9, 2; END: {STORE}"
    );
    assert_eq!(run_words(&body, 64, 4 * 16).unwrap(), [2, 1].repeat(32));
}

#[test]
fn a_barrier_that_can_never_complete_is_a_fault() {
    // Each way of the branch waits at a barrier of its own; both at once cannot be.
    let body = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 3;\n@%p1 bra FEW;\nbar.sync 0;\nbra END;\nFEW:\nbar.sync 1;\nEND:";
    for threads in [32, 64] {
        let fault = run_words(body, threads, 1).unwrap_err();
        assert_eq!(fault.kind, FaultKind::BarrierDivergence);
        let line = text(body).lines().nth(fault.line as usize - 1).unwrap().to_owned();
        assert!(line.starts_with("bar.sync"), "{line}");
    }
    // Different barriers in different warps.
    let body = "mov.u32 %r1, %warpid;\nbar.sync %r1;";
    let fault = run_words(body, 64, 1).unwrap_err();
    assert_eq!((fault.kind, fault.thread), (FaultKind::BarrierDivergence, [0, 0, 0]));
    // One warp waits at the barrier, lanes of another for lanes that wait there too.
    let body = "
        mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra ONE; bar.sync 0; bra END; ONE: bar.warp.sync -1; END:";
    assert_eq!(run_words(body, 32, 1).unwrap_err().kind, FaultKind::BarrierDivergence);
}

#[test]
fn some_warps_may_have_a_barrier_of_their_own() {
    // Two pairs of warps, each with a barrier for 64 threads; one of a pair comes much later.
    let body = format!(
        "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 6; add.u32 %r2, %r2, 1; and.b32 %r3, %r1, 32; mul.lo.u32 %r3, %r3, 100;
        LOOP: setp.eq.u32 %p1, %r3, 0; @%p1 bra GO; sub.u32 %r3, %r3, 1; bra LOOP;
        GO: barrier.sync %r2, 64; atom.global.add.u32 %r4, [%base+512], 1; bar.sync %r2, 64;
        ld.volatile.global.u32 %r4, [%base+512]; setp.ge.u32 %p2, %r4, 64; selp.u32 %r9, 1, 0, %p2; {STORE}"
    );
    let words = run_words(&body, 128, 129).unwrap();
    assert_eq!(words[..128], [1; 128]);
    assert_eq!(words[128], 128);
}

#[test]
fn some_arrive_without_waiting() {
    let body = "
        .shared .align 4 .b8 part[4]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; @%p1 bra CONSUME;
        mov.u32 %r2, 77; st.shared.u32 [part], %r2; bar.arrive 3, 64; bra END;
        CONSUME: bar.sync 3, 64; ld.shared.u32 %r3, [part]; st.global.u32 [%base], %r3; END:";
    assert_eq!(run_words(body, 64, 1).unwrap(), [77]);
}

#[test]
fn a_barrier_counts_and_combines_predicates() {
    let body = format!(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 40; setp.lt.u32 %p2, %r1, 100; setp.gt.u32 %p3, %r1, 100;
        bar.red.popc.u32 %r9, 0, %p1; bar.red.and.pred %p4, 0, %p2; bar.red.or.pred %p5, 0, !%p2;
        barrier.red.or.pred %p6, 1, 96, %p1; bar.red.and.pred %p7, 0, %p1;
        selp.u32 %r2, 1000, 0, %p4; add.u32 %r9, %r9, %r2; selp.u32 %r2, 2000, 0, %p5; add.u32 %r9, %r9, %r2;
        selp.u32 %r2, 4000, 0, %p6; add.u32 %r9, %r9, %r2; selp.u32 %r2, 8000, 0, %p7; add.u32 %r9, %r9, %r2; {STORE}"
    );
    assert_eq!(run_words(&body, 80, 80).unwrap(), [5040; 80]);
}

#[test]
fn numbers_and_counts_of_barriers_are_checked() {
    for body in ["bar.sync 16;", "bar.sync 0, 33;", "mov.u32 %r1, 0; barrier.sync 1, %r1;"] {
        assert_eq!(run_words(body, 32, 1).unwrap_err().kind, FaultKind::BadBarrier, "{body}");
    }
    let body = "mov.u32 %r1, %warpid; shl.b32 %r1, %r1, 5; add.u32 %r1, %r1, 64; bar.sync 1, %r1;";
    assert_eq!(run_words(body, 64, 1).unwrap_err().kind, FaultKind::BadBarrier);
}

#[test]
fn a_shuffle_works_after_lanes_have_parted() {
    // Lanes come to it by ways of different length; without meeting first, some would be missing.
    let body = format!(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %r1; and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra EVEN;
        add.u32 %r2, %r2, 100; add.u32 %r2, %r2, 100; bra.uni MEET; EVEN: add.u32 %r2, %r2, 300;
        MEET: shfl.sync.bfly.b32 %r9, %r2, 1, 31, -1; {STORE}"
    );
    let expected: Vec<u32> =
        (0..32_u32).map(|lane| (lane ^ 1) + if lane % 2 == 0 { 200 } else { 300 }).collect();
    assert_eq!(run_words(&body, 32, 32).unwrap(), expected);
}

#[test]
fn lanes_may_exchange_from_both_ways_of_a_branch() {
    let body = format!(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; add.u32 %r2, %r1, 500; @%p1 bra LOW;
        shfl.sync.idx.b32 %r9, %r1, 3, 31, -1; bra END; LOW: shfl.sync.idx.b32 %r9, %r2, 20, 31, -1; END: {STORE}"
    );
    let expected: Vec<u32> = (0..32).map(|lane| if lane < 16 { 20 } else { 503 }).collect();
    assert_eq!(run_words(&body, 32, 32).unwrap(), expected);
}

#[test]
fn only_the_named_lanes_are_waited_for() {
    // The upper half never comes to the shuffle of the lower half, and has one of its own.
    let body = format!(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @!%p1 bra HIGH;
        shfl.sync.down.b32 %r9, %r1, 1, 0x100f, 0xffff; bra END;
        HIGH: shfl.sync.up.b32 %r9, %r1, 1, 0x1000, 0xffff0000; END: {STORE}"
    );
    let expected: Vec<u32> = (0..32_u32)
        .map(|lane| match lane {
            0..15 => lane + 1,
            15 | 16 => lane,
            _ => lane - 1,
        })
        .collect();
    assert_eq!(run_words(&body, 32, 32).unwrap(), expected);
}

#[test]
fn lanes_that_have_ended_are_not_waited_for() {
    let body = format!(
        "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 20; @%p1 exit; vote.sync.ballot.b32 %r9, %p1, -1; not.b32 %r9, %r9;
        vote.sync.all.pred %p2, !%p1, -1; selp.u32 %r2, 1, 0, %p2; and.b32 %r9, %r9, %r2; {STORE}"
    );
    assert_eq!(run_words(&body, 32, 20).unwrap(), [1; 20]);
}

#[test]
fn lanes_that_wait_for_none_or_leave_themselves_out_are_a_fault() {
    let never = "
        mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra ONE; bar.warp.sync 0xfffffffe; bra OTHERS;
        ONE: bar.warp.sync -1; bra END; OTHERS: vote.sync.any.pred %p2, %p1, -1; END:";
    assert_eq!(run_words(never, 32, 1).unwrap_err().kind, FaultKind::WarpDivergence);
    let fault = run_words("bar.warp.sync 0xfffffff7;", 32, 1).unwrap_err();
    assert_eq!((fault.kind, fault.thread), (FaultKind::WarpDivergence, [3, 0, 0]));
}

/// The lane that one reads from, and whether it is within bounds, as the manual has it.
fn source(mode: &str, lane: i64, by: i64, bounds: i64) -> (i64, bool) {
    let (segment, clamp, by) = (bounds >> 8 & 31, bounds & 31, by & 31);
    let most = (lane & segment) | (clamp & !segment);
    let least = lane & segment;
    let (from, inside) = match mode {
        "up" => (lane - by, lane - by >= most),
        "down" => (lane + by, lane + by <= most),
        "bfly" => (lane ^ by, lane ^ by <= most),
        _ => (least | (by & !segment), (least | (by & !segment)) <= most),
    };
    (if inside { from } else { lane }, inside)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn shuffles_of_every_mode(by in 0_u32..64, width in 0_u32..6, own in any::<bool>()) {
        for mode in ["up", "down", "bfly", "idx"] {
            let segment = 32 - (1_u32 << width);
            let bounds = segment << 8 | if mode == "up" { 0 } else { 31 };
            // One distance for all lanes, or each its own.
            let add = if own { "%r1" } else { "0" };
            let body = format!(
                "mov.u32 %r1, %tid.x; add.u32 %r2, {add}, {by}; add.u32 %r3, %r1, 100;
                shfl.sync.{mode}.b32 %r9|%p1, %r3, %r2, {bounds}, -1; selp.u32 %r4, 1000, 0, %p1; add.u32 %r9, %r9, %r4;
                {STORE}"
            );
            let expected: Vec<u32> = (0..32_u32).map(|lane| {
                let by = if own { by + lane } else { by };
                let (from, inside) = source(mode, lane.into(), by.into(), bounds.into());
                from as u32 + 100 + if inside { 1000 } else { 0 }
            }).collect();
            prop_assert_eq!(run_words(&body, 32, 32).unwrap(), expected, "{} {} {:#x}", mode, by, bounds);
        }
    }

    #[test]
    fn votes_matches_and_reductions(values in proptest::collection::vec(any::<u32>(), 32), few in any::<bool>(), mask: u32) {
        let values: Vec<u32> = values.into_iter().map(|value| if few { value % 3 } else { value }).collect();
        let members = mask | 1;
        let run = |instruction: &str| {
            let body = format!(
                "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %base; ld.global.u32 %r2, [%rd1];
                cvt.u64.u32 %rd2, %r2; shl.b64 %rd2, %rd2, 20; setp.eq.u32 %p1, %r2, 1; mov.u32 %r9, 0;
                shr.u32 %r4, {members}, %r1; and.b32 %r4, %r4, 1; setp.eq.u32 %p2, %r4, 0; @%p2 exit;
                {instruction} {STORE}"
            );
            let memory = Flat::of_words(&values);
            launch(module(&text(&body)).kernel("k").unwrap(), 32, &memory, 0).unwrap();
            let words = memory.words();
            (0..32).filter(|lane| members >> lane & 1 == 1).map(|lane| words[lane]).collect::<Vec<u32>>()
        };
        let lanes: Vec<usize> = (0..32).filter(|lane| members >> lane & 1 == 1).collect();
        let with = |f: &dyn Fn(u32) -> bool| lanes.iter().filter(|lane| f(values[**lane])).fold(0_u32, |all, lane| all | 1 << lane);
        let same = |value: u32| vec![value; lanes.len()];
        let m = members;
        let ones = with(&|value| value == 1);
        prop_assert_eq!(run(&format!("vote.sync.ballot.b32 %r9, %p1, {m};")), same(ones));
        prop_assert_eq!(run(&format!("vote.sync.all.pred %p3, %p1, {m}; selp.u32 %r9, 1, 0, %p3;")), same((ones == m).into()));
        prop_assert_eq!(run(&format!("vote.sync.any.pred %p3, !%p1, {m}; selp.u32 %r9, 1, 0, %p3;")), same((ones != m).into()));
        prop_assert_eq!(
            run(&format!("vote.sync.uni.pred %p3, %p1, {m}; selp.u32 %r9, 1, 0, %p3;")),
            same((ones == m || ones == 0).into())
        );
        let equal: Vec<u32> = lanes.iter().map(|lane| with(&|value| value == values[*lane])).collect();
        prop_assert_eq!(run(&format!("match.any.sync.b32 %r9, %r2, {m};")), equal.clone());
        prop_assert_eq!(run(&format!("match.any.sync.b64 %r9, %rd2, {m};")), equal.clone());
        let all = equal[0] == m;
        prop_assert_eq!(
            run(&format!("match.all.sync.b32 %r9|%p3, %r2, {m}; selp.u32 %r3, 0, 1, %p3; add.u32 %r9, %r9, %r3;")),
            same(if all { m } else { 1 })
        );
        let members_values = || lanes.iter().map(|lane| values[*lane]);
        let signed = || members_values().map(|value| value as i32);
        for (op, expected) in [
            ("add.u32", members_values().fold(0, u32::wrapping_add)),
            ("min.u32", members_values().min().unwrap()),
            ("max.u32", members_values().max().unwrap()),
            ("min.s32", signed().min().unwrap() as u32),
            ("max.s32", signed().max().unwrap() as u32),
            ("and.b32", members_values().fold(u32::MAX, |a, b| a & b)),
            ("or.b32", members_values().fold(0, |a, b| a | b)),
            ("xor.b32", members_values().fold(0, |a, b| a ^ b)),
        ] {
            prop_assert_eq!(run(&format!("redux.sync.{op} %r9, %r2, {m};")), same(expected), "{}", op);
        }
    }
}
