//! Reading sessions, going on with them, and playing them again.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    SessionError,
    line::{Header, Line, VERSION},
};
use crate::{
    chat::{Chat, Event},
    message::Message,
    settings::Settings,
    tool::Tools,
};

/// The largest file that is read.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// A session that was read.
#[derive(Debug, Clone)]
pub struct Session {
    path: PathBuf,
    header: Header,
    pub(super) lines: Vec<Line>,
    /// Where they stand in the file.
    numbers: Vec<usize>,
    whole: u64,
    length: u64,
}

/// What a session that was played again had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Played {
    /// Turns.
    pub turns: usize,
    /// Requests to the model.
    pub requests: usize,
    /// Calls of tools.
    pub calls: usize,
}

/// The first place at which a session that is played again goes otherwise than it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The line of the file.
    pub line: usize,
    /// What is otherwise.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl Session {
    /// Reads a session. A last line that was not written whole is passed over.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, SessionError> {
        let shown = path.display().to_string();
        let failed = SessionError::io(path, "read");
        if fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
            return Err(failed(std::io::ErrorKind::FileTooLarge.into()));
        }
        let text = fs::read(path).map_err(failed)?;
        let (mut lines, mut numbers) = (Vec::new(), Vec::new());
        let mut whole = 0;
        for (at, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let is_whole = line.ends_with(b"\n");
            whole += line.len() as u64;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice::<Line>(line) {
                Ok(line) => {
                    lines.push(line);
                    numbers.push(at + 1);
                }
                Err(_) if !is_whole && at > 0 => {
                    whole -= line.len() as u64;
                    break;
                }
                // A newer program writes lines that this one does not know.
                Err(_) if lines.first().is_some_and(is_newer) => break,
                Err(error) => {
                    return Err(SessionError::Form {
                        path: shown,
                        number: at + 1,
                        what: error.to_string(),
                    });
                }
            }
        }
        let Some(Line::Session(header)) = lines.first() else {
            return Err(SessionError::Form {
                path: shown,
                number: 1,
                what: "it does not say what the session is of".to_owned(),
            });
        };
        if is_newer(&lines[0]) {
            let found = header.version;
            return Err(SessionError::Newer { path: shown, found });
        }
        Ok(Self {
            path: path.to_owned(),
            header: header.clone(),
            lines,
            numbers,
            whole,
            length: text.len() as u64,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is of.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The model that it was held with last, and its kind of server.
    #[must_use]
    pub fn model(&self) -> (&str, &str) {
        let last = self.lines.iter().rev().find_map(|line| match line {
            Line::Model { backend, model } => Some((backend.as_str(), model.as_str())),
            _ => None,
        });
        last.unwrap_or((&self.header.backend, &self.header.model))
    }

    /// How many turns it has, those included that it begins with.
    #[must_use]
    pub fn turns(&self) -> usize {
        let said = |line: &&Line| matches!(line, Line::Said { .. });
        self.lines.iter().filter(said).count() + self.begun().filter(is_said).count()
    }

    /// What a branch begins with.
    pub(super) fn begun(&self) -> impl Iterator<Item = Message> {
        let before = self.lines.iter().filter_map(|line| match line {
            Line::Before { messages } => Some(messages.clone()),
            _ => None,
        });
        before.flatten().map(super::line::MessageLine::into_message)
    }

    /// What the person said first.
    #[must_use]
    pub fn title(&self) -> String {
        let said = || {
            self.lines.iter().find_map(|line| match line {
                Line::Said { text, .. } => Some(text.clone()),
                _ => None,
            })
        };
        let begun = self.begun().find(is_said);
        let begun = begun.map(|message| message.text().to_owned());
        begun.or_else(said).unwrap_or_default()
    }

    /// How many bytes of the file are whole.
    pub(super) const fn whole_bytes(&self) -> u64 {
        self.whole
    }

    /// How many bytes the file had.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// Its first turns, as they stand in the file: what a branch begins with.
    #[must_use]
    pub fn messages_of(&self, turns: usize) -> Vec<Message> {
        let begun: Vec<Message> = self.begun().collect();
        let said = begun.iter().filter(|message| is_said(message)).count();
        let mut left = match turns.checked_sub(said) {
            Some(left) => left,
            None => {
                let mut seen = 0;
                let first = begun.into_iter().take_while(|message| {
                    seen += usize::from(is_said(message));
                    seen <= turns
                });
                return first.collect();
            }
        };
        let until = self.lines.iter().position(|line| {
            if matches!(line, Line::Said { .. }) {
                if left == 0 {
                    return true;
                }
                left -= 1;
            }
            false
        });
        let lines = &self.lines[..until.unwrap_or(self.lines.len())];
        gone_on(lines).messages().cloned().collect()
    }

    /// Everything that was said.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        gone_on(&self.lines).messages().cloned().collect()
    }
}

