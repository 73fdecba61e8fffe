//! What is known of the workspace, folded from what is told. Pure.

use std::collections::HashMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::Deserialize;

use super::wire::{
    Board, Card, Cards, Column, Gone, Hello, Job, Jobs, OfProject, OnePlan, Plan, PlanGone, Plans,
    Project, Projects, Server, Servers, WholePlan,
};

/// What is to be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Want {
    Projects,
    Board(String),
    Plans,
    Plan(String),
    Servers,
}

impl Want {
    /// Where it is asked for.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Projects => "/api/board".to_owned(),
            Self::Board(project) => format!("/api/board/{}", part(project)),
            Self::Plans => "/api/plans".to_owned(),
            Self::Plan(plan) => format!("/api/plans/{}", part(plan)),
            Self::Servers => "/api/mcp/servers".to_owned(),
        }
    }
}

/// Bytes that are escaped in a part of a path (RFC 3986, section 2.1).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

fn part(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, ESCAPED)
}

/// How the connection stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Link {
    #[default]
    Opening,
    Live,
    Lost(String),
}

/// The workspace.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) link: Link,
    pub(super) workspace: String,
    pub(super) projects: Vec<Project>,
    /// Whether projects, plans and servers were told once.
    pub(super) has_projects: bool,
    pub(super) has_plans: bool,
    pub(super) has_servers: bool,
    /// The project whose board is shown, or is to be.
    pub(super) project: Option<String>,
    pub(super) board: Option<Shown>,
    pub(super) plans: Vec<Plan>,
    /// Which plans cannot be read, and what to do.
    pub(super) unreadable: Vec<String>,
    /// The plan whose jobs are shown, and these.
    pub(super) opened: Option<(String, Vec<Job>)>,
    pub(super) servers: Vec<Server>,
    /// What was refused or not understood last.
    pub(super) trouble: Option<String>,
}

/// The board of a project.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) project: Project,
    pub(super) states: Vec<Column>,
    pub(super) cards: HashMap<String, Card>,
    pub(super) more: bool,
}

impl Model {
    /// Nothing is known, and this project is looked at first.
    pub(super) fn new(project: Option<&str>) -> Self {
        Self {
            project: project.map(str::to_owned),
            ..Self::default()
        }
    }

    /// Takes in what happened; what is to be asked for thereby.
    pub(super) fn happened(&mut self, kind: &str, data: &str) -> Vec<Want> {
        match self.folded(kind, data) {
            Ok(wants) => wants,
            Err(error) => {
                self.trouble = Some(format!("cannot parse an event `{kind}`: {error}"));
                Vec::new()
            }
        }
    }

    /// Takes in what was asked for; what is to be asked for thereby.
    pub(super) fn answered(&mut self, want: &Want, data: &str) -> Vec<Want> {
        match self.replaced(want, data) {
            Ok(wants) => wants,
            Err(error) => {
                self.trouble = Some(format!("{} is not understood: {error}", want.path()));
                Vec::new()
            }
        }
    }

    /// What was asked for is not to be had.
    pub(super) fn refused(&mut self, want: &Want, why: String) {
        match want {
            Want::Board(slug) if self.project.as_ref() == Some(slug) => {
                self.board = None;
                self.trouble = Some(why);
            }
            Want::Plan(id) if self.opened.as_ref().is_some_and(|(open, _)| open == id) => {
                self.opened = None;
                self.trouble = Some(why);
            }
            // Nobody looks at it any more.
            Want::Board(_) | Want::Plan(_) => {}
            Want::Projects | Want::Plans | Want::Servers => self.trouble = Some(why),
        }
    }

    /// The connection is gone.
    pub(super) fn lost(&mut self, why: String) {
        self.link = Link::Lost(why);
    }

    /// Looks at the next project, or the one before.
    pub(super) fn turn(&mut self, by: isize) -> Vec<Want> {
        let count = self.projects.len();
        if count == 0 {
            return Vec::new();
        }
        let now = self.place().unwrap_or_default();
        let next = now.saturating_add_signed(by + count.cast_signed()) % count;
        self.look_at(self.projects[next].slug.clone())
    }

    /// Which of the projects is shown.
    pub(super) fn place(&self) -> Option<usize> {
        let slug = self.project.as_ref()?;
        self.projects.iter().position(|one| one.slug == *slug)
    }

    /// Looks at the jobs of a plan.
    pub(super) fn open(&mut self, plan: &str) -> Vec<Want> {
        self.opened = Some((plan.to_owned(), Vec::new()));
        vec![Want::Plan(plan.to_owned())]
    }

    fn look_at(&mut self, slug: String) -> Vec<Want> {
        if self.project.as_ref() == Some(&slug) && self.board.is_some() {
            return Vec::new();
        }
        self.board = None;
        self.project = Some(slug.clone());
        vec![Want::Board(slug)]
    }

    fn all(&self) -> Vec<Want> {
        let board = self.project.clone().map(Want::Board);
        let plan = self.opened.as_ref().map(|(id, _)| Want::Plan(id.clone()));
        let rest = [Want::Plans, Want::Servers];
        let first = std::iter::once(Want::Projects);
        first.chain(board).chain(rest).chain(plan).collect()
    }

