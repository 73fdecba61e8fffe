//! Where conversations are kept: a file each, in a directory of the workspace's in the user's state.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use orchestra_chat::{
    Chat, Message, Record as _,
    session::{Header, Recorder, Session, SessionError},
};
use orchestra_fs::Directory;

use super::Talk;
use crate::{config::Config, exit::Failure, servers};

/// How the files end.
pub(super) const ENDING: &str = "jsonl";

/// How many conversations may begin in one second.
const TRIES: u32 = 1_000;

/// Where a conversation is kept.
#[derive(Debug)]
pub(super) enum Keep {
    /// Nowhere.
    Nothing,
    /// In a file of its own of a directory.
    New {
        /// The directory.
        directory: PathBuf,
    },
    /// In a file that is not there yet, or is empty.
    File {
        /// The file.
        path: PathBuf,
        /// The usual directory, for those that are begun after it.
        directory: PathBuf,
    },
    /// In a file of its own, which begins with what was said before.
    Branch {
        /// Of which conversation.
        of: String,
        /// The directory.
        directory: PathBuf,
    },
    /// In the file of one that it goes on with.
    Old {
        /// That one.
        session: Box<Session>,
        /// The usual directory, for those that are begun after it.
        directory: PathBuf,
    },
}

/// What is known of a conversation when it begins to be kept.
pub(super) struct Begun<'c> {
    pub(super) backend: &'c str,
    pub(super) model: &'c str,
    pub(super) chat: &'c Chat,
}

impl Keep {
    /// As flags say; in a terminal in a file of its own when they say nothing.
    ///
    /// # Errors
    /// When one that it is to go on with is not there, or cannot be read.
    pub(super) fn of(
        config: &Config,
        arguments: &Talk,
        is_terminal: bool,
    ) -> Result<Self, Failure> {
        if arguments.no_session {
            return Ok(Self::Nothing);
        }
        if let Some(path) = &arguments.session {
            let path = path.clone();
            // Who has no home has named the file all the same.
            let directory = directory(&config.workspace).unwrap_or_default();
            // One that `mktemp` has made holds nothing yet.
            return match fs::metadata(&path).is_ok_and(|facts| !facts.is_file() || facts.len() > 0)
            {
                true => Self::old(&path, directory),
                false => Ok(Self::File { path, directory }),
            };
        }
        let directory = directory(&config.workspace)?;
        match &arguments.resume {
            Some(name) => Self::old(&find(&directory, name)?, directory),
            None if is_terminal => Ok(Self::New { directory }),
            None => Ok(Self::Nothing),
        }
    }

    /// Goes on with a conversation.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub(super) fn old(path: &Path, directory: PathBuf) -> Result<Self, Failure> {
        let session = Session::read(path).map_err(Failure::usage)?;
        Ok(Self::Old {
            session: Box::new(session),
            directory,
        })
    }

    /// What was said in the one that it goes on with.
    pub(super) fn messages(&self) -> Option<Vec<Message>> {
        match self {
            Self::Old { session, .. } => Some(session.messages()),
            _ => None,
        }
    }

    /// Whether somebody has named the file, and wants it kept there.
    pub(super) const fn is_named(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Old { .. })
    }

    /// The kind of server and the model that the one was held with that it goes on with.
    pub(super) fn model(&self) -> Option<(&str, &str)> {
        match self {
            Self::Old { session, .. } => Some(session.model()),
            _ => None,
        }
    }

    /// Whether it is kept at all.
    pub(super) const fn is_kept(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Where others of the workspace are kept.
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Nothing => None,
            Self::New { directory }
            | Self::File { directory, .. }
            | Self::Branch { directory, .. }
            | Self::Old { directory, .. } => Some(directory),
        }
    }

    /// The same for another conversation that is begun after this one.
    pub(super) fn anew(&self) -> Self {
        self.directory()
            .map_or(Self::Nothing, |directory| Self::New {
                directory: directory.to_owned(),
            })
    }

    /// Begins to keep it.
    ///
    /// # Errors
    /// When its file cannot be made or written.
    pub(super) fn begin(&self, begun: &Begun<'_>) -> Result<Option<Recorder>, SessionError> {
        let mut recorder = match self {
            Self::Nothing => return Ok(None),
            Self::New { directory } => begin_in(directory, begun, None)?,
            Self::File { path, .. } => {
                let header = header(&name(path), begun, None);
                match path.exists() {
                    true => Recorder::fill(path, header)?,
                    false => Recorder::begin(path, header)?,
                }
            }
            Self::Branch { of, directory } => {
                let mut recorder = begin_in(directory, begun, Some(of))?;
                recorder.before(begun.chat);
                recorder
            }
            Self::Old { session, .. } => {
                let mut recorder = Recorder::resume(session)?;
                if session.model() != (begun.backend, begun.model) {
                    recorder.model(begun.backend, begun.model);
                }
                recorder
            }
        };
        recorder.settings(begun.chat.settings());
        // Of those that come later it is told when they do.
        if !begun.chat.tools().all().is_empty() {
            recorder.tools(begun.chat.tools());
        }
        Ok(Some(recorder))
    }
}

