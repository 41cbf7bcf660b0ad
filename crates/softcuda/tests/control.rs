//! Where lanes go: divergence, loops, tables, calls, ends, limits.
//!
//! Not here: barriers and exchanges (`together.rs`).

mod common;

use common::{BASE, ENTRY, Flat, HEAD, launch, module, parameters, refused, run_words, text};
use proptest::prelude::*;
use softcuda::execute::{FaultKind, Launch, Limits, run_within};

/// Stores `%r9` of each thread.
const STORE: &str = "mul.wide.u32 %rd9, %r1, 4; add.u64 %rd9, %rd9, %base; st.global.u32 [%rd9], %r9;";

#[test]
fn lanes_part_and_meet_again() {
    let body = format!(
        "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; activemask.b32 %r3;
        @%p1 bra EVEN;
        activemask.b32 %r4; add.u32 %r9, %r1, 1000; bra.uni MEET;
        EVEN: activemask.b32 %r4; add.u32 %r9, %r1, 2000;
        MEET: activemask.b32 %r5; setp.ne.u32 %p2, %r3, -1; @%p2 trap; setp.ne.u32 %p2, %r5, -1; @%p2 trap;
        selp.u32 %r6, 0x55555555, 0xaaaaaaaa, %p1; setp.ne.u32 %p2, %r4, %r6; @%p2 trap;
        {STORE}"
    );
    let expected: Vec<u32> = (0..32).map(|lane| lane + if lane % 2 == 0 { 2000 } else { 1000 }).collect();
    assert_eq!(run_words(&body, 32, 32).unwrap(), expected);
}

#[test]
fn loops_of_different_length_end_together() {
    let body = format!(
        "mov.u32 %r1, %tid.x; mov.u32 %r9, 0; mov.u32 %r2, 0;
        LOOP: setp.ge.u32 %p1, %r2, %r1; @%p1 bra DONE; add.u32 %r9, %r9, %r2; add.u32 %r2, %r2, 1; bra LOOP;
        DONE: activemask.b32 %r3; setp.ne.u32 %p2, %r3, -1; @%p2 trap; {STORE}"
    );
    let expected: Vec<u32> = (0..64).map(|lane| (0..lane).sum()).collect();
    assert_eq!(run_words(&body, 64, 64).unwrap(), expected);
}

#[test]
fn a_guard_holds_back_single_lanes() {
    let body = format!(
        "mov.u32 %r1, %tid.x; mov.u32 %r9, 5; setp.lt.u32 %p1, %r1, 3; @%p1 mov.u32 %r9, 6; @!%p1 add.u32 %r9, %r9, %r1;
        {STORE}"
    );
    assert_eq!(run_words(&body, 5, 5).unwrap(), [6, 6, 6, 8, 9]);
}

/// A body that ends with a guarded instruction, and without `ret`: those that are held back end all the same.
#[test]
fn the_end_of_a_body_ends_every_lane() {
    let ends = [
        "@%p1 st.global.u32 [%rd9], %r1;",
        "@%p1 exit;",
        "@%p1 ret;",
        "@%p1 bra TOP;",
        "@!%p1 mov.u32 %r9, 1;",
    ];
    for last in ends {
        let code = format!(
            "{HEAD}{ENTRY}mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mul.wide.u32 %rd9, %r1, 4; add.u64 %rd9, %rd9, %base;
            TOP: add.u32 %r2, %r2, 1; st.global.u32 [%rd9], %r2; setp.lt.u32 %p1, %r2, %r1;\n{last}\n}}\n"
        );
        let memory = Flat::new(32 * 4);
        launch(module(&code).kernel("k").unwrap(), 32, &memory, 0).unwrap();
        let expected: Vec<u32> = (0..32)
            .map(|lane| match last {
                "@%p1 bra TOP;" => lane.max(1),
                "@%p1 st.global.u32 [%rd9], %r1;" if lane > 1 => lane,
                _ => 1,
            })
            .collect();
        assert_eq!(memory.words(), expected, "{last}");
    }
}

