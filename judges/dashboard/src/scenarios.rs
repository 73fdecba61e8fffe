//! What is done in the browser, each in a program of its own.

mod access;
mod board;
mod keyboard;
mod large;
mod live;
mod memory;
mod picture;
mod plans;
mod servers;
mod small;
mod usage;

use std::time::Instant;

use crate::{Stage, report};

/// Plays the scenarios whose name holds the word; how many failed.
pub(crate) async fn play(stage: &Stage<'_>, word: &str) -> usize {
    let mut failed = 0;
    macro_rules! played {
        ($($name:literal: $scenario:path),* $(,)?) => {
            $(if $name.contains(word) {
                let began = Instant::now();
                let outcome = Box::pin($scenario(stage)).await;
                report($name, began, &outcome);
                failed += usize::from(outcome.is_err());
            })*
        };
    }
    played! {
        "board": board::cards_are_moved_by_mouse_and_refused_where_they_may_not_go,
        "panel": board::an_issue_is_opened_by_its_address_and_edited,
        "keyboard": keyboard::everything_is_done_without_a_mouse,
        "two viewers": live::two_viewers_see_what_each_does,
        "agent": live::what_an_agent_does_is_seen_as_it_happens,
        "focus": live::the_focus_goes_along_with_a_card_that_an_agent_moves,
        "restart": live::a_page_goes_on_when_the_program_is_started_anew_under_it,
        "plans": plans::a_plan_is_watched_and_steered,
        "job": plans::a_job_is_followed_phase_by_phase_and_mended,
        "stop": plans::a_plan_that_runs_is_paused_and_ended,
        "login": access::whoever_shows_no_token_sees_nothing,
        "small": small::a_small_screen_shows_a_stage_at_a_time,
        "memory": memory::what_is_remembered_is_found_edited_and_forgotten,
        "servers": servers::a_server_is_approved_tried_watched_and_switched_off,
        "usage": usage::what_was_used_is_shown,
        "picture": picture::board_in_use_is_shown_in_light_and_dark,
        "large": large::ten_thousand_cards_are_shown_in_few_elements,
    }
    failed
}

/// The selector of a card in the column of a state.
pub(crate) fn card_in(state: &str, id: &str) -> String {
    format!(".column[data-state='{state}'] .card[data-id='{id}']")
}
