//! The contract events of every lifecycle case on the host backend, one snapshot a topic (L27). The suite holds every backend
//! to these texts.

use tenure_backend_host::{HostBackend, HostBlock};
use tenure_conformance::{Runner, Suite, cases, events};

fn runner() -> Runner {
    let suite = Suite::new("host", || Ok(HostBackend::new())).engine_memory::<HostBackend>(HostBlock::memory);
    suite.into_runner().expect("the host backend opens")
}

/// One test for all topics: some cases observe the process.
#[test]
fn events_are_as_kept() {
    let runner = runner();
    let mut snapshots = Vec::new();
    for topic in events::TOPICS {
        let mut text = String::new();
        for case in cases::all() {
            let of_topic = case.id.split_once('/').is_some_and(|(other, _)| other == *topic);
            if !of_topic || case.missing(runner.bed().facts()).is_some() {
                continue;
            }
            if let Some(events) = runner.events_of(case) {
                let events = events.unwrap_or_else(|failure| panic!("{}: {failure}", case.id));
                text.push_str(&format!("{}{events}", events::heading(case.id)));
            }
        }
        snapshots.push((topic, text));
    }
    for (topic, text) in snapshots {
        insta::assert_snapshot!(*topic, text);
    }
}
