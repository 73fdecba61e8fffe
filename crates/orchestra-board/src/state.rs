//! The 13 states of an issue, the moves between them and the evidence gates: the one table.
//!
//! Source: the workflow of document 001 (`Transitions`, `AdvanceMap`, `CompletedStatuses`,
//! `ActiveStatuses`), plus cancellation from every state that is not final.

use std::fmt;

/// Where an issue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(
    missing_docs,
    reason = "the names are the documented states themselves"
)]
pub enum State {
    Backlog,
    Todo,
    InProgress,
    Blocked,
    ReadyForTesting,
    InTesting,
    ReadyForDocs,
    InDocs,
    Documented,
    InReview,
    Done,
    Rejected,
    Cancelled,
}

/// What must be shown to pass one of the four gated edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gate {
    /// in-progress → ready-for-testing.
    TestsPassed,
    /// in-testing → ready-for-docs.
    TestsVerified,
    /// in-docs → documented.
    DocsWritten,
    /// in-review → done.
    ReviewApproved,
}

impl State {
    /// All states, in the order of the workflow.
    pub const ALL: [Self; 13] = [
        Self::Backlog,
        Self::Todo,
        Self::InProgress,
        Self::Blocked,
        Self::ReadyForTesting,
        Self::InTesting,
        Self::ReadyForDocs,
        Self::InDocs,
        Self::Documented,
        Self::InReview,
        Self::Done,
        Self::Rejected,
        Self::Cancelled,
    ];

