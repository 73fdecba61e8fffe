//! Reading what agents print: sessions, figures, the end of their work, failures.
//!
//! How a program's output is read is declared in its profile: rules for JSON, by the paths of
//! members, or patterns for lines of text. Whatever is printed, memory stays bounded, no figure is
//! believed that cannot be meant, and nothing fails: a line that fits no rule says nothing.

mod json;
mod lines;
mod pattern;
mod tells;
mod text;

use std::time::Duration;

pub use tells::Tells;
pub use text::{EventText, FormText, LineText, ModelsText, OutputError, OutputText, TokensText};

use super::{
    Profile, Usage,
    ending::{is_permanent, is_transient},
    usage::Tokens,
};
use {
    json::{Event, MAX_OBJECT_BYTES},
    lines::Lines,
    pattern::Pattern,
};

/// How long a program may go on after its final figures, unless its profile says.
const FINAL_GRACE: Duration = Duration::from_secs(30);

/// The longest identifier of a session.
const MAX_SESSION_CHARS: usize = 200;

/// How much of a line is looked at for failures that pass, and for the end of work.
const MAX_LOOKED_AT: usize = 8 * 1024;

/// The longest message that is kept of a failure.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// Which of its outputs a program printed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// How output is read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Output {
    form: Form,
    /// Whether figures of a resumed session are those of all of it.
    pub(super) reports_session: bool,
    /// Whether input counts what was read from or written to a cache as well.
    input_includes_cache: bool,
    grace: Duration,
    complete: Vec<String>,
    /// Texts of failures that pass, in lower case.
    pub(super) transient: Vec<String>,
    pub(super) permanent: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// Nothing is read.
    None,
    /// One object of JSON to a line.
    JsonLines(Vec<Event>),
    /// All of standard output is one object of JSON.
    Json(Vec<Event>),
    Text(Vec<Pattern>),
}

/// What a piece of output told that is to be acted upon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noticed {
    /// The session became known.
    pub session: bool,
    /// Figures became known, or others.
    pub usage: bool,
    /// The program says that its work is done.
    pub complete: bool,
    /// These are its final figures: it gets [`Reading::grace`] to end, and has succeeded when it
    /// has to be ended then.
    pub last: bool,
}

/// All that was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// The session, by which it can be resumed.
    pub session: Option<String>,
    /// What was used.
    pub usage: Usage,
    /// How many tokens the model was given in its last call, where the program says that while it
    /// runs.
    pub context: Option<u64>,
    /// Whether the program said that its work is done.
    pub complete: bool,
    /// Whether final figures were seen.
    pub last: bool,
    /// Whether it said that it failed.
    pub failed: bool,
    /// What it said of its failure.
    pub error: Option<String>,
    /// Whether what it said sounds like a failure that passes.
    pub transient: bool,
    /// The first line that reports a failure which no repetition cures.
    pub permanent: Option<String>,
    /// Figures that could not be meant, and lines that were too long to be read.
    pub ignored: u64,
    /// How long it may go on after its final figures.
    pub grace: Duration,
}

/// Reads the output of one run, piece by piece as it comes.
#[derive(Debug)]
pub struct Reader {
    output: Output,
    out: Lines,
    error: Lines,
    /// All of standard output, where it is one object.
    object: Vec<u8>,
    object_is_too_long: bool,
    /// The model that was named last.
    model: Option<String>,
    reading: Reading,
}

impl Reader {
    /// For one run of an agent; `session` is the session that it was told to take.
    #[must_use]
    pub fn new(profile: &Profile, session: Option<&str>) -> Self {
        let output = profile.output.clone();
        let reading = Reading {
            session: session.map(str::to_owned),
            grace: output.grace,
            ..Reading::default()
        };
        Self {
            output,
            out: Lines::default(),
            error: Lines::default(),
            object: Vec::new(),
            object_is_too_long: false,
            model: None,
            reading,
        }
    }

    /// What is known so far.
    #[must_use]
    pub const fn so_far(&self) -> &Reading {
        &self.reading
    }