/// Whether the person said it.
fn is_said(message: &Message) -> bool {
    matches!(message, Message::User(_))
}

/// A conversation as lines leave it.
fn gone_on(lines: &[Line]) -> Chat {
    let mut chat = Chat::new(Settings::default(), Tools::default());
    for line in lines {
        take(&mut chat, line);
        // What was wanted then was done.
        if !line.is_want() {
            while chat.poll().is_some() {}
        }
    }
    // Whoever held it was killed in the middle of a turn.
    let said = String::new();
    chat.handle(Event::Stopped { said }, Duration::ZERO);
    chat
}

/// Takes a line in that is no want.
fn take(chat: &mut Chat, line: &Line) {
    match line.clone() {
        Line::Settings(settings) => chat.set(settings.into_settings(), false),
        Line::Model { .. } => {
            let settings = chat.settings().clone();
            chat.set(settings, true);
        }
        Line::Tools { tools } => {
            let tools = tools.into_iter().map(super::line::ToolLine::into_described);
            chat.set_tools(Tools::new(tools));
        }
        Line::Resumed => {
            // Whoever held it may have been killed in the middle of a turn.
            let said = String::new();
            chat.handle(Event::Stopped { said }, Duration::ZERO);
            let messages = chat.messages().cloned().collect();
            chat.restore(messages);
        }
        Line::Before { messages } => {
            chat.restore(
                messages
                    .into_iter()
                    .map(super::line::MessageLine::into_message)
                    .collect(),
            );
        }
        line => {
            if let Some((event, at)) = line.as_event() {
                chat.handle(event, at);
            }
        }
    }
}

/// Plays a session again with what its model and tools said, and compares what is wanted with what was.
///
/// # Errors
/// The first difference.
pub fn played(session: &Session) -> Result<Played, Difference> {
    let mut chat = Chat::new(Settings::default(), Tools::default());
    let mut played = Played::default();
    for (at, line) in session.lines.iter().enumerate() {
        let number = session.numbers[at];
        if !line.is_want() {
            if line.as_event().is_some()
                && let Some(want) = chat.poll()
            {
                let what = format!(
                    "this step was not recorded before the line: {}",
                    shown(&Line::want(&want))
                );
                return Err(Difference { line: number, what });
            }
            take(&mut chat, line);
            played.turns += usize::from(matches!(line, Line::Said { .. }));
            continue;
        }
        let now = chat.poll().map(|want| Line::want(&want));
        let Some(now) = now else {
            let what = format!("the recorded step is not repeated: {}", shown(line));
            return Err(Difference { line: number, what });
        };
        if let Some(what) = difference(line, &now) {
            return Err(Difference { line: number, what });
        }
        played.requests += usize::from(matches!(line, Line::Ask { .. }));
        played.calls += usize::from(matches!(line, Line::Call(_)));
    }
    // One that was killed may have come to no end.
    let is_ended = matches!(session.lines.last(), Some(Line::End { .. }));
    if let Some(want) = chat.poll().filter(|_| is_ended) {
        return Err(Difference {
            line: session.numbers.last().copied().unwrap_or_default(),
            what: format!(
                "this step was not recorded after the line: {}",
                shown(&Line::want(&want))
            ),
        });
    }
    Ok(played)
}

/// What is otherwise of two wants.
fn difference(was: &Line, now: &Line) -> Option<String> {
    if was == now {
        return None;
    }
    let (
        Line::Ask {
            context,
            tools,
            messages,
            ..
        },
        Line::Ask {
            context: now_context,
            tools: now_tools,
            messages: now_messages,
            ..
        },
    ) = (was, now)
    else {
        return Some(format!("it was {}, and is now {}", shown(was), shown(now)));
    };
    let first = messages
        .iter()
        .zip(now_messages)
        .position(|(was, now)| was != now);
    Some(match first {
        Some(at) => format!(
            "message {} of a request was {}, and is now {}",
            at + 1,
            messages[at],
            now_messages[at]
        ),
        None if messages.len() != now_messages.len() => format!(
            "a request had {} messages, and has now {}",
            messages.len(),
            now_messages.len()
        ),
        None if tools != now_tools => format!(
            "a request had the tools {}, and has now {}",
            tools.join(", "),
            now_tools.join(", ")
        ),
        None => format!("a request had room for {context} tokens, and has now for {now_context}"),
    })
}

fn shown(line: &Line) -> String {
    let text = serde_json::to_string(line).unwrap_or_default();
    crate::untrusted::capped(&text, 300)
}

/// Whether a line begins a session of a newer program.
fn is_newer(line: &Line) -> bool {
    matches!(line, Line::Session(header) if header.version > VERSION)
}
