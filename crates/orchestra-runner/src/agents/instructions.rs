//! Instructions that lie in a file of the repository.

use std::path::Path;

use orchestra_plan::work::{Brief, WorktreePath};

use super::{AgentError, place};

/// The most characters of instructions.
pub(super) const MAX_CHARS: usize = 100_000;

/// The most bytes of a character.
const MAX_CHAR_BYTES: u64 = 4;

/// What an agent is told, here or in a file of the worktree.
///
/// # Errors
/// As [`read_instructions`].
pub fn brief_text(worktree: &Path, brief: &Brief) -> Result<String, AgentError> {
    match brief {
        Brief::Text(text) => Ok(text.to_string()),
        Brief::File(file) => read_instructions(worktree, file),
    }
}

/// Reads instructions from a file of the worktree. No link is followed, so that none leads out of
/// the repository.
///
/// # Errors
/// When the path leads out, the file is not there, is no text, or is empty or too long.
pub fn read_instructions(worktree: &Path, file: &WorktreePath) -> Result<String, AgentError> {
    let fault = |what: String| AgentError::InstructionsFile {
        file: file.to_string(),
        what,
    };
    let max_bytes = MAX_CHARS as u64 * MAX_CHAR_BYTES;
    let contents = place::read(worktree, Path::new(file.as_str()), max_bytes).map_err(|error| {
        let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
        match is_link {
            true => fault("it is a link; it must be a file of the repository".to_owned()),
            false => fault(error.to_string()),
        }
    })?;
    let text = String::from_utf8(contents).map_err(|_| fault("it is no UTF-8 text".to_owned()))?;
    if text.trim().is_empty() || text.chars().count() > MAX_CHARS {
        return Err(fault(format!("it has to have 1 to {MAX_CHARS} characters")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn instructions_are_read_from_the_repository_and_from_nowhere_else() {
        let worktree = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(outside.path(), "secret").unwrap();
        let root = worktree.path();
        std::fs::create_dir(root.join("docs")).unwrap();
        std::fs::write(root.join("docs/task.md"), "Do it.").unwrap();
        std::fs::write(root.join("empty.md"), " \n").unwrap();
        std::fs::write(root.join("binary"), [0xff, 0xfe]).unwrap();
        std::fs::write(root.join("long"), "x".repeat(MAX_CHARS + 1)).unwrap();
        symlink(outside.path(), root.join("link.md")).unwrap();
        symlink("/etc", root.join("etc")).unwrap();
        let read = |file: &str| read_instructions(root, &WorktreePath::parse(file).unwrap());
        assert_eq!(read("docs/task.md").unwrap(), "Do it.");
        assert_eq!(read("./docs/task.md").unwrap(), "Do it.");
        for (file, expected) in [
            (".", "out of the worktree"),
            ("link.md", "is a link"),
            ("etc/passwd", "no directory of its own"),
            ("docs", "no file"),
            ("empty.md", "1 to 100000 characters"),
            ("long", "1 to 100000 characters"),
            ("binary", "no UTF-8 text"),
            ("not-there", "No such file"),
        ] {
            let error = read(file).unwrap_err();
            assert_eq!(error.code(), "agent_instructions_file");
            assert!(error.to_string().contains(expected), "{file}: {error}");
        }
    }
}
