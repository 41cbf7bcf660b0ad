//! What lanes of a warp do together: shuffles, votes, matches, reductions.
//!
//! Not here: waiting for all of them (`warp.rs`).

use super::arithmetic::change::apply;
use super::lanes::{LANES, Lanes, each};
use super::warp::{At, Waiting, Warp};
use crate::ptx::program::{ExchangeKind, Number, SINK};

impl Warp {
    /// Lets the lanes of all parts exchange. All parts are of one kind, but may be different instructions.
    pub fn exchange(&mut self, parts: &[Waiting]) {
        let Some(At::Exchange { exchange, .. }) = parts.first().map(|part| part.at) else {
            return;
        };
        if exchange.kind == ExchangeKind::Barrier {
            return;
        }
        let mut all = Operands { mask: 0, a: [0; LANES], b: [0; LANES], c: [0; LANES], test: 0 };
        for part in parts {
            if let At::Exchange { exchange, .. } = part.at {
                let (a, b, c) = (self.get(exchange.a), self.get(exchange.b), self.get(exchange.c));
                for lane in each(part.mask) {
                    all.a[lane] = a[lane];
                    all.b[lane] = b[lane];
                    all.c[lane] = c[lane];
                }
                all.test |= self.holds(exchange.test) & part.mask;
                all.mask |= part.mask;
            }
        }
        let (values, flags) = all.exchanged(exchange.kind);
        for part in parts {
            if let At::Exchange { exchange, .. } = part.at {
                if exchange.d != SINK {
                    self.put(exchange.d, &values, part.mask);
                }
                if exchange.flag != SINK {
                    self.put_flag(exchange.flag, flags, part.mask);
                }
            }
        }
    }
}

/// What each lane brings.
struct Operands {
    mask: u32,
    a: Lanes,
    b: Lanes,
    c: Lanes,
    test: u32,
}

impl Operands {
    /// A value and a predicate for each lane.
    fn exchanged(&self, kind: ExchangeKind) -> (Lanes, u32) {
        let same = |value: u64| [value; LANES];
        let if_all = |condition: bool| if condition { u32::MAX } else { 0 };
        match kind {
            ExchangeKind::Barrier => (same(0), 0),
            ExchangeKind::ShuffleUp
            | ExchangeKind::ShuffleDown
            | ExchangeKind::ShuffleXor
            | ExchangeKind::ShuffleIndex => self.shuffled(kind),
            ExchangeKind::All => (same(0), if_all(self.test == self.mask)),
            ExchangeKind::Any => (same(0), if_all(self.test != 0)),
            ExchangeKind::Uniform => (same(0), if_all(self.test == 0 || self.test == self.mask)),
            ExchangeKind::Ballot => (same(self.test.into()), 0),
            ExchangeKind::MatchAny => {
                let mut out = [0; LANES];
                for lane in each(self.mask) {
                    out[lane] = self.equal_to(lane).into();
                }
                (out, 0)
            }
            ExchangeKind::MatchAll => {
                let all = self.mask != 0 && self.equal_to(self.mask.trailing_zeros() as usize) == self.mask;
                (same(if all { self.mask.into() } else { 0 }), if_all(all))
            }
            ExchangeKind::Reduce(change, int) => {
                let mut lanes = each(self.mask);
                let first = lanes.next().map_or(0, |lane| self.a[lane]);
                let number = Number::Int(int);
                let sum = lanes.fold(first, |sum, lane| apply(change, number, false, sum, self.a[lane], 0));
                (same(sum), 0)
            }
        }
    }

    /// The lanes with the value of this one.
    fn equal_to(&self, lane: usize) -> u32 {
        each(self.mask).filter(|other| self.a[*other] == self.a[lane]).fold(0, |all, other| all | 1 << other)
    }

    fn shuffled(&self, kind: ExchangeKind) -> (Lanes, u32) {
        let mut out = [0; LANES];
        let mut inside = 0;
        for lane in each(self.mask) {
            let (by, bounds) = (self.b[lane] as u32 & 31, self.c[lane] as u32);
            let (segment, clamp) = (bounds >> 8 & 31, bounds & 31);
            let own = lane as u32;
            let least = own & segment;
            let most = least | clamp & !segment;
            let (from, is_inside) = match kind {
                ExchangeKind::ShuffleUp => {
                    let from = own.wrapping_sub(by);
                    (from, from as i32 >= most as i32)
                }
                ExchangeKind::ShuffleDown => (own + by, own + by <= most),
                ExchangeKind::ShuffleXor => (own ^ by, own ^ by <= most),
                _ => {
                    let from = least | by & !segment;
                    (from, from <= most)
                }
            };
            // A lane that does not take part has nothing to give: its value is left open, and the lane keeps its own.
            let taken = is_inside && self.mask >> from & 1 == 1;
            out[lane] = self.a[if taken { from as usize } else { lane }];
            inside |= u32::from(is_inside) << lane;
        }
        (out, inside)
    }
}
