//! What is seen: a line that says where one is, what is looked at, and a line of keys. Nothing is asked and
//! nothing changed here. Texts of others are cut to what fits, and made harmless thereby.

mod board;
mod details;
mod plans;
mod servers;
mod theme;

use orchestra_plan::draw::{cut, width};
use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::{Clear, Paragraph, Wrap},
};

use super::{
    lanes,
    model::{Link, Model},
    screen::{Screen, Tab},
};
pub(super) use theme::Theme;

/// What the keys do.
const HELP: [(&str, &str); 10] = [
    ("1 2 3, tab", "board, plans, servers"),
    ("arrows, hjkl", "move"),
    ("pgup pgdn", "move by ten"),
    ("home end, g G", "first, last"),
    ("enter", "details, and back"),
    ("/", "filter; esc clears it"),
    ("[ ]", "project before, next"),
    ("?", "this"),
    ("esc", "back; quit from the first page"),
    ("q, ctrl-c", "leave"),
];

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, screen: &Screen, theme: Theme, now: u64) {
    let area = frame.area();
    let [head, body, foot] = parts(area);
    frame.render_widget(head_line(model, screen, theme, head.width), head);
    if screen.has_help {
        let lines = HELP.iter().map(|(key, does)| {
            let key = Span::styled(format!(" {key:<14}"), theme.strong());
            Line::from(vec![key, Span::raw(*does)])
        });
        text(frame, body, lines.collect(), screen.scroll);
    } else if screen.is_open {
        let lines = details::lines(model, screen, theme, now);
        text(frame, body, lines, screen.scroll);
    } else {
        match screen.tab {
            Tab::Board => board::draw(frame, body, model, screen, theme),
            Tab::Plans => plans::draw(frame, body, model, screen, theme, now),
            Tab::Servers => servers::draw(frame, body, model, screen, theme),
        }
    }
    frame.render_widget(foot_line(model, screen, theme, foot.width), foot);
}

/// Whether a time is seen that goes on.
pub(super) fn ticks(model: &Model, screen: &Screen) -> bool {
    if screen.has_help || screen.tab != Tab::Plans {
        return false;
    }
    match (&model.opened, screen.is_open) {
        (Some((_, jobs)), true) => jobs.iter().any(super::wire::Job::runs),
        _ => lanes::plans(model, &screen.filter)
            .iter()
            .any(|plan| plan.runs()),
    }
}

/// The first line, the last one, and what is between them.
fn parts(area: Rect) -> [Rect; 3] {
    let line = |y| Rect::new(area.x, area.y + y, area.width, area.height.min(1));
    let body = Rect {
        y: area.y + area.height.min(1),
        height: area.height.saturating_sub(2),
        ..area
    };
    let foot = match area.height {
        0 | 1 => Rect::new(area.x, area.y, 0, 0),
        height => line(height - 1),
    };
    [line(0), body, foot]
}

/// The views, and whether what is seen is how it is now.
fn head_line(model: &Model, screen: &Screen, theme: Theme, room: u16) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, tab) in Tab::ALL.into_iter().enumerate() {
        let style = match tab == screen.tab {
            true => theme.chosen(),
            false => theme.plain(),
        };
        spans.push(Span::styled(format!(" {} {} ", at + 1, tab.name()), style));
    }
    let (mark, said, style) = match &model.link {
        Link::Opening => ("○", "connecting", theme.faint()),
        Link::Live => ("●", "live", theme.good()),
        Link::Lost(_) => ("○", "away", theme.bad()),
    };
    let said = format!("{mark} {said} ");
    let taken: usize = spans.iter().map(Span::width).sum();
    let left = usize::from(room).saturating_sub(taken + width(&said));
    let place = match left > 4 {
        true => cut(&model.workspace, left - 2),
        false => String::new(),
    };
    let gap = left.saturating_sub(width(&place) + 1);
    spans.push(Span::raw(" ".repeat(gap)));
    spans.push(Span::styled(format!("{place} "), theme.faint()));
    spans.push(Span::styled(said, style));
    Line::from(spans)
}

/// What is typed, what is wrong, or which keys there are.
fn foot_line(model: &Model, screen: &Screen, theme: Theme, room: u16) -> Line<'static> {
    let room = usize::from(room);
    if screen.is_filtering {
        // The end of it is what is typed at.
        let all: Vec<char> = screen.filter.chars().collect();
        let from = all.len().saturating_sub(room.saturating_sub(3));
        let end: String = all[from..].iter().collect();
        let text = cut(&format!("/{end}▏"), room);
        return Line::styled(text, theme.strong());
    }
    if let Link::Lost(why) = &model.link {
        let text = format!("{why}; the last state is shown until it is back");
        return Line::styled(cut(&text, room), theme.bad());
    }
    if let Some(trouble) = &model.trouble {
        return Line::styled(cut(trouble, room), theme.bad());
    }
    let mut said = match (screen.has_help || screen.is_open, screen.filter.is_empty()) {
        (true, _) => "esc back  j k scroll  q quit".to_owned(),
        (false, true) => "? help  / filter  enter details  q quit".to_owned(),
        (false, false) => format!("/{}  esc shows all", screen.filter),
    };
    if screen.tab == Tab::Board && !screen.is_open && model.projects.len() > 1 {
        said.push_str("  [ ] project");
    }
    Line::styled(cut(&said, room), theme.faint())
}

/// Lines, broken where they are too long, from the one that was scrolled to.
fn text(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>, scroll: u16) {
    // How many lines they are when they are broken is at most this.
    let broken = |line: &Line<'_>| line.width() / usize::from(area.width.max(1)) * 2 + 1;
    let count: usize = lines.iter().map(broken).sum();
    let last = count.saturating_sub(usize::from(area.height));
    let scroll = scroll.min(u16::try_from(last).unwrap_or(u16::MAX));
    frame.render_widget(Clear, area);
    let shown = Paragraph::new(lines).wrap(Wrap { trim: false });
    frame.render_widget(shown.scroll((scroll, 0)), area);
}

/// From which of so many lines on a part of so many is shown, so that one of them is seen.
fn from(chosen: usize, count: usize, room: usize) -> usize {
    let last = count.saturating_sub(room);
    chosen.saturating_sub(room / 2).min(last)
}

/// A text in the middle of what is empty.
fn nothing(frame: &mut Frame<'_>, area: Rect, theme: Theme, said: &str) {
    let line = Line::styled(said.to_owned(), theme.faint());
    frame.render_widget(Paragraph::new(line).wrap(Wrap { trim: true }), area);
}

/// A text of just so many columns.
fn filled(text: &str, columns: usize) -> String {
    if columns == 0 {
        return String::new();
    }
    let mut text = cut(text, columns);
    let missing = columns.saturating_sub(width(&text));
    text.extend(std::iter::repeat_n(' ', missing));
    text
}

/// The same, at the right.
fn at_right(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let missing = columns.saturating_sub(width(&text));
    format!("{}{text}", " ".repeat(missing))
}

#[cfg(test)]
mod tests;
