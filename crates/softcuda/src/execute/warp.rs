//! [`Warp`]: 32 lanes, their registers, and where each of them is.
//!
//! Lanes at the same place form a group. The group that is furthest back runs until it reaches the next one, where the
//! two become one again; so lanes that part at a branch meet where their ways meet. A group that runs long while
//! others could is set aside for a while, so that one lane may wait in a loop for what another does. Not here: what
//! instructions compute (`operate.rs`), the turns of warps (`block.rs`).

use super::block::Environment;
use super::fault::{Fault, FaultKind};
use super::lanes::{LANES, Lanes};
use crate::ptx::program::{Barrier, BarrierAction, Exchange, Op, SINK, Test};

pub(super) struct Warp {
    pub index: u32,
    pub registers: Vec<Lanes>,
    /// One bit a lane. The first is always true.
    pub flags: Vec<u32>,
    /// Local memory of the lanes, one after the other.
    pub local: Vec<u8>,
    /// The carry of each lane.
    pub carry: u32,
    /// Lanes that exist and have not ended.
    pub live: u32,
    groups: Vec<Group>,
    pub waiting: Vec<Waiting>,
    /// Whether groups take turns, whatever their places.
    taking_turns: bool,
    /// Turns in a row that ended while several groups could run.
    crowded: u32,
}

/// Turns with several groups after which the one that waited longest has one.
const CROWDED: u32 = 3;

/// Lanes that go on at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    place: u32,
    mask: u32,
}

/// Lanes that wait at an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub place: u32,
    pub mask: u32,
    pub at: At,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    /// A barrier of the block. The count is of threads, if not all take part.
    Barrier { id: u32, count: Option<u32>, action: BarrierAction },
    /// Something done together by these lanes of the warp.
    Exchange { members: u32, exchange: Exchange },
}

/// What stopped a lane.
pub(super) struct Stop {
    pub lane: usize,
    pub kind: FaultKind,
}

/// What became of an instruction at which lanes may wait.
enum Passed {
    /// All that ran it are past it.
    All,
    /// Those that ran it wait.
    Waits,
    /// As `Waits`, but groups that waited before go on, or have all gone on with this one.
    Released,
}

impl Warp {
    pub fn new(index: u32, slots: usize, flags: usize, local_bytes: usize) -> Warp {
        let mut flags = vec![0; flags];
        flags[0] = u32::MAX;
        Warp {
            index,
            registers: vec![[0; LANES]; slots],
            flags,
            local: vec![0; local_bytes * LANES],
            carry: 0,
            live: 0,
            groups: Vec::new(),
            waiting: Vec::new(),
            taking_turns: false,
            crowded: 0,
        }
    }

    /// Puts all lanes of `live` before the first instruction.
    pub fn start(&mut self, live: u32) {
        self.live = live;
        self.groups.clear();
        self.groups.push(Group { place: 0, mask: live });
        self.waiting.clear();
        self.taking_turns = false;
        self.crowded = 0;
    }

