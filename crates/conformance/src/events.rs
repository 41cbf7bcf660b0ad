//! The contract events of lifecycle cases (L27): one text a case, the same on every backend, kept as snapshots. A case whose
//! events differ from its snapshot fails.
//!
//! The text tells the lives of scopes, executions and tensors, one after the other, each in its causal order. When one thread
//! or device does something, against what another does meanwhile, is no part of it: that is nobody's promise. Cases about
//! events themselves (`cases/observability.rs`) have the order between lives too.
//!
//! The snapshots are made on the host backend by the test `events` of this package (`cargo insta` accepts changes), and are
//! part of the suite: a backend of one's own is held to the same texts. Not here: what events there are (core).

use std::collections::HashMap;

use tenure_core::{Event, EventKind, EventStream};

use crate::case::Case;
use crate::expectations::matches;

/// The topics whose cases are lives of resources from begin to end.
pub const TOPICS: &[&str] = &[
    "ownership",
    "sequences",
    "scopes",
    "hooks",
    "stack",
    "kompute",
    "cancellation",
    "memory",
    "adoption",
    "loss",
    "graphs",
];

/// Cases of those topics whose events are not one text, with the reason.
const NOT_ONE_TEXT: &[(&str, &str)] = &[
    ("cancellation/against_*", RACE),
    ("cancellation/ten_scopes_one_canceller", RACE),
    ("hooks/every_call_works_*", RACE),
    ("hooks/hooks_of_two_threads_use_each_others_scopes", RACE),
    ("loss/an_engine_can_tell", RACE),
    ("hooks/a_captured_value_closes_the_manager", RACE),
    ("memory/counters_are_exact_after_many_threads", RACE),
    ("memory/pieces_are_aligned", SIZES),
    ("memory/a_largest_block_of_odd_size", SIZES),
    ("memory/rounding_takes_no_room_that_is_not_there", SIZES),
    ("ownership/*races_with*", RACE),
    ("scopes/many_finish_at_once", RACE),
];

const SIZES: &str = "the sizes in it follow the device's alignment and limits";
const RACE: &str = "threads race in it, on purpose: what happens first differs from run to run";

/// Lines of a case that are kept as they are. What is beyond is kept as a count and a hash.
const MAX_LINES: usize = 60;

/// The events that a case is to have.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    id: &'static str,
    /// None where the snapshots have no such case.
    text: Option<&'static str>,
}

impl Recorded {
    /// What is kept of a case; none if its events are not one text, or it is no lifecycle case.
    pub fn of(case: &Case) -> Option<Recorded> {
        let (topic, _) = case.id.split_once('/')?;
        if !TOPICS.contains(&topic) || NOT_ONE_TEXT.iter().any(|(pattern, _)| matches(pattern, case.id)) {
            return None;
        }
        Some(Recorded { id: case.id, text: section(snapshot(topic)?, case.id) })
    }

    /// What is wrong with the events of a run, in words; none if they are as kept.
    pub fn difference(&self, events: &str) -> Option<String> {
        let Some(kept) = self.text else {
            return Some(format!("L27: there is no snapshot of the events of {}", self.id));
        };
        let actual = abridged(events);
        if actual.trim_end() == kept.trim_end() {
            return None;
        }
        let (mut expected, mut lines) = (kept.trim_end().lines(), actual.trim_end().lines());
        let mut at = 1;
        loop {
            match (expected.next(), lines.next()) {
                (Some(expected), Some(line)) if expected == line => at += 1,
                (expected, line) => {
                    let show =
                        |line: Option<&str>| line.map_or("nothing".to_owned(), |line| format!("`{line}`"));
                    return Some(format!(
                        "L27: the events differ from those on other backends, in line {at}: expected {}, found {}",
                        show(expected),
                        show(line)
                    ));
                }
            }
        }
    }
}

/// Whose life an event is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Subject {
    /// The scope itself, or the manager.
    Scope,
    Tensor(u64),
    /// By its number in its scope.
    Execution(u64),
}

impl Subject {
    fn of(kind: &EventKind) -> Subject {
        match kind {
            EventKind::Acquire { tensor, .. }
            | EventKind::Retire { tensor, .. }
            | EventKind::Reclaim { tensor, .. } => Subject::Tensor(*tensor),
            EventKind::Submit { execution, .. }
            | EventKind::Complete { execution, .. }
            | EventKind::Hook { execution: Some(execution), .. } => Subject::Execution(*execution),
            _ => Subject::Scope,
        }
    }
}

