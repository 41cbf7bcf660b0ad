//! How output looks: colours, step headings, times.
//!
//! Not here: the progress bar of a conformance run (`conformance/progress.rs`) and tables' contents.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

/// True if somebody watches: the error stream is a terminal and no CI system runs us.
pub fn interactive() -> bool {
    static INTERACTIVE: OnceLock<bool> = OnceLock::new();
    *INTERACTIVE.get_or_init(|| std::io::stderr().is_terminal() && !is_set("CI"))
}

/// Good news.
pub fn green(text: &str) -> String {
    paint("32", text)
}

/// Failures.
pub fn red(text: &str) -> String {
    paint("31;1", text)
}

/// Skips and warnings.
pub fn yellow(text: &str) -> String {
    paint("33", text)
}

/// Headings.
pub fn bold(text: &str) -> String {
    paint("1", text)
}

/// A duration as a person reads it.
pub fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0 if duration.as_millis() < 100 => format!("{} ms", duration.as_millis()),
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        whole => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

/// An empty table in the one style of these commands.
pub fn table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table
        .load_preset(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.into_iter().collect::<Vec<_>>());
    table
}

/// `text` with every line moved in, for details below a heading.
pub fn indented(text: &str, by: usize) -> String {
    let margin = " ".repeat(by);
    text.trim_end().lines().map(|line| format!("{margin}{line}\n")).collect()
}

/// `1 case`, `2 cases`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn paint(code: &str, text: &str) -> String {
    static COLOURED: OnceLock<bool> = OnceLock::new();
    let coloured =
        *COLOURED.get_or_init(|| std::io::stdout().is_terminal() && interactive() && !is_set("NO_COLOR"));
    if coloured { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable() {
        assert_eq!(seconds(Duration::from_millis(12)), "12 ms");
        assert_eq!(seconds(Duration::from_millis(1250)), "1.2 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 05 s");
    }

    #[test]
    fn details_are_moved_in() {
        assert_eq!(indented("a\nb\n", 2), "  a\n  b\n");
        assert_eq!(counted(1, "case"), "1 case");
        assert_eq!(counted(0, "case"), "0 cases");
    }
}
