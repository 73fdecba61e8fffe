//! All that is known of the one that is chosen.

use orchestra_plan::draw::cut;
use ratatui::text::{Line, Span};

use super::{
    super::{
        clock::lasted,
        details::{self, Fact},
        model::Model,
        screen::{Screen, Tab},
        wire::Job,
    },
    Theme, filled,
};

/// The longest text that is shown.
const LONG: usize = 4_000;

/// How wide what a fact is called is.
const NAME: usize = 12;

pub(super) fn lines(model: &Model, screen: &Screen, theme: Theme, now: u64) -> Vec<Line<'static>> {
    let facts = match screen.tab {
        Tab::Board => details::of_card(model, screen.card()),
        Tab::Plans => details::of_plan(model, screen.plan(), now),
        Tab::Servers => details::of_server(model, screen.server()),
    };
    let mut lines: Vec<Line<'static>> = facts.iter().map(|fact| line(fact, theme)).collect();
    if let (Tab::Plans, Some((_, jobs))) = (screen.tab, &model.opened) {
        lines.push(Line::raw(""));
        lines.extend(jobs.iter().map(|job| job_line(job, theme, now)));
    }
    lines
}

fn line(fact: &Fact, theme: Theme) -> Line<'static> {
    let text = cut(&fact.text, LONG);
    match fact.name {
        "" => Line::styled(text, theme.strong()),
        name => Line::from(vec![
            Span::styled(filled(name, NAME), theme.faint()),
            Span::raw(text),
        ]),
    }
}

fn job_line(job: &Job, theme: Theme, now: u64) -> Line<'static> {
    let (mark, style) = theme.job(&job.status);
    let mut said = vec![job.status.replace('_', " ")];
    said.extend(job.seconds(now).map(lasted));
    if job.attempts > 1 {
        said.push(format!("attempt {}", job.attempts));
    }
    said.extend(job.waiting.clone());
    said.extend(job.error.clone());
    Line::from(vec![
        Span::styled(format!("{mark} "), style),
        Span::raw(format!("{}  ", cut(&job.producer_id, 60))),
        Span::styled(cut(&said.join("  "), LONG), theme.faint()),
    ])
}
