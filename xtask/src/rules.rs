//! The numbers of the contract, with a few words for each, and which of them need a conformance case.
//!
//! Not here: what the rules say. The contract stands in ARCHITECTURE.md.

/// One rule of the contract.
#[derive(Debug)]
pub struct Rule {
    /// `L4`: how code, tests and reports cite it.
    pub id: &'static str,
    /// A reminder for tables, not the rule.
    pub title: &'static str,
    /// Whether this version must have a conformance case that cites the rule.
    pub covered: Coverage,
}

/// Whether a rule must have a conformance case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// At least one case cites the rule, or `cargo xtask tidy` fails.
    Required,
    /// The rule is about a part that is not in this version.
    NotInThisVersion,
}

use Coverage::{NotInThisVersion, Required};

/// All rules, in order: row `n` is rule `L(n + 1)`.
pub const RULES: [Rule; 28] = [
    rule("L1", "owners and handles", Required),
    rule("L2", "retired exactly once", Required),
    rule("L3", "stale handles", Required),
    rule("L4", "nothing freed in flight", Required),
    rule("L5", "recordings keep alive", Required),
    rule("L6", "any drop order", Required),
    rule("L7", "sequence states", Required),
    rule("L8", "names and clearing", Required),
    rule("L9", "evaluating again", Required),
    rule("L10", "one stack per scope", Required),
    rule("L11", "hooks run once", Required),
    rule("L12", "hook keys", Required),
    rule("L13", "every error is kept", Required),
    rule("L14", "host and device hooks", Required),
    rule("L15", "no lock in user code", Required),
    rule("L16", "finishing a scope", Required),
    rule("L17", "dropped scopes", Required),
    rule("L18", "dropped futures", Required),
    rule("L19", "exact accounting", Required),
    rule("L20", "out of memory", Required),
    rule("L21", "trim policy", Required),
    rule("L22", "budgets and sizes", Required),
    rule("L23", "lost device", Required),
    rule("L24", "graph nodes go", NotInThisVersion),
    rule("L25", "graph pins", NotInThisVersion),
    rule("L26", "consumed nodes", NotInThisVersion),
    rule("L27", "events", Required),
    rule("L28", "close report", Required),
];

/// The place of a rule in [`RULES`]; `None` if the contract has no such number.
pub fn index_of(id: &str) -> Option<usize> {
    RULES.iter().position(|rule| rule.id == id)
}

const fn rule(id: &'static str, title: &'static str, covered: Coverage) -> Rule {
    Rule { id, title, covered }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_each_other() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.id, format!("L{}", index + 1));
            assert_eq!(index_of(rule.id), Some(index));
        }
        assert_eq!(index_of("L29"), None);
        assert_eq!(index_of("L"), None);
    }
}
