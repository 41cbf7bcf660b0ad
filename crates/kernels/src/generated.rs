//! The generated texts of the shipped kernels, as `cargo xtask kernels` writes them, and what a launch of them needs.
//!
//! Not here: the sources (`cube/shipped`), and why they are sound (`ffi.rs`).

/// The texts of one kernel.
pub(crate) struct Texts {
    pub wgsl: &'static str,
    pub cuda_cpp: &'static str,
    pub ptx: &'static str,
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
}

macro_rules! texts {
    ($($name:ident: $file:literal, $block:expr, $shared_bytes:expr;)*) => {
        $(
            pub(crate) const $name: Texts = Texts {
                wgsl: include_str!(concat!("../generated/", $file, ".wgsl")),
                cuda_cpp: include_str!(concat!("../generated/", $file, ".cu")),
                ptx: include_str!(concat!("../generated/", $file, ".ptx")),
                block: $block,
                shared_bytes: $shared_bytes,
            };
        )*

        #[cfg(test)]
        const ALL: &[(&str, Texts)] = &[$(($file, $name)),*];
    };
}

const LINE: [u32; 3] = [256, 1, 1];
const SQUARE: [u32; 3] = [16, 16, 1];

texts! {
    FILL: "fill", LINE, 0;
    COPY: "copy", LINE, 0;
    SAXPY: "saxpy", LINE, 0;
    SUM: "sum", LINE, 1024;
    MATMUL: "matmul", SQUARE, 2048;
    RESIZE: "resize", LINE, 0;
    BLUR: "blur", LINE, 0;
    UNSHARP: "unsharp", LINE, 0;
    HISTOGRAM: "histogram", LINE, 0;
    SCAN_BLOCKS: "scan_blocks", LINE, 1024;
    SCAN_TOTALS: "scan_totals", LINE, 1024;
    SCAN_ADD: "scan_add", LINE, 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of the text's head that begins so, without that.
    fn head<'a>(text: &'a str, begin: &str) -> &'a str {
        text.lines().find_map(|line| line.strip_prefix(begin)).expect("the generator writes it")
    }

    #[test]
    fn launches_are_what_the_texts_say() {
        for (name, texts) in ALL {
            let [x, y, z] = texts.block;
            assert_eq!(head(texts.cuda_cpp, "// Block: "), format!("{x} x {y} x {z} threads."), "{name}");
            let shared = head(texts.cuda_cpp, "// Dynamic shared memory: ");
            assert_eq!(shared, format!("{} bytes.", texts.shared_bytes), "{name}");
            // What the compiler was told of the size of blocks.
            assert!(texts.ptx.contains(&format!(".maxntid {}, 1, 1\n", x * y * z)), "{name}");
            assert!(texts.ptx.contains(&format!(".visible .entry {name}(")), "{name}");
        }
    }
}
