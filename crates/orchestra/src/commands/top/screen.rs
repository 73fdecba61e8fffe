//! What of the workspace is looked at, and what keys do. Pure.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{
    lanes::{self, lanes, place_of},
    model::{Model, Want},
};

/// The longest filter.
const FILTER: usize = 100;

/// How far a page goes.
const PAGE: isize = 10;

/// A view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tab {
    #[default]
    Board,
    Plans,
    Servers,
}

impl Tab {
    pub(super) const ALL: [Self; 3] = [Self::Board, Self::Plans, Self::Servers];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Board => "Board",
            Self::Plans => "Plans",
            Self::Servers => "Servers",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::Board => Self::Plans,
            Self::Plans => Self::Servers,
            Self::Servers => Self::Board,
        }
    }
}

/// What is looked at.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pub(super) tab: Tab,
    pub(super) filter: String,
    /// Whether keys are taken for the filter.
    pub(super) is_filtering: bool,
    pub(super) has_help: bool,
    /// Whether the one that is chosen is shown with all that is known of it.
    pub(super) is_open: bool,
    /// How far what is open, or the help, was scrolled.
    pub(super) scroll: u16,
    pub(super) columns: u16,
    pub(super) lines: u16,
    card: Option<String>,
    plan: Option<String>,
    server: Option<String>,
    /// Where the chosen card was last: it may go away.
    was: (usize, usize),
}

/// What follows from a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    /// Something else is to be shown, and this is to be asked for.
    Show(Vec<Want>),
    Quit,
}

/// Where to.
#[derive(Debug, Clone, Copy)]
enum Way {
    Left,
    Right,
    By(isize),
    First,
    Last,
}

impl Screen {
    /// Of a terminal of so many columns and lines.
    pub(super) fn new(columns: u16, lines: u16) -> Self {
        Self {
            columns,
            lines,
            ..Self::default()
        }
    }

    pub(super) const fn resize(&mut self, columns: u16, lines: u16) {
        self.columns = columns;
        self.lines = lines;
    }

    /// The card that is chosen.
    pub(super) fn card(&self) -> Option<&str> {
        self.card.as_deref()
    }

    /// The plan that is chosen.
    pub(super) fn plan(&self) -> Option<&str> {
        self.plan.as_deref()
    }

    /// The server that is chosen.
    pub(super) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// Sees to it that what is chosen is there, wherever it is by now.
    pub(super) fn settle(&mut self, model: &Model) {
        let lanes = model.board.as_ref();
        let lanes = lanes.map(|board| lanes::lanes(board, &self.filter, self.columns));
        let lanes = lanes.unwrap_or_default();
        let place = self.card.as_deref().and_then(|id| place_of(&lanes, id));
        let was = place.unwrap_or(self.was);
        self.was = was;
        let lane = lanes.get(was.0.min(lanes.len().saturating_sub(1)));
        let card = lane.and_then(|lane| {
            let last = lane.cards.len().saturating_sub(1);
            lane.cards.get(was.1.min(last))
        });
        let card = card.map(|card| card.id.clone());
        // What is read stays, though it has gone elsewhere or away.
        if !(self.is_open && self.tab == Tab::Board) {
            self.card = card;
        }
        let plans = lanes::plans(model, &self.filter);
        let ids = plans.iter().map(|plan| plan.id.as_str());
        self.plan = there(ids, self.plan.take());
        let servers = lanes::servers(model, &self.filter);
        let names = servers.iter().map(|server| server.name.as_str());
        self.server = there(names, self.server.take());
        if self.tab == Tab::Plans && self.is_open && model.opened.is_none() {
            self.is_open = false;
        }
    }

    /// Does what a key says.
    pub(super) fn key(&mut self, key: KeyEvent, model: &mut Model) -> Act {
        if key.kind == KeyEventKind::Release {
            return Act::Nothing;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return Act::Quit;
        }
        if self.is_filtering {
            return self.typed(key.code, is_control);
        }
        let way = match key.code {
            KeyCode::Char('q') => return Act::Quit,
            KeyCode::Esc => return self.back(model),
            KeyCode::Char('?') => {
                self.has_help = !self.has_help;
                self.scroll = 0;
                return Act::Show(Vec::new());
            }
            KeyCode::Char('1') => return self.turn(Tab::Board, model),
            KeyCode::Char('2') => return self.turn(Tab::Plans, model),
            KeyCode::Char('3') => return self.turn(Tab::Servers, model),
            KeyCode::Tab => return self.turn(self.tab.next(), model),
            KeyCode::BackTab => return self.turn(self.tab.next().next(), model),
            KeyCode::Char('/') if !self.has_help && !self.is_open => {
                self.is_filtering = true;
                return Act::Show(Vec::new());
            }
            KeyCode::Char('[') => return self.project(-1, model),
            KeyCode::Char(']') => return self.project(1, model),
            KeyCode::Enter | KeyCode::Char(' ') => return self.open(model),
            KeyCode::Left | KeyCode::Char('h') => Way::Left,
            KeyCode::Right | KeyCode::Char('l') => Way::Right,
            KeyCode::Up | KeyCode::Char('k') => Way::By(-1),
            KeyCode::Down | KeyCode::Char('j') => Way::By(1),
            KeyCode::PageUp => Way::By(-PAGE),
            KeyCode::PageDown => Way::By(PAGE),
            KeyCode::Home | KeyCode::Char('g') => Way::First,
            KeyCode::End | KeyCode::Char('G') => Way::Last,
            _ => return Act::Nothing,
        };
        self.go(way, model);
        Act::Show(Vec::new())
    }

