//! Asking an agent whose context is nearly full to stop, and what it leaves to others.

use std::{
    io,
    path::{Path, PathBuf},
};

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::place::{self, PRIVATE_DIRECTORY};

/// The file whose being there asks an agent to stop.
const REQUEST: &str = "CHECKPOINT_REQUIRED";

/// The file in which it says what is left.
const MANIFEST: &str = "checkpoint-manifest.json";

/// Bounds of what is read.
const MAX_BYTES: u64 = 1024 * 1024;
const MAX_REMAINING: usize = 20;
const MAX_TASK_CHARS: usize = 4_000;
const MAX_INSTRUCTIONS_CHARS: usize = 80_000;

/// What an agent that stopped left to do. Members that are not known are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Manifest {
    /// 1.
    pub version: u32,
    /// What is done.
    #[serde(default)]
    pub done: String,
    /// What is left, in pieces: as many as the agent was told at most.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 20)))]
    pub remaining: Vec<Remaining>,
}

/// A piece of work that is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Remaining {
    /// What it is about.
    pub task: String,
    /// How it is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// Why nothing can be made of it.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// It cannot be read, or is no file of the worktree.
    #[error("the checkpoint manifest {} cannot be read", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is not JSON, or lacks something.
    #[error("the checkpoint manifest {} does not have the required form", path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// It says what cannot be taken.
    #[error("the checkpoint manifest {} is not usable: {problem}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// Problem, and the expected value.
        problem: String,
    },
}

/// Forgets what an earlier agent of a worktree was asked, and what it left there.
///
/// # Errors
/// When the files cannot be removed.
pub fn forget_checkpoint(worktree: &Path) -> io::Result<()> {
    let private = Path::new(PRIVATE_DIRECTORY);
    place::remove(worktree, &private.join(REQUEST))?;
    place::remove(worktree, &private.join(MANIFEST))
}

/// Asks the agent of a worktree to stop. One that was asked before is not asked again, since it may
/// have answered.
///
/// # Errors
/// When the file cannot be written.
pub fn request_checkpoint(worktree: &Path) -> io::Result<()> {
    place::append(worktree, &Path::new(PRIVATE_DIRECTORY).join(REQUEST), b"")
}

/// Reads what an agent left to do that was asked to stop, into at most so many pieces. What one that
/// was not asked has written is nobody's.
///
/// # Errors
/// When there is a file of which nothing can be made.
pub fn read_manifest(
    worktree: &Path,
    pieces_max: usize,
) -> Result<Option<Manifest>, ManifestError> {
    let private = Path::new(PRIVATE_DIRECTORY);
    let path = private.join(MANIFEST);
    let read = place::read(worktree, &private.join(REQUEST), MAX_BYTES)
        .and_then(|_| place::read(worktree, &path, MAX_BYTES));
    let contents = match read {
        Ok(contents) => contents,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ManifestError::Read { path, source }),
    };
    let manifest: Manifest = match serde_json::from_slice(&contents) {
        Ok(manifest) => manifest,
        Err(source) => return Err(ManifestError::Form { path, source }),
    };
    let is_piece = |piece: &Remaining| {
        let is_text = |text: &str, chars| !text.trim().is_empty() && text.chars().count() <= chars;
        let instructions = piece.instructions.as_deref();
        is_text(&piece.task, MAX_TASK_CHARS)
            && instructions.is_none_or(|text| is_text(text, MAX_INSTRUCTIONS_CHARS))
    };
    let pieces_max = pieces_max.min(MAX_REMAINING);
    let problem = if manifest.version != 1 {
        format!("its version is {}, but must be 1", manifest.version)
    } else if !(1..=pieces_max).contains(&manifest.remaining.len()) {
        format!("`remaining` must have 1 to {pieces_max} pieces")
    } else if !manifest.remaining.iter().all(is_piece) {
        format!("each piece of `remaining` must have a `task` of 1 to {MAX_TASK_CHARS} characters")
    } else {
        return Ok(Some(manifest));
    };
    Err(ManifestError::Content { path, problem })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(value: &Value) -> Result<Option<Manifest>, String> {
        let worktree = tempfile::tempdir().unwrap();
        request_checkpoint(worktree.path()).unwrap();
        let path = Path::new(PRIVATE_DIRECTORY);
        assert!(worktree.path().join(path).join(REQUEST).exists());
        place::write(
            worktree.path(),
            &path.join(MANIFEST),
            value.to_string().as_bytes(),
        )
        .unwrap();
        let read = read_manifest(worktree.path(), 8).map_err(|error| error.to_string());
        forget_checkpoint(worktree.path()).unwrap();
        assert_eq!(read_manifest(worktree.path(), 8).unwrap(), None);
        read
    }

    #[test]
    fn what_is_left_is_read_once_it_is_said() {
        let worktree = tempfile::tempdir().unwrap();
        assert_eq!(read_manifest(worktree.path(), 8).unwrap(), None);
        let left =
            json!({"version": 1, "remaining": [{"task": "a", "instructions": "b"}, {"task": "c"}]});
        assert_eq!(said(&left).unwrap().unwrap().remaining.len(), 2);
        // Nobody asked for it.
        let path = Path::new(PRIVATE_DIRECTORY).join(MANIFEST);
        place::write(worktree.path(), &path, left.to_string().as_bytes()).unwrap();
        assert_eq!(read_manifest(worktree.path(), 8).unwrap(), None);
        // Asked for again, it is still there.
        request_checkpoint(worktree.path()).unwrap();
        request_checkpoint(worktree.path()).unwrap();
        assert!(read_manifest(worktree.path(), 8).unwrap().is_some());
    }

    #[test]
    fn what_cannot_be_taken_is_refused() {
        let pieces = vec![json!({"task": "a"}); 9];
        for (value, expected) in [
            (
                json!({"version": 2, "remaining": [{"task": "a"}]}),
                "but must be 1",
            ),
            (json!({"version": 1, "remaining": []}), "1 to 8 pieces"),
            (json!({"version": 1, "remaining": pieces}), "1 to 8 pieces"),
            (
                json!({"version": 1, "remaining": [{"task": " "}]}),
                "must have a `task`",
            ),
            (json!({"version": 1}), "not have the required form"),
        ] {
            let error = said(&value).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
