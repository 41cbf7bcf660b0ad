//! Expectations: what a backend must run, what it does not do for good, and what it fails at for now; as data, with
//! reasons.
//!
//! The three lists differ. *Required* cases may not be skipped. *Unsupported* is permanent: the case does not run and
//! is a skip, also where a pattern requires all of its topic. *Expected failures* are temporary: the case runs, and if it passes, that is a failure, so that the list
//! shrinks. A pattern that matches no case is a failure too. Not here: running (`runner.rs`).

use crate::case::Case;

/// The expectations of one backend. A pattern is a case's id, in which `*` stands for any text.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    required: Vec<String>,
    unsupported: Vec<(String, String)>,
    expected_failures: Vec<(String, String)>,
}

/// What is to happen with one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs, and its result is its own.
    Run,
    /// It does not run, for this reason.
    Skip(String),
    /// It does not run although it has to, for this reason: it has failed.
    Refuse(String),
    /// It runs and is expected to fail, for this reason.
    ExpectFailure(String),
}

impl Expectations {
    /// No expectations: every case whose requirements are met runs and passes.
    pub fn new() -> Self {
        Expectations::default()
    }

    /// Cases that may not be skipped on this backend.
    pub fn require(mut self, pattern: impl Into<String>) -> Self {
        self.required.push(pattern.into());
        self
    }

    /// Cases that this backend does not support, for good. They are exceptions from what it requires.
    pub fn unsupported(mut self, pattern: impl Into<String>, reason: impl Into<String>) -> Self {
        self.unsupported.push((pattern.into(), reason.into()));
        self
    }

    /// Cases that fail on this backend for now.
    pub fn expect_failure(mut self, pattern: impl Into<String>, reason: impl Into<String>) -> Self {
        self.expected_failures.push((pattern.into(), reason.into()));
        self
    }

    /// What is to happen with `case`, which the device cannot run for the reason `missing`.
    pub fn verdict(&self, case: &Case, missing: Option<String>) -> Verdict {
        let required = self.required.iter().any(|pattern| matches(pattern, case.id));
        let find = |list: &[(String, String)]| {
            list.iter().find(|(pattern, _)| matches(pattern, case.id)).map(|(_, reason)| reason.clone())
        };
        let unsupported = find(&self.unsupported).map(|reason| format!("unsupported: {reason}"));
        match (unsupported, missing) {
            // The exception from what a pattern requires, named with its reason.
            (Some(reason), _) => Verdict::Skip(reason),
            (None, Some(reason)) if required => {
                Verdict::Refuse(format!("required on this backend, but {reason}"))
            }
            (None, Some(reason)) => Verdict::Skip(reason),
            (None, None) => find(&self.expected_failures).map_or(Verdict::Run, Verdict::ExpectFailure),
        }
    }

    /// What is wrong with the lists themselves, as the list's name and words.
    pub fn problems<'a>(
        &self,
        cases: impl IntoIterator<Item = &'a Case> + Clone,
    ) -> Vec<(&'static str, String)> {
        let named = [
            ("required", self.required.iter().collect::<Vec<_>>()),
            ("unsupported", self.unsupported.iter().map(|(pattern, _)| pattern).collect()),
            ("expected_failures", self.expected_failures.iter().map(|(pattern, _)| pattern).collect()),
        ];
        let mut problems = Vec::new();
        for (list, patterns) in named {
            for pattern in patterns {
                if !cases.clone().into_iter().any(|case| matches(pattern, case.id)) {
                    problems.push((list, format!("the pattern `{pattern}` matches no case")));
                }
            }
        }
        for case in cases {
            let names = |list: &[(String, String)]| list.iter().any(|(pattern, _)| matches(pattern, case.id));
            if names(&self.unsupported) && names(&self.expected_failures) {
                let text = format!("`{}` is unsupported, and so it cannot fail for now", case.id);
                problems.push(("expected_failures", text));
            }
        }
        let lists = [("unsupported", &self.unsupported), ("expected_failures", &self.expected_failures)];
        for (list, entries) in lists {
            for (pattern, _) in entries.iter().filter(|(_, reason)| reason.trim().is_empty()) {
                problems.push((list, format!("the pattern `{pattern}` has no reason")));
            }
        }
        problems
    }
}

/// Whether `text` fits `pattern`, in which `*` stands for any text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    static CASES: [Case; 3] = [
        Case { id: "loss/a", rules: &["L23"], requires: &[], run: |_| {} },
        Case { id: "loss/b", rules: &["L23"], requires: &[], run: |_| {} },
        Case { id: "hooks/a", rules: &["L11"], requires: &[], run: |_| {} },
    ];

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text) in
            [("loss/a", "loss/a"), ("*", "x"), ("loss/*", "loss/a"), ("*/a", "loss/a"), ("l*s*a", "loss/a")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("loss", "loss/a"), ("a*", "loss/a"), ("*b", "loss/a"), ("loss/a*a", "loss/a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn each_list_has_its_verdict() {
        let expectations = Expectations::new()
            .unsupported("loss/a", "no loss")
            .expect_failure("loss/b", "a known defect")
            .require("hooks/*");
        let verdict = |case: usize, missing: Option<&str>| {
            expectations.verdict(&CASES[case], missing.map(str::to_owned))
        };
        assert_eq!(verdict(0, None), Verdict::Skip("unsupported: no loss".into()));
        assert_eq!(verdict(1, None), Verdict::ExpectFailure("a known defect".into()));
        assert_eq!(verdict(1, Some("no queue")), Verdict::Skip("no queue".into()));
        assert_eq!(verdict(2, None), Verdict::Run);
        let exception = expectations.clone().require("loss/*");
        assert_eq!(exception.verdict(&CASES[0], None), Verdict::Skip("unsupported: no loss".into()));
        let refused = Verdict::Refuse("required on this backend, but no queue".into());
        assert_eq!(verdict(2, Some("no queue")), refused);
    }

    #[test]
    fn a_dead_pattern_is_a_problem() {
        let expectations = Expectations::new().unsupported("loss/*", "no loss").expect_failure("gone/*", "?");
        let problems = expectations.problems(&CASES);
        assert_eq!(problems, [("expected_failures", "the pattern `gone/*` matches no case".to_owned())]);
    }

    #[test]
    fn contradictions_and_missing_reasons_are_problems() {
        let expectations = Expectations::new().unsupported("loss/a", "no loss").expect_failure("loss/*", "");
        let problems = expectations.problems(&CASES);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].1.contains("`loss/a` is unsupported"), "{problems:?}");
        assert!(problems[1].1.contains("has no reason"), "{problems:?}");
    }
}
