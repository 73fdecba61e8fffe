//! What is seen, drawn on a terminal that is none.

use orchestra_plan::draw::Paint;
use ratatui::{Terminal, backend::TestBackend, crossterm::event::KeyCode, style::Color};
use serde_json::json;

use super::*;
use crate::commands::top::model::Want;
use crate::commands::top::model::tests::{board, card, press, told};

/// The time at which it is drawn.
const NOW: u64 = 125_000;

fn drawn(model: &Model, screen: &Screen, paint: Paint) -> TestBackend {
    let backend = TestBackend::new(screen.columns, screen.lines);
    let mut terminal = Terminal::new(backend).unwrap();
    let theme = Theme::new(paint);
    terminal
        .draw(|frame| draw(frame, model, screen, theme, NOW))
        .unwrap();
    terminal.backend().clone()
}

fn text(model: &Model, screen: &Screen) -> Vec<String> {
    let backend = drawn(model, screen, Paint::Plain);
    let buffer = backend.buffer();
    let width = usize::from(screen.columns);
    let rows = buffer.content().chunks(width);
    rows.map(|row| {
        let row: String = row.iter().map(|cell| cell.symbol()).collect();
        row.trim_end().to_owned()
    })
    .collect()
}

fn screen(model: &Model, columns: u16, lines: u16) -> Screen {
    let mut screen = Screen::new(columns, lines);
    screen.settle(model);
    screen
}

#[test]
fn the_board_has_a_lane_for_each_state_that_holds_cards() {
    let model = told();
    let seen = text(&model, &screen(&model, 66, 9));
    assert_eq!(
        seen,
        [
            " 1 Board  2 Plans  3 Servers                         /work ● live",
            " 1/2 ONE 1/4 done  todo 2 in-progress 1 done 1",
            "todo 2                in-progress 1         done 1",
            "P-2 Title of P-2      P-3 Title of P-3      P-4 Title of P-4",
            "P-1 Title of P-1",
            "",
            "",
            "",
            "? help  / filter  enter details  q quit  [ ] project",
        ]
    );
}

#[test]
fn on_a_narrow_terminal_work_in_progress_is_seen_first() {
    let model = told();
    let seen = text(&model, &screen(&model, 40, 10));
    assert_eq!(seen[2], "in-progress 1       todo 2");
    assert!(seen[3].starts_with("P-3 Title of P-3"), "{seen:?}");
}

#[test]
fn plans_show_how_far_they_are_and_for_how_long_they_run() {
    let mut model = told();
    let mut screen = screen(&model, 80, 6);
    press(&mut screen, &mut model, KeyCode::Char('2'));
    assert!(ticks(&model, &screen));
    let seen = text(&model, &screen);
    assert_eq!(
        &seen[1..4],
        [
            "  plan                  state         progress                  jobs run    time",
            "▶ New                   running       ████░░░░░░░░░░░░  25%      1/4   2   1m05s",
            "✓ Old                   succeeded     ████████████████ 100%      1/1       1m02s",
        ],
        "{seen:#?}"
    );
    press(&mut screen, &mut model, KeyCode::Char('1'));
    assert!(!ticks(&model, &screen));
}

#[test]
fn servers_show_what_they_did() {
    let mut model = told();
    let mut screen = screen(&model, 80, 6);
    press(&mut screen, &mut model, KeyCode::Char('3'));
    let seen = text(&model, &screen);
    let words: Vec<&str> = seen[2].split_whitespace().collect();
    assert_eq!(
        words,
        ["●", "weather", "ready", "13", "3", "2", "1.2", "7.5"]
    );
    let words: Vec<&str> = seen[3].split_whitespace().collect();
    assert_eq!(
        words,
        ["✗", "strange", "needs", "approval", "0", "0", "0", "-", "-"]
    );
    press(&mut screen, &mut model, KeyCode::Down);
    press(&mut screen, &mut model, KeyCode::Enter);
    screen.resize(100, 20);
    let seen = text(&model, &screen).join("\n");
    assert!(
        seen.contains("because     nobody has approved it"),
        "{seen}"
    );
    assert!(seen.contains("orchestra mcp approve strange"), "{seen}");
}

