//! Paths that a server in a sandbox reaches, resolved when they are used.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use orchestra_fs::Content;
use orchestra_process::SYSTEM_PATHS;

use super::{ExpandError, Scope};
use crate::config::{Sandbox, ServerConfig, Template, Transport};

impl Scope {
    /// Paths that no server in a sandbox may reach: the state and the configuration of this program.
    #[must_use]
    pub fn with_closed(mut self, closed: Vec<PathBuf>) -> Self {
        self.closed = closed;
        self
    }

    /// Paths that no server in a sandbox may reach.
    pub(crate) fn closed(&self) -> &[PathBuf] {
        &self.closed
    }

    /// Resolves a path that a server in a sandbox may reach; `None` where it does not exist.
    ///
    /// # Errors
    /// When a symbolic link leads it out of the workspace, or into a closed path. Whoever changes files of the
    /// workspace would decide what the server reaches.
    pub(crate) fn reached(
        &self,
        path: &Path,
        config: &ServerConfig,
    ) -> Result<Option<PathBuf>, ExpandError> {
        let path = normal(path);
        let real = match fs::canonicalize(&path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(_) => {
                return Err(ExpandError::Unusable(
                    "a path of its sandbox cannot be resolved",
                ));
            }
        };
        let roots = [self.workspace.as_path(), config.directory()];
        for root in roots
            .into_iter()
            .filter_map(|root| root.canonicalize().ok())
        {
            let mut above = path.ancestors();
            let is_through = above.any(|above| {
                above
                    .canonicalize()
                    .is_ok_and(|above| above.starts_with(&root))
            });
            if is_through && !real.starts_with(&root) {
                return Err(ExpandError::Outside { path, target: real });
            }
        }
        let is_closed = self.closed.iter().any(|closed| {
            let closed = closed.canonicalize();
            closed.is_ok_and(|closed| real.starts_with(closed))
        });
        match is_closed {
            true => Err(ExpandError::Closed { path }),
            false => Ok(Some(real)),
        }
    }

    /// As [`reached`](Self::reached), for a path that the approval of the server shows: its target is the approved one.
    ///
    /// # Errors
    /// Also when it leads elsewhere since the approval was compared.
    pub(crate) fn reached_as_approved(
        &self,
        path: &Path,
        config: &ServerConfig,
    ) -> Result<Option<PathBuf>, ExpandError> {
        let Some(real) = self.reached(path, config)? else {
            return Ok(None);
        };
        let Some(approved) = &config.covered else {
            return Ok(Some(real));
        };
        let path = normal(path);
        let target = approved.targets().find(|(named, _)| *named == path);
        let is_approved = match target {
            Some((_, target)) => target == real,
            None => real == path || self.is_below_links(&path, &real, config),
        };
        match is_approved {
            true => Ok(Some(real)),
            false => Err(ExpandError::Changed { path, target: real }),
        }
    }

    /// Returns whether a path has symbolic links only above the workspace or the directory of its file.
    fn is_below_links(&self, path: &Path, real: &Path, config: &ServerConfig) -> bool {
        let mut roots = [self.workspace.as_path(), config.directory()].into_iter();
        roots.any(|root| {
            let rest = path.strip_prefix(normal(root)).ok();
            let whole = rest.and_then(|rest| Some(root.canonicalize().ok()?.join(rest)));
            whole.is_some_and(|whole| whole == real)
        })
    }

    /// Resolves the program of a server in a sandbox; `None` where any file that it leads to may be opened. `open`
    /// holds the paths that the sandbox opens, without symbolic links.
    ///
    /// # Errors
    /// When a symbolic link leads it out of the workspace to a file that is neither open nor approved.
    pub(crate) fn reached_program(
        &self,
        program: &Path,
        config: &ServerConfig,
        open: &[&Path],
    ) -> Result<Option<PathBuf>, ExpandError> {
        if program.components().count() < 2 {
            return Ok(None);
        }
        let (path, target) = match self.reached(program, config) {
            Err(ExpandError::Outside { path, target }) => (path, target),
            // Its owner names it there.
            Err(ExpandError::Closed { path })
                if self.closed.iter().any(|closed| path.starts_with(closed)) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
            Ok(real) => return Ok(Some(real.unwrap_or_else(|| normal(program)))),
        };
        // Without an approval, its owner trusts the link as it is.
        let Some(approved) = &config.covered else {
            return Ok(None);
        };
        let system = SYSTEM_PATHS.iter().map(Path::new);
        let system: Vec<PathBuf> = system.filter_map(|path| path.canonicalize().ok()).collect();
        let mut open = system
            .iter()
            .map(PathBuf::as_path)
            .chain(open.iter().copied());
        let is_shown = |content: &Content| *content == Content::Outside(target.clone());
        let mut shown = approved.files().map(|(_, content)| content);
        match open.any(|open| target.starts_with(open)) || shown.any(is_shown) {
            true => Ok(Some(target)),
            false => Err(ExpandError::Changed { path, target }),
        }
    }

