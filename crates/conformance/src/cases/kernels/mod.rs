//! Cases about the kernels that tenure ships: results against a naive reference, for no element, one, a prime number,
//! and numbers around a workgroup's; and sizes that are refused (L22, L3). Sequences are evaluated twice where that
//! shows in the result (L9).
//!
//! Not here: dispatches of the suite's own kernels (`input`).

mod elements;
mod limits;
mod pictures;

use tenure_core::{Element, ManagedScope, Tensor};

use crate::case::{Case, Requirement};
use crate::cases::ownership::support::case_with;

const KERNELS: &[Requirement] = &[Requirement::Kernels];

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case_with("kernels/fill_and_copy", &["L22"], KERNELS, elements::fill_and_copy),
    case_with("kernels/saxpy", &["L22", "L9"], KERNELS, elements::saxpy),
    case_with("kernels/sum", &["L22"], KERNELS, elements::sum),
    case_with("kernels/prefix_sum", &["L22"], KERNELS, elements::prefix_sum),
    case_with("kernels/histogram", &["L22", "L9"], KERNELS, elements::histogram),
    case_with("kernels/matmul", &["L22"], KERNELS, elements::matmul),
    case_with("kernels/resize", &["L22"], KERNELS, pictures::resize),
    case_with("kernels/blur", &["L22"], KERNELS, pictures::blur),
    case_with("kernels/unsharp", &["L22"], KERNELS, pictures::unsharp),
    case_with("kernels/every_source_compiles", &["L22"], KERNELS, limits::every_source_compiles),
    case_with("kernels/larger_than_one_binding", &["L22"], KERNELS, limits::larger_than_one_binding),
    case_with("kernels/sizes_that_do_not_fit", &["L3", "L22"], KERNELS, limits::sizes_that_do_not_fit),
];

/// None, one, a prime number, around a workgroup of 256, around a block of 1,024, and many.
const LENGTHS: [usize; 10] = [0, 1, 97, 255, 256, 257, 1024, 1025, 4099, 70_001];

/// A tensor of the scope with these elements.
#[track_caller]
fn tensor<T: Element>(scope: &ManagedScope, label: &str, elements: &[T]) -> Tensor<T> {
    scope.tensor_from(label, elements).unwrap()
}