#[test]
fn a_table_of_targets_sends_each_lane_its_way() {
    let body = format!(
        "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 3;
        TABLE: .branchtargets A, B, C, B;
        brx.idx %r2, TABLE;
        A: mov.u32 %r9, 10; bra END;
        B: mov.u32 %r9, 20; bra END;
        C: mov.u32 %r9, 30;
        END: {STORE}"
    );
    assert_eq!(run_words(&body, 6, 6).unwrap(), [10, 20, 30, 20, 10, 20]);
    let fault = run_words(&body.replace("and.b32 %r2, %r1, 3", "and.b32 %r2, %r1, 7"), 6, 6).unwrap_err();
    assert_eq!((fault.kind, fault.thread), (FaultKind::BranchIndex(4), [4, 0, 0]));
}

#[test]
fn some_lanes_may_end_early() {
    let body = format!(
        "mov.u32 %r1, %tid.x; mov.u32 %r9, 1; {STORE} setp.lt.u32 %p1, %r1, 2; @%p1 exit; mov.u32 %r9, 2; {STORE}
        setp.lt.u32 %p1, %r1, 4; @%p1 ret; mov.u32 %r9, 3; {STORE}"
    );
    assert_eq!(run_words(&body, 6, 6).unwrap(), [1, 1, 2, 2, 3, 3]);
}

#[test]
fn a_trap_names_the_first_thread_that_ran_it() {
    let body = "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 37;\n@%p1 trap;";
    let fault = run_words(body, 64, 1).unwrap_err();
    assert_eq!((fault.kind, fault.thread), (FaultKind::Trap, [37, 0, 0]));
    let text = text(body);
    assert_eq!(text.lines().nth(fault.line as usize - 1), Some("@%p1 trap;"));
}

#[test]
fn an_endless_loop_ends_at_the_limit() {
    let module = module(&text("LOOP: bra LOOP;"));
    let parameters = parameters(&[BASE]);
    let launch = Launch { grid: [1; 3], block: [64, 1, 1], dynamic_shared_bytes: 0, parameters: &parameters };
    let memory = Flat::new(0);
    let fault =
        run_within(module.kernel("k").unwrap(), &launch, &memory, &Limits { steps: 100_000 }).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StepLimit(100_000));
    // The limit is of the whole launch: more blocks do not get more.
    let short = common::module(&text("add.u32 %r1, %r1, 1;"));
    let many = Launch { grid: [1000, 1, 1], ..launch };
    let fault = run_within(short.kernel("k").unwrap(), &many, &memory, &Limits { steps: 1000 }).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StepLimit(1000));
}

/// A lane waits for another one of its warp that is further on in the code.
#[test]
fn lanes_that_wait_in_a_loop_let_others_go_on() {
    let body = "
        .shared .align 4 .b8 gone[4]; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, 0;
        st.shared.u32 [gone], %r2; bar.warp.sync 0xffffffff; @!%p1 bra GIVE;
        WAIT: ld.volatile.shared.u32 %r3, [gone]; setp.eq.u32 %p2, %r3, 0; @%p2 bra WAIT; bra END;
        GIVE: mov.u32 %r2, 1; st.volatile.shared.u32 [gone], %r2;
        END: st.global.u32 [%base], %r3;";
    run_words(body, 32, 1).unwrap();
    // The same between warps.
    let body = body.replace("bar.warp.sync 0xffffffff", "bar.sync 0");
    run_words(&body, 96, 1).unwrap();
}

/// As above, but lanes part and meet within the loop in which they wait.
#[test]
fn lanes_that_part_while_they_wait_let_others_go_on() {
    let body = "
        .shared .align 4 .b8 gone[4]; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, 0; mov.u32 %r6, 0;
        st.shared.u32 [gone], %r2; bar.warp.sync 0xffffffff; @!%p1 bra GIVE;
        WAIT: add.u32 %r6, %r6, 1; and.b32 %r7, %r6, %r1; setp.eq.u32 %p3, %r7, 0; @%p3 bra OVER; add.u32 %r8, %r8, 1;
        OVER: ld.volatile.shared.u32 %r3, [gone]; setp.eq.u32 %p2, %r3, 0; @%p2 bra WAIT; bra END;
        GIVE: mov.u32 %r2, 1; st.volatile.shared.u32 [gone], %r2; mov.u32 %r3, 1;
        END: st.global.u32 [%base], %r3;";
    assert_eq!(run_words(body, 32, 1).unwrap(), [1]);
}

/// A lock that every lane takes in its turn.
#[test]
fn a_lock_is_taken_by_one_lane_after_the_other() {
    let body = "
        mov.u32 %r5, 0;
        TRY: atom.global.cas.b32 %r1, [%base], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra TRY;
        ld.volatile.global.u32 %r2, [%base+4]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%base+4], %r2;
        atom.global.exch.b32 %r3, [%base], 0;";
    assert_eq!(run_words(body, 8, 2).unwrap(), [0, 8]);
}

