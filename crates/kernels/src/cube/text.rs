//! What is changed in the text that CubeCL writes, so that it is the same on every run and says what is true.
//!
//! Not here: compiling (`compile.rs`).

use std::collections::HashMap;

use tenure_core::Access;

/// Gives the entry point its plain name, for CubeCL appends a hash that differs between debug and release builds, and
/// numbers the values in order.
pub(super) fn normalised(text: &str, written: &str, entry: &str) -> String {
    // A character that no text has keeps the name from being taken for a value's.
    with_numbers_in_order(&text.replace(written, "\0")).replace('\0', entry)
}

/// Numbers values (`v7`, `shared_v7`, `v7_store`) anew, in the order in which they appear. CubeCL numbers some of them,
/// such as two arrays in shared memory, now in one order and now in another.
fn with_numbers_in_order(text: &str) -> String {
    let part_of_word = |c: char| c.is_ascii_alphanumeric();
    let mut numbers = HashMap::new();
    let mut changed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('v') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let inside_word =
            before.chars().next_back().or(changed.chars().next_back()).is_some_and(part_of_word)
                || after[digits..].starts_with(part_of_word);
        changed.push_str(before);
        changed.push('v');
        if digits > 0 && !inside_word {
            let next = numbers.len();
            changed.push_str(&numbers.entry(&after[..digits]).or_insert(next).to_string());
        } else {
            changed.push_str(&after[..digits]);
        }
        rest = &after[digits..];
    }
    changed + rest
}

/// Declares the bindings that are only read as such: CubeCL's WGSL declares all of them `read_write`. A device wants a
/// shader to ask for no more than its layout gives, and two dispatches that only read then need not wait for each
/// other. WGSL has no storage buffers that are only written: those stay `read_write`.
pub(super) fn with_access(text: &str, access: &[Access]) -> String {
    let mut changed = String::with_capacity(text.len());
    for line in text.lines() {
        let reads_only = binding_of(line).and_then(|index| access.get(index)) == Some(&Access::Read);
        if reads_only {
            changed.push_str(&line.replacen("var<storage, read_write>", "var<storage, read>", 1));
        } else {
            changed.push_str(line.trim_end());
        }
        changed.push('\n');
    }
    changed
}

/// The number of the binding that a line declares.
fn binding_of(line: &str) -> Option<usize> {
    line.strip_prefix("@group(0) @binding(")?.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_goes() {
        assert_eq!(normalised("fn fill_1a2b(x: u32) {", "fill_1a2b", "fill"), "fn fill(x: u32) {");
        assert_eq!(normalised("fn v7_1a2b(v3: u32) {", "v7_1a2b", "v7"), "fn v7(v0: u32) {");
    }

    #[test]
    fn values_are_numbered_as_they_appear() {
        let text = "let v40 = &shared_v9; v7_store = vec4<f32>(v40, v9); let v1v = dev40 + (v40)[v7];";
        let expected = "let v0 = &shared_v1; v2_store = vec4<f32>(v0, v1); let v1v = dev40 + (v0)[v2];";
        assert_eq!(with_numbers_in_order(text), expected);
    }

    #[test]
    fn only_bindings_that_are_read_are_declared_so() {
        let text = "@group(0) @binding(1) var<storage, read_write> v6: array<f32>;\n\
            @group(0) @binding(0) var<storage, read_write> v2: array<f32>;\n\
            @group(0) @binding(2) var<storage, read> info_var: info_st;\n";
        let changed = with_access(text, &[Access::Read, Access::Write]);
        let expected = "@group(0) @binding(1) var<storage, read_write> v6: array<f32>;\n\
            @group(0) @binding(0) var<storage, read> v2: array<f32>;\n\
            @group(0) @binding(2) var<storage, read> info_var: info_st;\n";
        assert_eq!(changed, expected);
    }
}
