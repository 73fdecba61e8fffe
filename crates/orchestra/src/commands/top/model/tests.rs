//! What is told, folded; and what keys do with it.

use serde_json::{Value, json};

use super::*;
use crate::commands::top::{
    lanes::{lanes, place_of},
    screen::{Act, Screen, Tab},
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub(in crate::commands::top) fn card(id: &str, status: &str, minute: u32) -> Value {
    json!({
        "id": id, "type": "task", "title": format!("Title of {id}"), "status": status,
        "updated_at": format!("2026-02-14T10:{minute:02}:00Z"),
    })
}

pub(in crate::commands::top) fn project(slug: &str) -> Value {
    json!({"slug": slug, "name": slug.to_uppercase(), "key": "P", "tasks": 4, "done": 1})
}

pub(in crate::commands::top) fn board(cards: &[Value]) -> Value {
    let states = ["backlog", "todo", "in-progress", "in-review", "done"];
    let states = states.map(|state| {
        json!({"state": state, "exits": [{"to": "done", "gate": "g", "asks": "what was seen"}]})
    });
    json!({"at": 1, "project": project("one"), "states": states, "cards": cards, "more": false})
}

/// A workspace with two projects, of which the first has four cards.
pub(in crate::commands::top) fn told() -> Model {
    let mut model = Model::new(None);
    let hello = json!({"boot": "a", "missed": false, "workspace": "/work"});
    let wants = model.happened("hello", &hello.to_string());
    assert_eq!(wants, [Want::Projects, Want::Plans, Want::Servers]);
    let projects = json!({"projects": [project("one"), project("two")]});
    let wants = model.answered(&Want::Projects, &projects.to_string());
    assert_eq!(wants, [Want::Board("one".to_owned())]);
    let cards = [
        card("P-1", "todo", 1),
        card("P-2", "todo", 2),
        card("P-3", "in-progress", 3),
        card("P-4", "done", 4),
    ];
    let board = board(&cards).to_string();
    model.answered(&Want::Board("one".to_owned()), &board);
    let plans = json!({"plans": [
        {"id": "a", "name": "Old", "status": "succeeded", "nodes": 1, "progress": 100,
         "createdAt": 5, "startedAt": 1_000, "endedAt": 63_000, "counts": {"succeeded": 1}},
        {"id": "b", "name": "New", "status": "running", "nodes": 4, "progress": 25, "createdAt": 4,
         "startedAt": 60_000, "counts": {"running": 1, "scheduled": 1, "succeeded": 1}},
    ], "unreadable": []});
    model.answered(&Want::Plans, &plans.to_string());
    let servers = json!({"servers": [
        {"name": "weather", "status": "ready", "restarts": 2, "latency_ms": {"mean": 1.25, "p99": 7.5},
         "calls": {"answered": 10, "refused": 1, "failed": 2, "aside": 0, "in_flight": 1}},
        {"name": "strange", "status": "needs_approval", "reason": "nobody has approved it"},
    ], "count": 2});
    model.answered(&Want::Servers, &servers.to_string());
    assert_eq!(model.trouble, None);
    model
}

fn state_of(model: &Model, id: &str) -> Option<String> {
    let card = model.board.as_ref()?.cards.get(id)?;
    Some(card.status.clone())
}

pub(in crate::commands::top) fn press(
    screen: &mut Screen,
    model: &mut Model,
    code: KeyCode,
) -> Act {
    let act = screen.key(KeyEvent::new(code, KeyModifiers::NONE), model);
    screen.settle(model);
    act
}

#[test]
fn cards_come_change_and_go() {
    let mut model = told();
    let changed =
        json!({"project": "one", "cards": [card("P-1", "done", 9), card("P-9", "todo", 9)]});
    assert!(model.happened("cards", &changed.to_string()).is_empty());
    assert_eq!(state_of(&model, "P-1").as_deref(), Some("done"));
    assert_eq!(state_of(&model, "P-9").as_deref(), Some("todo"));
    // What is of another project changes nothing here.
    let other = json!({"project": "two", "cards": [card("P-1", "todo", 9)]});
    model.happened("cards", &other.to_string());
    assert_eq!(state_of(&model, "P-1").as_deref(), Some("done"));
    // What was below it goes with it.
    let mut below = card("P-10", "todo", 9);
    below["story_id"] = json!("P-9");
    let more = json!({"project": "one", "cards": [below]});
    model.happened("cards", &more.to_string());
    let gone = json!({"project": "one", "ids": ["P-9"]});
    model.happened("gone", &gone.to_string());
    assert_eq!(state_of(&model, "P-9"), None);
    assert_eq!(state_of(&model, "P-10"), None);
    let anew = model.happened("project", &json!({"project": "one"}).to_string());
    assert_eq!(anew, [Want::Board("one".to_owned())]);
    let anew = model.happened("project", &json!({"project": "two"}).to_string());
    assert_eq!(anew, []);
}

#[test]
fn what_was_missed_is_asked_for_and_nothing_else() {
    let mut model = told();
    model.lost("gone".to_owned());
    let hello = |missed| json!({"missed": missed, "workspace": "/work"}).to_string();
    assert_eq!(model.happened("hello", &hello(false)), []);
    assert_eq!(model.link, Link::Live);
    let all = model.happened("hello", &hello(true));
    let board = Want::Board("one".to_owned());
    let expected = [Want::Projects, board, Want::Plans, Want::Servers];
    assert_eq!(all, expected);
    assert_eq!(model.happened("anew", "{}"), expected);
    assert_eq!(model.happened("reset", "{}"), expected);
}

#[test]
fn another_project_is_shown_when_one_is_gone() {
    let mut model = told();
    let projects = json!({"projects": [project("two")]});
    let wants = model.happened("projects", &projects.to_string());
    assert_eq!(wants, [Want::Board("two".to_owned())]);
    // What was asked for before comes too late.
    let late = board(&[card("P-1", "todo", 1)]).to_string();
    model.answered(&Want::Board("one".to_owned()), &late);
    assert!(model.board.is_none());
    let none = json!({"projects": []});
    assert_eq!(model.happened("projects", &none.to_string()), []);
    assert_eq!(model.project, None);
}

#[test]
fn a_project_that_is_asked_for_and_unknown_is_refused_in_words() {
    let mut model = Model::new(Some("none"));
    let projects = json!({"projects": [project("one")]});
    let wants = model.answered(&Want::Projects, &projects.to_string());
    assert_eq!(wants, []);
    model.refused(
        &Want::Board("none".to_owned()),
        "no project none".to_owned(),
    );
    assert_eq!(model.trouble.as_deref(), Some("no project none"));
    assert_eq!(model.turn(1), [Want::Board("one".to_owned())]);
}

#[test]
fn plans_that_run_go_first_and_jobs_of_the_open_one_are_told() {
    let mut model = told();
    let ids =
        |model: &Model| -> Vec<String> { model.plans.iter().map(|plan| plan.id.clone()).collect() };
    assert_eq!(ids(&model), ["b", "a"]);
    assert_eq!(model.open("b"), [Want::Plan("b".to_owned())]);
    let job = |id: &str, status: &str| json!({"id": id, "producerId": id, "status": status});
    let whole =
        json!({"plan": {"planId": "b", "nodes": [job("x", "running"), job("y", "pending")]}});
    model.answered(&Want::Plan("b".to_owned()), &whole.to_string());
    let told =
        json!({"planId": "b", "stateVersion": 3, "nodes": [job("x", "failed")], "groups": {}});
    model.happened("jobs", &told.to_string());
    let (_, jobs) = model.opened.as_ref().unwrap();
    let states: Vec<&str> = jobs.iter().map(|job| job.status.as_str()).collect();
    assert_eq!(states, ["failed", "pending"]);
    let ended = json!({"plan": {"id": "b", "name": "New", "status": "failed", "createdAt": 4}});
    model.happened("plan", &ended.to_string());
    assert_eq!(ids(&model), ["a", "b"]);
    model.happened("plan-gone", &json!({"planId": "b"}).to_string());
    assert_eq!(ids(&model), ["a"]);
    assert!(model.opened.is_none());
}

#[test]
fn what_is_not_understood_is_said_and_changes_nothing() {
    let mut model = told();
    for kind in [
        "cards", "gone", "projects", "plan", "jobs", "servers", "hello",
    ] {
        model.trouble = None;
        assert_eq!(model.happened(kind, "{"), []);
        assert!(model.trouble.as_ref().unwrap().contains(kind), "{kind}");
    }
    model.trouble = None;
    assert_eq!(model.happened("of-tomorrow", "{"), []);
    assert_eq!(model.trouble, None);
    assert_eq!(state_of(&model, "P-1").as_deref(), Some("todo"));
}

#[test]
fn names_of_others_are_no_paths() {
    let want = Want::Board("../x?y z".to_owned());
    assert_eq!(want.path(), "/api/board/%2E%2E%2Fx%3Fy%20z");
}

#[test]
fn lanes_stand_in_their_order_and_work_in_progress_goes_first_where_not_all_fit() {
    let model = told();
    let board = model.board.as_ref().unwrap();
    let states = |columns| -> Vec<&str> {
        let lanes = lanes(board, "", columns);
        lanes.iter().map(|lane| lane.state).collect()
    };
    assert_eq!(states(100), ["todo", "in-progress", "done"]);
    assert_eq!(states(40), ["in-progress", "todo", "done"]);
    let all = lanes(board, "", 100);
    // What changed last goes first.
    assert_eq!(place_of(&all, "P-1"), Some((0, 1)));
    let found = lanes(board, "OF p-3", 100);
    assert_eq!(found.len(), 1);
    assert_eq!(place_of(&found, "P-3"), Some((0, 0)));
}

#[test]
fn keys_move_open_filter_and_leave() {
    let mut model = told();
    let mut screen = Screen::new(100, 30);
    screen.settle(&model);
    assert_eq!(screen.card(), Some("P-2"));
    press(&mut screen, &mut model, KeyCode::Down);
    assert_eq!(screen.card(), Some("P-1"));
    press(&mut screen, &mut model, KeyCode::Char('l'));
    assert_eq!(screen.card(), Some("P-3"));
    // It stays chosen wherever it goes.
    let moved = json!({"project": "one", "cards": [card("P-3", "done", 1)]});
    model.happened("cards", &moved.to_string());
    screen.settle(&model);
    assert_eq!(screen.card(), Some("P-3"));
    // Where it is gone, what is in its place is.
    model.happened(
        "gone",
        &json!({"project": "one", "ids": ["P-3"]}).to_string(),
    );
    screen.settle(&model);
    assert_eq!(screen.card(), Some("P-4"));
    press(&mut screen, &mut model, KeyCode::Enter);
    assert!(screen.is_open);
    press(&mut screen, &mut model, KeyCode::Esc);
    assert!(!screen.is_open);
    for code in [KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Enter] {
        press(&mut screen, &mut model, code);
    }
    assert_eq!((screen.filter.as_str(), screen.card()), ("q", None));
    press(&mut screen, &mut model, KeyCode::Esc);
    assert_eq!(screen.filter, "");
    let next = press(&mut screen, &mut model, KeyCode::Char(']'));
    assert_eq!(next, Act::Show(vec![Want::Board("two".to_owned())]));
    press(&mut screen, &mut model, KeyCode::Tab);
    assert_eq!((screen.tab, screen.plan()), (Tab::Plans, Some("b")));
    let open = press(&mut screen, &mut model, KeyCode::Enter);
    assert_eq!(open, Act::Show(vec![Want::Plan("b".to_owned())]));
    press(&mut screen, &mut model, KeyCode::Char('3'));
    assert_eq!((screen.server(), screen.is_open), (Some("weather"), false));
    press(&mut screen, &mut model, KeyCode::End);
    assert_eq!(screen.server(), Some("strange"));
    assert_eq!(press(&mut screen, &mut model, KeyCode::Esc), Act::Quit);
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    screen.is_filtering = true;
    assert_eq!(screen.key(control, &mut model), Act::Quit);
}

#[test]
fn ended_jobs_of_a_plan_are_counted_however_they_ended() {
    let mut model = told();
    let plans = json!({"plans": [
        {"id": "a", "name": "Failed", "status": "failed", "nodes": 5, "progress": 80,
         "counts": {"succeeded": 1, "failed": 1, "blocked": 1, "canceled": 1, "running": 1}},
    ], "unreadable": []});
    model.answered(&Want::Plans, &plans.to_string());
    assert_eq!(model.plans[0].ended_jobs(), 4);
}
