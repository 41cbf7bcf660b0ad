//! Cases about memory: accounting, reuse, trimming and its policies, budgets and limits, running out (L19 to L22).
//!
//! Not here: who owns a tensor (`ownership`) and wrong sizes as input (`input`).

mod accounting;
mod callback;
mod fragments;
mod limits;
mod out_of_memory;
mod policies;
mod reuse;
mod room;
mod trim;

use std::sync::Arc;

use tenure_core::{Error, OutOfMemory};

use crate::case::{Case, Requirement};
use crate::cases::ownership::support::{case, case_with};

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("memory/the_sum_holds_at_every_step", &["L19", "L4"], accounting::the_sum_holds_at_every_step),
    case(
        "memory/a_failed_request_changes_no_figure",
        &["L19"],
        accounting::a_failed_request_changes_no_figure,
    ),
    case(
        "memory/a_refused_block_leaves_the_high_water_mark",
        &["L19"],
        accounting::a_refused_block_leaves_the_high_water_mark,
    ),
    case("memory/high_water_marks", &["L19"], accounting::high_water_marks),
    case_with(
        "memory/a_shared_block_counts_once",
        &["L19", "L4"],
        &[Requirement::SubAllocation],
        accounting::a_shared_block_counts_once,
    ),
    case(
        "memory/scope_figures_are_as_asked_for",
        &["L16", "L19"],
        accounting::scope_figures_are_as_asked_for,
    ),
    case("memory/the_drivers_figures_are_beside", &["L19"], accounting::the_drivers_figures_are_beside),
    case(
        "memory/counters_are_exact_after_many_threads",
        &["L19"],
        accounting::counters_are_exact_after_many_threads,
    ),
    case("memory/closing_ends_the_books", &["L19", "L6"], accounting::closing_ends_the_books),
    case("memory/a_hit_costs_no_driver_call", &["L19", "L21"], reuse::a_hit_costs_no_driver_call),
    case_with(
        "memory/small_tensors_share_a_block",
        &["L19", "L22"],
        &[Requirement::SubAllocation],
        reuse::small_tensors_share_a_block,
    ),
    case("memory/whole_blocks_are_reused_by_size", &["L19"], reuse::whole_blocks_are_reused_by_size),
    case(
        "memory/a_small_request_takes_no_large_block",
        &["L19"],
        reuse::a_small_request_takes_no_large_block,
    ),
    case(
        "memory/memory_in_flight_is_not_handed_out",
        &["L4", "L19"],
        reuse::memory_in_flight_is_not_handed_out,
    ),
    case("memory/contents_survive_every_trim", &["L20", "L21"], reuse::contents_survive_every_trim),
    case(
        "memory/a_trim_returns_what_reserved_fell_by",
        &["L19", "L21"],
        trim::a_trim_returns_what_reserved_fell_by,
    ),
    case("memory/a_trim_leaves_what_is_in_use", &["L4", "L21"], trim::a_trim_leaves_what_is_in_use),
    case("memory/a_recording_holds_no_trim_up", &["L5", "L21"], trim::a_recording_holds_no_trim_up),
    case_with(
        "memory/a_shared_block_goes_with_its_last_tensor",
        &["L21"],
        &[Requirement::SubAllocation],
        trim::a_shared_block_goes_with_its_last_tensor,
    ),
    case("memory/nothing_is_trimmed_on_the_hot_path", &["L21"], trim::nothing_is_trimmed_on_the_hot_path),
    case("memory/a_thousand_scopes_trim_once", &["L21"], policies::a_thousand_scopes_trim_once),
    case(
        "memory/on_finish_waits_for_the_last_root",
        &["L21", "L17"],
        policies::on_finish_waits_for_the_last_root,
    ),
    case(
        "memory/on_finish_gives_back_what_the_scope_released",
        &["L16", "L21"],
        policies::on_finish_gives_back_what_the_scope_released,
    ),
    case(
        "memory/every_execution_leaves_nothing_cached",
        &["L21"],
        policies::every_execution_leaves_nothing_cached,
    ),
    case("memory/a_watermark_has_hysteresis", &["L21"], policies::a_watermark_has_hysteresis),
    case(
        "memory/a_watermark_trims_at_a_finish_and_tells",
        &["L16", "L21"],
        policies::a_watermark_trims_at_a_finish_and_tells,
    ),
    case("memory/a_watermark_may_be_one_mark", &["L21"], policies::a_watermark_may_be_one_mark),
    case("memory/never_trims_by_itself", &["L20", "L21"], policies::never_trims_by_itself),
    case("memory/room_in_the_cache_is_found", &["L20"], out_of_memory::room_in_the_cache_is_found),
    case("memory/the_driver_is_asked_twice", &["L20"], out_of_memory::the_driver_is_asked_twice),
    case("memory/one_refusal_is_recovered", &["L20"], out_of_memory::one_refusal_is_recovered),
    case("memory/other_errors_are_not_retried", &["L20"], out_of_memory::other_errors_are_not_retried),
    case(
        "memory/a_budget_is_refused_without_the_driver",
        &["L20", "L22"],
        out_of_memory::a_budget_is_refused_without_the_driver,
    ),
    case(
        "memory/pending_frees_of_the_budget_are_waited_for",
        &["L20"],
        out_of_memory::pending_frees_of_the_budget_are_waited_for,
    ),
    case(
        "memory/pending_frees_of_the_driver_are_waited_for",
        &["L20"],
        out_of_memory::pending_frees_of_the_driver_are_waited_for,
    ),
    case(
        "memory/a_driver_below_the_budget_is_waited_for",
        &["L20"],
        out_of_memory::a_driver_below_the_budget_is_waited_for,
    ),
    case(
        "memory/what_only_running_work_holds_is_waited_for",
        &["L5", "L20"],
        out_of_memory::what_only_running_work_holds_is_waited_for,
    ),
    case("memory/no_wait_where_it_would_not_help", &["L20"], out_of_memory::no_wait_where_it_would_not_help),
    case("memory/what_has_retired_is_taken_first", &["L20"], out_of_memory::what_has_retired_is_taken_first),
    case(
        "memory/what_is_in_flight_is_taken_over",
        &["L4", "L19", "L20"],
        out_of_memory::what_is_in_flight_is_taken_over,
    ),
    case("memory/a_recording_finds_room", &["L11", "L20"], room::a_recording_finds_room),
    case("memory/a_recording_is_retried_once", &["L7", "L11", "L20"], room::a_recording_is_retried_once),
    case("memory/only_a_lack_of_room_is_retried", &["L20"], room::only_a_lack_of_room_is_retried),
    case("memory/a_copy_finds_room", &["L20"], room::a_copy_finds_room),
    case_with("memory/a_kernel_finds_room", &["L20"], &[Requirement::Kernels], room::a_kernel_finds_room),
    case("memory/the_largest_holders_are_named", &["L20"], out_of_memory::the_largest_holders_are_named),
    case("memory/the_error_owns_no_tensor", &["L20"], out_of_memory::the_error_owns_no_tensor),
    case("memory/a_full_driver_asks_last", &["L20"], callback::a_full_driver_asks_last),
    case("memory/each_request_asks_once", &["L20"], callback::each_request_asks_once),
    case("memory/other_errors_ask_nobody", &["L20", "L22"], callback::other_errors_ask_nobody),
    case("memory/a_failing_callback_is_in_the_error", &["L20"], callback::a_failing_callback_is_in_the_error),
    case("memory/each_thread_is_asked_by_itself", &["L15", "L20"], callback::each_thread_is_asked_by_itself),
    case(
        "memory/the_callback_may_finish_a_scope",
        &["L15", "L20"],
        callback::the_callback_may_finish_a_scope,
    ),
    case(
        "memory/what_it_gives_up_in_flight_is_waited_for",
        &["L20"],
        callback::what_it_gives_up_in_flight_is_waited_for,
    ),
    case_with(
        "memory/one_block_serves_small_tensors",
        &["L22"],
        &[Requirement::SubAllocation],
        limits::one_block_serves_small_tensors,
    ),
    case("memory/whole_blocks_meet_the_limit", &["L20", "L22"], limits::whole_blocks_meet_the_limit),
    case("memory/blocks_in_flight_are_waited_for", &["L20", "L22"], limits::blocks_in_flight_are_waited_for),
    case(
        "memory/blocks_in_flight_are_waited_for_within_a_budget",
        &["L20", "L22"],
        limits::blocks_in_flight_are_waited_for_within_a_budget,
    ),
    case("memory/pieces_are_aligned", &["L22"], limits::pieces_are_aligned),
    case("memory/a_small_budget_is_usable", &["L22"], limits::a_small_budget_is_usable),
    case("memory/a_budget_of_nothing", &["L22"], limits::a_budget_of_nothing),
    case("memory/a_largest_block_of_odd_size", &["L22"], limits::a_largest_block_of_odd_size),
    case("memory/a_small_tensor_has_the_drivers_rest", &["L20"], limits::a_small_tensor_has_the_drivers_rest),
    case(
        "memory/small_tensors_in_blocks_of_their_own",
        &["L20", "L22"],
        limits::small_tensors_in_blocks_of_their_own,
    ),
    case(
        "memory/rounding_takes_no_room_that_is_not_there",
        &["L20"],
        limits::rounding_takes_no_room_that_is_not_there,
    ),
    case("memory/the_largest_cached_block", &["L19"], fragments::the_largest_cached_block),
    case_with(
        "memory/pieces_merge_with_their_neighbours",
        &["L19"],
        &[Requirement::SubAllocation],
        fragments::pieces_merge_with_their_neighbours,
    ),
];

/// The figures of memory that ran out.
#[track_caller]
fn out_of_memory<T>(answer: Result<T, Error>) -> Arc<OutOfMemory> {
    match answer {
        Err(Error::OutOfMemory(error)) => error,
        Err(error) => panic!("memory should have run out, not: {error}"),
        Ok(_) => panic!("memory should have run out"),
    }
}