    /// Returns the paths that a server may write from its sandbox, as they are written and resolved; none without a
    /// sandbox.
    pub(crate) fn writable(&self, config: &ServerConfig) -> Vec<PathBuf> {
        let Sandbox::Workspace { write, .. } = &config.sandbox else {
            return Vec::new();
        };
        let cwd = match &config.transport {
            Transport::Stdio(stdio) => stdio.cwd.as_ref(),
            Transport::Plugin(plugin) => plugin.cwd.as_ref(),
            Transport::Http(_) | Transport::Orchestrator(_) => return Vec::new(),
        };
        let usual = cwd.is_none().then(|| config.directory().clone());
        let named = cwd.into_iter().chain(write);
        let named = named.filter_map(|path| self.path(path, config).ok());
        let mut writable: Vec<PathBuf> = usual.into_iter().chain(named).collect();
        let real = writable.iter().filter_map(|path| path.canonicalize().ok());
        let real: Vec<PathBuf> = real.collect();
        writable = writable.iter().map(|path| normal(path)).collect();
        writable.extend(real);
        writable
    }

    /// Returns the paths of a sandbox that lead elsewhere by symbolic links, with their targets.
    pub(crate) fn targets(&self, config: &ServerConfig) -> Vec<(PathBuf, PathBuf)> {
        let Sandbox::Workspace { read, write } = &config.sandbox else {
            return Vec::new();
        };
        let cwd: Option<&Template> = match &config.transport {
            Transport::Stdio(stdio) => stdio.cwd.as_ref(),
            Transport::Plugin(plugin) => plugin.cwd.as_ref(),
            Transport::Http(_) | Transport::Orchestrator(_) => return Vec::new(),
        };
        let paths = cwd.into_iter().chain(read).chain(write);
        let paths = paths.filter_map(|path| Some(normal(&self.path(path, config).ok()?)));
        let targets = paths.filter_map(|path| {
            let real = path.canonicalize().ok()?;
            (real != path).then_some((path, real))
        });
        targets.collect()
    }
}

/// A path without `.` and `..`, as it reads: a link in it decides nothing.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            component => normal.push(component),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, sync::Arc};

    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::{
        approval::Covered,
        config::{File, FileKind, Source},
    };

    /// An approved server in a sandbox, with the workspace and a directory outside of it.
    fn approved(command: &str, links: &[(&str, &str)]) -> (ServerConfig, Scope, TempDir, TempDir) {
        let (workspace, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let top = workspace.path();
        for name in ["a/one", "a/two", "bin"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        for file in [top.join("bin/run"), outside.path().join("run")] {
            fs::write(file, "").unwrap();
        }
        for (link, target) in links {
            exchange(top, link, &outside.path().join(target));
        }
        let file = File {
            path: top.join(".mcp.json").into(),
            source: Source::Workspace,
            trust: Source::Workspace.trust(),
            directory: top.to_owned(),
            kind: FileKind::Servers,
            owners: None,
        };
        let sandbox = json!({"mode": "workspace", "read": ["a/named"], "write": ["a/one"]});
        let server = json!({"command": command, "cwd": "a", "sandbox": sandbox});
        let text = json!({"mcpServers": {"a": server}}).to_string();
        let config = file.understand(&text).servers.remove(0).config;
        let mut config = ServerConfig::clone(&config.unwrap());
        let scope = Scope::new(top, None, |_| None);
        symlink("one", top.join("a/named")).unwrap();
        config.covered = Some(Arc::new(Covered::of(&config, &scope).approved(false)));
        (config, scope, workspace, outside)
    }

    fn exchange(top: &Path, link: &str, target: &Path) {
        let link = top.join(link);
        if let Ok(found) = fs::symlink_metadata(&link) {
            match found.is_dir() {
                true => fs::remove_dir(&link).unwrap(),
                false => fs::remove_file(&link).unwrap(),
            }
        }
        symlink(target, link).unwrap();
    }

    #[test]
    fn path_that_leads_elsewhere_than_approved_is_refused() {
        let (config, scope, workspace, outside) = approved("bin/run", &[]);
        let top = workspace.path().canonicalize().unwrap();
        let reached = |path: &str| scope.reached_as_approved(&workspace.path().join(path), &config);
        for path in ["a/named", "a/one"] {
            assert_eq!(reached(path).unwrap().unwrap(), top.join("a/one"));
            exchange(&top, path, &top.join("a/two"));
            let refused = reached(path).unwrap_err();
            assert!(
                matches!(refused, ExpandError::Changed { .. }),
                "{refused:?}"
            );
            exchange(&top, path, outside.path());
            let refused = reached(path).unwrap_err();
            assert!(
                matches!(refused, ExpandError::Outside { .. }),
                "{refused:?}"
            );
            fs::remove_file(top.join(path)).unwrap();
            fs::create_dir_all(top.join("a/one")).unwrap();
        }
    }

    #[test]
    fn link_to_a_program_outside_is_that_of_the_approval() {
        let (config, scope, workspace, outside) =
            approved("../bin/linked", &[("bin/linked", "run")]);
        let program = workspace.path().join("a/../bin/linked");
        let reached = |open: &[&Path]| scope.reached_program(&program, &config, open);
        let outside = outside.path().canonicalize().unwrap();
        assert_eq!(reached(&[]).unwrap().unwrap(), outside.join("run"));
        let secret = outside.join("secret");
        fs::write(&secret, "secret").unwrap();
        exchange(workspace.path(), "bin/linked", &secret);
        let refused = reached(&[]).unwrap_err();
        assert!(
            matches!(refused, ExpandError::Changed { .. }),
            "{refused:?}"
        );
        assert_eq!(reached(&[outside.as_path()]).unwrap().unwrap(), secret);
        let named = scope.reached_program(Path::new("python3"), &config, &[]);
        assert_eq!(named.unwrap(), None);
    }
}
