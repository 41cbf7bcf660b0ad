//! What instructions compute: functions from operands to results, without memory or control.
//!
//! Over all lanes: `integer.rs`, `bits.rs`, `float.rs`, `compare.rs`, `convert.rs`. Over one value: `exact.rs`
//! (floats of any format and rounding) and `change.rs` (what atomic operations do). Not here: registers.

pub(super) mod bits;
pub(super) mod change;
pub(super) mod compare;
pub(super) mod convert;
pub(super) mod exact;
pub(super) mod float;
pub(super) mod integer;
