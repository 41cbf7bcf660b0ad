//! The cleanup thread runs the user code that nobody waits for, and hooks that have deadlines. Like the timeline thread
//! (`engine/timeline_thread.rs`) it is made on first need and joined by `close`.

use std::cell::Cell;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use crate::backend::TimelinePoint;
use crate::engine::finish::Mode;
use crate::engine::gate::Pass;
use crate::engine::hook_run::HookRun;
use crate::engine::jobs::Job;
use crate::engine::quiet::quietly;
use crate::engine::scopes::ScopeCell;
use crate::engine::timeline_thread::TimelineThread;
use crate::engine::wakers::{Waiter, WaiterId};
use crate::engine::{Engine, frames};
use crate::report::DetachedHook;
use crate::sync::atomic::Ordering;
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
    static CLEANUP: Cell<Option<(usize, u64)>> = const { Cell::new(None) };
    /// The engine, by address, that made this thread.
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    /// Jobs that run inside each other on this thread.
    static INLINE: Cell<usize> = const { Cell::new(0) };
}

/// The threads of one engine.
#[derive(Default)]
pub(crate) struct Threads {
    cleanup: Mutex<Option<thread::JoinHandle<()>>>,
    pub timeline: TimelineThread,
    detached: Mutex<Vec<DetachedHook>>,
    detached_changed: Condvar,
}

impl Engine {
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
        spawn_own(self, "tenure-cleanup", move |engine| {
            CLEANUP.with(|cleanup| cleanup.set(Some((Arc::as_ptr(engine).addr(), generation))));
            while let Some(job) = engine.cleanup.pop(generation) {
                engine.run_job(job);
            }
        })
    }

    /// True on this engine's cleanup thread, unless another has taken its place.
    pub(crate) fn on_cleanup_thread(self: &Arc<Self>) -> bool {
        self.cleanup_generation_here().is_some_and(|generation| generation == self.cleanup.generation())
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
        if !scope.inner.lock().has_due_hooks() {
            return;
        }
        if scope.may_run() && scope.poll_run(Mode::Executions, &Waiter::nobody()).is_ready() {
            return;
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

    /// Blocks on the device until `point` may have completed, and retires what has. Hooks of `mine` are left to the caller,
    /// who is told if there are any; others go to the cleanup thread.
    pub(crate) fn wait_and_retire_but_leave(
        self: &Arc<Self>,
        pass: Pass<'_>,
        point: TimelinePoint,
        timeout: Option<Duration>,
        mine: &Arc<ScopeCell>,
    ) -> bool {
        let mut due = Vec::new();
        self.wait_and_retire(pass, &[point], timeout, &mut due);
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

    /// Ends both threads and waits for them, but not for the cleanup thread if this is it.
    pub(crate) fn stop_threads(self: &Arc<Self>) {
        self.stop_timeline_thread();
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

/// A thread of the engine's own.
pub(super) fn spawn_own(
    engine: &Arc<Engine>,
    name: &str,
    run: impl FnOnce(&Arc<Engine>) + Send + 'static,
) -> thread::JoinHandle<()> {
    let engine = engine.clone();
    spawn(name, move || {
        OWN.with(|own| own.set(Some(Arc::as_ptr(&engine).addr())));
        run(&engine);
    })
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .unwrap_or_else(|error| panic!("the system gives no thread for {name}: {error}"))
}
