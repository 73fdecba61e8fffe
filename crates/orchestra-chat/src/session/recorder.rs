//! Writing a session as it goes on.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Session,
    line::{Header, Line, SessionError},
};
use crate::{
    chat::{Chat, Event, Want},
    driver::Record,
    message::Message,
    settings::Settings,
    tool::Tools,
};

/// A session file that is written.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: File,
    /// Why nothing is written any more.
    failed: Option<io::Error>,
}

impl Recorder {
    /// Begins a session in a file that is not there yet, which is its user's alone.
    ///
    /// # Errors
    /// When it is there, or cannot be made.
    pub fn begin(path: &Path, header: Header) -> Result<Self, SessionError> {
        let failed = |source| SessionError::Io {
            path: path.display().to_string(),
            what: "made",
            source,
        };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        private(&mut options);
        let file = options.open(path).map_err(failed)?;
        let mut recorder = Self {
            path: path.to_owned(),
            file,
            failed: None,
        };
        recorder.write(&Line::Session(header));
        recorder.checked()
    }

    /// Goes on with a session that was read.
    ///
    /// # Errors
    /// When its file cannot be written.
    pub fn resume(session: &Session) -> Result<Self, SessionError> {
        let path = session.path();
        let failed = |source| SessionError::Io {
            path: path.display().to_string(),
            what: "written",
            source,
        };
        let file = OpenOptions::new().append(true).open(path).map_err(failed)?;
        // A line that was not written whole is taken away.
        file.set_len(session.whole_bytes()).map_err(failed)?;
        let mut recorder = Self {
            path: path.to_owned(),
            file,
            failed: None,
        };
        recorder.write(&Line::Resumed);
        recorder.checked()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why something is missing in it, once.
    pub fn take_failure(&mut self) -> Option<SessionError> {
        let source = self.failed.take()?;
        Some(SessionError::Io {
            path: self.path.display().to_string(),
            what: "written",
            source,
        })
    }

    /// It is held so from here on.
    pub fn settings(&mut self, settings: &Settings) {
        self.write(&Line::settings(settings));
    }

    /// It is another model from here on.
    pub fn model(&mut self, backend: &str, model: &str) {
        self.write(&Line::Model {
            backend: backend.to_owned(),
            model: model.to_owned(),
        });
    }

    /// This is all that was said before.
    pub fn before(&mut self, chat: &Chat) {
        let messages: Vec<&Message> = chat.messages().collect();
        self.write(&Line::before(messages.into_iter()));
    }

    fn checked(mut self) -> Result<Self, SessionError> {
        match self.take_failure() {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    fn write(&mut self, line: &Line) {
        if self.failed.is_some() {
            return;
        }
        let written = serde_json::to_vec(line)
            .map_err(io::Error::other)
            .and_then(|mut line| {
                line.push(b'\n');
                self.file.write_all(&line)
            });
        self.failed = written.err();
    }
}

impl Record for Recorder {
    fn happened(&mut self, event: &Event, at: Duration) {
        self.write(&Line::event(event, at));
    }

    fn wanted(&mut self, want: &Want) {
        self.write(&Line::want(want));
        if matches!(want, Want::End(_)) && self.failed.is_none() {
            self.failed = self.file.sync_data().err();
        }
    }

    fn tools(&mut self, tools: &Tools) {
        self.write(&Line::tools(tools));
    }
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn private(_options: &mut OpenOptions) {}
