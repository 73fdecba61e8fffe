//! How what is seen looks: colours of the terminal's own, or none where they are not wanted.

use orchestra_plan::draw::{Look, Paint};
use ratatui::style::{Color, Modifier, Style};

use crate::output;

/// How things look.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands::top) struct Theme {
    is_coloured: bool,
}

impl Theme {
    pub(in crate::commands::top) const fn new(paint: Paint) -> Self {
        Self {
            is_coloured: matches!(paint, Paint::Colour),
        }
    }

    /// As the terminal, and whoever uses it, wants it.
    pub(in crate::commands::top) fn of_terminal() -> Self {
        Self::new(output::paint())
    }

    pub(super) const fn plain(self) -> Style {
        Style::new()
    }

    pub(super) const fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) const fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// What is chosen among others.
    pub(super) const fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) const fn good(self) -> Style {
        self.of(Color::Green)
    }

    pub(super) const fn bad(self) -> Style {
        self.of(Color::Red)
    }

    const fn of(self, colour: Color) -> Style {
        match self.is_coloured {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    /// A plan or a job.
    pub(super) fn job(self, status: &str) -> (char, Style) {
        let look = look(status);
        let style = match look {
            Look::Ready | Look::Scheduled => self.of(Color::Cyan),
            Look::Running => self.of(Color::Blue),
            Look::Succeeded => self.good(),
            Look::Failed => self.bad(),
            Look::Blocked => self.of(Color::Yellow),
            Look::Pending | Look::Canceled | Look::Other => self.faint(),
        };
        (look.mark(), style)
    }

    /// A state of the board.
    pub(super) fn state(self, state: &str) -> Style {
        match state {
            "in-progress" => self.of(Color::Blue),
            "blocked" | "rejected" => self.bad(),
            "ready-for-testing" | "in-testing" => self.of(Color::Magenta),
            "ready-for-docs" | "in-docs" | "documented" => self.of(Color::Cyan),
            "in-review" => self.of(Color::Yellow),
            "done" => self.good(),
            "cancelled" => self.faint(),
            _ => self.plain(),
        }
    }

    /// A server.
    pub(super) fn server(self, status: &str) -> (char, Style) {
        match status {
            "ready" => ('●', self.good()),
            "starting" | "restarting" | "degraded" => ('◐', self.of(Color::Yellow)),
            "offline" | "needs_auth" | "invalid" | "needs_approval" => ('✗', self.bad()),
            _ => ('○', self.faint()),
        }
    }
}

/// The look of a plan's state, whose words are partly others than those of jobs.
fn look(status: &str) -> Look {
    match status {
        "paused" | "pending-start" | "scaffolding" | "pausing" => Look::Ready,
        status => Look::of(status),
    }
}
