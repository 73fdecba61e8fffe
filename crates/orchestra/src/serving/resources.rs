//! The bundled files, as the tools `install_skills`, `install_agents` and `install_docs` install
//! them, by the same rules as `orchestra init`; and the skills among them, as they are served.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use orchestra_tools::{Bundle, BundleError, BundleKind, BundledSkill, InstallReport};

use crate::{
    bundle::{self, Kind},
    files::{FileError, Root},
    init::{Action, Effect, InitError, Installer},
};

/// The bundled files.
#[derive(Debug, Default)]
pub(super) struct BundledResources {
    /// One installation at a time: each reads the manifest, then writes it.
    turn: Mutex<()>,
}

impl Bundle for BundledResources {
    fn available(&self, kind: BundleKind) -> Vec<String> {
        bundle::of_kind(kind_of(kind))
            .map(|resource| resource.name.to_owned())
            .collect()
    }

    fn skills(&self) -> Vec<BundledSkill> {
        bundle::of_kind(Kind::Skill)
            .map(|resource| BundledSkill {
                name: resource.name,
                text: resource.text,
            })
            .collect()
    }

    fn install(
        &self,
        workspace: &Path,
        kind: BundleKind,
        names: &[String],
    ) -> Result<InstallReport, BundleError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let chosen = bundle::of_kind(kind_of(kind))
            .filter(|resource| names.iter().any(|name| name == resource.name));
        let steps = Installer::open(Root::new(workspace), Effect::Apply)
            .and_then(|installer| installer.install_resources(chosen))
            .map_err(failure)?;
        let mut report = InstallReport::default();
        for step in steps {
            match step.action {
                Action::Created | Action::Updated => report.installed.push(step.path),
                Action::Unchanged => report.unchanged.push(step.path),
                Action::Kept | Action::Removed => report.kept.push(step.path),
                Action::Refused => {
                    let reason = step.reason.unwrap_or_default();
                    return Err(BundleError {
                        file: step.path,
                        reason,
                    });
                }
            }
        }
        Ok(report)
    }
}

const fn kind_of(kind: BundleKind) -> Kind {
    match kind {
        BundleKind::Skills => Kind::Skill,
        BundleKind::Agents => Kind::Agent,
        BundleKind::Docs => Kind::Guide,
    }
}

fn failure(error: InitError) -> BundleError {
    match error {
        InitError::File(FileError::Io {
            action,
            path,
            source,
        }) => BundleError {
            file: path.display().to_string(),
            reason: format!("{action}: {source}"),
        },
        error => BundleError {
            file: ".claude".to_owned(),
            reason: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_install_what_they_are_asked_for_and_keep_edits() {
        let workspace = tempfile::tempdir().unwrap();
        let bundle = BundledResources::default();
        let names = bundle.available(BundleKind::Skills);
        let chosen = &names[1..2];
        let install = || {
            bundle
                .install(workspace.path(), BundleKind::Skills, chosen)
                .unwrap()
        };
        let path = format!(".claude/skills/{}/SKILL.md", chosen[0]);
        assert_eq!(install().installed, std::slice::from_ref(&path));
        assert_eq!(install().unchanged, std::slice::from_ref(&path));
        std::fs::write(workspace.path().join(&path), "mine").unwrap();
        assert_eq!(install().kept, [path]);
        assert_eq!(
            std::fs::read_dir(workspace.path().join(".claude/skills"))
                .unwrap()
                .count(),
            1
        );
    }
}