    pub fn can_run(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Where one of the groups that can run is, and its first lane.
    pub fn position(&self) -> (u32, usize) {
        self.groups.first().map_or((0, 0), |group| (group.place, group.mask.trailing_zeros() as usize))
    }

    /// The lanes for which a predicate holds.
    pub fn holds(&self, test: Test) -> u32 {
        self.flags[test.flag as usize] ^ test.flip
    }

    /// Lets lanes go on at a place, with those that are there.
    pub fn resume(&mut self, place: u32, mask: u32) {
        match self.groups.iter_mut().find(|group| group.place == place) {
            Some(group) => group.mask |= mask,
            None => self.groups.push(Group { place, mask }),
        }
    }

    /// Runs at most `steps` instructions; tells how many. Ends early if all lanes wait or have ended.
    ///
    /// # Errors
    /// An instruction cannot be run.
    pub fn run(&mut self, environment: &mut Environment<'_>, steps: u64) -> Result<u64, Fault> {
        let mut left = steps;
        while left > 0
            && let Some((group, limit)) = self.next_group()
        {
            let before = left;
            let yielded = self.run_group(group, limit, environment, &mut left)?;
            if yielded {
                // It may wait for what the host or another launch does.
                std::thread::yield_now();
                if self.groups.len() == 1 {
                    break;
                }
            }
            self.taking_turns = yielded;
            if left == 0 {
                let ran_alone = before == steps;
                self.end_turn(ran_alone);
            }
        }
        Ok(steps - left)
    }

    /// Groups that are in front may have what those behind wait for in a loop. One that ran all of a turn alone is
    /// likely to wait. Several may part and meet within such a loop: so after some turns the others come first too.
    fn end_turn(&mut self, ran_alone: bool) {
        let several = self.groups.len() > 1;
        self.crowded = if several { self.crowded + 1 } else { 0 };
        if several && (ran_alone || self.crowded == CROWDED) {
            self.taking_turns = true;
            self.crowded = 0;
        }
    }

    /// The group to run, and the place at which it meets others.
    fn next_group(&mut self) -> Option<(Group, u32)> {
        if self.groups.is_empty() {
            return None;
        }
        if self.taking_turns {
            return Some((self.groups.remove(0), u32::MAX));
        }
        let mut lowest = 0;
        let mut limit = u32::MAX;
        for index in 1..self.groups.len() {
            if self.groups[index].place < self.groups[lowest].place {
                limit = self.groups[lowest].place;
                lowest = index;
            } else {
                limit = limit.min(self.groups[index].place);
            }
        }
        Some((self.groups.remove(lowest), limit))
    }

    /// Runs a group until it meets others, waits, ends, or there are no steps left. True if it lets others go first.
    fn run_group(
        &mut self,
        mut group: Group,
        mut limit: u32,
        environment: &mut Environment<'_>,
        left: &mut u64,
    ) -> Result<bool, Fault> {
        let program = environment.program;
        while *left > 0 && group.place < limit {
            *left -= 1;
            let instruction = &program.code[group.place as usize];
            let active = group.mask & self.holds(instruction.guard);
            let here = group.place;
            group.place += 1;
            if active == 0 {
                continue;
            }
            let index = self.index;
            let fault = |stop: Stop| environment.fault(here, index, stop);
            match &instruction.op {
                Op::Branch { target } => {
                    if self.branch(&mut group, active, *target) && !self.taking_turns {
                        limit = self.lowest_place();
                    }
                }
                Op::BranchTable { table, a } => {
                    let indices = self.registers[*a as usize];
                    let targets = &program.tables[*table as usize];
                    for lane in super::lanes::each(active) {
                        let index = indices[lane] as u32;
                        let Some(target) = targets.get(index as usize) else {
                            return Err(fault(Stop { lane, kind: FaultKind::BranchIndex(index) }));
                        };
                        self.resume(*target, 1 << lane);
                    }
                    group.mask &= !active;
                    break;
                }
                Op::Exit => {
                    self.live &= !active;
                    group.mask &= !active;
                    // Those that waited for these lanes wait no more.
                    let released = self.settle();
                    if group.mask == 0 || released {
                        break;
                    }
                }
                Op::Yield => {
                    self.resume(group.place, group.mask);
                    return Ok(true);
                }
                Op::Barrier(barrier) => {
                    let passed = self.barrier(barrier, here, active, environment);
                    if let Passed::Waits = passed.map_err(|stop| environment.fault(here, index, stop))? {
                        group.mask &= !active;
                        if group.mask == 0 {
                            break;
                        }
                    }
                }
                Op::Exchange(exchange) => {
                    let passed = self.exchange_at(exchange, here, active);
                    match passed.map_err(|stop| environment.fault(here, index, stop))? {
                        Passed::All => {}
                        Passed::Waits => group.mask &= !active,
                        Passed::Released => {
                            group.mask &= !active;
                            break;
                        }
                    }
                    if group.mask == 0 {
                        break;
                    }
                }
                Op::Clock { d } => {
                    let time = environment.clock + (environment.turn - *left);
                    self.put(*d, &[time; LANES], active);
                }
                op => {
                    if let Err(stop) = self.operate(op, active, environment) {
                        return Err(environment.fault(here, self.index, stop));
                    }
                }
            }
        }
        if group.mask != 0 {
            self.resume(group.place, group.mask);
        }
        Ok(false)
    }

    /// Sends lanes to a target. True if the group parted; it is then the part further back.
    fn branch(&mut self, group: &mut Group, active: u32, target: u32) -> bool {
        let others = group.mask & !active;
        if others == 0 {
            group.place = target;
            return false;
        }
        if target == group.place {
            return false;
        }
        let (back, front) = if target < group.place {
            (Group { place: target, mask: active }, Group { place: group.place, mask: others })
        } else {
            (Group { place: group.place, mask: others }, Group { place: target, mask: active })
        };
        self.resume(front.place, front.mask);
        *group = back;
        true
    }

    fn lowest_place(&self) -> u32 {
        self.groups.iter().map(|group| group.place).min().unwrap_or(u32::MAX)
    }

    /// Lanes come to a barrier of the block.
    fn barrier(
        &mut self,
        barrier: &Barrier,
        place: u32,
        active: u32,
        environment: &mut Environment<'_>,
    ) -> Result<Passed, Stop> {
        let ids = self.registers[barrier.id as usize];
        let counts = (barrier.count != SINK).then(|| self.registers[barrier.count as usize]);
        let mut left = active;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let key = |lane: usize| (ids[lane] as u32, counts.map(|counts| counts[lane] as u32));
            let (id, count) = key(lane);
            let mask = super::lanes::each(left)
                .filter(|other| key(*other) == (id, count))
                .fold(0, |m, l| m | 1 << l);
            left &= !mask;
            let bad_count = count.is_some_and(|count| count == 0 || count % LANES as u32 != 0);
            if id as usize >= environment.arrived.len() || bad_count {
                return Err(Stop { lane, kind: FaultKind::BadBarrier });
            }
            if barrier.action == BarrierAction::Arrive {
                // Devices count whole warps, also those with lanes that have ended.
                let all = mask == self.live;
                environment.arrived[id as usize] += if all { LANES as u32 } else { mask.count_ones() };
            } else {
                self.waiting.push(Waiting {
                    place,
                    mask,
                    at: At::Barrier { id, count, action: barrier.action },
                });
            }
        }
        Ok(if barrier.action == BarrierAction::Arrive { Passed::All } else { Passed::Waits })
    }

