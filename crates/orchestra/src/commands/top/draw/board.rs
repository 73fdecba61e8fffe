//! The board: a lane for each state that holds cards.

use orchestra_plan::draw::{cut, width};
use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
};

use super::{
    super::{
        lanes::{Lane, beside, lanes, place_of},
        model::{Model, Shown},
        screen::Screen,
        wire::Card,
    },
    Theme, filled, from, nothing,
};

/// In a lane of at least so many lines, a card takes two.
const TALL: u16 = 14;

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    screen: &Screen,
    theme: Theme,
) {
    let Some(board) = &model.board else {
        let said = match (
            model.has_projects,
            model.projects.is_empty(),
            &model.trouble,
        ) {
            (_, _, Some(_)) => "Nothing to show.",
            (true, true, None) => {
                "There are no projects yet. An agent or `orchestra tool call create_project` creates one."
            }
            _ => "Loading the board …",
        };
        return nothing(frame, area, theme, said);
    };
    if area.height == 0 {
        return;
    }
    let lanes = lanes(board, &screen.filter, screen.columns);
    let head = Rect { height: 1, ..area };
    frame.render_widget(head_line(model, board, &lanes, theme, head.width), head);
    let body = Rect {
        y: area.y + 1,
        height: area.height - 1,
        ..area
    };
    if lanes.is_empty() {
        let said = match screen.filter.is_empty() {
            true => "The project has no cards yet.",
            false => "No card holds that.",
        };
        return nothing(frame, body, theme, said);
    }
    let chosen = screen.card().and_then(|id| place_of(&lanes, id));
    let shown = beside(area.width).min(lanes.len());
    let first = from(chosen.map_or(0, |(lane, _)| lane), lanes.len(), shown);
    let columns = area.width / u16::try_from(shown).unwrap_or(u16::MAX);
    let mut x = area.x;
    for (at, lane) in lanes.iter().enumerate().skip(first).take(shown) {
        let place = Rect {
            x,
            width: columns,
            ..body
        };
        let row = chosen.filter(|(lane, _)| *lane == at).map(|(_, row)| row);
        draw_lane(frame, place, lane, row, theme);
        x += columns;
    }
}

/// The project, and how many cards are in which state: not all lanes may be seen.
fn head_line(
    model: &Model,
    board: &Shown,
    lanes: &[Lane<'_>],
    theme: Theme,
    room: u16,
) -> Line<'static> {
    let mut room = usize::from(room);
    let place = model.place().unwrap_or_default() + 1;
    let project = &board.project;
    let which = match model.projects.len() {
        0 | 1 => String::new(),
        count => format!("{place}/{count} "),
    };
    let more = match board.more {
        true => ", not all shown",
        false => "",
    };
    let name = format!(
        " {which}{} {}/{} done{more} ",
        cut(&project.name, (room / 2).max(8)),
        project.done,
        project.tasks
    );
    let name = cut(&name, room);
    room -= width(&name).min(room);
    let mut spans = vec![Span::styled(name, theme.strong())];
    for lane in lanes {
        let text = format!(" {} {}", lane.state, lane.cards.len());
        let taken = width(&text);
        if taken > room {
            break;
        }
        room -= taken;
        spans.push(Span::styled(cut(&text, taken), theme.state(lane.state)));
    }
    Line::from(spans)
}

fn draw_lane(
    frame: &mut Frame<'_>,
    area: Rect,
    lane: &Lane<'_>,
    chosen: Option<usize>,
    theme: Theme,
) {
    let room = usize::from(area.width.saturating_sub(1));
    let count = format!(" {}", lane.cards.len());
    let name = cut(lane.state, room.saturating_sub(width(&count)));
    let title = filled(&format!("{name}{count}"), room);
    let style = theme
        .state(lane.state)
        .patch(theme.strong())
        .add_modifier(ratatui::style::Modifier::UNDERLINED);
    let mut lines = vec![Line::styled(title, style)];
    let height = area.height.saturating_sub(1);
    let each = match height >= TALL {
        true => 2,
        false => 1,
    };
    let fit = usize::from(height / each).max(1);
    let count = lane.cards.len();
    // Where not all fit, a line says how many are missing.
    let fit = match count > fit {
        true => (usize::from(height.saturating_sub(1) / each)).max(1),
        false => fit,
    };
    let first = from(chosen.unwrap_or_default(), count, fit);
    for (row, card) in lane.cards.iter().enumerate().skip(first).take(fit) {
        let style = match chosen == Some(row) {
            true => theme.chosen(),
            false => theme.plain(),
        };
        let text = format!("{} {}", card.id, card.title);
        lines.push(Line::styled(filled(&text, room), style));
        if each == 2 {
            let style = style.patch(theme.faint());
            lines.push(Line::styled(filled(&more(card), room), style));
        }
    }
    if count > fit {
        let behind = count.saturating_sub(first + fit);
        let said = match (first, behind) {
            (0, behind) => format!("↓ {behind} more"),
            (before, 0) => format!("↑ {before} more"),
            (before, behind) => format!("↑ {before}  ↓ {behind} more"),
        };
        lines.push(Line::styled(cut(&said, room), theme.faint()));
    }
    frame.render_widget(ratatui::widgets::Paragraph::new(lines), area);
}

/// What is said of a card in its second line.
fn more(card: &Card) -> String {
    let mut parts = vec![card.kind.clone()];
    parts.extend(card.priority.clone());
    match &card.claim {
        Some(claim) => parts.push(format!("@{}", claim.agent)),
        None => parts.extend(card.assignees.first().cloned()),
    }
    format!("  {}", parts.join(" · "))
}