/// Begins a file of its own in a directory, which is made where it is not there.
pub(super) fn begin_in(
    directory: &Path,
    begun: &Begun<'_>,
    branch_of: Option<&str>,
) -> Result<Recorder, SessionError> {
    let failed = |source| SessionError::Io {
        path: directory.display().to_string(),
        what: "made",
        source,
    };
    Directory::private(directory).map_err(|error| failed(error.into_cause()))?;
    let stem = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    for number in 1..TRIES {
        let name = match number {
            1 => stem.clone(),
            number => format!("{stem}-{number}"),
        };
        let path = directory.join(format!("{name}.{ENDING}"));
        match Recorder::begin(&path, header(&name, begun, branch_of)) {
            Err(SessionError::Io { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists => {}
            begun => return begun,
        }
    }
    Err(failed(io::ErrorKind::AlreadyExists.into()))
}

fn header(name: &str, begun: &Begun<'_>, branch_of: Option<&str>) -> Header {
    Header {
        version: Header::VERSION,
        id: name.to_owned(),
        created: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        backend: begun.backend.to_owned(),
        model: begun.model.to_owned(),
        branch_of: branch_of.map(str::to_owned),
    }
}

/// Where the conversations of a workspace are kept.
///
/// # Errors
/// When the user has no home.
pub(super) fn directory(workspace: &Path) -> Result<PathBuf, Failure> {
    let chats = servers::state_directory()?.join("chats");
    Ok(chats.join(servers::name_of(workspace)))
}

/// The files of a directory, the last that was written first.
pub(super) fn all(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_session = |path: &PathBuf| path.extension().is_some_and(|ending| ending == ENDING);
    let files = entries.map(|entry| entry.path()).filter(is_session);
    let mut files: Vec<_> = files
        .map(|path| {
            let written = fs::metadata(&path).and_then(|facts| facts.modified());
            (written.ok(), path)
        })
        .collect();
    files.sort();
    files.into_iter().rev().map(|(_, path)| path).collect()
}

/// So many turns, in words.
pub(super) fn turns(number: usize) -> String {
    match number {
        1 => "1 turn".to_owned(),
        number => format!("{number} turns"),
    }
}

/// What the conversation in a file is called.
pub(super) fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The file of a conversation: by its path, by its name or the beginning of it, or the last one where
/// that is empty.
///
/// # Errors
/// When there is none, or more than one.
pub(super) fn find(directory: &Path, wanted: &str) -> Result<PathBuf, Failure> {
    let there = all(directory);
    if wanted.is_empty() {
        return there.into_iter().next().ok_or_else(|| {
            Failure::usage_text(
                "no conversation of this workspace is stored yet; `orchestra chat` starts one",
            )
        });
    }
    let path = PathBuf::from(wanted);
    if path.is_file() {
        return Ok(path);
    }
    let exact = there.iter().find(|path| name(path) == wanted);
    let begin: Vec<&PathBuf> = there
        .iter()
        .filter(|path| name(path).starts_with(wanted))
        .collect();
    match (exact, begin.as_slice()) {
        (Some(path), _) | (None, &[path]) => Ok(path.clone()),
        (None, []) => Err(Failure::usage_text(format!(
            "there is no conversation `{wanted}`; `orchestra chat sessions` lists all"
        ))),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|path| name(path)).collect();
            Err(Failure::usage_text(format!(
                "the names of several conversations start with `{wanted}`: {}",
                names.join(", ")
            )))
        }
    }
}
