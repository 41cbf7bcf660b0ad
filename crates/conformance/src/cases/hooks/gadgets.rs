//! Things that cases wait with, and values whose drop is seen.
//!
//! Not here: hooks and judgements (`support.rs`).

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use parking_lot::{Condvar, Mutex};

use super::support::WATCHDOG;

/// A door for threads: shut until it is opened, then open for good.
#[derive(Clone, Debug, Default)]
pub(in crate::cases) struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    pub(in crate::cases) fn open(&self) {
        let (open, changed) = &*self.0;
        *open.lock() = true;
        changed.notify_all();
    }

    /// Blocks until it is open.
    ///
    /// # Panics
    /// If it never is.
    pub(in crate::cases) fn wait(&self) {
        let (open, changed) = &*self.0;
        let mut open = open.lock();
        while !*open {
            assert!(!changed.wait_for(&mut open, WATCHDOG).timed_out(), "a latch was never opened");
        }
    }
}

/// A door for futures.
#[derive(Clone, Debug, Default)]
pub(in crate::cases) struct Signal(Arc<Mutex<SignalState>>);

#[derive(Debug, Default)]
struct SignalState {
    set: bool,
    wakers: Vec<Waker>,
}

impl Signal {
    pub(in crate::cases) fn set(&self) {
        let wakers = {
            let mut state = self.0.lock();
            state.set = true;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ready once it is set.
    pub(in crate::cases) fn wait(&self) -> impl Future<Output = ()> + Send + 'static {
        let signal = self.clone();
        std::future::poll_fn(move |context| {
            let mut state = signal.0.lock();
            if state.set {
                return Poll::Ready(());
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
    }
}

/// A future that is pending once, and wakes by itself.
#[derive(Debug, Default)]
pub(in crate::cases) struct Yield {
    polled: bool,
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.polled {
            return Poll::Ready(());
        }
        self.polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A value whose drop panics, with a payload whose drop panics again, `depth` times.
#[derive(Debug)]
pub(in crate::cases) struct Bomb {
    pub(in crate::cases) depth: u32,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if let Some(depth) = self.depth.checked_sub(1) {
            std::panic::panic_any(Bomb { depth });
        }
    }
}

/// A value that does something when it is dropped.
pub(in crate::cases) struct OnDrop<F: FnMut()>(pub(in crate::cases) F);

impl<F: FnMut()> fmt::Debug for OnDrop<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnDrop")
    }
}

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

thread_local! {
    /// Dropped when this thread ends.
    static AT_EXIT: RefCell<Vec<mpsc::Sender<()>>> = const { RefCell::new(Vec::new()) };
}

/// The end of a thread that this case did not make, seen from another.
pub(in crate::cases) struct ThreadEnd(mpsc::Receiver<()>);

impl ThreadEnd {
    /// The second part goes to the thread, which calls [`watch_this_thread`] with it.
    pub(in crate::cases) fn new() -> (Self, mpsc::Sender<()>) {
        let (sender, receiver) = mpsc::channel();
        (ThreadEnd(receiver), sender)
    }

    /// Blocks until the thread has ended.
    #[track_caller]
    pub(in crate::cases) fn wait(&self) {
        let ended = self.0.recv_timeout(WATCHDOG);
        assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected), "a thread never ended");
    }
}

/// Tells the [`ThreadEnd`] when the thread that calls this has ended.
pub(in crate::cases) fn watch_this_thread(sender: mpsc::Sender<()>) {
    AT_EXIT.with_borrow_mut(|senders| senders.push(sender));
}
