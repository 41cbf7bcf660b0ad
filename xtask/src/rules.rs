//! The numbers of the contract, with a few words for each. Every rule needs a conformance case.
//!
//! Not here: what the rules say. The contract stands in docs/contract.md.

/// One rule of the contract.
#[derive(Debug)]
pub struct Rule {
    /// `L4`: how code, tests and reports cite it.
    pub id: &'static str,
    /// A reminder for tables, not the rule.
    pub title: &'static str,
}

/// All rules, in order: row `n` is rule `L(n + 1)`.
pub const RULES: [Rule; 28] = [
    rule("L1", "owners and handles"),
    rule("L2", "retired exactly once"),
    rule("L3", "stale handles"),
    rule("L4", "nothing freed in flight"),
    rule("L5", "recordings keep alive"),
    rule("L6", "any drop order"),
    rule("L7", "sequence states"),
    rule("L8", "names and clearing"),
    rule("L9", "evaluating again"),
    rule("L10", "one stack per scope"),
    rule("L11", "hooks run once"),
    rule("L12", "hook keys"),
    rule("L13", "every error is kept"),
    rule("L14", "host and device hooks"),
    rule("L15", "no lock in user code"),
    rule("L16", "finishing a scope"),
    rule("L17", "dropped scopes"),
    rule("L18", "dropped futures"),
    rule("L19", "exact accounting"),
    rule("L20", "out of memory"),
    rule("L21", "trim policy"),
    rule("L22", "budgets and sizes"),
    rule("L23", "lost device"),
    rule("L24", "graph nodes go"),
    rule("L25", "graph pins"),
    rule("L26", "consumed nodes"),
    rule("L27", "events"),
    rule("L28", "close report"),
];

/// The place of a rule in [`RULES`]; `None` if the contract has no such number.
pub fn index_of(id: &str) -> Option<usize> {
    RULES.iter().position(|rule| rule.id == id)
}

const fn rule(id: &'static str, title: &'static str) -> Rule {
    Rule { id, title }
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
