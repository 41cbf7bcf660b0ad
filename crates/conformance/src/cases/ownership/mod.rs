//! Cases about who owns what: handles, recordings as handles, retiring, promoting, drop order, futures and handles that
//! are dropped, forgotten or outlive their manager (L1 to L6, L18).
//!
//! Not here: memory figures (`memory`) and scopes as such (`scopes.rs`).

mod basics;
mod closed;
mod destroy;
mod drop_order;
mod forgotten;
mod futures;
mod handles;
mod host_copies;
mod kompute;
mod overrides;
mod promotion;
mod recordings;
mod stale;
pub(in crate::cases) mod support;
mod views;

use support::{case, case_with};

use crate::case::{Case, Requirement};

/// The cases of this topic.
pub const CASES: &[Case] = &[
    case("ownership/last_drop_retires", &["L1", "L2", "L4"], basics::last_drop_retires),
    case("ownership/clones_are_one_hold", &["L1", "L2"], basics::clones_are_one_hold),
    case("ownership/a_scope_ends_its_tensors", &["L2", "L3"], basics::a_scope_ends_its_tensors),
    case("ownership/handles_are_valid_for_ever", &["L1", "L3", "L6"], basics::handles_are_valid_for_ever),
    case("ownership/destroyed_twice_is_ok", &["L2"], basics::destroyed_twice_is_ok),
    case(
        "ownership/finish_overrides_a_recording_elsewhere",
        &["L5"],
        basics::finish_overrides_a_recording_elsewhere,
    ),
    case("ownership/a_use_in_flight_defers_the_free", &["L4"], basics::a_use_in_flight_defers_the_free),
    case("ownership/every_kind_of_handle_keeps_it", &["L1", "L2"], handles::every_kind_of_handle_keeps_it),
    case(
        "ownership/what_only_names_it_keeps_nothing",
        &["L1", "L20"],
        handles::what_only_names_it_keeps_nothing,
    ),
    case("ownership/an_execution_is_no_handle", &["L1", "L5", "L18"], handles::an_execution_is_no_handle),
    case("ownership/ids_are_never_reused", &["L1", "L3"], handles::ids_are_never_reused),
    case("ownership/retired_once_whatever_ends_it", &["L2"], handles::retired_once_whatever_ends_it),
    case(
        "ownership/a_scopes_tensor_goes_with_its_last_handle",
        &["L2", "L19"],
        handles::a_scopes_tensor_goes_with_its_last_handle,
    ),
    case(
        "ownership/every_drop_order_with_work_in_flight",
        &["L4", "L6", "L17", "L18"],
        drop_order::every_drop_order_with_work_in_flight,
    ),
    case(
        "ownership/every_drop_order_of_a_managers_tensor",
        &["L4", "L6", "L17", "L18"],
        drop_order::every_drop_order_of_a_managers_tensor,
    ),
    case(
        "ownership/a_recording_counts_as_a_handle",
        &["L5", "L9"],
        recordings::a_recording_counts_as_a_handle,
    ),
    case(
        "ownership/each_recording_is_a_handle_of_its_own",
        &["L5"],
        recordings::each_recording_is_a_handle_of_its_own,
    ),
    case(
        "ownership/what_was_never_evaluated_is_let_go",
        &["L5"],
        recordings::what_was_never_evaluated_is_let_go,
    ),
    case(
        "ownership/a_destroyed_sequence_lets_go",
        &["L4", "L5", "L8"],
        recordings::a_destroyed_sequence_lets_go,
    ),
    case(
        "ownership/an_anonymous_sequence_lets_go_by_itself",
        &["L5", "L8"],
        recordings::an_anonymous_sequence_lets_go_by_itself,
    ),
    case(
        "ownership/a_childs_recording_ends_with_the_child",
        &["L5", "L16"],
        recordings::a_childs_recording_ends_with_the_child,
    ),
    case(
        "ownership/destroy_overrides_a_recording",
        &["L3", "L4", "L5", "L11"],
        overrides::destroy_overrides_a_recording,
    ),
    case(
        "ownership/destroy_of_what_is_recorded_is_at_once",
        &["L3", "L5"],
        overrides::destroy_of_what_is_recorded_is_at_once,
    ),
    case(
        "ownership/a_scopes_finish_overrides_a_recording",
        &["L2", "L4", "L5"],
        overrides::a_scopes_finish_overrides_a_recording,
    ),
    case(
        "ownership/close_overrides_a_recording",
        &["L4", "L5", "L6"],
        overrides::close_overrides_a_recording,
    ),
    case(
        "ownership/a_stale_recording_keeps_the_rest",
        &["L3", "L5"],
        overrides::a_stale_recording_keeps_the_rest,
    ),
    case("ownership/a_view_keeps_the_whole_tensor", &["L1"], views::a_view_keeps_the_whole_tensor),
    case(
        "ownership/a_recorded_view_keeps_the_whole_tensor",
        &["L1", "L5"],
        views::a_recorded_view_keeps_the_whole_tensor,
    ),
    case(
        "ownership/destroying_a_tensor_ends_its_views",
        &["L2", "L3"],
        views::destroying_a_tensor_ends_its_views,
    ),
    case(
        "ownership/every_operation_names_label_and_site",
        &["L3"],
        stale::every_operation_names_label_and_site,
    ),
    case("ownership/a_view_of_a_stale_view_is_stale", &["L3"], stale::a_view_of_a_stale_view_is_stale),
    case("ownership/ends_of_life_are_told_apart", &["L2", "L3", "L6"], stale::ends_of_life_are_told_apart),
    case("ownership/a_stale_sequence_names_itself", &["L3", "L8"], stale::a_stale_sequence_names_itself),
    case(
        "ownership/destroy_twice_is_ok_and_the_first_counts",
        &["L2", "L3"],
        destroy::destroy_twice_is_ok_and_the_first_counts,
    ),
    case(
        "ownership/many_threads_destroy_one_tensor",
        &["L2", "L4"],
        destroy::many_threads_destroy_one_tensor,
    ),
    case("ownership/promote_goes_one_scope_up", &["L2", "L16"], promotion::promote_goes_one_scope_up),
    case(
        "ownership/promote_to_manager_passes_every_scope",
        &["L2"],
        promotion::promote_to_manager_passes_every_scope,
    ),
    case(
        "ownership/a_promoted_tensor_ends_with_its_new_scope",
        &["L2", "L3"],
        promotion::a_promoted_tensor_ends_with_its_new_scope,
    ),
    case("ownership/promote_in_flight", &["L2", "L4"], promotion::promote_in_flight),
    case(
        "ownership/a_finishing_scope_takes_nothing",
        &["L2", "L10", "L15"],
        promotion::a_finishing_scope_takes_nothing,
    ),
    case("ownership/promote_races_with_finish", &["L2"], promotion::promote_races_with_finish),
    case(
        "ownership/promote_to_manager_races_with_finish",
        &["L2"],
        promotion::promote_to_manager_races_with_finish,
    ),
    case(
        "ownership/promote_races_with_the_parents_finish",
        &["L2"],
        promotion::promote_races_with_the_parents_finish,
    ),
    case("ownership/making_races_with_finish", &["L2", "L10"], promotion::making_races_with_finish),
    case(
        "ownership/dropping_an_execution_cancels_nothing",
        &["L11", "L18"],
        futures::dropping_an_execution_cancels_nothing,
    ),
    case("ownership/reads_dropped_half_way", &["L18"], futures::reads_dropped_half_way),
    case(
        "ownership/a_dropped_read_was_the_last_handle",
        &["L4", "L18"],
        futures::a_dropped_read_was_the_last_handle,
    ),
    case("ownership/a_dropped_finish_goes_on", &["L11", "L16", "L18"], futures::a_dropped_finish_goes_on),
    case(
        "ownership/forgotten_handles_end_with_the_manager",
        &["L1", "L2", "L28"],
        forgotten::forgotten_handles_end_with_the_manager,
    ),
    case(
        "ownership/forgotten_handles_end_with_the_scope",
        &["L1", "L2"],
        forgotten::forgotten_handles_end_with_the_scope,
    ),
    case("ownership/forgotten_futures_hold_up_nobody", &["L18"], forgotten::forgotten_futures_hold_up_nobody),
    case(
        "ownership/a_forgotten_scope_ends_with_its_parent",
        &["L10", "L17"],
        forgotten::a_forgotten_scope_ends_with_its_parent,
    ),
    case("ownership/reads_do_not_wait_for_reads", &["L4"], host_copies::reads_do_not_wait_for_reads),
    case(
        "ownership/a_write_waits_for_the_devices_reads",
        &["L4"],
        host_copies::a_write_waits_for_the_devices_reads,
    ),
    case(
        "ownership/a_read_waits_for_the_devices_writes",
        &["L4"],
        host_copies::a_read_waits_for_the_devices_writes,
    ),
    case("ownership/copies_exclude_each_other", &["L4"], host_copies::copies_exclude_each_other),
    case("ownership/a_tensor_ends_under_a_copy", &["L3", "L4"], host_copies::a_tensor_ends_under_a_copy),
    case(
        "ownership/a_tensor_ends_under_a_waiting_read",
        &["L3", "L4"],
        host_copies::a_tensor_ends_under_a_waiting_read,
    ),
    case(
        "ownership/every_handle_outlives_its_manager",
        &["L1", "L3", "L6"],
        closed::every_handle_outlives_its_manager,
    ),
    case(
        "ownership/a_dropped_manager_ends_its_tensors",
        &["L2", "L6"],
        closed::a_dropped_manager_ends_its_tensors,
    ),
    case_with(
        "ownership/kompute_destroy_tensor_single",
        &["L2", "L3"],
        &[Requirement::Kernels],
        kompute::kompute_destroy_tensor_single,
    ),
    case(
        "ownership/kompute_no_error_if_tensor_freed_before",
        &["L2", "L28"],
        kompute::kompute_no_error_if_tensor_freed_before,
    ),
    case("ownership/kompute_sync_to_device", &["L9"], kompute::kompute_sync_to_device),
    case("ownership/kompute_sync_local", &["L7", "L9"], kompute::kompute_sync_local),
];
