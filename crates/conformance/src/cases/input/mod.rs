//! Cases about wrong input: sizes, shapes, ranges, types, names, foreign handles, dispatches that do not fit, options
//! that contradict each other. Every one is an error that names the thing, before any driver call, and changes nothing
//! (L3, L8, L10, L22). And input that only looks wrong, which works.
//!
//! Not here: stale handles (`ownership`) and faults of the driver (`faults.rs`).

mod dispatches;
mod ends;
mod foreign;
mod names;
mod odd;
mod options;
mod ranges;
mod sizes;

use crate::case::{Case, Requirement};
use crate::cases::ownership::support::{case, case_with};

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("input/sizes_that_overflow", &["L22"], sizes::sizes_that_overflow),
    case("input/sizes_above_the_largest_block", &["L22"], sizes::sizes_above_the_largest_block),
    case("input/the_largest_numbers", &["L22", "L20"], sizes::the_largest_numbers),
    case("input/an_empty_shape_in_any_order", &["L22"], sizes::an_empty_shape_in_any_order),
    case("input/shapes_are_kept", &["L22"], sizes::shapes_are_kept),
    case("input/empty_tensors_in_every_operation", &["L22"], sizes::empty_tensors_in_every_operation),
    case("input/foreign_tensors_in_every_operation", &["L3"], foreign::foreign_tensors_in_every_operation),
    case_with(
        "input/foreign_tensors_and_kernels_in_a_dispatch",
        &["L3"],
        &[Requirement::Kernels],
        foreign::foreign_tensors_and_kernels_in_a_dispatch,
    ),
    case("input/a_foreign_scope_is_no_ancestor", &["L12"], foreign::a_foreign_scope_is_no_ancestor),
    case("input/wrong_element_type", &["L3"], ranges::wrong_element_type),
    case("input/wrong_length_from_the_host", &["L22"], ranges::wrong_length_from_the_host),
    case("input/wrong_length_in_a_recording", &["L22"], ranges::wrong_length_in_a_recording),
    case("input/views_out_of_range", &["L22"], ranges::views_out_of_range),
    case("input/kompute_copy_overlapping", &["L3"], ranges::kompute_copy_overlapping),
    case("input/kompute_copy_pairs", &["L9"], ranges::kompute_copy_pairs),
    case("input/unknown_and_taken_names", &["L8"], names::unknown_and_taken_names),
    case("input/a_download_before_its_execution", &["L7"], names::a_download_before_its_execution),
    case("input/finished_twice", &["L10", "L16"], ends::finished_twice),
    case("input/used_after_its_finish", &["L10"], ends::used_after_its_finish),
    case("input/moved_twice", &["L17"], ends::moved_twice),
    case_with(
        "input/wrong_number_of_bindings",
        &["L3"],
        &[Requirement::Kernels],
        dispatches::wrong_number_of_bindings,
    ),
    case_with("input/aliased_bindings", &["L3"], &[Requirement::Kernels], dispatches::aliased_bindings),
    case_with(
        "input/bindings_above_the_largest",
        &["L22"],
        &[Requirement::Kernels],
        dispatches::bindings_above_the_largest,
    ),
    case_with(
        "input/more_workgroups_than_the_device_runs",
        &["L22"],
        &[Requirement::Kernels],
        dispatches::more_workgroups_than_the_device_runs,
    ),
    case_with(
        "input/one_workgroup_above_the_devices_own_limit",
        &["L22"],
        &[Requirement::Kernels],
        dispatches::one_workgroup_above_the_devices_own_limit,
    ),
    case_with(
        "input/a_binding_at_any_element",
        &["L22"],
        &[Requirement::Kernels],
        dispatches::a_binding_at_any_element,
    ),
    case("input/a_kernel_of_no_form", &["L13"], dispatches::a_kernel_of_no_form),
    case_with("input/wrong_parameters", &["L13"], &[Requirement::HostKernels], dispatches::wrong_parameters),
    case("input/options_that_contradict", &["L16", "L21"], options::options_that_contradict),
    case("input/scope_options_that_cannot_be", &["L16"], options::scope_options_that_cannot_be),
    case("input/elements_of_odd_size", &["L22"], odd::elements_of_odd_size),
    case("input/views_at_odd_bytes", &["L22"], odd::views_at_odd_bytes),
    case("input/a_fill_by_a_large_element", &["L22"], odd::a_fill_by_a_large_element),
];
