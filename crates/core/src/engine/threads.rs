//! The two threads: the timeline thread waits for the device, retires and supervises deadlines, and never
//! runs user code; the cleanup thread runs the user code that nobody waits for. Both are made on first need
//! and joined by `close`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use crate::backend::QueueId;
use crate::engine::finish::Mode;
use crate::engine::jobs::Job;
use crate::engine::quiet::quietly;
use crate::engine::registration::HookRun;
use crate::engine::scopes::ScopeCell;
use crate::engine::wakers::{Waiter, WaiterId};
use crate::engine::{Engine, frames};
use crate::report::DetachedHook;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, thread, thread_local};

/// Puts a scope's job back when it can go on.
struct JobWaker {
    scope: Weak<ScopeCell>,
    mode: Mode,
}

impl Wake for JobWaker {
    fn wake(self: Arc<Self>) {
        if let Some(scope) = self.scope.upgrade()
            && !(self.mode == Mode::Finish && scope.has_result())
        {
            scope.engine.push_scope(&scope, self.mode);
        }
    }
}

/// Jobs that run inside each other on one cleanup thread, at most: each costs stack. Then another thread serves.
const MAX_INLINE: usize = 16;
/// The same where there are no threads, and so nobody to hand over to.
const MAX_INLINE_WITHOUT_THREADS: usize = 64;

thread_local! {
    /// The cleanup thread of which engine this is, by address and generation.
    static CLEANUP: Cell<Option<(usize, u64)>> = Cell::new(None);
    /// The engine, by address, that made this thread.
    static OWN: Cell<Option<usize>> = Cell::new(None);
    /// This is a timeline thread.
    static TIMELINE: Cell<bool> = Cell::new(false);
    /// Jobs that run inside each other on this thread.
    static INLINE: Cell<usize> = Cell::new(0);
}

/// The threads of one engine.
#[derive(Default)]
pub(crate) struct Threads {
    cleanup: Mutex<Option<thread::JoinHandle<()>>>,
    timeline: Mutex<Option<thread::JoinHandle<()>>>,
    /// The timeline thread was made.
    has_timeline: AtomicBool,
    signal: Mutex<Signal>,
    changed: Condvar,
    /// The next moment at which each scope wants to be looked at.
    supervised: Mutex<BTreeMap<u64, (Instant, Weak<ScopeCell>)>>,
    detached: Mutex<Vec<DetachedHook>>,
    detached_changed: Condvar,
}

/// What the timeline thread is told.
#[derive(Default)]
struct Signal {
    /// Something changed since it last looked.
    dirty: bool,
    stopped: bool,
    rest: Rest,
}

/// What the timeline thread does while it does not look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rest {
    /// It is at work, and looks again before it rests.
    #[default]
    None,
    /// It is blocked on the device, for the next points of these queues, a bit each: it looks when one of them completes.
    OnDevice(u64),
    /// It has nothing to wait for. It looks again in a moment, or when told.
    Short,
    /// It has had nothing to wait for, for a while. It looks when told.
    Long,
}

/// How long a short rest lasts. A thread that evaluates and waits for each result by itself would otherwise wake the
/// timeline thread for every one of them, and the two would fight for the same locks.
const SHORT_REST: Duration = Duration::from_millis(2);

/// Short rests before a long one. Under shuttle time does not pass, so there are none.
const SHORT_RESTS: u32 = if cfg!(feature = "shuttle") { 0 } else { 10 };

fn bit_of(queue: QueueId) -> u64 {
    // Queues beyond the last bit share none: their submissions always tell.
    1_u64.checked_shl(queue.0).unwrap_or(0)
}

impl Engine {
    // Cleanup thread.

