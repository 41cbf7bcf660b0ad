//! [`Block`]: the warps of a block, taking turns until all have ended.
//!
//! Not here: what a warp does in its turn (`warp.rs`), when a barrier is complete (`barrier.rs`).

use super::barrier;
use super::fault::{Fault, FaultKind};
use super::lanes::{LANES, Lanes};
use super::launch::Launch;
use super::memory::Memory;
use super::warp::{At, Stop, Warp};
use crate::ptx::Kernel;
use crate::ptx::program::{Program, Special};

/// Instructions that a warp runs before others get their turn.
const TURN: u64 = 1 << 14;

/// What shared memory holds before anything is written: nothing that a kernel could take for a result.
const POISON: u8 = 0xcd;

/// Barriers of a block.
const BARRIERS: usize = 16;

/// What all warps of a block see.
pub(super) struct Environment<'a> {
    pub program: &'a Program,
    pub memory: &'a dyn Memory,
    pub parameters: &'a [u8],
    pub shared: Vec<u8>,
    /// Threads that came to each barrier without waiting.
    pub arrived: [u32; BARRIERS],
    /// Steps before this turn, and those of this turn at the most.
    pub clock: u64,
    pub turn: u64,
    block: [u32; 3],
    threads: [u32; 3],
}

/// A block. It is used again for the next one of the grid.
pub(super) struct Block<'a> {
    environment: Environment<'a>,
    warps: Vec<Warp>,
    limit: u64,
}

impl<'a> Block<'a> {
    pub fn new(kernel: &'a Kernel, launch: &Launch<'a>, memory: &'a dyn Memory, limit: u64) -> Block<'a> {
        let program = kernel.program();
        let shared = program.dynamic_shared + launch.dynamic_shared_bytes;
        let environment = Environment {
            program,
            memory,
            parameters: &launch.parameters[..kernel.parameter_bytes()],
            shared: vec![0; shared as usize],
            arrived: [0; BARRIERS],
            clock: 0,
            turn: 0,
            block: [0; 3],
            threads: launch.block,
        };
        let threads: u32 = launch.block.iter().product();
        let warps = (0..threads.div_ceil(LANES as u32)).map(|index| {
            let mut warp = Warp::new(
                index,
                program.slots as usize,
                program.flags as usize,
                program.local_bytes as usize,
            );
            for constant in &program.constants {
                let base = constant.global.map_or(0, |global| kernel.global(global));
                warp.registers[constant.slot as usize] = [constant.value.wrapping_add(base); LANES];
            }
            for (special, slot) in &program.specials {
                warp.registers[*slot as usize] = special_lanes(*special, index, launch, program);
            }
            warp
        });
        let warps = warps.collect();
        Block { environment, warps, limit }
    }

    /// Runs one block of the grid to its end.
    ///
    /// # Errors
    /// A thread cannot go on.
    pub fn run(&mut self, block: [u32; 3]) -> Result<(), Fault> {
        self.start(block);
        loop {
            let mut moved = false;
            for warp in &mut self.warps {
                if !warp.can_run() {
                    continue;
                }
                moved = true;
                let environment = &mut self.environment;
                environment.turn = TURN.min(self.limit - environment.clock);
                if environment.turn == 0 {
                    let (place, lane) = warp.position();
                    let kind = FaultKind::StepLimit(self.limit);
                    return Err(environment.fault(place, warp.index, Stop { lane, kind }));
                }
                let steps = warp.run(environment, environment.turn)?;
                environment.clock += steps;
            }
            let released = barrier::release(&mut self.warps, &mut self.environment)?;
            if self.warps.iter().all(|warp| warp.live == 0) {
                return Ok(());
            }
            if !moved && !released {
                return Err(self.stuck());
            }
        }
    }

    fn start(&mut self, block: [u32; 3]) {
        self.environment.block = block;
        self.environment.shared.fill(POISON);
        self.environment.arrived = [0; BARRIERS];
        let mut threads: u32 = self.environment.threads.iter().product();
        for warp in &mut self.warps {
            for (special, slot) in &self.environment.program.specials {
                if let Special::Block(dimension) = special {
                    warp.registers[*slot as usize] = [u64::from(block[*dimension as usize]); LANES];
                }
            }
            let lanes = threads.min(LANES as u32);
            threads -= lanes;
            warp.start(if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 });
        }
    }

    /// The fault of a block in which all threads wait.
    fn stuck(&self) -> Fault {
        let all =
            || self.warps.iter().flat_map(|warp| warp.waiting.iter().map(move |waiting| (warp, waiting)));
        let at_barrier = all().find(|(_, waiting)| matches!(waiting.at, At::Barrier { .. }));
        let kind =
            if at_barrier.is_some() { FaultKind::BarrierDivergence } else { FaultKind::WarpDivergence };
        let (place, warp, lane) = at_barrier.or_else(|| all().next()).map_or((0, 0, 0), |(warp, waiting)| {
            (waiting.place, warp.index, waiting.mask.trailing_zeros() as usize)
        });
        self.environment.fault(place, warp, Stop { lane, kind })
    }
}

impl Environment<'_> {
    /// The fault of a lane at an instruction.
    pub fn fault(&self, place: u32, warp: u32, stop: Stop) -> Fault {
        Fault {
            kernel: self.program.name.clone(),
            line: self.program.lines.get(place as usize).copied().unwrap_or(0),
            block: self.block,
            thread: thread(warp * LANES as u32 + stop.lane as u32, self.threads),
            kind: stop.kind,
        }
    }
}

/// The indices of the thread with a number in its block.
fn thread(number: u32, [x, y, _]: [u32; 3]) -> [u32; 3] {
    [number % x, number / x % y, number / x / y]
}

fn special_lanes(special: Special, warp: u32, launch: &Launch<'_>, program: &Program) -> Lanes {
    let mut lanes = [0; LANES];
    for (lane, out) in lanes.iter_mut().enumerate() {
        let lane = lane as u32;
        let value = match special {
            Special::Thread(d) => thread(warp * LANES as u32 + lane, launch.block)[d as usize],
            Special::Threads(d) => launch.block[d as usize],
            // Set for each block.
            Special::Block(_) => 0,
            Special::Blocks(d) => launch.grid[d as usize],
            Special::Lane => lane,
            Special::Warp => warp,
            Special::Warps => launch.block.iter().product::<u32>().div_ceil(LANES as u32),
            Special::LanesEqual => 1 << lane,
            Special::LanesBelow => (1 << lane) - 1,
            Special::LanesUpTo => u32::MAX >> (31 - lane),
            Special::LanesAbove => !(u32::MAX >> (31 - lane)),
            Special::LanesFrom => u32::MAX << lane,
            Special::Zero => 0,
            Special::Multiprocessors => 1,
            Special::DynamicShared => launch.dynamic_shared_bytes,
            Special::TotalShared => program.dynamic_shared + launch.dynamic_shared_bytes,
        };
        *out = u64::from(value);
    }
    lanes
}
