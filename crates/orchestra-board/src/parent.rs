//! The state of a parent as a function of its children.

use crate::State;

/// What a parent is by itself; counts only while its children do not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OwnState {
    /// Not planned yet.
    #[default]
    Backlog,
    /// Planned.
    Todo,
    /// Cancelled by hand.
    Cancelled,
}

/// How many children of a parent are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally([u64; State::ALL.len()]);

impl OwnState {
    /// The own state's name in files, which is also the state's.
    #[must_use]
    pub const fn as_state(self) -> State {
        match self {
            Self::Backlog => State::Backlog,
            Self::Todo => State::Todo,
            Self::Cancelled => State::Cancelled,
        }
    }

    /// The own state that `state` stands for, if it can be one.
    #[must_use]
    pub const fn of_state(state: State) -> Option<Self> {
        match state {
            State::Backlog => Some(Self::Backlog),
            State::Todo => Some(Self::Todo),
            State::Cancelled => Some(Self::Cancelled),
            _ => None,
        }
    }
}

impl Tally {
    /// Counts one more child in `state`.
    pub fn add(&mut self, state: State) {
        self.add_many(state, 1);
    }

    /// Counts `count` more children in `state`.
    pub fn add_many(&mut self, state: State, count: u64) {
        self.0[state.index()] += count;
    }

    /// Counts one child less in `state`.
    pub fn remove(&mut self, state: State) {
        let count = &mut self.0[state.index()];
        debug_assert!(*count > 0, "a child that was never counted left");
        *count = count.saturating_sub(1);
    }

    /// How many children are in `state`.
    #[must_use]
    pub const fn count(&self, state: State) -> u64 {
        self.0[state.index()]
    }

    /// How many children there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn count_where(&self, pick: impl Fn(State) -> bool) -> u64 {
        State::ALL
            .into_iter()
            .filter(|state| pick(*state))
            .map(|state| self.count(state))
            .sum()
    }
}

/// The state of a parent: all children final and one done → done; all final and none done →
/// cancelled; any child past todo → in-progress; else its own state. A parent that was cancelled
/// and has open children again is in the backlog.
#[must_use]
pub fn parent_state(children: &Tally, own: OwnState) -> State {
    let total = children.total();
    if total == 0 {
        return own.as_state();
    }
    if children.count_where(State::is_final) == total {
        return if children.count(State::Done) > 0 {
            State::Done
        } else {
            State::Cancelled
        };
    }
    let not_started = |state| matches!(state, State::Backlog | State::Todo | State::Cancelled);
    if children.count_where(not_started) < total {
        return State::InProgress;
    }
    match own {
        OwnState::Todo => State::Todo,
        OwnState::Backlog | OwnState::Cancelled => State::Backlog,
    }
}

#[cfg(test)]
mod tests {
    use super::{OwnState, Tally, parent_state};
    use crate::State;

    #[test]
    fn follows_the_children() {
        let check = |children: &[State], own, expected| {
            let mut tally = Tally::default();
            children.iter().for_each(|state| tally.add(*state));
            assert_eq!(parent_state(&tally, own), expected, "{children:?} {own:?}");
        };
        use OwnState::{Backlog, Cancelled, Todo};
        check(&[], Backlog, State::Backlog);
        check(&[], Cancelled, State::Cancelled);
        check(&[State::Done, State::Cancelled], Todo, State::Done);
        check(&[State::Rejected, State::Cancelled], Todo, State::Cancelled);
        check(&[State::Todo, State::Blocked], Backlog, State::InProgress);
        check(&[State::Backlog, State::Done], Backlog, State::InProgress);
        check(&[State::Backlog, State::Cancelled], Todo, State::Todo);
        check(&[State::Todo], Backlog, State::Backlog);
        check(&[State::Backlog], Cancelled, State::Backlog);
    }
}