/// The contract events as text: the lives of each scope, its own first and the others in the order of their texts, and the
/// scopes in the order of theirs. Who of several comes first is no part of it.
pub(crate) fn lives(events: &[Event]) -> String {
    let mut scopes: HashMap<Option<u64>, HashMap<Subject, String>> = HashMap::new();
    for event in events {
        // A manager that was dropped closes on a thread of its own: whether that was told yet is no part of a case.
        if event.kind.stream() != EventStream::Contract || event.kind == EventKind::Closed {
            continue;
        }
        let scope = event.scope.as_ref().map(|(id, _)| *id);
        let life = scopes.entry(scope).or_default().entry(Subject::of(&event.kind)).or_default();
        life.push_str(&format!("{event}\n"));
    }
    let mut texts: Vec<String> = scopes
        .into_values()
        .map(|mut lives| {
            let own = lives.remove(&Subject::Scope).unwrap_or_default();
            let mut others: Vec<String> = lives.into_values().collect();
            others.sort_unstable();
            own + &others.concat()
        })
        .collect();
    texts.sort_unstable();
    texts.concat()
}

/// The events of one case as they are kept: long ones are cut, and end with a count and a hash of what was cut.
pub fn abridged(events: &str) -> String {
    let lines: Vec<&str> = events.lines().collect();
    let Some(rest) = lines.get(MAX_LINES..).filter(|rest| !rest.is_empty()) else { return events.to_owned() };
    let mut text = lines[..MAX_LINES].join("\n");
    text.push_str(&format!("\nand {} more lines, hash {:016x}\n", rest.len(), hash(rest)));
    text
}

/// FNV-1a, which is the same everywhere and for ever.
fn hash(lines: &[&str]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The heading of a case in the snapshot of its topic.
pub fn heading(id: &str) -> String {
    format!("# {id}\n")
}

/// The part of a snapshot that is about one case.
fn section(snapshot: &'static str, id: &str) -> Option<&'static str> {
    let heading = heading(id);
    let begin = snapshot.find(&format!("\n{heading}"))? + 1 + heading.len();
    let rest = &snapshot[begin..];
    Some(&rest[..rest.find("\n# ").map_or(rest.len(), |end| end + 1)])
}

macro_rules! snapshots {
    ($($topic:literal),* $(,)?) => {
        /// The kept events of a topic.
        fn snapshot(topic: &str) -> Option<&'static str> {
            match topic {
                $($topic => Some(include_str!(concat!("../tests/snapshots/events__", $topic, ".snap"))),)*
                _ => None,
            }
        }
    };
}

snapshots!(
    "ownership",
    "sequences",
    "scopes",
    "hooks",
    "stack",
    "kompute",
    "cancellation",
    "memory",
    "adoption",
    "loss",
    "graphs",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_name_cases_of_these_topics_with_a_reason() {
        for (pattern, reason) in NOT_ONE_TEXT {
            let topic = pattern.split_once('/').map(|(topic, _)| topic);
            assert!(topic.is_some_and(|topic| TOPICS.contains(&topic)), "{pattern}");
            assert!(crate::cases::all().iter().any(|case| matches(pattern, case.id)), "{pattern}");
            assert!(!reason.is_empty(), "{pattern}");
        }
    }

    #[test]
    fn a_difference_names_the_line() {
        let recorded = Recorded { id: "a/b", text: Some("manager `m`\n[s] open\n") };
        assert_eq!(recorded.difference("manager `m`\n[s] open\n"), None);
        let text = recorded.difference("manager `m`\n[s] opened\n").expect("they differ");
        assert!(text.ends_with("in line 2: expected `[s] open`, found `[s] opened`"), "{text}");
        let text = recorded.difference("manager `m`\n").expect("one is shorter");
        assert!(text.ends_with("expected `[s] open`, found nothing"), "{text}");
        let nothing = Recorded { id: "a/b", text: None };
        assert!(nothing.difference("").is_some_and(|text| text.contains("no snapshot")));
    }

    #[test]
    fn long_events_are_cut_and_told_apart() {
        let many = |last: &str| (0..99).map(|at| format!("{at}\n")).collect::<String>() + last;
        let (a, b) = (abridged(&many("a\n")), abridged(&many("b\n")));
        assert_eq!(a.lines().count(), MAX_LINES + 1);
        assert!(a.contains("and 40 more lines, hash "), "{a}");
        assert_ne!(a, b);
    }
}
