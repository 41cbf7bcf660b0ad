//! Tests of waiting: each thread is woken by what it waits for, by an interrupt, or by the time.

use tenure_core::BackendErrorKind;

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
        for value in (1..=8).rev() {
            threads.spawn(move || {
                assert_eq!(
                    timelines.wait_any(&[point(value)], Some(Duration::MAX)).expect("alive"),
                    WaitStatus::Woken
                );
                assert!(timelines.completed(QueueId(0)).expect("alive") >= value, "woken by point {value}");
            });
            until(timelines, |waiters| waiters.blocked == 9 - value as usize);
        }
        for value in 1..=8 {
            submit(timelines, value);
            until(timelines, |waiters| waiters.blocked <= 8 - value as usize);
        }
    });
}

#[test]
fn of_several_targets_the_first_ends_the_wait() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    std::thread::scope(|threads| {
        let wait = threads.spawn(|| timelines.wait_any(&[point(3), point(1), point(2)], Some(Duration::MAX)));
        until(timelines, |waiters| waiters.blocked == 1);
        submit(timelines, 1);
        assert_eq!(wait.join().expect("no panic").expect("alive"), WaitStatus::Woken);
        assert_eq!(timelines.completed(QueueId(0)).expect("alive"), 1);
    });
}

#[test]
fn an_interrupt_ends_every_wait_that_is_blocked() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    std::thread::scope(|threads| {
        let waits: Vec<_> = [Some(Duration::MAX), Some(Duration::from_secs(3600)), Some(Duration::MAX)]
            .into_iter()
            .map(|timeout| threads.spawn(move || timelines.wait_any(&[point(1)], timeout).expect("alive")))
            .collect();
        until(timelines, |waiters| waiters.blocked == 3);
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
fn an_interrupt_ends_a_wait_without_a_target_and_so_does_the_time() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    std::thread::scope(|threads| {
        let waits: Vec<_> = [None, Some(Duration::MAX)]
            .into_iter()
            .map(|timeout| threads.spawn(move || timelines.wait_any(&[], timeout).expect("alive")))
            .collect();
        until(timelines, |waiters| waiters.blocked == 2);
        timelines.interrupt();
        for wait in waits {
            assert_eq!(wait.join().expect("no panic"), WaitStatus::Woken);
        }
    });
    let wait = |timeout| timelines.wait_any(&[], Some(timeout)).expect("alive");
    assert_eq!(wait(Duration::ZERO), WaitStatus::TimedOut);
    assert_eq!(wait(Duration::from_millis(1)), WaitStatus::TimedOut);
}

#[test]
fn who_waits_longer_stays_when_another_gives_up() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    std::thread::scope(|threads| {
        // More than one look, and one.
        let short = threads.spawn(|| timelines.wait_any(&[point(1)], Some(5 * SLICE)));
        let shorter = threads.spawn(|| timelines.wait_any(&[point(1)], Some(SLICE / 2)));
        let long = threads.spawn(|| timelines.wait_any(&[point(1)], Some(Duration::MAX)));
        for wait in [short, shorter] {
            assert_eq!(wait.join().expect("no panic").expect("alive"), WaitStatus::TimedOut);
        }
        until(timelines, |waiters| waiters.blocked == 1);
        submit(timelines, 1);
        assert_eq!(long.join().expect("no panic").expect("alive"), WaitStatus::Woken);
    });
}

#[test]
fn a_loss_ends_every_wait() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    std::thread::scope(|threads| {
        let waits: Vec<_> = [Duration::from_secs(3600), Duration::MAX]
            .map(Some)
            .into_iter()
            .map(|timeout| threads.spawn(move || timelines.wait_any(&[point(1)], timeout)))
            .collect();
        until(timelines, |waiters| waiters.blocked == 2);
        device.api.lose("vkFirst", "the first cause");
        for wait in waits {
            let error = wait.join().expect("no panic").expect_err("lost");
            assert_eq!((error.kind, error.operation), (BackendErrorKind::DeviceLost, "vkFirst"));
        }
    });
}

#[test]
fn what_was_written_before_is_visible_to_every_submission() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    let queue = &timelines.queues[0];
    let submit_after = |value, waits: &[TimelinePoint]| {
        timelines.submit(queue.order, point(value), waits).expect("submitted");
        queue.visible.load(Ordering::Relaxed)
    };
    // Nothing came before.
    assert_eq!(submit_after(1, &[]), 0);
    // Not known to have completed: the barrier orders all that was submitted.
    assert_eq!(submit_after(2, &[point(1)]), 1);
    assert_eq!(submit_after(3, &[]), 1);
    // Known to have completed: the semaphore, whether or not anything is to be waited for.
    assert_eq!(timelines.wait_any(&[point(3)], None).expect("alive"), WaitStatus::Woken);
    assert_eq!(submit_after(4, &[point(2)]), 3);
    timelines.drain();
    assert_eq!(timelines.completed(QueueId(0)).expect("alive"), 4);
    assert_eq!(submit_after(5, &[]), 4);
    timelines.drain();
}

#[test]
fn a_wait_without_a_time_is_the_drivers_and_takes_no_interrupt() {
    let Some(device) = device() else { return };
    let timelines = &device.timelines;
    timelines.interrupt();
    std::thread::scope(|threads| {
        let wait = threads.spawn(|| timelines.wait_any(&[point(1)], None));
        submit(timelines, 1);
        assert_eq!(wait.join().expect("no panic").expect("alive"), WaitStatus::Woken);
        assert_eq!(timelines.completed(QueueId(0)).expect("alive"), 1);
    });
    // The interrupt is for the next one that can be interrupted.
    let wait = || timelines.wait_any(&[point(2)], Some(Duration::MAX)).expect("alive");
    assert_eq!(wait(), WaitStatus::Woken);
}
