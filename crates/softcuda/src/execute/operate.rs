//! Instructions that only touch registers, predicates and memory: all but those of control.
//!
//! Here: from operands to results, by kind of instruction. Not here: the functions themselves (`arithmetic/`), memory
//! (`access.rs`, `atomic.rs`).

use super::arithmetic::integer::{Integer, with_integer};
use super::arithmetic::{bits, compare, convert, float, integer};
use super::block::Environment;
use super::fault::FaultKind;
use super::lanes::{LANES, Lanes, map1, test1, write};
use super::warp::{Stop, Warp};
use crate::ptx::program::{Flag, Int, Logic, Op, SINK, Slot};
use crate::ptx::types::Space;

/// The most bytes of a text that an assertion tells.
const MAX_TEXT: u64 = 1024;

impl Warp {
    /// Runs an instruction on the lanes of `active`, of which there is one at least.
    ///
    /// # Errors
    /// A lane cannot run it.
    pub fn operate(&mut self, op: &Op, active: u32, environment: &mut Environment<'_>) -> Result<(), Stop> {
        match *op {
            Op::Move { d, a } => {
                let out = self.registers[a as usize];
                self.put(d, &out, active);
            }
            Op::MoveFlag { d, a } => self.put_flag(d, self.holds(a), active),
            Op::Logic { f, d, a, b } => {
                let (a, b) = (self.holds(a), self.holds(b));
                let out = match f {
                    Logic::And => a & b,
                    Logic::Or => a | b,
                    Logic::Xor => a ^ b,
                };
                self.put_flag(d, out, active);
            }
            Op::Int1 { f, int, d, a } => {
                let out = integer::unary(f, int, self.get(a));
                self.put(d, &out, active);
            }
            Op::Int2 { f, int, d, a, b } => {
                let out = integer::binary(f, int, self.get(a), self.get(b));
                self.put(d, &out, active);
            }
            Op::Int3 { f, int, d, a, b, c } => {
                let out = integer::ternary(f, int, [self.get(a), self.get(b), self.get(c)]);
                self.put(d, &out, active);
            }
            Op::Insert { int, d, a, b, c, e } => {
                let out = self.insert(int, [a, b, c, e]);
                self.put(d, &out, active);
            }
            Op::Carry { f, int, takes, gives, d, a, b, c } => {
                let carry_in = if takes { self.carry } else { 0 };
                let (out, carries) =
                    integer::carry(f, int, [self.get(a), self.get(b), self.get(c)], carry_in);
                self.put(d, &out, active);
                if gives {
                    self.carry = self.carry & !active | carries & active;
                }
            }
            Op::Float1 { f, float, mode, d, a } => {
                let out = float::unary(f, float, mode, self.get(a));
                self.put(d, &out, active);
            }
            Op::Float2 { f, float, mode, d, a, b } => {
                let out = float::binary(f, float, mode, self.get(a), self.get(b));
                self.put(d, &out, active);
            }
            Op::Fma { float, mode, d, a, b, c } => {
                let out = float::fma(float, mode, [self.get(a), self.get(b), self.get(c)]);
                self.put(d, &out, active);
            }
            Op::Compare { f, number, flush, d, a, b } => {
                let out = compare::compare(f, number, flush, self.get(a), self.get(b));
                self.put_flag(d, out, active);
            }
            Op::Kind { f, float, d, a } => {
                let out = compare::kind(f, float, self.get(a));
                self.put_flag(d, out, active);
            }
            Op::Select { d, a, b, on } => {
                let on = self.holds(on);
                let mut out = *self.get(b);
                write(&mut out, self.get(a), on);
                self.put(d, &out, active);
            }
            Op::Convert { how, d, a } => {
                let out = convert::convert(how, self.get(a));
                self.put(d, &out, active);
            }
            Op::Pack { bits, count, d, a } => {
                let mut out = [0; LANES];
                for (part, slot) in a.iter().take(count.into()).enumerate() {
                    let shift = part as u32 * u32::from(bits);
                    for (out, a) in out.iter_mut().zip(self.get(*slot)) {
                        *out |= (a & mask_of(bits)) << shift;
                    }
                }
                self.put(d, &out, active);
            }
            Op::Unpack { bits, count, d, a } => {
                let whole = *self.get(a);
                for (part, slot) in d.iter().take(count.into()).enumerate().filter(|(_, slot)| **slot != SINK)
                {
                    let shift = part as u32 * u32::from(bits);
                    let out = map1(&whole, |a: u64| a >> shift & mask_of(bits));
                    self.put(*slot, &out, active);
                }
            }
            Op::Load(load) => return self.load(&load, active, environment),
            Op::Store(store) => return self.store(&store, active, environment),
            Op::Atomic(atomic) => return self.atomic(&atomic, active, environment),
            Op::IsSpace { space, d, a } => {
                let out = test1(self.get(a), |a: u64| Space::of(a).0 == space);
                self.put_flag(d, out, active);
            }
            Op::ActiveMask { d } => self.put(d, &[u64::from(active); LANES], active),
            Op::Trap => return Err(Stop { lane: first(active), kind: FaultKind::Trap }),
            Op::Assert { message, file, line, function } => {
                let lane = first(active);
                let text = |slot: Slot| text(environment, self.get(slot)[lane]);
                let kind = FaultKind::Assert {
                    message: text(message),
                    file: text(file),
                    line: self.get(line)[lane] as u32,
                    function: text(function),
                };
                return Err(Stop { lane, kind });
            }
            // The loop of the warp has these.
            Op::Branch { .. }
            | Op::BranchTable { .. }
            | Op::Exit
            | Op::Barrier(_)
            | Op::Exchange(_)
            | Op::Clock { .. }
            | Op::Yield => unreachable!("an instruction of control"),
        }
        Ok(())
    }

    #[inline(always)]
    pub fn get(&self, slot: Slot) -> &Lanes {
        &self.registers[slot as usize]
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub fn put(&mut self, slot: Slot, lanes: &Lanes, mask: u32) {
        write(&mut self.registers[slot as usize], lanes, mask);
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub fn put_flag(&mut self, flag: Flag, value: u32, mask: u32) {
        let flag = &mut self.flags[flag as usize];
        *flag = *flag & !mask | value & mask;
    }

    fn insert(&self, int: Int, operands: [Slot; 4]) -> Lanes {
        let operands = operands.map(|slot| self.get(slot));
        with_integer!(int, T => insert::<T>(operands))
    }
}

fn insert<T: Integer>([a, b, position, length]: [&Lanes; 4]) -> Lanes {
    let mut out = [0; LANES];
    for (lane, out) in out.iter_mut().enumerate() {
        let (a, b) = (T::of(a[lane]), T::of(b[lane]));
        *out = bits::insert(a, b, position[lane] as u32, length[lane] as u32).bits();
    }
    out
}

fn first(mask: u32) -> usize {
    mask.trailing_zeros() as usize
}

fn mask_of(bits: u8) -> u64 {
    (1 << bits) - 1
}

/// The text at an address of device memory, up to its zero.
fn text(environment: &Environment<'_>, address: u64) -> String {
    let mut bytes = Vec::new();
    for at in (0..MAX_TEXT).map(|offset| address.wrapping_add(offset)) {
        let mut byte = [0];
        match environment.memory.load(at, &mut byte) {
            Ok(()) if byte != [0] => bytes.extend(byte),
            _ => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