#[test]
fn an_assertion_that_fails_says_what_it_was() {
    let text = format!(
        "{HEAD}.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
        .global .align 1 .b8 message[6] = {{120, 32, 62, 32, 48, 0}}; .global .align 1 .b8 file[4] = {{97, 46, 99, 0}};
        .global .align 1 .b8 function[2] = {{102, 0}};\n{ENTRY}
        mov.u64 %rd1, message; cvta.global.u64 %rd1, %rd1; mov.u64 %rd2, file; mov.u64 %rd3, function; mov.u32 %r1, 42;
        {{ .param .b64 param0; st.param.b64 [param0], %rd1; .param .b64 param1; st.param.b64 [param1], %rd2;
        .param .b32 param2; st.param.b32 [param2], %r1; .param .b64 param3; st.param.b64 [param3], %rd3;
        .param .b64 param4; st.param.b64 [param4], 1; call.uni __assertfail, (param0, param1, param2, param3, param4); }}
        ret; }}"
    );
    let mut module = module(&text);
    module.place_globals(&[BASE, BASE + 8, BASE + 16]);
    let memory = Flat::new(24);
    for (global, at) in module.globals().iter().zip([0, 8, 16]) {
        memory.write(at, &global.initial);
    }
    let fault = launch(module.kernel("k").unwrap(), 1, &memory, 0).unwrap_err();
    let expected = FaultKind::Assert {
        message: "x > 0".to_owned(),
        file: "a.c".to_owned(),
        line: 42,
        function: "f".to_owned(),
    };
    assert_eq!(fault.kind, expected);
    assert!(fault.to_string().contains("a.c:42: f: assertion `x > 0` failed"), "{fault}");
}

/// Functions as compilers write them: parameters in memory, a result, a call within a function.
const FUNCTIONS: &str = "
.func (.param .b32 out) square(.param .b32 in)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [in]; mul.lo.s32 %r2, %r1, %r1; st.param.b32 [out+0], %r2; ret; }
.func (.param .b32 out) sum_of_squares(.param .b32 a, .param .align 8 .b8 b[8])
{ .reg .b32 %r<9>; .reg .pred %p<2>;
  ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b+4];
  setp.eq.s32 %p1, %r1, 3; @%p1 bra EARLY;
  { .param .b32 p0; st.param.b32 [p0+0], %r1; .param .b32 q0; call.uni (q0), square, (p0); ld.param.b32 %r3, [q0+0]; }
  { .param .b32 p0; st.param.b32 [p0+0], %r2; .param .b32 q0; call.uni (q0), square, (p0); ld.param.b32 %r4, [q0+0]; }
  add.s32 %r5, %r3, %r4; st.param.b32 [out+0], %r5; ret;
  EARLY: st.param.b32 [out+0], 7; ret; }
.func (.reg .b32 out) twice(.reg .b32 in) { add.u32 out, in, in; ret; }
";

#[test]
fn functions_are_called_with_arguments_and_results() {
    let text = format!(
        "{HEAD}{FUNCTIONS}{ENTRY} mov.u32 %r1, %tid.x; mov.u32 %r2, 5;
        {{ .param .b32 p0; st.param.b32 [p0+0], %r1; .param .align 8 .b8 p1[8]; st.param.b32 [p1+4], %r2; .param .b32 q0;
        call.uni (q0), sum_of_squares, (p0, p1); ld.param.b32 %r9, [q0+0]; }}
        call (%r9), twice, (%r9);
        activemask.b32 %r3; setp.ne.u32 %p2, %r3, 0x3f; @%p2 trap; {STORE} ret; }}"
    );
    let memory = Flat::new(24);
    launch(module(&text).kernel("k").unwrap(), 6, &memory, 0).unwrap();
    assert_eq!(memory.words(), [50, 52, 58, 14, 82, 100]);
}

#[test]
fn only_lanes_with_the_guard_call() {
    let text = format!(
        "{HEAD}{FUNCTIONS}{ENTRY} mov.u32 %r1, %tid.x; mov.u32 %r9, 1; setp.gt.u32 %p1, %r1, 1;
        @%p1 call (%r9), twice, (%r1); {STORE} ret; }}"
    );
    let memory = Flat::new(16);
    launch(module(&text).kernel("k").unwrap(), 4, &memory, 0).unwrap();
    assert_eq!(memory.words(), [1, 1, 4, 6]);
}

