//! What of the workspace is shown in which order: the cards of a board by their state, and what a filter
//! leaves. Pure.

use std::{cmp::Reverse, collections::HashMap};

use super::{
    model::{Model, Shown},
    wire::{Card, Plan, Server},
};

/// The state that people look for first.
const FIRST: &str = "in-progress";

/// The least width of a lane.
pub(super) const LANE: u16 = 19;

/// The cards in one state, those that changed last first.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    pub(super) state: &'a str,
    pub(super) cards: Vec<&'a Card>,
}

/// The lanes that hold cards, in the order of the states. Where not all of them fit beside each other,
/// that of work in progress goes first.
pub(super) fn lanes<'a>(board: &'a Shown, filter: &str, columns: u16) -> Vec<Lane<'a>> {
    let mut by_state: HashMap<&str, Vec<&Card>> = HashMap::new();
    let filter = filter.to_lowercase();
    for card in board.cards.values().filter(|card| fits(card, &filter)) {
        by_state.entry(&card.status).or_default().push(card);
    }
    let mut lanes = Vec::with_capacity(by_state.len());
    for column in &board.states {
        if let Some(cards) = by_state.remove(column.state.as_str()) {
            let state = &column.state;
            lanes.push(Lane { state, cards });
        }
    }
    // States that a newer program may have.
    let mut others: Vec<_> = by_state.into_iter().collect();
    others.sort_unstable_by_key(|(state, _)| *state);
    let others = others.into_iter();
    lanes.extend(others.map(|(state, cards)| Lane { state, cards }));
    for lane in &mut lanes {
        let order = |card: &&Card| (Reverse(card.updated_at.clone()), card.id.clone());
        lane.cards.sort_by_cached_key(order);
    }
    if lanes.len() > beside(columns)
        && let Some(first) = lanes.iter().position(|lane| lane.state == FIRST)
    {
        lanes[..=first].rotate_right(1);
    }
    lanes
}

/// How many lanes fit beside each other.
pub(super) fn beside(columns: u16) -> usize {
    usize::from((columns / LANE).max(1))
}

/// Where a card is: in which lane, and at which place in it.
pub(super) fn place_of(lanes: &[Lane<'_>], id: &str) -> Option<(usize, usize)> {
    lanes.iter().enumerate().find_map(|(at, lane)| {
        let row = lane.cards.iter().position(|card| card.id == id);
        row.map(|row| (at, row))
    })
}

/// The plans that a filter leaves.
pub(super) fn plans<'a>(model: &'a Model, filter: &str) -> Vec<&'a Plan> {
    let filter = filter.to_lowercase();
    let fits = |plan: &&Plan| {
        let texts = [&plan.name, &plan.status, &plan.id];
        texts.into_iter().any(|text| holds(text, &filter))
    };
    model.plans.iter().filter(fits).collect()
}

/// The servers that a filter leaves.
pub(super) fn servers<'a>(model: &'a Model, filter: &str) -> Vec<&'a Server> {
    let filter = filter.to_lowercase();
    let fits = |server: &&Server| {
        let texts = [&server.name, &server.status];
        texts.into_iter().any(|text| holds(text, &filter))
    };
    model.servers.iter().filter(fits).collect()
}

fn fits(card: &Card, filter: &str) -> bool {
    let texts = [&card.id, &card.title, &card.kind, &card.status].into_iter();
    let texts = texts.chain(&card.priority).chain(&card.labels);
    let claimed = card.claim.iter().map(|claim| &claim.agent);
    let mut texts = texts.chain(&card.assignees).chain(claimed);
    filter.is_empty() || texts.any(|text| holds(text, filter))
}

fn holds(text: &str, filter: &str) -> bool {
    filter.is_empty() || text.to_lowercase().contains(filter)
}
