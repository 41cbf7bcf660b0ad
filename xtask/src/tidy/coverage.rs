//! Check: the contract's rules have conformance cases, and cases cite only rules that there are.
//!
//! Read from the sources of the cases, so that it needs no build. Not here: what a case does; whether it passes.

use std::collections::HashSet;

use super::finding::Finding;
use super::source::{Source, line_of};
use crate::rules::{self, RULES};

const CHECK: &str = "contract-coverage";

/// Where the cases are.
const CASES: &str = "crates/conformance/src/cases/";

/// Where a rule without a case is reported: the table that says which rules need one.
const TABLE: &str = "xtask/src/rules.rs";

/// Finds rules without a case and citations of rules that the contract does not have.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut cited = HashSet::new();
    for source in sources.iter().filter(|source| source.path.starts_with(CASES)) {
        for citation in citations(source) {
            match rules::index_of(&citation.rule) {
                Some(index) => {
                    cited.insert(index);
                }
                None => {
                    let text = format!("a case cites {}, which the contract does not have", citation.rule);
                    findings.push(Finding::error(CHECK, &source.path, citation.line, text));
                }
            }
        }
    }
    for (index, rule) in RULES.iter().enumerate() {
        if !cited.contains(&index) {
            let text = format!("no case in {CASES} cites {} ({})", rule.id, rule.title);
            findings.push(Finding::error(CHECK, TABLE, line_of_rule(sources, rule.id), text));
        }
    }
    findings
}

struct Citation {
    line: usize,
    rule: String,
}

/// The literals in lists of rules, such as `&["L2", "L4"]`, wherever a case or a helper of cases has them.
fn citations(source: &Source) -> Vec<Citation> {
    let text = source.without_comments();
    let mut found = Vec::new();
    for (start, _) in text.match_indices("&[") {
        let list = text[start + 2..].split(']').next().unwrap_or_default();
        // Every second piece is between quotes.
        let literals: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        if literals.iter().all(|literal| is_rule(literal)) {
            let line = line_of(&text, start);
            found.extend(literals.into_iter().map(|rule| Citation { line, rule: rule.to_owned() }));
        }
    }
    found
}

fn is_rule(literal: &str) -> bool {
    literal
        .strip_prefix('L')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn line_of_rule(sources: &[Source], id: &str) -> usize {
    let quoted = format!("\"{id}\"");
    let table = sources.iter().find(|source| source.path == TABLE);
    let position = table.and_then(|table| table.text.lines().position(|line| line.contains(&quoted)));
    position.map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(text: &str) -> Source {
        Source::new(format!("{CASES}a.rs"), text)
    }

    fn cites(text: &str) -> Vec<String> {
        citations(&case(text)).into_iter().map(|citation| citation.rule).collect()
    }

    fn required() -> Vec<&'static str> {
        RULES.iter().map(|rule| rule.id).collect()
    }

    /// Cases that cite all rules that need one, but this.
    fn all_but(missing: &str) -> Vec<Source> {
        let rules: Vec<_> = required().into_iter().filter(|id| *id != missing).collect();
        vec![case(&format!("rules: &[\"{}\"]", rules.join("\", \"")))]
    }

    #[test]
    fn full_coverage_is_fine() {
        assert_eq!(check(&all_but("none")), []);
    }

    #[test]
    fn each_missing_rule_is_found() {
        for id in required() {
            let findings = check(&all_but(id));
            assert_eq!(findings.len(), 1, "{id}");
            assert!(findings[0].text.contains(&format!("cites {id} ")), "{id}");
        }
    }

    #[test]
    fn a_number_outside_of_the_contract_is_found() {
        let mut sources = all_but("none");
        sources.push(case("\n    rules: &[\"L4\", \"L29\"],\n"));
        let findings = check(&sources);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2, "{findings:?}");
        assert!(findings[0].text.contains("L29"));
    }

    #[test]
    fn citations_are_those_of_the_lists() {
        assert_eq!(cites("rules: &[\"L4\", \"L28\"],"), ["L4", "L28"]);
        assert_eq!(cites("case(\"a/b\", &[\"L14\", \"L11\"], b)"), ["L14", "L11"]);
        assert_eq!(cites("rules: &[\n    \"L4\",\n    \"L28\",\n],\nrules: &[\"L5\"]"), ["L4", "L28", "L5"]);
        for text in [
            "// rules: &[\"L4\"]",
            "assert!(x, \"L4\")",
            "rules: &[]",
            "names(&[\"Lx\"])",
            "both(&[\"L4\", \"a\"])",
        ] {
            assert_eq!(cites(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn only_cases_count() {
        let elsewhere = Source::new("crates/conformance/src/report.rs", "\"L1\"");
        assert!(check(&[elsewhere]).iter().any(|finding| finding.text.contains("L1 ")));
    }
}
