//! The generated WGSL of the shipped kernels, as `cargo xtask kernels` writes it.
//!
//! Not here: the sources (`cube/shipped`), and the CUDA C++ that is generated beside it.

macro_rules! texts {
    ($($name:ident: $file:literal,)*) => {
        $(pub(crate) const $name: &str = include_str!(concat!("../generated/", $file, ".wgsl"));)*
    };
}

texts! {
    FILL: "fill",
    COPY: "copy",
    SAXPY: "saxpy",
    SUM: "sum",
    MATMUL: "matmul",
    RESIZE: "resize",
    BLUR: "blur",
    UNSHARP: "unsharp",
    HISTOGRAM: "histogram",
    SCAN_BLOCKS: "scan_blocks",
    SCAN_TOTALS: "scan_totals",
    SCAN_ADD: "scan_add",
}
