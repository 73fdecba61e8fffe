//! The servers of others, each with what it did.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{
    super::{lanes, model::Model, screen::Screen, wire::Server},
    Theme, at_right, filled, from, nothing,
};

/// From so many columns on there is room for all that is told.
const WIDE: usize = 70;

const STATE: usize = 15;
const NUMBER: usize = 7;
const RESTARTS: usize = 9;
const TIME: usize = 10;

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    screen: &Screen,
    theme: Theme,
) {
    let servers = lanes::servers(model, &screen.filter);
    if servers.is_empty() {
        let said = match (model.has_servers, screen.filter.is_empty()) {
            (false, _) => "Loading the servers …",
            (true, true) => "There are no upstream servers yet: add one with `orchestra mcp add`.",
            (true, false) => "No server holds that.",
        };
        return nothing(frame, area, theme, said);
    }
    let room = usize::from(area.width);
    let mut lines = vec![Line::styled(head(room), theme.faint())];
    let height = usize::from(area.height).saturating_sub(1);
    let is_chosen = |server: &&Server| Some(server.name.as_str()) == screen.server();
    let chosen = servers.iter().position(is_chosen);
    let first = from(chosen.unwrap_or_default(), servers.len(), height);
    for (at, server) in servers.iter().enumerate().skip(first).take(height) {
        let style = match chosen == Some(at) {
            true => theme.chosen(),
            false => theme.plain(),
        };
        lines.push(line(server, room, theme).patch_style(style));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// How wide a name is.
fn name(room: usize) -> usize {
    let rest = match room >= WIDE {
        true => NUMBER * 2 + RESTARTS + TIME * 2,
        false => NUMBER,
    };
    room.saturating_sub(3 + STATE + rest).max(4)
}

fn head(room: usize) -> String {
    let mut text = filled("  server", name(room) + 3);
    text.push_str(&filled("state", STATE));
    text.push_str(&at_right("calls", NUMBER));
    if room >= WIDE {
        text.push_str(&at_right("errors", NUMBER));
        text.push_str(&at_right("restarts", RESTARTS));
        text.push_str(&at_right("mean ms", TIME));
        text.push_str(&at_right("p99 ms", TIME));
    }
    text
}

fn line(server: &Server, room: usize, theme: Theme) -> Line<'static> {
    let (mark, style) = theme.server(&server.status);
    let calls = &server.calls;
    let mut spans = vec![
        Span::styled(format!("{mark} "), style),
        Span::raw(filled(&server.name, name(room))),
        Span::raw(" "),
        Span::styled(filled(&server.status.replace('_', " "), STATE), style),
        Span::raw(at_right(&calls.ended().to_string(), NUMBER)),
    ];
    if room >= WIDE {
        let errors = calls.refused.saturating_add(calls.failed);
        spans.push(Span::raw(at_right(&errors.to_string(), NUMBER)));
        spans.push(Span::raw(at_right(&server.restarts.to_string(), RESTARTS)));
        let time = |time: f64| match calls.ended() {
            0 => "-".to_owned(),
            _ => format!("{time:.1}"),
        };
        let latency = &server.latency_ms;
        spans.push(Span::raw(at_right(&time(latency.mean), TIME)));
        spans.push(Span::raw(at_right(&time(latency.p99), TIME)));
    }
    Line::from(spans)
}
