//! A few lines at the end of a terminal, which are written again and again in the same place.
//!
//! The cursor is never hidden and no other screen is switched to: whenever and however the program
//! ends, the terminal is as it was, and what was shown last stays there.

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

use orchestra_plan::{
    draw::{Paint, width},
    plan::Plan,
};

use super::{
    super::look,
    frame::{Size, frame},
};
use crate::output;

/// How often what is shown is written anew at most: a plan may change thousands of times a second.
const FRAME: Duration = Duration::from_millis(50);

/// How large a terminal is that does not say so.
const USUAL: Size = Size {
    columns: 80,
    lines: 24,
};

pub(super) struct Screen {
    paint: Paint,
    /// What stands there, as columns of each line.
    shown: Vec<usize>,
    size: Size,
    at: Option<Instant>,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self {
            paint: output::paint(),
            shown: Vec::new(),
            size: size(),
            at: None,
        }
    }

    /// For how long what is new waits to be shown.
    pub(super) fn rests(&self) -> Duration {
        self.at
            .map_or(Duration::ZERO, |at| FRAME.saturating_sub(at.elapsed()))
    }

    /// Shows how a plan stands. That it cannot be shown is no error.
    pub(super) fn show(&mut self, plan: &Plan) {
        let size = size();
        let lines = frame(plan, look::now(), size, self.paint);
        let mut text = self.back(size);
        for line in &lines {
            text.push_str(line);
            // What stood behind it goes away.
            text.push_str("\u{1b}[K\r\n");
        }
        text.push_str("\u{1b}[J");
        let mut stderr = io::stderr().lock();
        let _ = stderr
            .write_all(text.as_bytes())
            .and_then(|()| stderr.flush());
        self.shown = lines.iter().map(|line| width_seen(line)).collect();
        self.size = size;
        self.at = Some(Instant::now());
    }

    /// What takes the cursor to where the first line begins. In a terminal that has become narrower,
    /// lines may be several now.
    fn back(&self, size: Size) -> String {
        let rows = |columns: &usize| columns.div_ceil(size.columns.max(1)).max(1);
        let up: usize = match size.columns < self.size.columns {
            true => self.shown.iter().map(rows).sum(),
            false => self.shown.len(),
        };
        match up {
            0 => "\r".to_owned(),
            up => format!("\r\u{1b}[{up}A"),
        }
    }
}

/// How many columns a line takes: colours take none.
fn width_seen(line: &str) -> usize {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().map_or(0, width);
    let rest = parts.map(|part| part.split_once('m').map_or(0, |(_, text)| width(text)));
    first + rest.sum::<usize>()
}

fn size() -> Size {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stderr())
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return Size {
            columns: usize::from(size.ws_col),
            lines: usize::from(size.ws_row),
        };
    }
    USUAL
}