    /// Gives work to the cleanup thread, or to the next poll where there are no threads.
    pub(crate) fn push_job(self: &Arc<Self>, job: Job) {
        self.cleanup.push(job);
        if !self.options.threads {
            return;
        }
        let mut handle = self.threads.cleanup.lock();
        // Once stopped, who closes runs what is left.
        if handle.is_none() && !self.cleanup.is_stopped() {
            *handle = Some(self.spawn_cleanup(self.cleanup.generation()));
        }
    }

    /// Has the cleanup thread go on with a scope; once, however often it is asked.
    pub(crate) fn push_scope(self: &Arc<Self>, scope: &Arc<ScopeCell>, mode: Mode) {
        if !self.closing.is_shut() && !scope.queued(mode).swap(true, Ordering::SeqCst) {
            self.push_job(Job::Scope(scope.clone(), mode));
        }
    }

    /// True where a wait has to run queued cleanup work, since nobody else would: on the cleanup thread, and where
    /// there are no threads (L15).
    pub(crate) fn serves_cleanup_here(self: &Arc<Self>) -> bool {
        !self.options.threads || self.on_cleanup_thread()
    }

    /// Runs one queued job inside a wait. Where too many run inside each other already, another cleanup thread serves
    /// from now on: what this one waits for may be among them.
    pub(crate) fn run_inline(self: &Arc<Self>) -> bool {
        let generation = self.cleanup_generation_here();
        let max = if self.options.threads { MAX_INLINE } else { MAX_INLINE_WITHOUT_THREADS };
        let depth = INLINE.try_with(Cell::get).unwrap_or(max);
        if depth >= max {
            if let Some(generation) = generation
                && self.cleanup.has_inline_job()
            {
                self.replace_cleanup_thread(generation);
            }
            return false;
        }
        let Some(job) = self.cleanup.try_pop_inline(generation) else { return false };
        INLINE.with(|inline| inline.set(depth + 1));
        self.run_job(job);
        INLINE.with(|inline| inline.set(depth));
        true
    }

    /// True if there is a cleanup thread, which may be at something.
    pub(crate) fn has_cleanup_thread(&self) -> bool {
        self.threads.cleanup.lock().is_some()
    }

    /// Without threads: runs what is due once, without blocking. Returns the number of jobs.
    pub(crate) fn poll_jobs(self: &Arc<Self>) -> u64 {
        let mut count = 0;
        let waiting = self.cleanup.len();
        if frames::inside(self) {
            // Inside a hook as in any wait of it: not too deep, and closing is left to a poll outside.
            while count < waiting as u64 && self.run_inline() {
                count += 1;
            }
            return count;
        }
        while count < waiting as u64
            && let Some(job) = self.cleanup.try_pop()
        {
            count += 1;
            match job {
                // A poll does not wait: what is not idle yet is closed by a later one.
                Job::Close => self.close_abandoned(Some(Duration::ZERO)),
                job => self.run_job(job),
            }
        }
        count
    }

    /// The device is lost: whoever waits must look.
    pub(crate) fn loss_noticed(self: &Arc<Self>) {
        let Some(_pass) = self.driver_pass() else { return };
        self.driver.interrupt();
        if self.options.threads {
            self.wake_timeline();
        } else {
            self.retire_and_queue_hooks();
        }
    }

    /// True on any thread of this engine's, which must not wait for itself.
    pub(crate) fn on_own_thread(&self) -> bool {
        let engine = std::ptr::from_ref(self).addr();
        OWN.try_with(Cell::get).ok().flatten() == Some(engine)
    }

    fn spawn_cleanup(self: &Arc<Self>, generation: u64) -> thread::JoinHandle<()> {
        let engine = self.clone();
        spawn("tenure-cleanup", move || {
            OWN.with(|own| own.set(Some(Arc::as_ptr(&engine).addr())));
            CLEANUP.with(|cleanup| cleanup.set(Some((Arc::as_ptr(&engine).addr(), generation))));
            while let Some(job) = engine.cleanup.pop(generation) {
                engine.run_job(job);
            }
        })
    }

