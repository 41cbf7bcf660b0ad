//! Catching a case's panic with its message and place.
//!
//! The process's panic hook is replaced once. On the thread of a case it keeps message and place instead of printing
//! them; panics of other threads while cases run (a kernel that panics, a hook on the cleanup thread) are kept too, and
//! are told only if the case fails. Not here: what a caught panic means (`runner.rs`).

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

use parking_lot::Mutex;

/// Panics of other threads that are kept.
const MAX_ELSEWHERE: usize = 8;

/// Message and place of a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    message: String,
    place: String,
}

thread_local! {
    /// The panics of this thread since the case on it began; none where no case runs.
    static MINE: RefCell<Option<Vec<Seen>>> = const { RefCell::new(None) };
}

/// Cases that run now, and the panics of other threads since the first of them began.
static ELSEWHERE: Mutex<Elsewhere> = Mutex::new(Elsewhere { running: 0, seen: VecDeque::new() });

struct Elsewhere {
    running: usize,
    seen: VecDeque<String>,
}

/// Runs `body`. If it panics: the message and the place, and what other threads panicked with meanwhile.
pub(crate) fn catch(body: impl FnOnce()) -> Result<(), String> {
    install();
    let before = MINE.replace(Some(Vec::new()));
    ELSEWHERE.lock().running += 1;
    let result = catch_unwind(AssertUnwindSafe(body));
    let others = {
        let mut elsewhere = ELSEWHERE.lock();
        elsewhere.running -= 1;
        let others: Vec<String> = elsewhere.seen.iter().cloned().collect();
        if elsewhere.running == 0 {
            elsewhere.seen.clear();
        }
        others
    };
    let mine = MINE.replace(before).unwrap_or_default();
    result.map_err(|payload| {
        let message = message_of(&*payload);
        // A hook of the case may have panicked too, later: the one that got out is the one with this message.
        let place = mine.iter().rev().find(|seen| seen.message == message).map(|seen| &*seen.place);
        let mut text = format!("{message}\n  at {}", place.unwrap_or("an unknown place"));
        for other in others {
            text.push_str(&format!("\n  meanwhile {other}"));
        }
        text
    })
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".to_owned(),
    }
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !keep(info) {
                previous(info);
            }
        }));
    });
}

/// Keeps a panic of a case; false if no case runs.
fn keep(info: &PanicHookInfo<'_>) -> bool {
    let message = message_of(info.payload());
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let seen = Seen { message, place };
    // A thread that is ending has no list any more.
    let on_case = MINE.try_with(|mine| {
        let mut mine = mine.borrow_mut();
        mine.as_mut().map(|mine| mine.push(seen.clone())).is_some()
    });
    if on_case.unwrap_or(false) {
        return true;
    }
    let mut elsewhere = ELSEWHERE.lock();
    if elsewhere.running == 0 {
        return false;
    }
    if elsewhere.seen.len() == MAX_ELSEWHERE {
        elsewhere.seen.pop_front();
    }
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    elsewhere.seen.push_back(format!("thread `{name}` panicked at {}: {}", seen.place, seen.message));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panic_that_got_out_is_told_with_its_place() {
        let caught = catch(|| {
            let _ = catch_unwind(|| panic!("inner"));
            panic!("outer {}", 1);
        });
        let text = caught.unwrap_err();
        assert!(text.starts_with("outer 1\n  at "), "{text}");
        assert!(text.contains("panics.rs"), "{text}");
        assert_eq!(catch(|| {}), Ok(()));
    }

    #[test]
    fn panics_of_other_threads_are_told_too() {
        let text = catch(|| {
            let worker = std::thread::Builder::new().name("worker".into()).spawn(|| panic!("kernel"));
            let _ = worker.unwrap().join();
            panic!("the result is wrong");
        });
        let text = text.unwrap_err();
        assert!(text.contains("meanwhile thread `worker` panicked at "), "{text}");
        assert!(text.contains(": kernel"), "{text}");
    }
}
