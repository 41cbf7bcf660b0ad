//! The timeline thread: waits for the device, retires, wakes, and watches deadlines. It never runs user code. Also how
//! others tell it that there is something to look at.
//!
//! Not here: the pass that retires (`engine/timeline.rs`), the cleanup thread (`engine/threads.rs`).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::backend::QueueId;
use crate::engine::Engine;
use crate::engine::scopes::ScopeCell;
use crate::engine::threads::spawn_own;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, thread, thread_local};

thread_local! {
    /// This is a timeline thread.
    static TIMELINE: Cell<bool> = const { Cell::new(false) };
}

/// What the timeline thread is told, and what it does.
#[derive(Default)]
pub(crate) struct TimelineThread {
    handle: Mutex<Option<thread::JoinHandle<()>>>,
    /// It was made.
    made: AtomicBool,
    signal: Mutex<Signal>,
    changed: Condvar,
    /// How it rests, as a number. Written by itself alone, under the lock of `signal`.
    rest: AtomicU64,
    /// Work was submitted during a short rest, and nobody told it.
    untold: AtomicBool,
    /// The next moment at which each scope wants to be looked at.
    supervised: Mutex<BTreeMap<u64, (Instant, Weak<ScopeCell>)>>,
}

/// What the timeline thread is told.
#[derive(Default)]
struct Signal {
    /// Something changed since it last looked.
    dirty: bool,
    stopped: bool,
}

/// What the timeline thread does while it does not look.
///
/// Who submits reads it without a lock, after the work is in its queue. That is enough: each look at the queues begins
/// with [`Rest::None`]. A look that came before the work, under the queue's lock, has written that before; a later look
/// finds the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// It is at work, and looks again before it rests.
    None,
    /// It is blocked on the device, for the next points of these queues, a bit each: it looks when one of them completes.
    OnDevice(u64),
    /// It has nothing to wait for. It looks again in a moment, or when told.
    Short,
    /// It has had nothing to wait for, for a while. It looks when told.
    Long,
}

impl Rest {
    const SHORT: u64 = 1 << 63;
    const LONG: u64 = 1 << 62;
    const ON_DEVICE: u64 = 1 << 61;

    /// The bit of a queue. Those beyond the last bit have none: their submissions always tell.
    fn bit_of(queue: QueueId) -> u64 {
        if queue.0 < 61 { 1 << queue.0 } else { 0 }
    }

    fn to_number(self) -> u64 {
        match self {
            Rest::None => 0,
            Rest::OnDevice(queues) => Rest::ON_DEVICE | queues,
            Rest::Short => Rest::SHORT,
            Rest::Long => Rest::LONG,
        }
    }

    fn of_number(number: u64) -> Self {
        match number {
            0 => Rest::None,
            Rest::SHORT => Rest::Short,
            Rest::LONG => Rest::Long,
            on_device => Rest::OnDevice(on_device & !Rest::ON_DEVICE),
        }
    }
}

/// How long a short rest lasts. A thread that evaluates and waits for each result by itself would otherwise wake the
/// timeline thread for every one of them, and the two would fight for the same locks.
const SHORT_REST: Duration = Duration::from_millis(2);

/// Short rests before a long one. Under shuttle time does not pass, so there are none.
const SHORT_RESTS: u32 = if cfg!(feature = "shuttle") { 0 } else { 10 };

impl TimelineThread {
    fn rest(&self) -> Rest {
        Rest::of_number(self.rest.load(Ordering::SeqCst))
    }

    /// The caller is the timeline thread and holds the lock of `signal`.
    fn set_rest(&self, rest: Rest) {
        self.rest.store(rest.to_number(), Ordering::SeqCst);
    }
}

impl Engine {
    /// New work is on a queue. The timeline thread is told at once where it would not look by itself soon enough:
    /// `has_hooks` if hooks have to run after that work, whether or not anybody waits for it.
    pub(crate) fn work_submitted(self: &Arc<Self>, queue: QueueId, has_hooks: bool) {
        if !self.options.threads {
            return;
        }
        let thread = &self.threads.timeline;
        match thread.rest() {
            // A queue completes in order: it looks before the new work can have completed.
            Rest::OnDevice(queues) if queues & Rest::bit_of(queue) != 0 => {}
            Rest::Short if !has_hooks => thread.untold.store(true, Ordering::SeqCst),
            _ => self.wake_timeline(),
        }
    }

    /// Somebody relies on the timeline thread: a waker waits for what it notices.
    pub(crate) fn rely_on_timeline(&self) {
        let thread = &self.threads.timeline;
        if thread.rest() == Rest::Short && thread.untold.load(Ordering::SeqCst) {
            // It begins to rest under the lock: from here on it hears.
            drop(thread.signal.lock());
            thread.changed.notify_all();
        }
    }

    /// Has the timeline thread look again, if there is one.
    pub(crate) fn signal_timeline(&self) {
        let thread = &self.threads.timeline;
        let interrupt = {
            let mut signal = thread.signal.lock();
            signal.dirty = true;
            matches!(thread.rest(), Rest::OnDevice(_))
        };
        thread.changed.notify_all();
        if interrupt {
            self.driver.interrupt();
        }
    }

