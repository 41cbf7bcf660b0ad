//! Tests of waiting: one thread in the driver, others behind it, each woken by what it waits for.

use super::*;
use crate::backend::VulkanBackend;
use crate::device::Device;

/// A device; none, with the reason printed, where there is none.
fn device() -> Option<Arc<Device>> {
    let backend = VulkanBackend::new().inspect_err(|error| println!("skipped: {error}")).ok()?;
    Some(backend.device())
}

fn point(value: u64) -> TimelinePoint {
    TimelinePoint { queue: QueueId(0), value }
}

/// Waits for a state that another thread is on its way to.
fn until(timelines: &Timelines, reached: impl Fn(&Waiters) -> bool) {
    while !reached(&timelines.waiters.lock()) {
        std::thread::yield_now();
    }
}

/// Completes a point.
fn submit(timelines: &Timelines, value: u64) {
    let nothing = timelines.queues[0].order;
    timelines.submit(nothing, point(value), &[]).expect("submitted");
}

#[test]
fn each_wait_ends_with_its_own_point() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    std::thread::scope(|threads| {
        // The last point is waited for in the driver first; who wants an earlier one has to bring that thread back.
        for value in (1..=8).rev() {
            threads.spawn(move || {
                assert_eq!(timelines.wait_any(&[point(value)], None).expect("alive"), WaitStatus::Woken);
                assert!(timelines.completed(QueueId(0)).expect("alive") >= value, "woken by point {value}");
            });
            until(timelines, |waiters| {
                waiters.wanted.len() == 9 - value as usize && waiters.leading.is_some()
            });
        }
        for value in 1..=8 {
            submit(timelines, value);
            until(timelines, |waiters| waiters.wanted.len() <= 8 - value as usize);
        }
    });
}

#[test]
fn an_interrupt_ends_every_wait_that_is_blocked() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    std::thread::scope(|threads| {
        let waits: Vec<_> = [None, None, Some(Duration::from_secs(3600)), Some(Duration::MAX)]
            .into_iter()
            .map(|timeout| threads.spawn(move || timelines.wait_any(&[point(1)], timeout).expect("alive")))
            .collect();
        until(timelines, |waiters| waiters.wanted.len() == 4);
        timelines.interrupt();
        for wait in waits {
            assert_eq!(wait.join().expect("no panic"), WaitStatus::Woken);
        }
    });
    // Nothing is left of it for the next one.
    let wait = |value| timelines.wait_any(&[point(value)], Some(Duration::ZERO)).expect("alive");
    assert_eq!(wait(1), WaitStatus::TimedOut);
    timelines.interrupt();
    assert_eq!(wait(1), WaitStatus::Woken);
    assert_eq!(wait(1), WaitStatus::TimedOut);
}

#[test]
fn what_has_completed_counts_before_the_time() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    submit(timelines, 1);
    timelines.drain();
    let wait = |value| timelines.wait_any(&[point(value)], Some(Duration::ZERO)).expect("alive");
    assert_eq!((wait(1), wait(2)), (WaitStatus::Woken, WaitStatus::TimedOut));
}

#[test]
fn who_waits_longer_takes_over_from_who_gives_up() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    std::thread::scope(|threads| {
        let short = threads.spawn(|| timelines.wait_any(&[point(1)], Some(Duration::from_millis(20))));
        until(timelines, |waiters| waiters.wanted.len() == 1);
        let long = threads.spawn(|| timelines.wait_any(&[point(1)], None));
        assert_eq!(short.join().expect("no panic").expect("alive"), WaitStatus::TimedOut);
        until(timelines, |waiters| waiters.wanted.len() == 1 && waiters.leading.is_some());
        submit(timelines, 1);
        assert_eq!(long.join().expect("no panic").expect("alive"), WaitStatus::Woken);
    });
}
