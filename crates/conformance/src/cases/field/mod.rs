//! Cases from the field: public reports by users of other frameworks, restated as scenarios against tenure, each with
//! the right behaviour asserted. A case is named after its number in the collection, and names the report.
//!
//! Where a report asks for something else than the contract gives, the contract stands: caches are cleared by
//! `AfterRelease` hooks (L16), there is no user-visible mapping, whole blocks are not merged but trimmed.
//!
//! Two kinds of report need processes of their own and are tests of this crate, not cases: process exit with live
//! objects (C27) and fork (C28) are `tests/process`, growth over a million sequences (C24) is `tests/growth.rs`. Not
//! here either: graphs (C32, C33 a and d).

mod abort;
mod allocator;
mod devices;
mod ends;
mod hooks;
mod in_flight;
mod limits;
mod nesting;
mod pressure;
mod process;
mod support;
mod tasks;

use crate::case::Case;

/// The cases of this topic.
pub const CASES: &[Case] = &joined();

/// The parts, in the order of the collection.
const PARTS: [&[Case]; 11] = [
    in_flight::CASES,
    abort::CASES,
    hooks::CASES,
    ends::CASES,
    pressure::CASES,
    allocator::CASES,
    limits::CASES,
    process::CASES,
    devices::CASES,
    nesting::CASES,
    tasks::CASES,
];

const COUNT: usize = {
    let mut count = 0;
    let mut part = 0;
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
};

/// One table of all parts.
const fn joined() -> [Case; COUNT] {
    let mut all = [const { Case { id: "", rules: &[], requires: &[], run: |_| {} } }; COUNT];
    let mut next = 0;
    let mut part = 0;
    while part < PARTS.len() {
        let mut at = 0;
        while at < PARTS[part].len() {
            let case = &PARTS[part][at];
            all[next] = Case { id: case.id, rules: case.rules, requires: case.requires, run: case.run };
            next += 1;
            at += 1;
        }
        part += 1;
    }
    all
}
