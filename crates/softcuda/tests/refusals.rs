//! Texts that are refused, with the place and the name of what is wrong.
//!
//! Not here: faults of running kernels.

mod common;

use common::{ENTRY, HEAD, refused, text};
use softcuda::ptx::Module;

/// The line of the body within [`text`].
const FIRST: u32 = 8;

/// Asserts that an instruction is refused at its line, with words that name it.
fn refuses(instruction: &str, words: &[&str]) {
    let (line, message) = refused(&text(&format!("\n{instruction}")));
    assert_eq!(line, FIRST + 1, "{instruction}: {message}");
    for word in words {
        assert!(message.contains(word), "`{message}` does not have `{word}`");
    }
}

#[test]
fn unknown_opcodes_are_named() {
    refuses("frobnicate.u32 %r1, %r2;", &["unknown opcode", "frobnicate.u32"]);
    refuses("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%rd1];", &["unknown opcode", "wmma.load.a"]);
    refuses("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];", &["tex.2d.v4.f32.f32"]);
    refuses("vadd.u32.u32.u32 %r1, %r2, %r3;", &["unknown opcode", "vadd"]);
}

#[test]
fn unknown_modifiers_are_named() {
    refuses("add.frob.u32 %r1, %r2, %r3;", &["add.frob.u32", "`.frob`"]);
    refuses("add.ftz.u32 %r1, %r2, %r3;", &["`.ftz`"]);
    refuses("add.rz.s32 %r1, %r2, %r3;", &["`.rz`"]);
    refuses("add.sat.u32 %r1, %r2, %r3;", &["type .u32"]);
    refuses("ld.global.frob.u32 %r1, [%rd1];", &["`.frob`"]);
    refuses("ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2;", &["ld.global.L2::cache_hint.u32"]);
    refuses("bar.sync.frob 0;", &["`.frob`"]);
    refuses("mul.u32 %r1, %r2, %r3;", &["mul.u32", "`.lo`"]);
    refuses("div.f32 %f1, %f2, %f3;", &["div.f32"]);
    refuses("fma.f32 %f1, %f2, %f3, %f4;", &["rounding"]);
    refuses("sqrt.f32 %f1, %f2;", &["sqrt.f32"]);
    refuses("cvt.f32.s32 %f1, %r1;", &["rounding"]);
    refuses("cvt.s32.f32 %r1, %f1;", &["rounding"]);
    refuses("setp.ltu.s32 %p1, %r1, %r2;", &["comparison"]);
    refuses("setp.lt.b32 %p1, %r1, %r2;", &["type .b32"]);
    refuses("shfl.down.b32 %r1, %r2, 1, 31;", &["`.sync`"]);
    refuses("vote.ballot.b32 %r1, %p1;", &["`.sync`"]);
    refuses("mov.frob %r1, %r2;", &["type"]);
}

#[test]
fn types_that_an_instruction_does_not_take_are_named() {
    refuses("add.b32 %r1, %r2, %r3;", &["type .b32"]);
    refuses("add.u8 %h1, %h2, %h3;", &["type .u8"]);
    refuses("popc.b16 %r1, %h2;", &["type .b16"]);
    refuses("mul.wide.u64 %rd1, %rd2, %rd3;", &["type .u64"]);
    refuses("atom.global.add.s64 %rd1, [%rd2], %rd3; atom.global.min.f32 %f1, [%rd2], %f3;", &["type .f32"]);
    refuses("lg2.approx.f64 %d1, %d2;", &["not supported"]);
    refuses("redux.sync.add.u64 %rd1, %rd2, -1;", &["type .u64"]);
}

#[test]
fn operands_are_checked() {
    refuses("add.u32 %r1, %r2;", &["add.u32", "3 operands, not 2"]);
    refuses("add.u32 %r1, %r2, %rd3;", &["%rd3", ".u32"]);
    refuses("add.u64 %rd1, %r2, %rd3;", &["%r2"]);
    refuses("add.u32 %r1, %r2, %r100;", &["%r100"]);
    refuses("add.u32 %r1, %r2, %nosuch;", &["%nosuch"]);
    refuses("add.u32 %r1, %r2, %p1;", &["%p1"]);
    refuses("add.u32 5, %r2, %r3;", &["target"]);
    refuses("add.u32 %r1, %r2, 1.5;", &["constant"]);
    refuses("add.f32 %f1, %f2, 1;", &["constant"]);
    refuses("setp.eq.u32 %r1, %r2, %r3;", &["%r1", "predicate"]);
    refuses("@%r1 mov.u32 %r1, %r2;", &["%r1", "predicate"]);
    refuses("ld.global.u32 %h1, [%rd1];", &["%h1"]);
    refuses("ld.global.u32 %r1, [%f1];", &["%f1", "address"]);
    refuses("ld.global.u32 %r1, [%r2];", &["address"]);
    refuses("ld.shared.u32 %r1, [base];", &["`base`", "space"]);
    refuses("ld.global.u32 %r1, [nosuch];", &["`nosuch`"]);
    refuses("st.param.u32 [base], %r1;", &["parameters"]);
    refuses("ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1];", &["3 parts"]);
    refuses("mov.b64 {%r1, %r2, %r3}, %rd1;", &["3 parts"]);
    refuses("bra nowhere;", &["label", "`nowhere`"]);
    refuses("brx.idx %r1, nowhere;", &["`nowhere`"]);
    refuses("lop3.b32 %r1, %r2, %r3, %r4, %r5;", &["constant"]);
    refuses("match.any.sync.b32 %r1|%p1, %r2, -1;", &["predicate"]);
}

