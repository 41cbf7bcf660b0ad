//! What is changed in the text that CubeCL writes, so that it is the same on every run and says what is true.
//!
//! Not here: compiling (`compile.rs`).

use tenure_core::Access;

/// Gives the entry point its plain name. CubeCL appends a hash that differs between debug and release builds.
pub(super) fn with_entry(text: &str, written: &str, entry: &str) -> String {
    text.replace(written, entry)
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
        assert_eq!(with_entry("fn fill_1a2b(x: u32) {", "fill_1a2b", "fill"), "fn fill(x: u32) {");
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