    /// True on this engine's cleanup thread, unless another has taken its place.
    pub(crate) fn on_cleanup_thread(self: &Arc<Self>) -> bool {
        self.cleanup_generation_here() == Some(self.cleanup.generation())
    }

    /// Which cleanup thread of this engine this is or was.
    fn cleanup_generation_here(self: &Arc<Self>) -> Option<u64> {
        let (engine, generation) = CLEANUP.try_with(Cell::get).ok().flatten()?;
        (engine == Arc::as_ptr(self).addr()).then_some(generation)
    }

    /// The cleanup thread is stuck in a hook (L16), or in waits that may need what is queued (L15): it is detached, and
    /// another takes its place.
    pub(crate) fn replace_cleanup_thread(self: &Arc<Self>, stuck: u64) {
        // Else it was replaced already, for another hook that it is inside of.
        let Some(generation) = self.cleanup.take_over(stuck) else { return };
        let new = self.spawn_cleanup(generation);
        let old = self.threads.cleanup.lock().replace(new);
        // Not joined: it ends when its hook comes back.
        drop(old);
    }

    /// Closes for nobody, on a thread of its own: it waits for hooks and calls that may need the cleanup thread.
    fn close_in_the_background(self: &Arc<Self>) {
        let engine = self.clone();
        drop(spawn("tenure-close", move || engine.close_abandoned(None)));
    }

    /// Polls a pending hook that outlived its deadline to its end, on a thread of its own.
    pub(crate) fn outlive_elsewhere(self: &Arc<Self>, scope: &Arc<ScopeCell>, run: HookRun) {
        let scope = scope.clone();
        drop(spawn("tenure-late-hook", move || scope.outlive(run)));
    }

    pub(crate) fn detached_hook(&self, hook: DetachedHook) {
        self.threads.detached.lock().push(hook);
    }

    pub(crate) fn detached_hook_returned(&self, hook: &DetachedHook) {
        let mut detached = self.threads.detached.lock();
        if let Some(at) = detached.iter().position(|known| known == hook) {
            detached.swap_remove(at);
        }
        drop(detached);
        self.threads.detached_changed.notify_all();
    }

    pub(crate) fn detached_hooks(&self) -> Vec<DetachedHook> {
        self.threads.detached.lock().clone()
    }

    /// Waits until every detached hook is back; false if the time was over first.
    pub(crate) fn wait_for_detached(&self, deadline: Option<Instant>) -> bool {
        let mut detached = self.threads.detached.lock();
        while !detached.is_empty() {
            match deadline {
                None => self.threads.detached_changed.wait(&mut detached),
                Some(at) => {
                    if self.threads.detached_changed.wait_until(&mut detached, at).timed_out() {
                        return detached.is_empty();
                    }
                }
            }
        }
        true
    }

    /// Runs one job, without waiting for anything but a hook that blocks. A panic in it is an error like another.
    pub(crate) fn run_job(self: &Arc<Self>, job: Job) {
        let answer = quietly(|| match job {
            Job::Scope(scope, mode) => self.go_on_with(&scope, mode),
            Job::DestroyKernel(kernel) => self.destroy_kernel(kernel),
            Job::Release(adopted) => self.release_adopted(adopted),
            Job::Close => self.close_in_the_background(),
        });
        if answer.is_none() {
            tracing::error!(target: "tenure", "manager `{}`: a cleanup job panicked", self.label);
        }
    }

