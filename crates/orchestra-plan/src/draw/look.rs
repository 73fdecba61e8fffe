//! How a job's state is shown: a mark and a colour.

/// How a job's state is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Look {
    /// It waits for other jobs.
    Pending,
    /// It waits for its turn.
    Ready,
    /// It is about to start.
    Scheduled,
    /// It runs.
    Running,
    /// It is done.
    Succeeded,
    /// It failed.
    Failed,
    /// What it depends on failed.
    Blocked,
    /// It was called off.
    Canceled,
    /// Its state has a word of which nothing is known here.
    Other,
}

impl Look {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Ready,
        Self::Scheduled,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Blocked,
        Self::Canceled,
        Self::Other,
    ];

    /// The look of a state's word.
    #[must_use]
    pub fn of(status: &str) -> Self {
        match status {
            "pending" => Self::Pending,
            "ready" => Self::Ready,
            "scheduled" => Self::Scheduled,
            "running" | "completed_split" => Self::Running,
            "succeeded" => Self::Succeeded,
            "failed" => Self::Failed,
            "blocked" => Self::Blocked,
            "canceled" => Self::Canceled,
            _ => Self::Other,
        }
    }

    /// One character, one column wide.
    #[must_use]
    pub const fn mark(self) -> char {
        match self {
            Self::Pending => '○',
            Self::Ready => '◇',
            Self::Scheduled => '◆',
            Self::Running => '▶',
            Self::Succeeded => '✓',
            Self::Failed => '✗',
            Self::Blocked => '⊘',
            Self::Canceled => '–',
            Self::Other => '·',
        }
    }

    /// The name of the class that a drawing gives to it.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Canceled => "canceled",
            Self::Other => "other",
        }
    }

    /// The colours of a filled box on white paper: the inside, the line. The text on it is black.
    pub(super) const fn paper(self) -> (&'static str, &'static str) {
        match self {
            Self::Pending | Self::Other => ("#f3f4f6", "#6b7280"),
            Self::Ready | Self::Scheduled => ("#e0f2fe", "#0369a1"),
            Self::Running => ("#dbeafe", "#1d4ed8"),
            Self::Succeeded => ("#dcfce7", "#15803d"),
            Self::Failed => ("#fee2e2", "#b91c1c"),
            Self::Blocked => ("#ffedd5", "#c2410c"),
            Self::Canceled => ("#e5e7eb", "#4b5563"),
        }
    }

    /// The same on a dark screen; the text on it is white.
    pub(super) const fn screen(self) -> (&'static str, &'static str) {
        match self {
            Self::Pending | Self::Other => ("#1f2937", "#9ca3af"),
            Self::Ready | Self::Scheduled => ("#082f49", "#38bdf8"),
            Self::Running => ("#172554", "#60a5fa"),
            Self::Succeeded => ("#052e16", "#4ade80"),
            Self::Failed => ("#450a0a", "#f87171"),
            Self::Blocked => ("#431407", "#fb923c"),
            Self::Canceled => ("#111827", "#6b7280"),
        }
    }

    /// The number of a terminal's colour, as in `ESC [ 32 m`.
    #[must_use]
    pub const fn terminal(self) -> u8 {
        match self {
            Self::Pending | Self::Canceled | Self::Other => 90,
            Self::Ready | Self::Scheduled => 36,
            Self::Running => 34,
            Self::Succeeded => 32,
            Self::Failed => 31,
            Self::Blocked => 33,
        }
    }
}