    fn folded(&mut self, kind: &str, data: &str) -> Result<Vec<Want>, serde_json::Error> {
        match kind {
            "hello" => {
                let hello: Hello = read(data)?;
                self.link = Link::Live;
                self.trouble = None;
                self.workspace = hello.workspace;
                let is_whole = self.has_projects && self.has_plans && self.has_servers;
                return Ok(match hello.missed || !is_whole {
                    true => self.all(),
                    false => Vec::new(),
                });
            }
            "reset" | "anew" => return Ok(self.all()),
            "projects" => {
                let told: Projects = read(data)?;
                return Ok(self.has(told.projects));
            }
            "project" => {
                let told: OfProject = read(data)?;
                let is_shown = self.project.as_ref() == Some(&told.project);
                let wants = is_shown.then_some(Want::Board(told.project));
                return Ok(wants.into_iter().collect());
            }
            "cards" => {
                let told: Cards = read(data)?;
                if let Some(board) = self.board_of(&told.project) {
                    let cards = told.cards.into_iter();
                    board
                        .cards
                        .extend(cards.map(|card| (card.id.clone(), card)));
                }
            }
            "gone" => {
                let told: Gone = read(data)?;
                if let Some(board) = self.board_of(&told.project) {
                    let is_gone = |id: &String| told.ids.contains(id);
                    board.cards.retain(|id, card| {
                        let above = [&card.epic_id, &card.story_id];
                        !is_gone(id) && !above.into_iter().flatten().any(is_gone)
                    });
                }
            }
            "plan" => {
                let told: OnePlan = read(data)?;
                let plan = told.plan;
                match self.plans.iter_mut().find(|known| known.id == plan.id) {
                    Some(known) => *known = plan,
                    None => self.plans.push(plan),
                }
                self.sort_plans();
            }
            "jobs" => {
                let told: Jobs = read(data)?;
                self.changed(told);
            }
            "plan-gone" => {
                let told: PlanGone = read(data)?;
                self.plans.retain(|plan| plan.id != told.plan_id);
                let is_open = |(id, _): &mut (String, Vec<Job>)| *id == told.plan_id;
                self.opened.take_if(is_open);
            }
            "servers" => self.servers = read::<Servers>(data)?.servers,
            // What else may change is not shown here.
            _ => {}
        }
        Ok(Vec::new())
    }

    fn replaced(&mut self, want: &Want, data: &str) -> Result<Vec<Want>, serde_json::Error> {
        match want {
            Want::Projects => {
                let told: Projects = read(data)?;
                self.has_projects = true;
                return Ok(self.has(told.projects));
            }
            // Another one may be looked at by now.
            Want::Board(slug) if self.project.as_ref() == Some(slug) => {
                let told: Board = read(data)?;
                let cards = told.cards.into_iter();
                self.board = Some(Shown {
                    project: told.project,
                    states: told.states,
                    cards: cards.map(|card| (card.id.clone(), card)).collect(),
                    more: told.more,
                });
            }
            Want::Plans => {
                let told: Plans = read(data)?;
                self.has_plans = true;
                self.plans = told.plans;
                self.unreadable = told.unreadable;
                self.sort_plans();
            }
            Want::Plan(id) if self.opened.as_ref().is_some_and(|(open, _)| open == id) => {
                let told: WholePlan = read(data)?;
                self.opened = Some((id.clone(), told.plan.nodes));
            }
            Want::Servers => {
                self.servers = read::<Servers>(data)?.servers;
                self.has_servers = true;
            }
            Want::Board(_) | Want::Plan(_) => {}
        }
        Ok(Vec::new())
    }

    /// Takes in the projects. Where the one that is looked at is none of them, the first is, unless it was
    /// asked for and never seen: that is refused in words.
    fn has(&mut self, projects: Vec<Project>) -> Vec<Want> {
        self.projects = projects;
        let known = self.place();
        if let (Some(place), Some(board)) = (known, &mut self.board) {
            board.project = self.projects[place].clone();
        }
        match (known, self.projects.first()) {
            (None, Some(first)) if self.board.is_some() || self.project.is_none() => {
                let slug = first.slug.clone();
                self.board = None;
                self.look_at(slug)
            }
            (None, None) => {
                self.board = None;
                self.project = None;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn board_of(&mut self, project: &str) -> Option<&mut Shown> {
        match self.project.as_deref() == Some(project) {
            true => self.board.as_mut(),
            false => None,
        }
    }

    fn changed(&mut self, told: Jobs) {
        let Some((open, jobs)) = &mut self.opened else {
            return;
        };
        if *open != told.plan_id {
            return;
        }
        for job in told.nodes {
            match jobs.iter_mut().find(|known| known.id == job.id) {
                Some(known) => *known = job,
                None => jobs.push(job),
            }
        }
    }

    /// Those that run go first, then the newest.
    fn sort_plans(&mut self) {
        let order = |plan: &Plan| (plan.is_ended(), std::cmp::Reverse(plan.created_at));
        orchestra_sort::sort_by_key(&mut self.plans, order);
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(data)
}

#[cfg(test)]
pub(super) mod tests;
