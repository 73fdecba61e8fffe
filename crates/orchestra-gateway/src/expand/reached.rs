//! Paths that a server in a sandbox reaches, resolved when they are used.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

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
fn normal(path: &Path) -> PathBuf {
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