#[test]
fn a_card_is_shown_with_what_it_depends_on_and_where_it_may_go() {
    let mut model = told();
    let mut one = card("P-1", "in-progress", 1);
    one["depends_on"] = json!(["P-2"]);
    one["claim"] = json!({"agent": "ada", "until": "2026-02-14T11:00:00Z"});
    let cards = board(&[one, card("P-2", "done", 2)]).to_string();
    model.answered(&Want::Board("one".to_owned()), &cards);
    let mut screen = screen(&model, 100, 20);
    press(&mut screen, &mut model, KeyCode::Enter);
    let seen = text(&model, &screen).join("\n");
    for said in [
        "P-1 Title of P-1",
        "depends on  P-2 Title of P-2 (done)",
        "claimed by  ada until 2026-02-14T11:00:00Z",
        "may go to   done (evidence: what was seen)",
    ] {
        assert!(seen.contains(said), "{said}: {seen}");
    }
}

#[test]
fn texts_of_others_are_harmless() {
    let mut model = told();
    let mut bad = card("P-1", "todo", 1);
    bad["title"] = json!("a\u{1b}[2J\nb\u{202e}c\u{7}");
    bad["assignees"] = json!(["x\u{1b}]0;y\u{7}"]);
    let cards = board(&[bad]).to_string();
    model.answered(&Want::Board("one".to_owned()), &cards);
    model.workspace = "/w\u{1b}[31m".to_owned();
    model.trouble = Some("bad\u{9b}1m".to_owned());
    let mut screen = screen(&model, 80, 30);
    for code in [KeyCode::Home, KeyCode::Enter] {
        press(&mut screen, &mut model, code);
        let seen = text(&model, &screen).join("");
        let harms = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!seen.contains(harms), "{seen:?}");
        assert!(seen.contains("[2J b"), "{seen:?}");
    }
}

#[test]
fn it_can_be_drawn_in_any_size() {
    let mut model = told();
    for (columns, lines) in [(1, 1), (3, 2), (10, 3), (40, 10), (300, 100)] {
        let mut screen = screen(&model, columns, lines);
        for code in "1?12\n23\n3/x\n1G".chars() {
            let code = match code {
                '\n' => KeyCode::Enter,
                code => KeyCode::Char(code),
            };
            press(&mut screen, &mut model, code);
            text(&model, &screen);
        }
        screen.scroll = u16::MAX;
        screen.has_help = true;
        text(&model, &screen);
    }
}

#[test]
fn nothing_is_coloured_where_that_is_not_wanted() {
    let model = told();
    let screen = screen(&model, 80, 24);
    let is_coloured = |paint| {
        let backend = drawn(&model, &screen, paint);
        let mut cells = backend.buffer().content().iter();
        cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(is_coloured(Paint::Colour));
    assert!(!is_coloured(Paint::Plain));
}

#[test]
fn what_is_missing_is_said() {
    let mut model = Model::new(None);
    let mut screen = Screen::new(80, 8);
    assert!(text(&model, &screen)[0].ends_with("connecting"));
    model.happened("hello", &json!({"workspace": "/work"}).to_string());
    model.answered(&Want::Projects, r#"{"projects":[]}"#);
    model.answered(&Want::Plans, r#"{"plans":[]}"#);
    model.answered(&Want::Servers, r#"{"servers":[]}"#);
    for (key, said) in [
        ('1', "create_project"),
        ('2', "orchestra plan create"),
        ('3', "orchestra mcp add"),
    ] {
        press(&mut screen, &mut model, KeyCode::Char(key));
        let seen = text(&model, &screen).join("\n");
        assert!(seen.contains(said), "{seen}");
    }
    model.lost("it has stopped".to_owned());
    let seen = text(&model, &screen);
    assert!(seen[0].ends_with("away"), "{seen:?}");
    assert!(
        seen[7].starts_with("it has stopped; the last state is shown"),
        "{seen:?}"
    );
}