#[test]
fn code_that_is_never_reached_is_checked_too() {
    refuses("bra END; frob %r1; END:", &["frob"]);
    let unused = format!("{HEAD}.func f()\n{{\nfrob;\nret; }}\n{ENTRY} ret; }}");
    assert_eq!(refused(&unused).0, 6);
}

#[test]
fn the_form_of_a_text_is_checked() {
    for (text, words) in [
        ("", "`.version`"),
        ("hello", "directive"),
        (".version 7.0\n.target sm_80\n.address_size 32\n", "64 bits"),
        (".version 7.0\n.frob x;", "`.frob`"),
        (".version 7.0\n.entry k() { ret", "operand"),
        (".version 7.0\n.entry k() { ret;", "statement"),
        (".version 7.0\n.entry k() .frob 3 { ret; }", "`.frob`"),
        (".version 7.0\n.entry k() { .frob x; ret; }", "`.frob`"),
        (".version 7.0\n.entry k() { .reg .frob x; ret; }", "`.frob`"),
        (".version 7.0\n.entry k() { ret; } .entry k() { ret; }", "twice"),
        (".version 7.0\n.entry k() { .reg .b32 x; .reg .b32 x; ret; }", "twice"),
        (".version 7.0\n.entry k() { A: A: ret; }", "twice"),
        (".version 7.0\n.global .u32 x; .global .u32 x;", "twice"),
        (".version 7.0\n.global .u32 x[2] = {1, 2, 3};", "more initial values"),
        (".version 7.0\n.global .u32 x = 1.5;", "initial value"),
        (".version 7.0\n.global .u64 x = nosuch;", "`nosuch`"),
        (
            ".version 7.0\n.extern .global .u32 x; .entry k() { .reg .b32 r; ld.global.u32 r, [x]; ret; }",
            "nowhere",
        ),
        (".version 7.0\n.entry k() { .reg .b32 r; { .reg .b32 s; } mov.u32 r, s; ret; }", "`s`"),
        (".version 7.0\n.global .align 3 .u32 x;", "alignment"),
        (".version 7.0\n.entry k() { .shared .b8 s[49153]; ret; }", "49153 bytes of static shared memory"),
        (".version 7.0\n.entry k() { .local .b8 s[524289]; ret; }", "524289 bytes of local memory"),
        (".version 7.0\n.global .texref t;", "`.texref`"),
        (".version 7.0\n.entry k() { mov.u32 , ; }", "operand"),
        (".version 7.0\n.entry k() { .reg .f32 f; mov.f32 f, 0f12; ret; }", "`0f12`"),
    ] {
        let message = refused(text).1;
        assert!(message.contains(words), "`{message}` does not have `{words}`: {text}");
    }
}

#[test]
fn an_error_tells_line_and_column() {
    let error = Module::parse(".version 7.0\n.entry k() {\n  frob.u32 x;\n}").unwrap_err();
    assert_eq!((error.line, error.column), (3, 3));
    assert_eq!(error.to_string(), "PTX line 3, column 3: unknown opcode `frob.u32`");
}

/// What compilers put around the code.
#[test]
fn what_does_not_run_is_passed_over() {
    let text = "//
.version 8.0
.target sm_80, debug
.address_size 64
.file 1 \"a.cu\", 1, 2
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.weak .func (.param .b32 r) f(.param .b32 a);
.visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[16])
.maxntid 128, 1, 1
.minnctapersm 2
.maxnreg 64
{
.loc 1 2 3
.pragma \"nounroll\";
.reg .pred %p<2>;
.loc 1 3 4, function_name $L__info, inlined_at 1 2 3
{ ret; }
}
.section .debug_abbrev
{
.b8 1
.b8 2, 3
.b32 .debug_abbrev
}
";
    let module = Module::parse(text).unwrap();
    let kernel = module.kernel("k").unwrap();
    assert_eq!((kernel.max_threads(), kernel.parameter_bytes()), (Some(128), 24));
    assert!(module.kernel("f").is_none());
    assert_eq!(module.kernels().count(), 1);
}