#[test]
fn recursion_and_unknown_functions_are_refused() {
    let recursive = format!("{HEAD}.func f() {{ call.uni f; ret; }}\n{ENTRY} call.uni f; ret; }}");
    assert!(refused(&recursive).1.contains("recursion"), "{recursive}");
    let unknown = format!("{HEAD}{ENTRY} call.uni g; ret; }}");
    assert!(refused(&unknown).1.contains("`g`"));
    let declared = format!("{HEAD}.extern .func g();\n{ENTRY} call.uni g; ret; }}");
    assert!(refused(&declared).1.contains("defined nowhere"));
}

#[test]
fn special_registers_tell_where_a_thread_is() {
    let body = "
        mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y;
        mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
        mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ctaid.z; mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
        mad.lo.u32 %r12, %r9, %r11, %r8; mad.lo.u32 %r12, %r12, %r10, %r7; mov.u32 %r13, %ntid.z; mul.lo.u32 %r14, %r4, %r5;
        mul.lo.u32 %r14, %r14, %r13; mad.lo.u32 %r15, %r12, %r14, %r6; mul.wide.u32 %rd1, %r15, 32; add.u64 %rd1, %rd1, %base;
        mov.u32 %r20, %laneid; mov.u32 %r21, %warpid; mov.u32 %r22, %nwarpid; mov.u32 %r23, %lanemask_lt;
        mov.u32 %r24, %lanemask_ge; mov.u32 %r25, %lanemask_eq; mov.u32 %r26, %lanemask_le; mov.u32 %r27, %lanemask_gt;
        st.global.v4.u32 [%rd1], {%r20, %r21, %r22, %r23}; st.global.v4.u32 [%rd1+16], {%r24, %r25, %r26, %r27};";
    let memory = Flat::new(2 * 3 * 60 * 32);
    let parameters = parameters(&[BASE]);
    let launch =
        Launch { grid: [1, 2, 3], block: [5, 4, 3], dynamic_shared_bytes: 0, parameters: &parameters };
    softcuda::execute::run(module(&text(body)).kernel("k").unwrap(), &launch, &memory).unwrap();
    for (thread, found) in memory.words().chunks_exact(8).enumerate() {
        let number = thread as u32 % 60;
        let lane = number % 32;
        let equal = 1_u32 << lane;
        let expected = [
            lane,
            number / 32,
            2,
            equal - 1,
            !(equal - 1),
            equal,
            equal | (equal - 1),
            !(equal | (equal - 1)),
        ];
        assert_eq!(found, expected, "thread {thread}");
    }
}

#[test]
fn clocks_go_on() {
    let body = "
        mov.u64 %rd1, %clock64; mov.u32 %r1, %clock; add.u32 %r2, %r1, 0; mov.u64 %rd2, %clock64; mov.u64 %rd3, %globaltimer;
        setp.le.u64 %p1, %rd2, %rd1; @%p1 trap; setp.lt.u64 %p1, %rd3, %rd2; @%p1 trap; nanosleep.u32 100;";
    run_words(body, 32, 1).unwrap();
}

#[test]
fn launches_that_a_kernel_cannot_have_are_refused() {
    let text = text("").replace("(.param .u64 base)", "(.param .u64 base)\n.maxntid 16, 2, 1\n");
    let module = module(&text);
    let kernel = module.kernel("k").unwrap();
    assert_eq!(kernel.max_threads(), Some(32));
    let memory = Flat::new(0);
    assert!(launch(kernel, 32, &memory, 0).is_ok());
    for (threads, shared) in [(33, 0), (0, 0), (1, 1 << 30)] {
        let fault = launch(kernel, threads, &memory, shared).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::Launch(_)), "{fault}");
        assert!(fault.to_string().starts_with("kernel `k`: "), "{fault}");
    }
}

#[test]
fn required_extents_are_required() {
    let text = text("").replace("(.param .u64 base)", "(.param .u64 base)\n.reqntid 16, 2\n");
    let module = module(&text);
    let kernel = module.kernel("k").unwrap();
    assert_eq!(kernel.max_threads(), Some(32));
    let memory = Flat::new(0);
    let parameters = parameters(&[BASE]);
    let run = |block| {
        let launch = Launch { grid: [1; 3], block, dynamic_shared_bytes: 0, parameters: &parameters };
        softcuda::execute::run(kernel, &launch, &memory)
    };
    assert!(run([16, 2, 1]).is_ok());
    assert!(matches!(run([32, 1, 1]).unwrap_err().kind, FaultKind::Launch(_)));
}