    /// Lanes come to something that lanes of the warp do together.
    fn exchange_at(&mut self, exchange: &Exchange, place: u32, active: u32) -> Result<Passed, Stop> {
        let members = self.registers[exchange.members as usize];
        let first = active.trailing_zeros() as usize;
        let all = members[first] as u32;
        let same = super::lanes::each(active).all(|lane| members[lane] as u32 == all);
        // The usual case: all that are named are here.
        if same && active & !all == 0 && all & self.live & !active == 0 {
            self.exchange(&[Waiting {
                place,
                mask: active,
                at: At::Exchange { members: all, exchange: *exchange },
            }]);
            return Ok(Passed::All);
        }
        for lane in super::lanes::each(active) {
            let members = members[lane] as u32;
            if members >> lane & 1 == 0 {
                return Err(Stop { lane, kind: FaultKind::WarpDivergence });
            }
            let found = self.waiting.iter_mut().find(|waiting| {
                let at = &waiting.at;
                waiting.place == place && matches!(at, At::Exchange { members: m, .. } if *m == members)
            });
            match found {
                Some(waiting) => waiting.mask |= 1 << lane,
                None => self.waiting.push(Waiting {
                    place,
                    mask: 1 << lane,
                    at: At::Exchange { members, exchange: *exchange },
                }),
            }
        }
        Ok(if self.settle() { Passed::Released } else { Passed::Waits })
    }

    /// Lets exchanges happen whose lanes have all come. True if any did.
    fn settle(&mut self) -> bool {
        let mut released = false;
        let mut index = 0;
        while index < self.waiting.len() {
            let At::Exchange { members, exchange } = self.waiting[index].at else {
                index += 1;
                continue;
            };
            // The same thing may be done by instructions at different places.
            let joins = |waiting: &Waiting| match waiting.at {
                At::Exchange { members: m, exchange: e } => m == members && e.kind == exchange.kind,
                At::Barrier { .. } => false,
            };
            let here = self.waiting.iter().filter(|waiting| joins(waiting)).fold(0, |all, w| all | w.mask);
            if members & self.live & !here != 0 {
                index += 1;
                continue;
            }
            let (parts, rest) = std::mem::take(&mut self.waiting).into_iter().partition(joins);
            let parts: Vec<Waiting> = parts;
            self.waiting = rest;
            self.exchange(&parts);
            for part in parts {
                self.resume(part.place + 1, part.mask);
            }
            released = true;
            index = 0;
        }
        released
    }
}
