//! Check: files stay short enough to be read in one sitting.
//!
//! Not here: the length of lines and functions. rustfmt and clippy have them.

use super::finding::Finding;
use super::source::Source;

const CHECK: &str = "file-length";

/// The length to aim at.
pub const AIM: usize = 400;

/// The length at which a file has to be split.
pub const LIMIT: usize = 600;

/// Finds a file past the limit, and one past the aim as a warning.
pub fn check(source: &Source) -> Option<Finding> {
    let lines = source.text.lines().count();
    if lines <= AIM || source.is_generated() {
        return None;
    }
    Some(if lines <= LIMIT {
        Finding::warning(CHECK, &source.path, lines, format!("{lines} lines, aim at {AIM} or fewer"))
    } else {
        Finding::error(CHECK, &source.path, lines, format!("{lines} lines, split at {LIMIT}"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Weight;
    use super::*;

    fn weight(lines: usize) -> Option<Weight> {
        check(&Source::new("a.rs", "x\n".repeat(lines))).map(|finding| finding.weight)
    }

    #[test]
    fn the_borders_are_exact() {
        assert_eq!(weight(1), None);
        assert_eq!(weight(AIM), None);
        assert_eq!(weight(AIM + 1), Some(Weight::Warning));
        assert_eq!(weight(LIMIT), Some(Weight::Warning));
        assert_eq!(weight(LIMIT + 1), Some(Weight::Error));
    }
}
