//! A report as JUnit XML, for CI systems that read it.
//!
//! One suite a backend; an unavailable backend is a suite with one skipped case, so that it is seen. Not here: the
//! report itself (`report.rs`).

use std::fmt::Write;

use crate::report::{BackendReport, CaseResult, Report, Status};

/// The report as one XML document.
pub fn render(report: &Report) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for backend in &report.backends {
        suite(&mut xml, backend);
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn suite(xml: &mut String, backend: &BackendReport) {
    let name = escape(&suite_name(backend));
    if !backend.available {
        let reason = escape(backend.reason.as_deref().unwrap_or("unavailable"));
        let _ = write!(
            xml,
            "  <testsuite name=\"{name}\" tests=\"1\" failures=\"0\" skipped=\"1\">\n    \
             <testcase classname=\"{name}\" name=\"available\"><skipped message=\"{reason}\"/></testcase>\n  \
             </testsuite>\n"
        );
        return;
    }
    let total = backend.cases.len();
    // JUnit knows no expected failures: they are shown as skipped, and the message says what they are.
    let skipped = total - backend.passed - backend.failed;
    let seconds: f64 = backend.cases.iter().map(|case| case.ms / 1000.0).sum();
    let _ = writeln!(
        xml,
        "  <testsuite name=\"{name}\" tests=\"{total}\" failures=\"{}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">",
        backend.failed
    );
    for case in &backend.cases {
        testcase(xml, &name, case);
    }
    xml.push_str("  </testsuite>\n");
}

/// Name, device, and whether it is software: a green row on software never reads as one on hardware.
fn suite_name(backend: &BackendReport) -> String {
    let kind = if backend.software { ", software" } else { "" };
    match &backend.device {
        Some(device) => format!("{} ({device}{kind})", backend.name),
        None => backend.name.clone(),
    }
}

fn testcase(xml: &mut String, suite: &str, case: &CaseResult) {
    let id = escape(&case.id);
    let seconds = case.ms / 1000.0;
    let reason = escape(case.reason.as_deref().unwrap_or_default());
    let _ = write!(xml, "    <testcase classname=\"{suite}\" name=\"{id}\" time=\"{seconds:.3}\"");
    let _ = match case.status {
        Status::Passed => writeln!(xml, "/>"),
        Status::Failed => {
            let rule = escape(&case.rule);
            writeln!(xml, "><failure message=\"{rule}\">{reason}</failure></testcase>")
        }
        Status::Skipped => writeln!(xml, "><skipped message=\"{reason}\"/></testcase>"),
        Status::ExpectedFailure => {
            writeln!(xml, "><skipped message=\"expected failure: {reason}\"/></testcase>")
        }
    };
}

/// The text with XML's own characters written out, and without those that XML cannot have.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            other if other.is_control() => {}
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_element() {
        let case = |id: &str, status, reason: Option<&str>| CaseResult {
            id: id.into(),
            rule: "L4".into(),
            status,
            reason: reason.map(str::to_owned),
            ms: 2.0,
        };
        let backend = BackendReport {
            name: "cuda".into(),
            device: Some("softcuda".into()),
            software: true,
            available: true,
            passed: 1,
            failed: 1,
            skipped: 1,
            cases: vec![
                case("a/p", Status::Passed, None),
                case("a/f", Status::Failed, Some("left < right\n& more\u{1b}")),
                case("a/s", Status::Skipped, Some("no queue")),
                case("a/x", Status::ExpectedFailure, Some("known")),
            ],
            ..BackendReport::default()
        };
        let gone = BackendReport {
            name: "vulkan".into(),
            reason: Some("no driver".into()),
            ..BackendReport::default()
        };
        let xml = render(&Report { backends: vec![backend, gone] });
        for expected in [
            r#"<testsuite name="cuda (softcuda, software)" tests="4" failures="1" skipped="2" time="0.008">"#,
            r#"name="a/p" time="0.002"/>"#,
            r#"<failure message="L4">left &lt; right&#10;&amp; more</failure>"#,
            r#"<skipped message="no queue"/>"#,
            r#"<skipped message="expected failure: known"/>"#,
            r#"<testcase classname="vulkan" name="available"><skipped message="no driver"/></testcase>"#,
        ] {
            assert!(xml.contains(expected), "{expected}\n{xml}");
        }
    }
}
