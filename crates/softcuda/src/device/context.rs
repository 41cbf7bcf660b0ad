//! Contexts, and the stack of those that are current on a thread.
//!
//! Not here: the exported functions (`driver/context.rs`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;

use super::queue::Queue;
use super::state::State;
use super::stream::Ended;
use crate::code::{Answer, Code};
use crate::memory::{Handle, Kind};
use crate::order::{Clock, Order};

/// A context.
#[derive(Debug, Default)]
pub struct Context {
    /// The ordinal of its device.
    pub device: usize,
    /// For a primary context, how often it is retained.
    pub retained: Option<u64>,
    /// As they were asked for.
    pub flags: u32,
    /// Limits that were set, by number.
    pub limits: HashMap<u32, usize>,
    /// Its streams, default ones included.
    pub streams: Vec<Handle>,
    /// The default stream, once it was used.
    pub legacy: Option<Handle>,
    /// Default streams of threads.
    pub per_thread: HashMap<u64, Handle>,
    /// Streams that were destroyed and may still work.
    pub ended: Vec<Ended>,
    /// Queues of streams that are done: their threads are ending, and are waited for when nothing is locked.
    pub ending: Vec<Queue>,
    /// What streams that were destroyed did, as far as they are done.
    pub ended_clock: Clock,
    /// Contexts of other devices whose memory may be used from here.
    pub peers: Vec<Handle>,
}

thread_local! {
    // Never dropped: destructors of a thread's other locals call the driver too, whatever their order.
    static STACK: ManuallyDrop<RefCell<Vec<Handle>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// The context that is current on this thread, whether it still is there or not; 0 for none.
pub fn top() -> Handle {
    STACK.with(|stack| stack.borrow().last().copied().unwrap_or(0))
}

/// Makes a context current.
pub fn push(context: Handle) {
    STACK.with(|stack| stack.borrow_mut().push(context));
}

/// Makes the one below current.
pub fn pop() -> Option<Handle> {
    STACK.with(|stack| stack.borrow_mut().pop())
}

/// Puts a context in the place of the current one; 0 takes that away.
pub fn replace_top(context: Handle) {
    pop();
    if context != 0 {
        push(context);
    }
}

impl Context {
    /// Lets go of destroyed streams that are done.
    pub fn reap(&mut self, order: &Order) {
        let mut kept = Vec::new();
        for ended in self.ended.drain(..) {
            if ended.last.as_ref().is_some_and(|last| !last.done.is_done()) {
                kept.push(ended);
                continue;
            }
            if ended.last.is_some_and(|last| !order.is_observed(&last.ticket)) {
                self.ended_clock.join(&ended.clock);
            }
            self.ending.push(ended.queue);
        }
        self.ended = kept;
        order.forget_seen(&mut self.ended_clock);
    }
}

impl State {
    /// Queues whose threads are ending. Whoever takes them joins them when nothing is locked, for a thread that ends may
    /// still call the driver.
    pub fn take_ending(&mut self) -> Vec<Queue> {
        self.contexts.values_mut().flat_map(|context| std::mem::take(&mut context.ending)).collect()
    }

    /// The context that is current on this thread.
    ///
    /// # Errors
    /// `INVALID_CONTEXT` if there is none, `CONTEXT_IS_DESTROYED` if it is gone.
    pub fn current(&self) -> Answer<Handle> {
        match top() {
            0 => Err(Code::INVALID_CONTEXT),
            handle if self.contexts.contains_key(&handle) => Ok(handle),
            _ => Err(Code::CONTEXT_IS_DESTROYED),
        }
    }

    /// The current context and the ordinal of its device.
    ///
    /// # Errors
    /// As `current`.
    pub fn current_device(&self) -> Answer<(Handle, usize)> {
        let handle = self.current()?;
        Ok((handle, self.contexts[&handle].device))
    }

    /// Makes a context.
    pub fn new_context(&mut self, device: usize, flags: u32, retained: Option<u64>) -> Handle {
        let handle = self.new_handle();
        self.contexts.insert(handle, Context { device, flags, retained, ..Context::default() });
        handle
    }

    /// Takes a context away with all that dies with it: streams, events, modules, memory, but not memory that was
    /// allocated in stream order. Its work is over. Gives the queues, whose threads the caller joins.
    ///
    /// What the program did not destroy itself counts as leaked.
    pub fn end_context(&mut self, handle: Handle) -> Vec<Queue> {
        let mut lost = Vec::new();
        let owned = self.contexts.get(&handle).map(|context| context.streams.clone()).unwrap_or_default();
        for stream in owned {
            if self.streams.get(&stream).is_some_and(|stream| stream.owned) {
                lost.push(format!("stream {stream:#x}"));
            }
            self.end_stream(stream);
        }
        let events = self.events.extract_if(|_, event| event.context == handle);
        lost.extend(events.map(|(event, _)| format!("event {event:#x}")));
        let modules: Vec<Handle> = self
            .modules
            .iter()
            .filter(|(_, module)| module.context == handle)
            .map(|entry| *entry.0)
            .collect();
        for module in modules {
            lost.push(format!("module {module:#x}"));
            self.end_module(module);
        }
        let dead: Vec<_> = self
            .map
            .iter()
            .filter(|allocation| allocation.context == handle && !allocation.is_freed())
            .filter(|allocation| !matches!(allocation.kind, Kind::Pooled(_)))
            .cloned()
            .collect();
        for allocation in dead {
            lost.push(allocation.in_words());
            self.give_back(&allocation);
            self.map.remove(allocation.address);
            self.order.gone(allocation.address);
        }
        self.leaked += lost.len() as u64;
        if !lost.is_empty() && super::driver().health.error().is_none() && !super::driver().settings.quiet {
            eprintln!("softcuda: a context was destroyed that still had: {}", lost.join(", "));
        }
        let context = self.contexts.remove(&handle).unwrap_or_default();
        if let Some(device) = self.devices.get_mut(context.device)
            && device.primary == Some(handle)
        {
            device.primary = None;
        }
        context.ended.into_iter().map(|ended| ended.queue).chain(context.ending).collect()
    }
}
