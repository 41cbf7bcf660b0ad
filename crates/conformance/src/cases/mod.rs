//! The cases, one topic a file, and the list of all.
//!
//! A case's id is `topic/name`, with the name of its function. It cites at least one rule of the contract. Each
//! topic is a plain table, so that adding a case is a function and a row.
//!
//! A case asserts behaviour, not time: it holds completions back and releases them ([`Probe`](crate::Probe)) instead of
//! sleeping. It drops or closes every manager that it opens, and releases what it holds; the bed then waits for the
//! backends to shut down and judges what is left. What only some devices have is a
//! [`Requirement`](crate::Requirement). Not here: what a case gets (`bed.rs`).

pub mod adoption;
pub mod cancellation;
pub mod faults;
pub mod field;
pub mod graphs;
pub mod hazards;
pub mod hooks;
pub mod input;
pub mod kernels;
pub mod kompute;
pub mod loss;
pub mod memory;
pub mod observability;
pub mod ownership;
pub mod scopes;
pub mod sequences;
pub mod stack;
pub mod threads;

use crate::case::Case;

/// The topics with their cases, in the order of a run.
const TOPICS: &[(&str, &[Case])] = &[
    ("ownership", ownership::CASES),
    ("sequences", sequences::CASES),
    ("hazards", hazards::CASES),
    ("scopes", scopes::CASES),
    ("hooks", hooks::CASES),
    ("stack", stack::CASES),
    ("kompute", kompute::CASES),
    ("cancellation", cancellation::CASES),
    ("memory", memory::CASES),
    ("adoption", adoption::CASES),
    ("faults", faults::CASES),
    ("loss", loss::CASES),
    ("graphs", graphs::CASES),
    ("observability", observability::CASES),
    ("field", field::CASES),
    ("threads", threads::CASES),
    ("input", input::CASES),
    ("kernels", kernels::CASES),
];

/// Every case, in the order of a run.
pub fn all() -> Vec<&'static Case> {
    TOPICS.iter().flat_map(|(_, cases)| *cases).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_carry_their_topic() {
        let mut seen = BTreeSet::new();
        for (topic, cases) in TOPICS {
            for case in *cases {
                assert!(seen.insert(case.id), "`{}` is there twice", case.id);
                let name = case.id.strip_prefix(topic).and_then(|rest| rest.strip_prefix('/'));
                let plain = |name: &str| {
                    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
                };
                assert!(
                    name.is_some_and(|name| !name.is_empty() && plain(name)),
                    "`{}` is no id of topic `{topic}`",
                    case.id
                );
            }
        }
    }

    #[test]
    fn every_case_cites_rules_of_the_contract() {
        let rules: Vec<String> = (1..=28).map(|number| format!("L{number}")).collect();
        for case in all() {
            assert!(!case.rules.is_empty(), "`{}` cites no rule", case.id);
            for rule in case.rules {
                assert!(rules.iter().any(|known| known == rule), "`{}` cites {rule}", case.id);
            }
        }
    }
}
