//! How many workgroups cover so many elements.
//!
//! The kernels number their workgroups through x, y and z, so a number that passes what a device takes in one direction
//! goes into two. Not here: what an invocation does.

use std::sync::Arc;

use tenure_core::{Element, Error, View};

use crate::check::refuse;

/// Invocations in a workgroup of the kernels of one dimension: what WebGPU guarantees.
pub(crate) const WORKGROUP: u32 = 256;

/// Workgroups in one direction that every device takes (WebGPU's and Vulkan's guarantee).
pub(crate) const MAX_GROUPS: u64 = 65_535;

/// The most elements that a kernel indexes: positions beyond the last element still fit 32 bits.
pub const MAX_ELEMENTS: u64 = 1 << 31;

/// The workgroups of `each` elements that cover `view`; at least one.
pub(crate) fn cover<T: Element>(
    kernel: &'static str,
    role: &'static str,
    view: &View<T>,
    each: u64,
) -> Result<[u32; 3], Error> {
    let elements = view.len();
    if elements > MAX_ELEMENTS {
        let label = view.label();
        let problem = format!("{role} `{label}` has {elements} elements, it indexes at most {MAX_ELEMENTS}");
        return Err(refuse(kernel, problem));
    }
    Ok(spread(elements.div_ceil(each)))
}

/// So many workgroups, and less than one a row more, in as few rows as can be.
pub(crate) fn spread(groups: u64) -> [u32; 3] {
    let rows = groups.div_ceil(MAX_GROUPS).max(1);
    let columns = groups.div_ceil(rows).max(1);
    [columns, rows, 1].map(|count| u32::try_from(count).expect("both are within the limit of one direction"))
}

/// The length of a view as the kernels get it.
pub(crate) fn length<T: Element>(kernel: &'static str, view: &View<T>) -> Result<u32, Error> {
    u32::try_from(view.len()).map_err(|_| {
        let problem: Arc<str> =
            format!("`{}` has {} elements, it counts them in 32 bits", view.label(), view.len()).into();
        refuse(kernel, problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_at_least_one_workgroup() {
        assert_eq!(spread(0), [1, 1, 1]);
        assert_eq!(spread(1), [1, 1, 1]);
    }

    #[test]
    fn a_second_row_begins_where_the_first_one_is_full() {
        assert_eq!(spread(MAX_GROUPS), [65_535, 1, 1]);
        assert_eq!(spread(MAX_GROUPS + 1), [32_768, 2, 1]);
    }

    #[test]
    fn rows_cover_all_and_waste_less_than_one_each() {
        for groups in [1, 255, 65_536, 70_001, 131_071, 1 << 20, MAX_ELEMENTS / 256, (1 << 23) - 7] {
            let [columns, rows, layers] = spread(groups).map(u64::from);
            assert_eq!(layers, 1);
            assert!(columns <= MAX_GROUPS && rows <= MAX_GROUPS, "{groups}");
            assert!(columns * rows >= groups && columns * rows < groups + rows, "{groups}");
        }
    }
}
