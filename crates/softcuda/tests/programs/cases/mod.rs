//! The programs, by topic.
//!
//! Not here: starting them (`main.rs`).

mod capture;
mod checker;
mod copies;
mod devices;
mod events;
mod faults;
mod graphs;
mod kernels;
mod leaks;
mod lifetimes;
mod memory;
mod pools;
mod streams;

use crate::Case;

/// All programs.
pub fn all() -> Vec<Case> {
    let topics = [
        devices::CASES,
        streams::CASES,
        events::CASES,
        memory::CASES,
        copies::CASES,
        pools::CASES,
        kernels::CASES,
        graphs::CASES,
        capture::CASES,
        faults::CASES,
        checker::CASES,
        lifetimes::CASES,
        leaks::CASES,
    ];
    let mut cases = Vec::new();
    for topic in topics {
        cases.extend(topic.iter().map(|case| Case { ..*case }));
    }
    cases
}
