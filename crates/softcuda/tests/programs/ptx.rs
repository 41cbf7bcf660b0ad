//! Kernels of the programs, as PTX.
//!
//! Not here: kernels of tenure.

/// `fill(to, count, value)`: writes a value to words. `add(to, from, count)`: adds words to words.
/// `count(to)`: adds 1 to a word, atomically. `stop()`: traps. `crooked(to)`: stores a word where none is aligned.
/// `get(to)`: reads the variable `level`, adds 1 to it, writes what was read.
pub const KERNELS: &str = r"
.version 7.0
.target sm_80
.address_size 64

.visible .global .align 4 .u32 level = 5;

.visible .entry fill(
	.param .u64 fill_param_0,
	.param .u32 fill_param_1,
	.param .u32 fill_param_2
)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<7>;
	.reg .b64 	%rd<5>;

	ld.param.u64 	%rd1, [fill_param_0];
	ld.param.u32 	%r1, [fill_param_1];
	ld.param.u32 	%r2, [fill_param_2];
	mov.u32 	%r3, %ctaid.x;
	mov.u32 	%r4, %ntid.x;
	mov.u32 	%r5, %tid.x;
	mad.lo.s32 	%r6, %r3, %r4, %r5;
	setp.ge.u32 	%p1, %r6, %r1;
	@%p1 bra 	$L__BB0_2;
	cvta.to.global.u64 	%rd2, %rd1;
	mul.wide.u32 	%rd3, %r6, 4;
	add.s64 	%rd4, %rd2, %rd3;
	st.global.u32 	[%rd4], %r2;
$L__BB0_2:
	ret;
}

.visible .entry add(
	.param .u64 add_param_0,
	.param .u64 add_param_1,
	.param .u32 add_param_2
)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<9>;
	.reg .b64 	%rd<8>;

	ld.param.u64 	%rd1, [add_param_0];
	ld.param.u64 	%rd2, [add_param_1];
	ld.param.u32 	%r1, [add_param_2];
	mov.u32 	%r3, %ctaid.x;
	mov.u32 	%r4, %ntid.x;
	mov.u32 	%r5, %tid.x;
	mad.lo.s32 	%r6, %r3, %r4, %r5;
	setp.ge.u32 	%p1, %r6, %r1;
	@%p1 bra 	$L__BB1_2;
	cvta.to.global.u64 	%rd3, %rd1;
	cvta.to.global.u64 	%rd4, %rd2;
	mul.wide.u32 	%rd5, %r6, 4;
	add.s64 	%rd6, %rd3, %rd5;
	add.s64 	%rd7, %rd4, %rd5;
	ld.global.u32 	%r7, [%rd7];
	ld.global.u32 	%r8, [%rd6];
	add.s32 	%r8, %r7, %r8;
	st.global.u32 	[%rd6], %r8;
$L__BB1_2:
	ret;
}

.visible .entry count(
	.param .u64 count_param_0
)
{
	.reg .b32 	%r<2>;
	.reg .b64 	%rd<3>;

	ld.param.u64 	%rd1, [count_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	atom.global.add.u32 	%r1, [%rd2], 1;
	ret;
}

.visible .entry stop()
{
	trap;
	ret;
}

.visible .entry crooked(
	.param .u64 crooked_param_0
)
{
	.reg .b32 	%r<2>;
	.reg .b64 	%rd<3>;

	ld.param.u64 	%rd1, [crooked_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.u32 	%r1, 1;
	st.global.u32 	[%rd2+1], %r1;
	ret;
}

.visible .entry get(
	.param .u64 get_param_0
)
{
	.reg .b32 	%r<3>;
	.reg .b64 	%rd<3>;

	ld.param.u64 	%rd1, [get_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	ld.global.u32 	%r1, [level];
	add.s32 	%r2, %r1, 1;
	st.global.u32 	[level], %r2;
	st.global.u32 	[%rd2], %r1;
	ret;
}
";