    fn go_on_with(self: &Arc<Self>, scope: &Arc<ScopeCell>, mode: Mode) {
        scope.queued(mode).store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::new(JobWaker { scope: Arc::downgrade(scope), mode }));
        let id = match mode {
            Mode::Executions => WaiterId::EXECUTIONS_JOB,
            Mode::Finish => WaiterId::FINISH_JOB,
        };
        if scope.poll_run(mode, &Waiter::new(id, &waker)).is_pending() || mode == Mode::Executions {
            return;
        }
        if scope.has_result() {
            self.keep_errors_of_abandoned(scope);
        } else {
            // The role was taken away in a scope below; whoever has it now may know nothing of this one.
            self.push_scope(scope, mode);
        }
    }

    /// Gives the execution hooks of `scope` that are due to the cleanup thread.
    pub(crate) fn push_hooks(self: &Arc<Self>, scope: &Arc<ScopeCell>) {
        if scope.inner.lock().has_due_hooks() {
            self.push_scope(scope, Mode::Executions);
        }
    }

    /// Runs the execution hooks of `scope` that are due, on this thread if it may; what is pending then goes
    /// to the cleanup thread.
    pub(crate) fn run_hooks_inline(self: &Arc<Self>, scope: &Arc<ScopeCell>) {
        let (due, inline) = {
            let inner = scope.inner.lock();
            (inner.has_due_hooks(), !inner.finish.needs_cleanup_thread || self.on_cleanup_thread())
        };
        if !due {
            return;
        }
        if inline {
            let waiter = Waiter::new(WaiterId::NOBODY, Waker::noop());
            if scope.poll_run(Mode::Executions, &waiter).is_ready() {
                return;
            }
        }
        self.push_scope(scope, Mode::Executions);
    }

    /// Retires what has completed; hooks that are due go to the cleanup thread.
    pub(crate) fn retire_and_queue_hooks(self: &Arc<Self>) -> u64 {
        let mut due = Vec::new();
        let count = self.retire_completed(&mut due);
        for scope in due {
            self.push_scope(&scope, Mode::Executions);
        }
        count
    }

    /// Retires what has completed; hooks of `mine` are left to the caller, who is told if there are any.
    pub(crate) fn retire_but_leave(self: &Arc<Self>, mine: &Arc<ScopeCell>) -> bool {
        let mut due = Vec::new();
        self.retire_completed(&mut due);
        let mut left = false;
        for scope in due {
            if Arc::ptr_eq(&scope, mine) {
                left = true;
            } else {
                self.push_scope(&scope, Mode::Executions);
            }
        }
        left
    }

    // Timeline thread.

    /// New work is on a queue. The timeline thread is told at once where it would not look by itself soon enough:
    /// `has_hooks` if hooks have to run after that work, whether or not anybody waits for it.
    pub(crate) fn work_submitted(self: &Arc<Self>, queue: QueueId, has_hooks: bool) {
        if !self.options.threads {
            return;
        }
        {
            let mut signal = self.threads.signal.lock();
            match signal.rest {
                // A queue completes in order: it looks before the new work can have completed.
                Rest::OnDevice(queues) if queues & bit_of(queue) != 0 => return,
                Rest::Short if !has_hooks => {
                    signal.dirty = true;
                    return;
                }
                _ => {}
            }
        }
        self.wake_timeline();
    }

    /// Somebody relies on the timeline thread: a waker waits for what it notices.
    pub(crate) fn rely_on_timeline(&self) {
        if !self.options.threads {
            return;
        }
        let signal = self.threads.signal.lock();
        if signal.rest == Rest::Short && signal.dirty {
            drop(signal);
            self.threads.changed.notify_all();
        }
    }

    /// Has the timeline thread look again, if there is one.
    pub(crate) fn signal_timeline(&self) {
        let interrupt = {
            let mut signal = self.threads.signal.lock();
            signal.dirty = true;
            matches!(signal.rest, Rest::OnDevice(_))
        };
        self.threads.changed.notify_all();
        if interrupt {
            self.driver.interrupt();
        }
    }

    fn wake_timeline(self: &Arc<Self>) {
        self.signal_timeline();
        if self.threads.has_timeline.load(Ordering::Acquire) {
            return;
        }
        let mut handle = self.threads.timeline.lock();
        if handle.is_none() && !self.threads.signal.lock().stopped {
            let engine = self.clone();
            *handle = Some(spawn("tenure-timeline", move || {
                OWN.with(|own| own.set(Some(Arc::as_ptr(&engine).addr())));
                TIMELINE.with(|timeline| timeline.set(true));
                engine.run_timeline();
            }));
            self.threads.has_timeline.store(true, Ordering::Release);
        }
    }

    /// A wait of this thread may have swallowed an interrupt that was meant for the timeline thread, on its way
    /// to the device: it is sent again.
    pub(crate) fn pass_interrupt_on(&self) {
        let meant_for_timeline = {
            let signal = self.threads.signal.lock();
            matches!(signal.rest, Rest::OnDevice(_)) && (signal.dirty || signal.stopped)
        };
        if meant_for_timeline && !on_timeline_thread() {
            self.driver.interrupt();
        }
    }

    /// Looks at `scope` at this moment.
    pub(crate) fn supervise(self: &Arc<Self>, scope: &Arc<ScopeCell>, at: Instant) {
        {
            let mut supervised = self.threads.supervised.lock();
            let known = supervised.entry(scope.id).or_insert_with(|| (at, Arc::downgrade(scope)));
            known.0 = known.0.min(at);
        }
        self.wake_timeline();
    }

    fn run_timeline(self: &Arc<Self>) {
        let mut short_rests = 0;
        loop {
            {
                let mut signal = self.threads.signal.lock();
                if signal.stopped {
                    return;
                }
                if std::mem::take(&mut signal.dirty) {
                    short_rests = 0;
                }
                signal.rest = Rest::None;
            }
            self.retire_and_queue_hooks();
            let next = self.check_supervised();
            let targets = self.next_targets();
            if self.is_lost() && !targets.is_empty() {
                // Lost since this pass looked at the device: all of it ends now (L23).
                continue;
            }
            let mut signal = self.threads.signal.lock();
            if signal.dirty || signal.stopped {
                continue;
            }
            if targets.is_empty() {
                let rested = short_rests < SHORT_RESTS;
                let soon = rested.then(|| Instant::now() + SHORT_REST);
                signal.rest = if rested { Rest::Short } else { Rest::Long };
                short_rests += 1;
                match soon.into_iter().chain(next).min() {
                    Some(at) => {
                        self.threads.changed.wait_until(&mut signal, at);
                    }
                    None => self.threads.changed.wait(&mut signal),
                }
                continue;
            }
            signal.rest = Rest::OnDevice(targets.iter().fold(0, |bits, target| bits | bit_of(target.queue)));
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
            let mut supervised = self.threads.supervised.lock();
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
                let mut supervised = self.threads.supervised.lock();
                let known = supervised.entry(scope.id).or_insert_with(|| (at, Arc::downgrade(&scope)));
                known.0 = known.0.min(at);
                next = Some(next.map_or(at, |known| known.min(at)));
            }
        }
        next
    }

    /// Ends both threads and waits for them, but not for the cleanup thread if this is it.
    pub(crate) fn stop_threads(self: &Arc<Self>) {
        self.threads.signal.lock().stopped = true;
        self.threads.changed.notify_all();
        self.driver.interrupt();
        let timeline = self.threads.timeline.lock().take();
        if let Some(timeline) = timeline {
            let _ = timeline.join();
        }
        self.cleanup.stop();
        let cleanup = self.threads.cleanup.lock().take();
        if let Some(cleanup) = cleanup
            && !self.on_cleanup_thread()
        {
            let _ = cleanup.join();
        }
        debug_assert!(!frames::inside(self), "close is refused inside hooks (L15)");
    }
}

impl Engine {
    /// True on this engine's timeline thread.
    pub(crate) fn on_timeline_thread(&self) -> bool {
        on_timeline_thread() && self.on_own_thread()
    }
}

fn on_timeline_thread() -> bool {
    TIMELINE.try_with(Cell::get).unwrap_or(false)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .unwrap_or_else(|error| panic!("the system gives no thread for {name}: {error}"))
}
