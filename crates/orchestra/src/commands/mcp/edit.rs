//! Files of servers that are changed for the user: in place, so that all else stays as it was.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use orchestra_fs::Access;
use orchestra_gateway::{
    config::{File, FileKind, ServerConfig, ServerName, Source},
    discovery::Server,
};
use serde_json::{Value, json};

use super::Here;
use crate::{
    exit::Failure,
    files::Root,
    init::jsonc::{Document, Object, Refusal},
};

/// Owner of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum Scope {
    /// mcp.json in the user's configuration directory, for every workspace
    #[default]
    User,
    /// .mcp.json of the workspace, for all its users
    Workspace,
}

/// A file to be changed.
pub(super) struct Target {
    root: Root,
    relative: PathBuf,
    access: Access,
}

impl Target {
    /// The file of a scope.
    pub(super) fn of(scope: Scope, here: &Here) -> Result<Self, Failure> {
        let target = match scope {
            Scope::Workspace => Self {
                root: Root::new(&here.places.workspace),
                relative: ".mcp.json".into(),
                access: Access::Shared,
            },
            Scope::User => {
                let user = here.places.user.as_deref().ok_or_else(|| {
                    Failure::usage_text(
                        "set HOME or XDG_CONFIG_HOME, which determine the location of the file",
                    )
                })?;
                Self {
                    root: Root::near(user, &here.places.workspace),
                    relative: "mcp.json".into(),
                    // It may hold secrets that somebody wrote down.
                    access: Access::Private,
                }
            }
        };
        Ok(target)
    }

    /// A file that is there already.
    pub(super) fn at(path: &Path, here: &Here) -> Result<Self, Failure> {
        let workspace = &here.places.workspace;
        if let Ok(relative) = path.strip_prefix(workspace) {
            return Ok(Self {
                root: Root::new(workspace),
                relative: relative.to_owned(),
                access: Access::Shared,
            });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Failure::usage_text(format!("{}: no file", path.display())));
        };
        Ok(Self {
            root: Root::near(parent, workspace),
            relative: name.into(),
            access: Access::Shared,
        })
    }

    /// Where it is.
    pub(super) fn path(&self) -> PathBuf {
        self.root.path().join(&self.relative)
    }

    /// Reads a definition as a server of the file, alone.
    ///
    /// # Errors
    /// The reason for which no such server can be used.
    pub(super) fn understand(
        &self,
        scope: Scope,
        name: &ServerName,
        value: &Value,
    ) -> Result<Box<ServerConfig>, String> {
        let path = self.path();
        let source = match scope {
            Scope::Workspace => Source::Workspace,
            Scope::User => Source::User,
        };
        let file = File {
            path: path.as_path().into(),
            source,
            trust: source.trust(),
            directory: path.parent().unwrap_or(&path).to_owned(),
            kind: FileKind::Servers,
            owners: None,
        };
        let contents = file.understand(&json!({"mcpServers": {name.as_str(): value}}).to_string());
        let server = contents.servers.into_iter().next();
        server.map_or_else(
            || Err("not a server definition".to_owned()),
            |written| written.config,
        )
    }

    /// Takes a server out of a file of TOML or YAML; every other line stays as it is.
    ///
    /// # Errors
    /// When that cannot be done; the file is left alone then.
    pub(super) fn cut(&self, here: &Here, server: &Server) -> Result<(), Failure> {
        let refused = |error: anyhow::Error| {
            let path = self.path();
            Failure::Refused(error.context(format!("{} was not changed", path.display())))
        };
        let text = self.root.read(&self.relative).context("read the file");
        let text = text.map_err(refused)?.unwrap_or_default();
        let origin = &server.origin;
        let mut files = here.places.files().into_iter();
        let kind = files
            .find(|file| file.path == origin.file)
            .map(|file| file.kind);
        let file = File {
            path: Arc::clone(&origin.file),
            source: origin.source,
            trust: origin.trust,
            directory: origin.directory.clone(),
            kind: kind.unwrap_or_default(),
            owners: None,
        };
        let cut = file.without(&text, &server.shown_name);
        let text = cut.map_err(|error| refused(error.into()))?;
        let written = self.root.write(&self.relative, &text, self.access);
        written.map_err(|error| refused(error.into()))
    }

    /// Changes the servers of the file, which is made when it is not there.
    ///
    /// # Errors
    /// When it is not understood; it is left alone then.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&Object) -> Result<T, Refusal>,
    ) -> Result<T, Failure> {
        let refused = |error: anyhow::Error| {
            let path = self.path();
            Failure::Refused(error.context(format!("{} was not changed", path.display())))
        };
        let text = self.root.read(&self.relative).context("read the file");
        let text = text.map_err(refused)?;
        let apply = || {
            let document = Document::parse(text.as_deref())?;
            let top = document.top();
            let is_vs_code = top.value("servers")?.is_some() && top.value("mcpServers")?.is_none();
            let key = if is_vs_code { "servers" } else { "mcpServers" };
            let changed = change(&top.object_or_new(key)?)?;
            Ok::<_, Refusal>((changed, document.text()?))
        };
        let (changed, text) = apply().map_err(|error| refused(error.into()))?;
        self.root
            .write(&self.relative, &text, self.access)
            .map_err(|error| refused(error.into()))?;
        Ok(changed)
    }
}