    fn typed(&mut self, code: KeyCode, is_control: bool) -> Act {
        match code {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char('u') if is_control => self.filter.clear(),
            KeyCode::Char(c) if !is_control && self.filter.chars().count() < FILTER => {
                self.filter.push(c);
            }
            _ => return Act::Nothing,
        }
        Act::Show(Vec::new())
    }

    /// Leaves what is on top: the help, what is open, the filter, and at last all.
    fn back(&mut self, model: &mut Model) -> Act {
        if self.has_help {
            self.has_help = false;
        } else if self.is_open {
            self.close(model);
        } else if self.filter.is_empty() {
            return Act::Quit;
        } else {
            self.filter.clear();
        }
        self.scroll = 0;
        Act::Show(Vec::new())
    }

    fn close(&mut self, model: &mut Model) {
        self.is_open = false;
        self.scroll = 0;
        model.opened = None;
    }

    fn turn(&mut self, tab: Tab, model: &mut Model) -> Act {
        self.close(model);
        self.has_help = false;
        self.tab = tab;
        Act::Show(Vec::new())
    }

    fn project(&mut self, by: isize, model: &mut Model) -> Act {
        if self.tab != Tab::Board || self.has_help {
            return Act::Nothing;
        }
        self.close(model);
        (self.card, self.was) = (None, (0, 0));
        Act::Show(model.turn(by))
    }

    fn open(&mut self, model: &mut Model) -> Act {
        if self.has_help {
            return Act::Nothing;
        }
        if self.is_open {
            self.close(model);
            return Act::Show(Vec::new());
        }
        self.scroll = 0;
        let (is_open, wants) = match self.tab {
            Tab::Board => (self.card.is_some(), Vec::new()),
            Tab::Servers => (self.server.is_some(), Vec::new()),
            Tab::Plans => match &self.plan {
                Some(plan) => (true, model.open(plan)),
                None => (false, Vec::new()),
            },
        };
        self.is_open = is_open;
        Act::Show(wants)
    }

    fn go(&mut self, way: Way, model: &Model) {
        if self.has_help || self.is_open {
            self.scroll = match way {
                Way::Left | Way::Right => self.scroll,
                // What is drawn knows where the end is.
                Way::Last => u16::MAX,
                Way::First => 0,
                Way::By(by) => {
                    let by = i16::try_from(by).unwrap_or_default();
                    self.scroll.saturating_add_signed(by)
                }
            };
            return;
        }
        match self.tab {
            Tab::Board => self.go_on_board(way, model),
            Tab::Plans => {
                let plans = lanes::plans(model, &self.filter);
                let ids: Vec<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
                self.plan = stepped(&ids, self.plan.as_deref(), way);
            }
            Tab::Servers => {
                let servers = lanes::servers(model, &self.filter);
                let names: Vec<&str> = servers.iter().map(|one| one.name.as_str()).collect();
                self.server = stepped(&names, self.server.as_deref(), way);
            }
        }
    }

    fn go_on_board(&mut self, way: Way, model: &Model) {
        let Some(board) = &model.board else { return };
        let lanes = lanes(board, &self.filter, self.columns);
        let place = self.card.as_deref().and_then(|id| place_of(&lanes, id));
        let (lane, row) = place.unwrap_or(self.was);
        let lane = match way {
            Way::Left => lane.saturating_sub(1),
            Way::Right => lane.saturating_add(1).min(lanes.len().saturating_sub(1)),
            _ => lane,
        };
        let Some(cards) = lanes.get(lane).map(|lane| &lane.cards) else {
            return;
        };
        let row = moved(row, cards.len(), way);
        self.was = (lane, row);
        self.card = cards.get(row).map(|card| card.id.clone());
    }
}

/// The one that is chosen if it is there, else the first.
fn there<'a>(
    mut all: impl Iterator<Item = &'a str> + Clone,
    chosen: Option<String>,
) -> Option<String> {
    match chosen {
        Some(chosen) if all.clone().any(|one| one == chosen) => Some(chosen),
        _ => all.next().map(str::to_owned),
    }
}

fn stepped(all: &[&str], chosen: Option<&str>, way: Way) -> Option<String> {
    let now = chosen.and_then(|chosen| all.iter().position(|one| *one == chosen));
    let next = moved(now.unwrap_or_default(), all.len(), way);
    all.get(next).map(|&one| one.to_owned())
}

/// The place that is gone to in a list.
fn moved(place: usize, count: usize, way: Way) -> usize {
    let last = count.saturating_sub(1);
    match way {
        Way::Left | Way::Right => place.min(last),
        Way::By(by) => place.min(last).saturating_add_signed(by).min(last),
        Way::First => 0,
        Way::Last => last,
    }
}
