//! Writing a session as it goes on.

use std::{
    fs::{File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_fs::Access;

use super::{
    Session, SessionError,
    line::{Header, Line},
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
    /// Locked as long as it is written.
    file: File,
    /// Bytes of whole lines.
    whole: u64,
    /// Why nothing is written any more, until that is told.
    failed: Option<io::Error>,
    is_broken: bool,
}

impl Recorder {
    /// Begins a session in a file that is not there yet, which is its user's alone.
    ///
    /// # Errors
    /// When it is there, or cannot be made.
    pub fn begin(path: &Path, header: Header) -> Result<Self, SessionError> {
        let failed = SessionError::io(path, "made");
        let file = orchestra_fs::create_new(path, Access::Private);
        let file = file.map_err(|error| failed(error.into_cause()))?;
        let mut recorder = Self::of(path, file, 0).map_err(failed)?;
        recorder.write(&Line::Session(header));
        recorder.checked()
    }

    /// Begins a session in a file that is there and empty, as `mktemp` makes one.
    ///
    /// # Errors
    /// When something is in it, it cannot be written, or another program writes it.
    pub fn fill(path: &Path, header: Header) -> Result<Self, SessionError> {
        let failed = SessionError::io(path, "written");
        let file = orchestra_fs::append(path, Access::Private);
        let file = file.map_err(|error| failed(error.into_cause()))?;
        let mut recorder = Self::of(path, file, 0).map_err(failed)?;
        if recorder.file.metadata().map_err(failed)?.len() > 0 {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        recorder.write(&Line::Session(header));
        recorder.checked()
    }

    /// Goes on with a session that was read.
    ///
    /// # Errors
    /// When its file cannot be written, another program writes it, or it is not any more what was read.
    pub fn resume(session: &Session) -> Result<Self, SessionError> {
        let path = session.path();
        let failed = SessionError::io(path, "written");
        let file = orchestra_fs::append(path, Access::Private);
        let file = file.map_err(|error| failed(error.into_cause()))?;
        let mut recorder = Self::of(path, file, session.whole_bytes()).map_err(failed)?;
        if recorder.file.metadata().map_err(failed)?.len() != session.length() {
            return Err(failed(io::Error::other(
                "another program wrote to it meanwhile; continue it again",
            )));
        }
        // A line that was not written whole is taken away.
        recorder.file.set_len(recorder.whole).map_err(failed)?;
        recorder.write(&Line::Resumed);
        recorder.checked()
    }

    fn of(path: &Path, file: File, whole: u64) -> io::Result<Self> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other("another program is using it now"));
            }
            // Some file systems know no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            whole,
            failed: None,
            is_broken: false,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why something is missing in it, once.
    pub fn take_failure(&mut self) -> Option<SessionError> {
        let source = self.failed.take()?;
        Some(SessionError::io(&self.path, "written")(source))
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
        if self.is_broken {
            return;
        }
        let written = serde_json::to_vec(line)
            .map_err(io::Error::other)
            .and_then(|mut line| {
                line.push(b'\n');
                self.file.write_all(&line).map(|()| line.len() as u64)
            });
        match written {
            Ok(length) => self.whole += length,
            Err(error) => self.breaks(error),
        }
    }

    /// What was written whole stays, and nothing is written behind a gap.
    fn breaks(&mut self, error: io::Error) {
        self.is_broken = true;
        self.failed = Some(error);
        // Half a line at the end is known for what it is.
        let _ = self.file.set_len(self.whole);
    }
}

impl Record for Recorder {
    fn happened(&mut self, event: &Event, at: Duration) {
        self.write(&Line::event(event, at));
    }

    fn wanted(&mut self, want: &Want) {
        self.write(&Line::want(want));
        if matches!(want, Want::End(_))
            && !self.is_broken
            && let Err(error) = self.file.sync_data()
        {
            self.breaks(error);
        }
    }

    fn tools(&mut self, tools: &Tools) {
        self.write(&Line::tools(tools));
    }
}
