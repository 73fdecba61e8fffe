//! The seam to the skills, agents and guides that the program carries with it.

use std::path::Path;

/// What the program carries for the workspace of a coding agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BundleKind {
    /// `.claude/skills/{name}/SKILL.md`.
    Skills,
    /// `.claude/agents/{name}.md`.
    Agents,
    /// Guides in the workspace's top directory.
    Docs,
}

/// A skill of a single file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundledSkill {
    /// Its name, which is also that of its directory.
    pub name: &'static str,
    /// The text of its `SKILL.md`.
    pub text: &'static str,
}

/// Resources that can be installed into a workspace.
pub trait Bundle: Send + Sync + 'static {
    /// The names of what can be installed, in a fixed order.
    fn available(&self, kind: BundleKind) -> Vec<String>;

    /// The skills, to serve them where the workspace has none of the same name.
    fn skills(&self) -> Vec<BundledSkill> {
        Vec::new()
    }

    /// Installs `names`, each of them one of [`Bundle::available`]. A file that somebody edited is
    /// kept, and the report says so.
    ///
    /// # Errors
    /// When a file cannot be written. The error names it relative to the workspace.
    fn install(
        &self,
        workspace: &Path,
        kind: BundleKind,
        names: &[String],
    ) -> Result<InstallReport, BundleError>;
}

/// What an installation did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstallReport {
    /// Files that were written, relative to the workspace.
    pub installed: Vec<String>,
    /// Files that were as they should be already.
    pub unchanged: Vec<String>,
    /// Files that somebody edited, left as they are.
    pub kept: Vec<String>,
}

/// An installation failed; what was written before stays.
#[derive(Debug, thiserror::Error)]
#[error("cannot install {file}: {reason}")]
pub struct BundleError {
    /// The file, relative to the workspace.
    pub file: String,
    /// What went wrong, without paths.
    pub reason: String,
}

/// A bundle without anything in it.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyBundle;

impl Bundle for EmptyBundle {
    fn available(&self, _kind: BundleKind) -> Vec<String> {
        Vec::new()
    }

    fn install(&self, _: &Path, _: BundleKind, _: &[String]) -> Result<InstallReport, BundleError> {
        Ok(InstallReport::default())
    }
}
