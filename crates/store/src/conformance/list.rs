//! The list: every promise of every room, once.

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($harness:path) => {
        $crate::conformance_list!(conformance_stamp $harness);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_stamp {
    ($harness:path; $($room:ident: [$($promise:ident,)*])*) => {
        $(mod $room {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let harness = $harness().await;
                $crate::conformance::$room::$promise(&harness).await;
                $crate::conformance::Harness::close(harness).await;
            })*
        })*
    };
}

/// Hands the list to another macro of this crate.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_list {
    ($with:ident $($harness:path)?) => {
        $crate::$with! {
            $($harness;)?
            accepting: [
                a_new_event_is_stored_with_every_column,
                a_body_is_kept_byte_for_byte,
                a_new_event_makes_its_job_in_the_same_breath,
                ignored_and_unmapped_events_are_kept_and_make_no_job,
                an_empty_batch_is_answered_with_nothing,
                answers_come_in_the_order_of_the_batch,
                many_events_from_two_nodes_are_all_stored,
                events_of_one_request_share_its_body,
                of_a_repeated_request_only_what_is_new_is_stored,
                of_one_request_all_events_are_stored_or_none,
                copies_of_one_request_at_once_make_each_event_once,
                an_event_that_cannot_be_stored_fails_alone_and_leaves_nothing,
                a_text_that_is_hard_to_store_harms_no_other_event,
                a_rejection_is_kept_as_it_was,
                only_the_latest_rejections_of_each_source_are_kept,
                kept_requests_come_in_pages,
                another_tenant_cannot_see_an_event_or_its_work,
            ]
            deduplicating: [
                a_repeat_is_a_duplicate_of_the_first,
                a_repeat_of_an_event_without_a_job_says_so,
                the_very_same_event_again_is_new_and_stored_once,
                of_two_hundred_copies_at_once_one_is_new,
                copies_in_one_batch_are_duplicates_of_its_first,
                batches_of_the_same_copies_at_once_make_each_once,
                the_same_key_of_two_tenants_or_sources_never_mixes,
                a_key_blocks_for_its_whole_window_and_no_longer_than_its_body,
                an_expired_key_blocks_as_long_as_its_body_is_there,
                an_expired_key_blocks_as_long_as_the_body_its_event_shares,
                an_expired_key_is_taken_over_by_exactly_one_of_many,
                at_most_twenty_duplicate_receipts_are_kept_and_all_are_counted,
            ]
            two_keys: [
                either_of_two_keys_makes_a_duplicate,
                a_duplicate_takes_none_of_its_keys,
                a_copy_of_a_duplicate_by_its_free_key_is_new,
                many_that_share_only_a_second_key_leave_their_first_keys_free,
                overlapping_keys_at_once_never_block_each_other,
            ]
            claiming: [
                a_claim_says_all_a_worker_needs,
                the_oldest_in_a_lane_is_claimed_first,
                of_one_moment_the_smaller_id_is_claimed_first,
                an_item_that_waited_longer_comes_before_one_that_was_tried,
                nothing_is_claimed_before_its_time,
                the_fence_grows_with_every_claim,
                only_waiting_items_are_claimed,
                a_claim_keeps_to_its_lanes_and_counts,
                workers_that_claim_at_once_each_get_their_own_under_their_own_lease,
                a_lane_that_is_empty_or_unknown_has_nothing,
                two_nodes_never_claim_the_same_item,
                work_that_arrives_while_it_is_claimed_is_run_once,
                a_lease_never_outlasts_the_run,
            ]
            chaining: [
                what_led_to_an_item_comes_with_its_claim,
                what_led_to_a_received_event_comes_with_its_job,
                an_item_that_too_many_agents_led_to_is_held_until_somebody_lets_it_go,
                a_replay_keeps_how_many_agents_led_to_it_and_is_not_held_again,
                changes_of_a_scopes_effects_are_numbered_as_they_come,
            ]
            claiming_one: [
                exactly_the_named_item_is_claimed,
                of_many_that_claim_one_item_at_once_one_has_it,
                an_item_is_claimed_by_its_id_only_when_due_and_first_of_its_key,
                a_claim_by_id_keeps_to_its_lane_its_tenant_and_the_caps,
                ready_items_are_listed_oldest_first_up_to_a_bound,
            ]
            capping: [
                a_tenants_cap_holds_over_all_its_sources,
                of_two_caps_the_tighter_one_holds,
                lanes_of_one_claim_share_their_cap,
                a_cap_below_what_runs_lets_nothing_more_run,
                a_claim_that_finds_nothing_takes_no_place,
                an_uncapped_lane_is_neither_slowed_nor_counted,
                every_way_a_run_can_end_frees_its_place,
                a_place_is_freed_once_however_often_its_end_is_told,
                caps_hold_at_every_moment_and_never_drift,
            ]
            bounding: [
                a_rate_lets_its_burst_start_and_then_one_at_a_time,
                a_rate_counts_retries_and_rescued_runs_as_starts,
                a_rate_holds_over_all_sources_and_lanes_of_a_tenant,
                a_claim_that_finds_nothing_uses_up_no_rate_and_no_budget,
                one_item_is_claimed_by_its_id_within_every_bound,
                no_more_start_than_rates_and_budgets_allow_however_many_ask,
                a_spent_budget_lets_nothing_run_until_the_next_day,
                a_days_cost_is_what_its_runs_told_and_counts_each_once,
                what_runs_cost_adds_up_to_what_the_job_does,
                work_over_a_budget_is_held_only_once_it_is_spent,
                an_operator_lets_work_go_that_no_budget_binds,
                what_was_used_of_old_days_goes_with_their_runs,
            ]
            counting: [
                live_work_is_counted_by_lane_and_state,
                counting_stops_at_its_bound_and_says_so,
            ]
            alerting: [
                an_alert_fires_once_over_all_nodes,
                an_alert_changes_only_from_what_was_seen,
                an_alert_is_over_once_and_may_fire_again,
                what_is_to_be_told_waits_until_it_was,
                alerts_are_listed_newest_first_by_whether_they_fire,
                failures_in_a_row_are_counted_over_nodes_until_a_success,
                errors_of_dead_letters_are_counted_the_most_frequent_first,
                duplicates_are_found_since_a_moment,
                an_alert_that_is_over_goes_with_the_events,
            ]
            figuring: [
                figures_of_all_nodes_are_added_up_by_minute,
                a_node_that_tells_again_counts_nothing_twice,
                a_sample_takes_the_place_of_the_one_before,
                figures_of_other_tenants_and_times_are_left_out,
                tenants_with_something_to_look_at_are_found,
                dead_letters_and_open_circuits_are_counted,
                one_node_has_the_turn,
                old_minutes_go_and_young_ones_stay,
            ]
            leasing: [
                a_heartbeat_extends_the_lease,
                a_heartbeat_never_passes_the_end_of_the_run,
                a_heartbeat_never_shortens_a_lease,
                a_heartbeat_cannot_revive_an_expired_lease,
                a_heartbeat_learns_that_a_stop_was_asked_for,
                a_heartbeat_keeps_what_the_run_cost,
                heartbeats_are_answered_one_by_one,
                an_expired_lease_is_worth_nothing,
                a_rescued_lease_is_worth_nothing,
                a_lease_is_worth_nothing_after_the_next_claim,
                a_token_of_another_claim_or_tenant_is_worth_nothing,
                a_checkpoint_is_handed_to_the_next_run,
                a_checkpoint_is_replaced_whole,
            ]
            settling: [
                success_ends_an_item_and_keeps_its_result,
                a_failed_run_waits_for_its_delay,
                the_last_failure_makes_a_dead_letter,
                a_hand_back_gives_the_attempt_back,
                a_held_item_waits_for_an_operator,
                the_same_end_told_again_changes_nothing,
                the_same_end_told_again_much_later_changes_nothing,
                another_end_with_the_same_lease_is_lost,
                ends_are_answered_one_by_one,
                plain_successes_and_others_end_together_each_in_its_way,
                one_end_told_many_times_at_once_happens_once,
                of_different_ends_at_once_one_happens,
                many_items_end_at_once_each_with_its_own_record,
                an_expanded_event_goes_on_in_its_new_lane_with_all_its_attempts,
                what_was_fetched_is_kept_with_the_end_of_its_run_and_not_without,
            ]
            rescuing: [
                only_leases_that_ended_are_listed_oldest_first,
                a_rescued_item_is_due_at_once_and_its_attempt_counts,
                the_last_expired_lease_makes_a_dead_letter,
                many_rescuers_rescue_each_run_once,
                a_lease_that_was_extended_is_not_rescued,
                a_lease_that_was_claimed_anew_is_not_rescued,
                a_run_that_ended_in_time_is_not_rescued,
            ]
            stopping: [
                a_running_item_is_only_asked_to_stop,
                a_stop_turns_every_end_but_success_into_cancelled,
                a_success_that_arrives_first_wins_over_a_stop,
                an_end_that_became_a_stop_is_answered_the_same_again,
                a_stop_that_is_not_heeded_ends_with_the_lease,
                a_stop_that_is_not_heeded_is_swept_after_a_while,
                a_swept_worker_has_lost_its_lease,
                a_run_that_nobody_asked_to_stop_is_not_swept,
            ]
            effects: [
                a_new_effect_may_go_ahead,
                asking_again_in_the_same_run_gets_the_same_answer,
                asking_many_times_at_once_makes_one_effect,
                a_committed_effect_is_skipped_with_its_result,
                an_effect_may_be_committed_without_a_result,
                a_commit_told_twice_keeps_the_first_result,
                an_aborted_effect_may_be_tried_again,
                a_resolved_effect_is_not_resolved_otherwise,
                an_effect_that_was_never_begun_cannot_be_resolved,
                a_run_cannot_resolve_what_an_earlier_run_began,
                a_job_asked_to_stop_begins_nothing_but_may_say_what_happened,
                effects_are_listed_in_the_order_they_were_begun,
                an_effect_is_alive_as_long_as_its_run,
                the_same_effect_of_two_jobs_is_two_effects,
                another_tenant_sees_no_effects,
            ]
            in_doubt: [
                an_effect_begun_by_a_dead_run_holds_the_job,
                a_failed_run_leaves_its_begun_effect_in_doubt,
                an_effect_that_is_safe_to_repeat_is_repeated,
                an_operator_says_that_it_happened,
                an_operator_says_that_it_did_not_happen,
                a_word_about_the_old_job_frees_its_replay,
                an_operators_word_is_in_the_audit_trail,
                a_job_goes_on_only_when_nothing_is_in_doubt,
                a_word_on_an_effect_does_not_release_a_job_held_for_else,
                only_an_effect_in_doubt_can_be_resolved,
                a_doubt_can_be_resolved_before_the_job_asks,
                a_doubt_of_a_finished_job_can_be_resolved,
                of_many_operators_at_once_one_has_the_word,
                another_tenant_has_no_word_on_an_effect,
                a_released_job_is_held_again_by_the_same_doubt,
            ]
            approving: [
                what_is_proposed_ends_the_run_and_waits,
                the_call_that_proposed_may_be_repeated_and_no_other,
                an_approved_effect_is_executed_once,
                another_proposal_under_an_approved_key_asks_again,
                an_approval_is_used_up_by_its_execution,
                an_approved_effect_lost_in_a_crash_is_in_doubt,
                what_is_safe_to_repeat_is_repeated_only_as_it_was_approved,
                a_stale_lease_cannot_use_an_approval,
                a_job_goes_on_only_when_nothing_is_undecided,
                a_rejected_job_is_cancelled_and_says_why,
                what_waits_for_a_person_blocks_its_order_key,
                only_what_was_seen_is_decided_on,
                only_a_job_that_waits_is_decided_on,
                of_many_who_decide_at_once_one_has_the_word,
                what_nobody_decides_on_is_cancelled_once,
                what_was_decided_in_time_does_not_expire,
                an_approval_is_good_for_a_time,
                a_proposal_of_a_job_that_was_given_up_is_cleared_away,
                a_replay_asks_for_itself,
                a_source_that_is_switched_protects_what_runs,
                what_is_asked_for_whole_stays_approved_through_retries,
                a_job_asked_to_stop_proposes_nothing,
                each_decision_is_in_the_audit_trail,
            ]
            working: [
                an_item_is_made_as_it_was_asked_for,
                an_item_has_its_own_scope_unless_told_otherwise,
                an_item_for_later_is_scheduled,
                items_are_made_all_or_none,
                a_repeat_of_a_key_is_answered_with_the_first_item,
                many_repeats_of_a_key_at_once_make_one_item,
                a_waiting_item_is_cancelled_at_once,
                a_finished_item_cannot_be_cancelled,
                only_a_held_item_is_released,
                of_a_claim_and_a_cancel_at_once_both_can_be_true,
                nobody_moves_work_of_another_tenant,
            ]
            replaying: [
                a_replay_makes_a_new_item_that_names_the_old,
                a_replay_keeps_what_its_owner_said,
                every_finished_state_can_be_replayed,
                an_item_that_has_not_ended_cannot_be_replayed,
                an_item_is_replayed_once_and_then_its_replay,
                of_many_replays_at_once_one_happens,
                nobody_replays_work_of_another_tenant,
                a_replay_of_the_same_scope_skips_what_was_committed,
                a_replay_of_a_fresh_scope_does_everything_again,
                an_event_without_work_gets_its_first_item,
                an_event_that_has_work_gets_no_second_first_item,
                a_replay_under_an_idempotency_key_happens_once,
            ]
            once: [
                a_repeat_gets_the_first_answer_and_makes_nothing,
                a_key_that_made_nothing_new_leaves_the_answer_to_the_dedup_key,
                an_expired_key_is_forgotten,
                of_many_at_once_one_happens_and_all_get_its_answer,
                what_failed_does_not_take_its_key,
            ]
            settings: [
                the_default_tenant_is_always_there,
                tenants_are_made_changed_and_listed_by_slug,
                of_two_changes_to_what_was_seen_of_a_tenant_one_is_made,
                a_slug_is_taken_once,
                a_tenant_that_is_not_there_cannot_be_changed,
                the_same_key_is_the_same_lane_for_everybody,
                a_difference_in_any_part_makes_another_lane,
                a_tenant_has_one_data_key_whoever_asks_first,
                one_node_opens_what_the_other_sealed,
                the_audit_trail_comes_in_pages_bound_to_a_tenant,
                the_audit_trail_is_found_by_who_what_and_when,
            ]
            rotating: [
                a_rotation_wraps_every_key_anew_and_every_record_still_opens,
                what_a_rotation_could_not_do_is_named_and_the_next_goes_on,
                the_newest_records_of_a_tenant_are_found_and_opened,
                a_key_that_is_no_longer_as_it_was_seen_stays_as_it_is,
                two_rotations_at_once_do_what_one_does,
                the_servers_own_secret_is_the_same_before_and_after_a_rotation,
                a_check_names_the_master_key_that_is_missing,
            ]
            checking: [
                every_check_passes_on_rows_that_moves_made_and_finds_what_was_planted,
                a_check_looks_no_further_than_it_is_told,
            ]
            keys: [
                a_key_is_found_by_its_hash_alone,
                a_revoked_key_is_gone_at_once,
                an_expired_key_is_gone_by_itself,
                keys_are_listed_by_whose_they_are_newest_first,
                a_keys_last_use_never_goes_back,
            ]
            sources: [
                a_source_is_found_by_its_id_as_it_was_made,
                a_source_is_made_once_under_an_idempotency_key,
                a_change_is_refused_if_somebody_else_was_first,
                of_many_changes_at_once_one_happens,
                enabled_sources_with_old_secrets_are_found_page_by_page,
                tenants_with_old_secrets_are_found_page_by_page,
                another_tenants_source_is_not_found,
                a_deleted_source_is_gone_and_its_events_stay,
                sources_come_in_pages_newest_first,
            ]
            reading_events: [
                events_are_listed_newest_first_with_their_work,
                pages_neither_skip_nor_repeat,
                what_arrives_while_paging_does_not_disturb_it,
                events_are_found_by_source,
                events_are_found_by_type_exactly_or_by_its_beginning,
                events_are_found_by_subject_key_and_time,
                events_are_found_by_the_beginning_of_what_they_show,
            ]
            event_status: [
                events_are_found_by_status,
                the_most_telling_work_gives_an_event_its_status,
                work_that_was_replayed_counts_no_more,
                an_event_whose_first_work_is_a_replay_has_its_status,
                pages_of_a_status_are_full_until_the_last,
            ]
            fixtures: [
                a_fixture_is_found_by_its_name_as_it_was_kept,
                of_many_of_one_name_at_once_one_is_kept,
                a_fixture_is_kept_once_under_an_idempotency_key,
                fixtures_come_in_pages_bound_to_a_tenant,
                a_deleted_fixture_is_gone_and_its_name_free,
                a_tenant_keeps_no_more_fixtures_than_it_may,
            ]
            reading_work: [
                live_and_finished_work_is_one_list_newest_first,
                work_is_found_by_state,
                work_is_found_by_kind_subject_and_time,
                work_is_found_by_source_and_name,
            ]
            records: [
                runs_are_listed_oldest_first_with_their_evidence,
                progress_is_numbered_and_read_from_where_one_left_off,
                progress_told_at_once_has_one_number_each,
                only_the_latest_progress_of_a_job_is_kept,
                what_jobs_keep_is_read_for_many_at_once,
                bodies_are_read_for_many_at_once,
            ]
            registering: [
                what_set_up_made_is_read_back_and_goes_with_its_source,
                of_nodes_that_move_a_position_at_once_one_does,
                a_renewal_is_due_at_its_time_and_one_node_takes_it_on,
            ]
            keeping_up: [
                a_store_that_works_answers,
                both_nodes_go_by_one_clock,
                the_newest_id_below_another_is_found,
                every_lane_with_waiting_work_is_listed_once,
                many_waiting_lanes_are_all_listed,
                lanes_whose_timers_just_fell_due_are_listed,
                live_work_is_counted_by_tenant_and_state,
            ]
            pruning: [
                old_history_goes_and_young_history_stays,
                what_ended_late_is_kept_from_its_end_on,
                each_kind_of_history_has_its_own_age,
                dead_letters_have_an_age_of_their_own,
                dead_letters_may_go_before_what_succeeded,
                expired_keys_go_and_live_ones_stay,
                pruning_goes_on_in_steps_until_all_is_gone,
                however_many_callers_keys_expired_all_of_them_go,
                work_goes_on_while_history_is_pruned,
            ]
            keeping_less: [
                what_a_tenant_keeps_for_less_long_goes_and_no_one_elses,
                a_repeat_of_what_went_early_is_still_a_repeat,
                each_kind_that_a_tenant_keeps_has_its_own_age,
                what_is_needed_stays_however_little_its_tenant_keeps,
                a_walk_goes_on_in_small_steps_and_past_what_stays,
                the_checks_know_what_a_tenant_keeps,
                work_goes_on_while_a_tenants_history_goes,
            ]
            ordering: [
                items_of_one_key_run_one_at_a_time_in_order,
                items_made_together_keep_their_order,
                a_first_item_that_waits_blocks_its_key,
                a_retried_first_item_stays_first,
                a_dead_letter_lets_the_next_go,
                an_item_cancelled_while_behind_changes_no_order,
                a_blocked_key_holds_nobody_else_up,
                the_same_key_of_two_tenants_is_two_keys,
                a_replayed_item_goes_to_the_end_of_its_key,
                a_later_first_item_waits_for_its_time_and_blocks,
                of_many_made_and_ended_at_once_none_is_stuck_or_beside_another,
                received_events_of_one_key_run_one_at_a_time_in_order_of_arrival,
                events_of_one_key_from_two_nodes_at_once_have_one_head,
            ]
            operating: [
                an_operation_is_done_in_steps_and_then_over,
                one_node_has_it_until_its_time_is_over,
                an_operation_is_noted_once_under_an_idempotency_key,
                another_tenants_operation_is_not_found,
            ]
            following: [
                a_success_makes_what_follows_it,
                nothing_follows_a_run_that_did_not_succeed,
                a_live_run_makes_work_and_a_dead_one_none,
                many_successes_at_once_make_what_follows_each,
            ]
            conversing: [
                a_reply_makes_a_job_only_in_a_thread_the_agent_is_in,
                a_thread_is_forgotten_after_a_long_silence,
                messages_are_merged_into_the_job_that_waits,
                a_job_is_scheduled_only_while_its_thread_may_get_quieter,
                while_a_job_runs_the_next_one_gathers_behind_it,
                a_job_that_failed_is_not_merged_into,
                a_job_waits_until_its_thread_is_quiet_but_not_for_ever,
                queued_messages_run_one_by_one,
                messages_without_a_policy_have_nothing_to_do_with_each_other,
                an_interrupting_message_ends_the_live_run_and_joins_its_job,
                a_run_whose_lease_ended_is_not_interrupted,
                a_job_that_was_asked_to_stop_takes_no_more_messages,
                a_duplicate_of_a_joined_message_is_told_the_job_it_joined,
                messages_of_one_request_are_merged_too,
                a_full_job_is_followed_by_another,
                a_replay_is_about_all_that_the_job_was_about,
                a_joined_event_has_the_status_of_its_job,
                events_are_found_by_their_thread,
                joined_events_stay_as_long_as_their_job_needs_them,
                messages_from_two_nodes_at_once_are_one_job,
                messages_and_claims_at_once_lose_no_message,
            ]
            calling_back: [
                every_end_of_a_run_makes_a_callback_once,
                a_run_that_does_not_end_its_job_makes_none_yet,
                an_expiry_and_a_sweep_make_callbacks,
                giving_up_a_waiting_job_makes_its_callback,
                a_job_nobody_waits_for_makes_none,
                a_replay_calls_back_as_the_old_job_did,
                many_ends_at_once_make_a_callback_each,
            ]
            giving_up: [
                dead_letters_are_found_by_what_is_known_of_them,
                what_was_replayed_or_purged_leaves_the_list,
                a_purge_leaves_nothing_but_the_row,
                a_purge_and_a_replay_at_once_do_one_of_the_two,
            ]
            coalescing: [
                a_newer_event_supersedes_a_queued_older_one,
                what_runs_or_is_held_goes_on_and_knows_what_came_after_it,
                superseding_the_first_of_an_order_key_lets_the_next_go,
                superseding_the_first_of_another_thread_lets_its_next_go,
                of_messages_of_two_threads_that_come_at_once_one_is_left,
                of_events_that_come_at_once_one_is_left,
            ]
            sequencing: [
                numbers_that_come_in_turn_run_at_once,
                a_later_number_waits_for_the_missing_one,
                after_the_wait_it_runs_out_of_order_and_the_missing_one_is_late,
                a_lower_number_runs_before_what_still_waits,
                what_has_begun_keeps_its_place,
                an_early_one_never_waits_longer_than_one_behind_it,
                keys_count_for_themselves_and_begin_anew_when_forgotten,
                events_without_a_number_run_behind_those_that_wait,
                shuffled_numbers_from_two_nodes_at_once_run_in_order,
            ]
            cancelling: [
                an_event_cancels_the_jobs_that_wait_for_it,
                only_a_new_event_cancels_and_one_without_a_job_does_too,
                a_running_job_is_asked_to_stop_by_an_event,
                what_stood_behind_a_cancelled_job_goes_on,
                an_event_whose_own_job_has_to_do_with_others_cancels_too,
                events_of_one_request_cancel_too,
                events_that_come_at_once_cancel_a_job_once_and_all_are_stored,
                a_subject_has_a_bounded_number_of_jobs_that_wait_for_an_event,
                a_replay_waits_for_the_event_as_its_first_did,
                all_live_jobs_of_a_subject_are_found_step_by_step,
                many_jobs_are_given_up_as_each_would_be_alone,
            ]
            scheduling: [
                a_schedule_is_kept_as_it_was_made,
                a_schedule_is_made_once_under_an_idempotency_key,
                a_schedule_is_due_from_its_tick_on,
                a_tick_makes_one_job_over_all_nodes,
                a_change_and_a_firing_do_not_undo_each_other,
            ]
            outliving: [
                live_work_keeps_its_event_and_all_it_has,
                a_dead_letter_keeps_its_body_until_it_is_replayed,
                a_shared_body_stays_as_long_as_one_event_needs_it,
                a_key_outlives_the_event_for_its_whole_window,
                an_expired_key_stays_as_long_as_its_body,
                effects_stay_as_long_as_anything_shares_them,
            ]
            publishing: [
                a_published_event_is_stored_with_its_body,
                an_event_makes_one_delivery_for_each_webhook,
                what_nobody_wants_is_kept_and_makes_nothing,
                one_for_later_waits_until_then,
                a_repeat_returns_the_first_and_is_only_counted,
                something_else_under_a_key_is_refused_and_changes_nothing,
                publications_are_stored_all_or_none,
                what_is_published_by_hand_is_in_the_trail_with_it_or_not_at_all,
                copies_in_one_call_are_duplicates_of_its_first,
                the_very_same_publication_again_is_new_and_stored_once,
                what_has_no_key_is_no_duplicate,
                of_many_copies_at_once_one_is_published,
                calls_with_the_same_keys_in_another_order_never_block_each_other,
                a_publications_key_blocks_for_its_whole_window,
                of_many_publications_those_take_their_keys_over_whose_bodies_are_gone,
                a_key_whose_event_is_gone_still_blocks,
                a_key_of_two_tenants_or_of_a_source_never_mixes,
                lists_show_what_was_received_or_what_was_published,
                what_a_job_published_is_found_by_the_job,
                a_published_events_status_is_that_of_its_deliveries,
                a_published_event_gets_no_job_by_a_replay,
                what_was_published_goes_when_its_time_is_over,
            ]
            shutting: [
                a_shut_lane_hands_out_nothing_until_its_time_is_over,
                a_lane_that_is_opened_hands_out_at_once,
                a_timer_that_falls_due_in_a_shut_lane_waits,
                a_shut_lane_holds_no_other_up_and_counts_towards_no_bound,
                a_run_that_began_before_its_lane_was_shut_ends_as_always,
            ]
            staying_away: [
                a_delivery_is_tried_ten_times_over_37_hours,
                a_receiver_that_is_back_gets_what_waited,
                a_receiver_that_stays_away_for_72_hours_is_given_up,
            ]
            delivering: [
                a_failed_probe_gives_the_attempt_back_and_is_kept,
                how_a_run_went_is_kept_unless_it_succeeded,
                what_shares_an_order_key_goes_to_each_webhook_in_order,
                ordered_events_from_two_nodes_at_once_have_one_head,
                a_delivery_is_replayed_in_its_lane_and_its_order,
                a_delivery_is_cancelled_and_rescued_like_any_work,
                what_waits_ends_and_what_runs_goes_on,
                what_waits_ends_oldest_first_and_leaves_nothing_behind,
                what_waits_can_only_be_given_up_or_cancelled,
                of_what_is_claimed_and_ended_at_once_each_comes_to_one_end,
            ]
            backfilling: [
                deliveries_of_a_webhook_are_listed_newest_first,
                deliveries_are_counted_by_where_they_stand,
                a_backfill_makes_exactly_what_is_missing,
                a_backfill_is_of_published_events_that_are_there,
                a_backfill_keeps_to_order_keys,
                backfills_at_once_make_each_delivery_once,
                dead_letters_are_found_by_their_lane,
                retention_keeps_what_deliveries_need,
                a_dead_delivery_keeps_its_body_until_it_is_dealt_with,
            ]
            conserving: [
                no_delivery_is_lost_or_made_twice_whatever_is_done,
            ]
            subscribing: [
                a_webhook_is_kept_as_it_was_made,
                a_webhook_is_made_once_under_an_idempotency_key,
                a_tenant_has_so_many_webhooks_and_no_more,
                a_webhook_changes_only_from_what_was_seen,
                of_many_changes_of_a_webhook_at_once_one_happens,
                a_deleted_webhook_is_gone_and_its_deliveries_stay,
                a_webhook_is_due_from_its_moment_on,
                types_are_kept_as_they_were_registered,
                a_type_is_registered_once_under_an_idempotency_key,
                a_tenant_has_so_many_types_and_no_more,
            ]
        }
    };
}
