//! A file of a worktree by which agents that look for skills learn how work is done there. It is in no
//! commit.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{AgentError, place};

/// Where it is.
pub(crate) const SKILL_FILE: &str = ".github/skills/.orchestrator/SKILL.md";

/// Has git overlook the directory of the file, itself included.
const IGNORED: (&str, &[u8]) = (".github/skills/.orchestrator/.gitignore", b"*\n");

/// The most bytes that are looked at of one that is there.
const MAX_BYTES: u64 = 1024 * 1024;

/// Writes the file, unless the worktree has one: of the repository, or of an earlier attempt.
///
/// # Errors
/// When it cannot be written.
pub fn write_skill(worktree: &Path) -> Result<(), AgentError> {
    let path = Path::new(SKILL_FILE);
    match place::read(worktree, path, MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // Whatever it is, it is not ours to change.
        _ => return Ok(()),
    }
    // The other comes first: the file is never there without it.
    for (path, content) in [IGNORED, (SKILL_FILE, include_bytes!("skill.md").as_slice())] {
        let written = place::write(worktree, Path::new(path), content);
        written.map_err(|source| AgentError::Write {
            path: PathBuf::from(path),
            source,
        })?;
    }
    Ok(())
}