    /// Takes what was printed, cut anywhere.
    pub fn feed(&mut self, stream: Stream, bytes: &[u8]) -> Noticed {
        if stream == Stream::Out && matches!(self.output.form, Form::Json(_)) {
            let room = MAX_OBJECT_BYTES.saturating_sub(self.object.len());
            self.object_is_too_long |= bytes.len() > room;
            self.object
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        let mut lines = match stream {
            Stream::Out => std::mem::take(&mut self.out),
            Stream::Error => std::mem::take(&mut self.error),
        };
        let mut noticed = Noticed::default();
        self.reading.ignored += lines.feed(bytes, |line| noticed.join(self.line(stream, line)));
        match stream {
            Stream::Out => self.out = lines,
            Stream::Error => self.error = lines,
        }
        noticed
    }

    /// All that was told, when nothing more comes.
    #[must_use]
    pub fn finish(mut self) -> Reading {
        for stream in [Stream::Out, Stream::Error] {
            let lines = match stream {
                Stream::Out => std::mem::take(&mut self.out),
                Stream::Error => std::mem::take(&mut self.error),
            };
            if let Some(line) = lines.rest() {
                self.line(stream, &line);
            }
        }
        if self.object_is_too_long {
            self.reading.ignored += 1;
        } else if let Form::Json(events) = &self.output.form {
            let events = events.clone();
            let object = std::mem::take(&mut self.object);
            let mut noticed = Noticed::default();
            json::read(&events, &object, &mut self.told(&mut noticed));
        }
        self.reading
    }

    fn line(&mut self, stream: Stream, line: &[u8]) -> Noticed {
        let mut noticed = Noticed::default();
        let output = std::mem::replace(&mut self.output, Output::nothing());
        match &output.form {
            Form::JsonLines(events) if stream == Stream::Out => {
                json::read(events, line, &mut self.told_by(&output, &mut noticed));
            }
            Form::Text(patterns) => {
                pattern::read(patterns, line, &mut self.told_by(&output, &mut noticed));
            }
            Form::None | Form::Json(_) | Form::JsonLines(_) => {}
        }
        let looks = !self.reading.transient || self.reading.permanent.is_none();
        if looks || !output.complete.is_empty() {
            let text = String::from_utf8_lossy(&line[..line.len().min(MAX_LOOKED_AT)]);
            if self.reading.permanent.is_none() && is_permanent(&text, &output.permanent) {
                let said = self.reading.error.as_deref().unwrap_or(&text);
                let said = said.trim().chars().take(MAX_MESSAGE_CHARS).collect();
                self.reading.permanent = Some(said);
            }
            self.reading.transient |= is_transient(&text, &output.transient);
            if output
                .complete
                .iter()
                .any(|mark| text.contains(mark.as_str()))
            {
                self.reading.complete = true;
                noticed.complete = true;
            }
        }
        self.output = output;
        noticed
    }

    fn told<'a>(&'a mut self, noticed: &'a mut Noticed) -> Told<'a> {
        let includes_cache = self.output.input_includes_cache;
        Told {
            reading: &mut self.reading,
            model: &mut self.model,
            noticed,
            includes_cache,
        }
    }

    fn told_by<'a>(&'a mut self, output: &Output, noticed: &'a mut Noticed) -> Told<'a> {
        Told {
            reading: &mut self.reading,
            model: &mut self.model,
            noticed,
            includes_cache: output.input_includes_cache,
        }
    }
}

impl Noticed {
    const fn join(&mut self, other: Self) {
        self.session |= other.session;
        self.usage |= other.usage;
        self.complete |= other.complete;
        self.last |= other.last;
    }
}

impl Output {
    const fn nothing() -> Self {
        Self {
            form: Form::None,
            reports_session: false,
            input_includes_cache: false,
            grace: FINAL_GRACE,
            complete: Vec::new(),
            transient: Vec::new(),
            permanent: Vec::new(),
        }
    }
}

/// A figure besides tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Cost,
    Premium,
    Api,
    Session,
    Turns,
    LinesAdded,
    LinesRemoved,
}

/// Where rules put what they found.
struct Told<'a> {
    reading: &'a mut Reading,
    model: &'a mut Option<String>,
    noticed: &'a mut Noticed,
    includes_cache: bool,
}

impl Told<'_> {
    fn session(&mut self, session: &str) {
        let session = session.trim();
        let is_session = (1..=MAX_SESSION_CHARS).contains(&session.chars().count())
            && !session.starts_with('-')
            && !session.contains(|char: char| char.is_whitespace() || char.is_control());
        if !is_session {
            self.ignored();
        } else if self.reading.session.as_deref() != Some(session) {
            self.reading.session = Some(session.to_owned());
            self.noticed.session = true;
        }
    }

    fn model(&mut self, model: &str) {
        match super::profile::is_model(model) {
            true => *self.model = Some(model.to_owned()),
            false => self.ignored(),
        }
    }

    /// Counts tokens, of a model or of the one that was named last.
    fn tokens(&mut self, model: Option<&str>, mut tokens: Tokens) {
        if self.includes_cache {
            let cached = tokens.cache_read.saturating_add(tokens.cache_write);
            tokens.input = tokens.input.saturating_sub(cached);
        }
        let model = model.filter(|model| super::profile::is_model(model));
        let model = model
            .or(self.model.as_deref())
            .unwrap_or(super::usage::UNNAMED);
        self.reading.usage.add_tokens(model, tokens);
        self.noticed.usage = true;
    }

    fn context(&mut self, tokens: Tokens) {
        let cached = tokens.cache_read.saturating_add(tokens.cache_write);
        let given = match self.includes_cache {
            true => tokens.input.max(cached),
            false => tokens.input.saturating_add(cached),
        };
        self.reading.context = Some(given.saturating_add(tokens.unsplit));
    }

    fn forget_tokens(&mut self) {
        self.reading.usage.models.clear();
    }

    fn figure(&mut self, figure: Figure, value: Option<u64>, adds: bool) {
        let Some(value) = value else {
            self.ignored();
            return;
        };
        let usage = &mut self.reading.usage;
        let place = match figure {
            Figure::Cost => &mut usage.cost_micros,
            Figure::Premium => &mut usage.premium_milli,
            Figure::Api => &mut usage.api_ms,
            Figure::Session => &mut usage.session_ms,
            Figure::Turns => &mut usage.turns,
            Figure::LinesAdded => &mut usage.lines_added,
            Figure::LinesRemoved => &mut usage.lines_removed,
        };
        let before = place.filter(|_| adds).unwrap_or_default();
        *place = Some(before.saturating_add(value));
        self.noticed.usage = true;
    }

    const fn last(&mut self) {
        self.reading.last = true;
        self.noticed.last = true;
    }

    const fn complete(&mut self) {
        self.reading.complete = true;
        self.noticed.complete = true;
    }

    fn failed(&mut self) {
        self.reading.failed = true;
    }

    fn error(&mut self, message: &str) {
        let message = message.trim().chars().take(MAX_MESSAGE_CHARS).collect();
        self.reading.error = Some(message);
    }

    fn ignored(&mut self) {
        self.reading.ignored = self.reading.ignored.saturating_add(1);
    }
}
