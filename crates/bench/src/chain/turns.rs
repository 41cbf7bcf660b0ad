//! Turns: several batches side by side, of which one works on one image while the others wait.
//!
//! What two policies differ in is less than what a machine's mood does to whole batches. So every image goes under each
//! policy at nearly the same time, and another one goes first each time. A batch knows nothing of it: its first node
//! waits for the turn. Not here: what is run (`chain.rs`).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chain::error::ImageError;
use chain::node::{Frame, Node, Step};

/// Whose turn it is, among a fixed number of seats.
struct Turns {
    state: Mutex<State>,
    changed: Condvar,
    /// Who goes first in the first round.
    first: usize,
}

struct State {
    /// Turns that are over.
    over: usize,
    /// Seats that take no more turns.
    gone: Vec<bool>,
}

/// The place of one batch. Dropped, it takes no more turns.
pub struct Seat {
    turns: Arc<Turns>,
    at: usize,
    timed: Mutex<Timed>,
}

/// The turns of one seat.
#[derive(Default)]
struct Timed {
    /// When the turn that is on began.
    begun: Option<Instant>,
    /// Milliseconds of each that is over.
    times: Vec<f64>,
}

/// A seat for each of so many batches. The one with the number `first` has the first turn.
pub fn seats(count: usize, first: usize) -> Vec<Arc<Seat>> {
    let state = Mutex::new(State { over: 0, gone: vec![false; count] });
    let turns = Arc::new(Turns { state, changed: Condvar::new(), first });
    let seat = |at| Arc::new(Seat { turns: turns.clone(), at, timed: Mutex::default() });
    (0..count).map(seat).collect()
}

impl Turns {
    /// Whose turn it is; turns of those that are gone are skipped.
    fn whose(&self, state: &mut State) -> Option<usize> {
        let seats = state.gone.len();
        if state.gone.iter().all(|gone| *gone) {
            return None;
        }
        loop {
            let (round, step) = (state.over / seats, state.over % seats);
            // Another one goes first in each round.
            let seat = (self.first + round + step) % seats;
            if !state.gone[seat] {
                return Some(seat);
            }
            state.over += 1;
        }
    }
}

impl Seat {
    /// Ends this seat's turn if it has it, waits for its next one, and begins that.
    fn next(&self) {
        self.end();
        let turns = &self.turns;
        let mut state = locked(&turns.state);
        while turns.whose(&mut state) != Some(self.at) {
            state = turns.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        locked(&self.timed).begun = Some(Instant::now());
    }

    /// Ends this seat's turn, if it has it.
    fn end(&self) {
        let mut timed = locked(&self.timed);
        let Some(begun) = timed.begun.take() else { return };
        timed.times.push(begun.elapsed().as_secs_f64() * 1e3);
        drop(timed);
        locked(&self.turns.state).over += 1;
        self.turns.changed.notify_all();
    }

    /// Takes no more turns. Milliseconds of each that there was.
    pub fn leave(&self) -> Vec<f64> {
        self.end();
        locked(&self.turns.state).gone[self.at] = true;
        self.turns.changed.notify_all();
        std::mem::take(&mut locked(&self.timed).times)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A panic elsewhere changes nothing here.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first node of a chain, which begins when its batch has its turn. The turn lasts until it begins again.
pub struct InTurn {
    pub seat: Arc<Seat>,
    pub node: Box<dyn Node>,
}

impl Node for InTurn {
    fn name(&self) -> &'static str {
        self.node.name()
    }

    fn record(&self, step: &Step<'_>, frame: &mut Frame) -> Result<(), ImageError> {
        self.seat.next();
        self.node.record(step, frame)
    }

    fn complete(&self, frame: &mut Frame) -> Result<(), ImageError> {
        self.node.complete(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_another_first_each_round() {
        let order = Mutex::new(Vec::new());
        std::thread::scope(|threads| {
            for seat in seats(3, 1) {
                let order = &order;
                threads.spawn(move || {
                    // One leaves early, and is not waited for.
                    for _ in 0..if seat.at == 2 { 1 } else { 3 } {
                        seat.next();
                        locked(order).push(seat.at);
                    }
                    let times = seat.leave();
                    assert_eq!(times.len(), if seat.at == 2 { 1 } else { 3 });
                });
            }
        });
        assert_eq!(*locked(&order), [1, 2, 0, /* without 2 */ 0, 1, 0, 1]);
    }
}