#[test]
fn a_kernel_outlives_its_module_and_goes_to_other_threads() {
    let kernel = module(&text("st.global.u32 [%base], 7;")).kernel("k").unwrap().clone();
    let memory = Flat::new(4);
    std::thread::scope(|scope| {
        scope.spawn(|| launch(&kernel, 32, &memory, 0).unwrap());
    });
    assert_eq!(memory.words(), [7]);
}

/// Random programs of forward branches and counted loops, against a walk of each thread alone.
#[derive(Clone, Debug)]
enum Step {
    Add(u32),
    /// If the value modulo the first is less than the second, these; else those.
    If(u32, u32, Vec<Step>, Vec<Step>),
    /// As often as the value modulo this.
    Repeat(u32, Vec<Step>),
    /// Ends the thread if the value modulo this is 0.
    End(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![4 => (1_u32..1000).prop_map(Step::Add), 1 => (20_u32..60).prop_map(Step::End)];
    let step = leaf.prop_recursive(4, 24, 4, |inner| {
        let some = proptest::collection::vec(inner, 0..4);
        prop_oneof![
            (2_u32..5, 1_u32..4, some.clone(), some.clone()).prop_map(|(m, k, a, b)| Step::If(m, k, a, b)),
            (1_u32..5, some).prop_map(|(m, a)| Step::Repeat(m, a)),
        ]
    });
    proptest::collection::vec(step, 1..6)
}

/// False if the thread has ended.
fn walk(steps: &[Step], value: &mut u32) -> bool {
    steps.iter().all(|step| match step {
        Step::Add(by) => {
            *value = value.wrapping_mul(3).wrapping_add(*by);
            true
        }
        Step::If(modulus, limit, then, otherwise) => {
            walk(if *value % modulus < *limit { then } else { otherwise }, value)
        }
        Step::Repeat(modulus, inner) => (0..*value % modulus).all(|_| walk(inner, value)),
        Step::End(modulus) => !value.is_multiple_of(*modulus),
    })
}

fn write(steps: &[Step], labels: &mut u32, depth: u32, out: &mut String) {
    for step in steps {
        *labels += 1;
        let (label, counter) = (*labels, 20 + depth);
        match step {
            Step::Add(by) => *out += &format!("mad.lo.u32 %r9, %r9, 3, {by};\n"),
            Step::If(modulus, limit, then, otherwise) => {
                *out += &format!(
                    "rem.u32 %r2, %r9, {modulus}; setp.ge.u32 %p1, %r2, {limit}; @%p1 bra ELSE{label};\n"
                );
                write(then, labels, depth + 1, out);
                *out += &format!("bra MEET{label};\nELSE{label}:\n");
                write(otherwise, labels, depth + 1, out);
                *out += &format!("MEET{label}:\n");
            }
            Step::Repeat(modulus, inner) => {
                *out += &format!(
                    "rem.u32 %r{counter}, %r9, {modulus};\nLOOP{label}: setp.eq.u32 %p1, %r{counter}, 0;\n"
                );
                *out += &format!("@%p1 bra DONE{label}; sub.u32 %r{counter}, %r{counter}, 1;\n");
                write(inner, labels, depth + 1, out);
                *out += &format!("bra.uni LOOP{label};\nDONE{label}:\n");
            }
            Step::End(modulus) => {
                *out += &format!("rem.u32 %r2, %r9, {modulus}; setp.eq.u32 %p1, %r2, 0;\n@%p1 bra STORE;\n");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_thread_goes_its_own_way(steps in steps(), threads in 1_u32..80) {
        let mut inner = String::new();
        write(&steps, &mut 0, 0, &mut inner);
        let body = format!("mov.u32 %r1, %tid.x; mov.u32 %r9, %r1;\n{inner}STORE: {STORE}");
        let expected: Vec<u32> = (0..threads)
            .map(|thread| {
                let mut value = thread;
                walk(&steps, &mut value);
                value
            })
            .collect();
        prop_assert_eq!(run_words(&body, threads, threads as usize).unwrap(), expected, "{}", body);
    }
}