    /// The same, and makes it if there is none.
    pub(crate) fn wake_timeline(self: &Arc<Self>) {
        self.signal_timeline();
        let thread = &self.threads.timeline;
        if thread.made.load(Ordering::Acquire) {
            return;
        }
        let mut handle = thread.handle.lock();
        if handle.is_none() && !thread.signal.lock().stopped {
            *handle = Some(spawn_own(self, "tenure-timeline", |engine| {
                TIMELINE.with(|timeline| timeline.set(true));
                engine.run_timeline();
            }));
            thread.made.store(true, Ordering::Release);
        }
    }

    /// A wait of this thread may have swallowed an interrupt that was meant for the timeline thread, on its way
    /// to the device: it is sent again.
    pub(crate) fn pass_interrupt_on(&self) {
        let thread = &self.threads.timeline;
        // Who sent the interrupt saw it there before, and it stays there until it has the interrupt.
        if !matches!(thread.rest(), Rest::OnDevice(_)) || on_timeline_thread() {
            return;
        }
        let meant_for_it = {
            let signal = thread.signal.lock();
            matches!(thread.rest(), Rest::OnDevice(_)) && (signal.dirty || signal.stopped)
        };
        if meant_for_it {
            self.driver.interrupt();
        }
    }

    /// Looks at `scope` at this moment.
    pub(crate) fn supervise(self: &Arc<Self>, scope: &Arc<ScopeCell>, at: Instant) {
        {
            let mut supervised = self.threads.timeline.supervised.lock();
            let known = supervised.entry(scope.id).or_insert_with(|| (at, Arc::downgrade(scope)));
            known.0 = known.0.min(at);
        }
        self.wake_timeline();
    }

    fn run_timeline(self: &Arc<Self>) {
        let thread = &self.threads.timeline;
        let mut short_rests = 0;
        loop {
            {
                let mut signal = thread.signal.lock();
                if signal.stopped {
                    return;
                }
                let told = std::mem::take(&mut signal.dirty);
                if thread.untold.swap(false, Ordering::SeqCst) || told {
                    short_rests = 0;
                }
                thread.set_rest(Rest::None);
            }
            self.retire_and_queue_hooks();
            let next = self.check_supervised();
            let targets = self.next_targets();
            if self.is_lost() && !targets.is_empty() {
                // Lost since this pass looked at the device: all of it ends now (L23).
                continue;
            }
            let mut signal = thread.signal.lock();
            if signal.dirty || signal.stopped {
                continue;
            }
            if targets.is_empty() {
                let rested = (0..SHORT_RESTS).contains(&short_rests);
                let soon = rested.then(|| Instant::now() + SHORT_REST);
                thread.set_rest(if rested { Rest::Short } else { Rest::Long });
                short_rests += 1;
                match soon.into_iter().chain(next).min() {
                    Some(at) => {
                        thread.changed.wait_until(&mut signal, at);
                    }
                    None => thread.changed.wait(&mut signal),
                }
                continue;
            }
            let queues = targets.iter().fold(0, |bits, target| bits | Rest::bit_of(target.queue));
            thread.set_rest(Rest::OnDevice(queues));
            drop(signal);
            // With a time, so that it can be told.
            let left = next.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            self.wait_device(&targets, Some(left));
        }
    }

    /// Looks at the scopes whose moment has come; returns the next moment.
    fn check_supervised(&self) -> Option<Instant> {
        let now = Instant::now();
        let (due, next) = {
            let mut supervised = self.threads.timeline.supervised.lock();
            let mut due = Vec::new();
            supervised.retain(|_, (at, scope)| {
                if *at <= now {
                    due.extend(scope.upgrade());
                    return false;
                }
                // A scope that nobody holds needs no look any more.
                scope.strong_count() > 0
            });
            (due, supervised.values().map(|(at, _)| *at).min())
        };
        let mut next = next;
        for scope in due {
            if let Some(at) = scope.check_deadlines(now) {
                let mut supervised = self.threads.timeline.supervised.lock();
                let known = supervised.entry(scope.id).or_insert_with(|| (at, Arc::downgrade(&scope)));
                known.0 = known.0.min(at);
                next = Some(next.map_or(at, |known| known.min(at)));
            }
        }
        next
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop_timeline_thread(&self) {
        let thread = &self.threads.timeline;
        thread.signal.lock().stopped = true;
        thread.changed.notify_all();
        self.driver.interrupt();
        let handle = thread.handle.lock().take();
        if let Some(handle) = handle {
            let _ = handle.join();
        }
    }

    /// True on this engine's timeline thread.
    pub(crate) fn on_timeline_thread(&self) -> bool {
        on_timeline_thread() && self.on_own_thread()
    }
}

fn on_timeline_thread() -> bool {
    TIMELINE.try_with(Cell::get).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_what_its_number_says() {
        let queues = (0..100).fold(0, |bits, queue| bits | Rest::bit_of(QueueId(queue)));
        assert_eq!(queues.count_ones(), 61);
        for rest in [Rest::None, Rest::OnDevice(0), Rest::OnDevice(queues), Rest::Short, Rest::Long] {
            assert_eq!(Rest::of_number(rest.to_number()), rest);
        }
    }
}