    /// The state's name on the wire and in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::Todo => "todo",
            Self::InProgress => "in-progress",
            Self::Blocked => "blocked",
            Self::ReadyForTesting => "ready-for-testing",
            Self::InTesting => "in-testing",
            Self::ReadyForDocs => "ready-for-docs",
            Self::InDocs => "in-docs",
            Self::Documented => "documented",
            Self::InReview => "in-review",
            Self::Done => "done",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses a state's name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether somebody works on the issue right now.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(
            self,
            Self::InProgress | Self::InTesting | Self::InDocs | Self::InReview
        )
    }

    /// Whether the issue waits for the next active step.
    #[must_use]
    pub const fn is_waiting(self) -> bool {
        matches!(
            self,
            Self::ReadyForTesting | Self::ReadyForDocs | Self::Documented
        )
    }

    /// Whether the issue is over (it may still be reopened).
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Rejected | Self::Cancelled)
    }

    /// The next state on the happy path; `None` outside of it.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::InProgress => Some(Self::ReadyForTesting),
            Self::ReadyForTesting => Some(Self::InTesting),
            Self::InTesting => Some(Self::ReadyForDocs),
            Self::ReadyForDocs => Some(Self::InDocs),
            Self::InDocs => Some(Self::Documented),
            Self::Documented => Some(Self::InReview),
            Self::InReview => Some(Self::Done),
            Self::Backlog
            | Self::Todo
            | Self::Blocked
            | Self::Done
            | Self::Rejected
            | Self::Cancelled => None,
        }
    }

    /// The states one move away, in the order of the workflow.
    #[must_use]
    pub const fn exits(self) -> &'static [Self] {
        use State::{
            Backlog, Blocked, Cancelled, Documented, Done, InDocs, InProgress, InReview, InTesting,
            ReadyForDocs, ReadyForTesting, Rejected, Todo,
        };
        match self {
            Backlog => &[Todo, Cancelled],
            Todo => &[InProgress, Backlog, Cancelled],
            InProgress => &[ReadyForTesting, Blocked, Todo, Cancelled],
            Blocked => &[InProgress, Todo, Cancelled],
            ReadyForTesting => &[InTesting, InProgress, Cancelled],
            InTesting => &[ReadyForDocs, InProgress, Cancelled],
            ReadyForDocs => &[InDocs, InTesting, Cancelled],
            InDocs => &[Documented, ReadyForDocs, Cancelled],
            Documented => &[InReview, Cancelled],
            InReview => &[Done, Rejected, Documented, Cancelled],
            Done => &[Todo],
            Rejected => &[Todo, Backlog],
            Cancelled => &[Backlog],
        }
    }

    /// Whether a task may move from here to `to` in one step.
    #[must_use]
    pub fn can_become(self, to: Self) -> bool {
        self.exits().contains(&to)
    }

    /// The gate on the edge from here to `to`, if there is one.
    #[must_use]
    pub const fn gate(self, to: Self) -> Option<Gate> {
        match (self, to) {
            (Self::InProgress, Self::ReadyForTesting) => Some(Gate::TestsPassed),
            (Self::InTesting, Self::ReadyForDocs) => Some(Gate::TestsVerified),
            (Self::InDocs, Self::Documented) => Some(Gate::DocsWritten),
            (Self::InReview, Self::Done) => Some(Gate::ReviewApproved),
            _ => None,
        }
    }

    /// What to do in this state, for whoever just arrived in it; `None` where nothing is to do.
    #[must_use]
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Self::InProgress => Some("implement it; leaving needs evidence of the tests you ran"),
            Self::ReadyForTesting => Some(
                "waits for a tester; advance without evidence to start testing; release_task lets another agent take it",
            ),
            Self::InTesting => {
                Some("verify coverage and edge cases; leaving needs evidence of that")
            }
            Self::ReadyForDocs => Some(
                "waits for documentation; advance without evidence to start writing; release_task lets another agent take it",
            ),
            Self::InDocs => {
                Some("write the documentation; leaving needs evidence of what was written")
            }
            Self::Documented => Some(
                "waits for review; advance without evidence to start it; release_task lets another agent take it",
            ),
            Self::InReview => {
                Some("review it; advance with evidence to approve, or reject it with a reason")
            }
            Self::Backlog
            | Self::Todo
            | Self::Blocked
            | Self::Done
            | Self::Rejected
            | Self::Cancelled => None,
        }
    }

    /// Position in [`State::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Gate {
    /// The gate's name in messages and results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TestsPassed => "tests_passed",
            Self::TestsVerified => "tests_verified",
            Self::DocsWritten => "docs_written",
            Self::ReviewApproved => "review_approved",
        }
    }

    /// What the evidence must say.
    #[must_use]
    pub const fn asks_for(self) -> &'static str {
        match self {
            Self::TestsPassed => "which tests were run, and their result",
            Self::TestsVerified => "that coverage is acceptable and edge cases are covered",
            Self::DocsWritten => "what documentation was added or changed",
            Self::ReviewApproved => "what was reviewed, and that its quality is confirmed",
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    /// The table as people read it: a row per state, `x` where the move is legal.
    /// Columns are in the order of `State::ALL`.
    const TABLE: [(&str, &str); 13] = [
        ("backlog", ".x..........x"),
        ("todo", "x.x.........x"),
        ("in-progress", ".x.xx.......x"),
        ("blocked", ".xx.........x"),
        ("ready-for-testing", "..x..x......x"),
        ("in-testing", "..x...x.....x"),
        ("ready-for-docs", ".....x.x....x"),
        ("in-docs", "......x.x...x"),
        ("documented", ".........x..x"),
        ("in-review", "........x.xxx"),
        ("done", ".x..........."),
        ("rejected", "xx..........."),
        ("cancelled", "x............"),
    ];

    #[test]
    fn all_169_pairs_are_as_the_table_says() {
        let mut pairs = 0;
        for (name, row) in TABLE {
            let from = State::parse(name).expect("a state");
            for (to, mark) in State::ALL.into_iter().zip(row.chars()) {
                assert_eq!(from.can_become(to), mark == 'x', "{from} -> {to}");
                pairs += 1;
            }
        }
        assert_eq!(pairs, 169);
    }

    #[test]
    fn sets_and_happy_path_are_pinned() {
        let names = |pick: fn(State) -> bool| -> Vec<&str> {
            State::ALL
                .into_iter()
                .filter(|state| pick(*state))
                .map(State::as_str)
                .collect()
        };
        assert_eq!(
            names(State::is_active),
            ["in-progress", "in-testing", "in-docs", "in-review"]
        );
        assert_eq!(
            names(State::is_waiting),
            ["ready-for-testing", "ready-for-docs", "documented"]
        );
        for state in State::ALL {
            let advice = state.advice().unwrap_or_default();
            assert_eq!(advice.contains("release_task"), state.is_waiting());
        }
        assert_eq!(names(State::is_final), ["done", "rejected", "cancelled"]);
        let mut path = vec![State::InProgress];
        while let Some(next) = path[path.len() - 1].next() {
            assert!(path[path.len() - 1].can_become(next));
            path.push(next);
        }
        assert_eq!(path.len(), 8);
        assert_eq!(
            State::ALL
                .into_iter()
                .filter(|state| state.next().is_some())
                .count(),
            7
        );
    }

    #[test]
    fn gates_sit_on_four_edges_of_the_happy_path() {
        let mut gated = Vec::new();
        for from in State::ALL {
            for to in State::ALL {
                if let Some(gate) = from.gate(to) {
                    assert_eq!(from.next(), Some(to));
                    gated.push(gate.as_str());
                }
            }
        }
        assert_eq!(
            gated,
            [
                "tests_passed",
                "tests_verified",
                "docs_written",
                "review_approved"
            ]
        );
    }
}
