//! The plans, each with how far it is.

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{
    super::{clock::lasted, lanes, model::Model, screen::Screen, wire::Plan},
    Theme, at_right, filled, from, nothing,
};

/// From so many columns on there is room for all that is told.
const WIDE: usize = 70;

/// How wide the parts of a line are.
struct Widths {
    name: usize,
    /// Nothing where there is no room for it.
    state: usize,
    bar: usize,
}

const PERCENT: usize = 5;
const JOBS: usize = 9;
const AT_WORK: usize = 4;
const TIME: usize = 8;

impl Widths {
    fn of(room: usize) -> Self {
        let (state, bar) = match room >= WIDE {
            true => (14, (room / 5).min(24)),
            false => (0, 8),
        };
        let jobs = if room >= WIDE { JOBS } else { 0 };
        let rest = 2 + PERCENT + jobs + AT_WORK + TIME + state + bar;
        Self {
            name: room.saturating_sub(rest + 1).max(4),
            state,
            bar,
        }
    }
}

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    screen: &Screen,
    theme: Theme,
    now: u64,
) {
    let plans = lanes::plans(model, &screen.filter);
    if plans.is_empty() && model.unreadable.is_empty() {
        let said = match (model.has_plans, screen.filter.is_empty()) {
            (false, _) => "Loading the plans …",
            (true, true) => "There are no plans yet: `orchestra plan create` creates one.",
            (true, false) => "No plan holds that.",
        };
        return nothing(frame, area, theme, said);
    }
    let room = usize::from(area.width);
    let widths = Widths::of(room);
    let mut lines = vec![Line::styled(head(&widths, room), theme.faint())];
    let height = usize::from(area.height).saturating_sub(1 + model.unreadable.len().min(2));
    let chosen = plans
        .iter()
        .position(|plan| Some(plan.id.as_str()) == screen.plan());
    let first = from(chosen.unwrap_or_default(), plans.len(), height);
    for (at, plan) in plans.iter().enumerate().skip(first).take(height) {
        let style = match chosen == Some(at) {
            true => theme.chosen(),
            false => theme.plain(),
        };
        lines.push(line(plan, &widths, room, theme, now).patch_style(style));
    }
    for unreadable in model.unreadable.iter().take(2) {
        lines.push(Line::styled(filled(unreadable, room), theme.bad()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn head(widths: &Widths, room: usize) -> String {
    let name = filled("  plan", widths.name + 3);
    let state = filled("state", widths.state);
    let bar = filled("progress", widths.bar + PERCENT);
    let jobs = match room >= WIDE {
        true => at_right("jobs", JOBS),
        false => String::new(),
    };
    let work = at_right("run", AT_WORK);
    let time = at_right("time", TIME);
    format!("{name}{state}{bar}{jobs}{work}{time}")
}

fn line(plan: &Plan, widths: &Widths, room: usize, theme: Theme, now: u64) -> Line<'static> {
    let (mark, style) = theme.job(&plan.status);
    let done = usize::from(plan.progress.min(100)) * widths.bar / 100;
    let bar = format!("{}{}", "█".repeat(done), "░".repeat(widths.bar - done));
    let mut spans = vec![
        Span::styled(format!("{mark} "), style),
        Span::raw(filled(&plan.name, widths.name)),
        Span::raw(" "),
        Span::styled(filled(&plan.status.replace('_', " "), widths.state), style),
        Span::styled(bar, style),
        Span::raw(at_right(&format!("{}%", plan.progress.min(100)), PERCENT)),
    ];
    if room >= WIDE {
        spans.push(Span::raw(at_right(
            &format!("{}/{}", plan.ended_jobs(), plan.nodes),
            JOBS,
        )));
    }
    let work = match plan.at_work() {
        0 => String::new(),
        count => count.to_string(),
    };
    spans.push(Span::raw(at_right(&work, AT_WORK)));
    let time = plan.seconds(now).map_or_else(String::new, lasted);
    spans.push(Span::raw(at_right(&time, TIME)));
    Line::from(spans)
}
