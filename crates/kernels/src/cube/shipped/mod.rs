//! The `#[cube]` sources of the kernels that this crate ships, and the list from which their texts are made.
//!
//! Not here: writing the texts (`bin/generate.rs`), and using them.

#[allow(missing_docs, reason = "`#[cube]` makes public items without documentation")]
mod elementwise;
#[allow(missing_docs, reason = "as above")]
mod image;
#[allow(missing_docs, reason = "as above")]
mod matmul;
#[allow(missing_docs, reason = "as above")]
mod reduce;

use cubecl::prelude::*;
use tenure_core::KernelSource;

use super::{buffer, device, settings, target};
use crate::grid::WORKGROUP;
use crate::matmul::SIDE;
use crate::scan::{BLOCK, EACH};
use crate::{Blur, CopyElements, Fill, Histogram, Matmul, PrefixSum, Resize, Saxpy, Sum, Unsharp};

/// One shipped kernel: what it declares, and its `#[cube]` source.
pub struct Shipped {
    /// What users compile; its label is the name of the entry point and of the files.
    pub source: KernelSource,
    /// The kernel to define.
    pub kernel: Box<dyn CubeKernel>,
    /// The file of its `#[cube]` source, in this folder.
    pub file: &'static str,
}

/// All of them.
pub fn all() -> Vec<Shipped> {
    let line = || settings([WORKGROUP, 1, 1]);
    let square = || settings([SIDE, SIDE, 1]);
    let units = WORKGROUP as usize;
    let shipped = |source, kernel, file| Shipped { source, kernel, file };
    vec![
        shipped(
            Fill::source(),
            Box::new(elementwise::fill::Fill::new(line(), device(), target(), (), buffer())),
            "elementwise.rs",
        ),
        shipped(
            CopyElements::source(),
            Box::new(elementwise::copy::Copy::new(line(), device(), target(), buffer(), buffer())),
            "elementwise.rs",
        ),
        shipped(
            Saxpy::source(),
            Box::new(elementwise::saxpy::Saxpy::new(line(), device(), target(), (), buffer(), buffer())),
            "elementwise.rs",
        ),
        shipped(
            Unsharp::source(),
            Box::new(elementwise::unsharp::Unsharp::new(
                line(),
                device(),
                target(),
                buffer(),
                buffer(),
                buffer(),
                (),
                (),
                (),
            )),
            "elementwise.rs",
        ),
        shipped(
            Sum::source(),
            Box::new(reduce::sum::Sum::new(line(), device(), target(), buffer(), buffer(), units)),
            "reduce.rs",
        ),
        shipped(
            Histogram::source(),
            Box::new(reduce::histogram::Histogram::new(line(), device(), target(), buffer(), buffer())),
            "reduce.rs",
        ),
        shipped(
            PrefixSum::blocks_source(),
            Box::new(reduce::scan_blocks::ScanBlocks::new(
                line(),
                device(),
                target(),
                buffer(),
                buffer(),
                buffer(),
                units,
                EACH as usize,
            )),
            "reduce.rs",
        ),
        shipped(
            PrefixSum::totals_source(),
            Box::new(reduce::scan_totals::ScanTotals::new(line(), device(), target(), buffer(), units)),
            "reduce.rs",
        ),
        shipped(
            PrefixSum::add_source(),
            Box::new(reduce::scan_add::ScanAdd::new(
                line(),
                device(),
                target(),
                buffer(),
                buffer(),
                BLOCK as usize,
            )),
            "reduce.rs",
        ),
        shipped(
            Matmul::source(),
            Box::new(matmul::matmul::Matmul::new(
                square(),
                device(),
                target(),
                buffer(),
                buffer(),
                buffer(),
                (),
                (),
                (),
                SIDE as usize,
            )),
            "matmul.rs",
        ),
        shipped(
            Resize::source(),
            Box::new(image::resize::Resize::new(
                line(),
                device(),
                target(),
                buffer(),
                buffer(),
                (),
                (),
                (),
                (),
                (),
            )),
            "image.rs",
        ),
        shipped(
            Blur::source(),
            Box::new(image::blur::Blur::new(
                line(),
                device(),
                target(),
                buffer(),
                buffer(),
                buffer(),
                (),
                (),
            )),
            "image.rs",
        ),
    ]
}
