//! A workspace and a user in directories of their own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use orchestra_gateway::{
    approval::{DecisionFile, Waits},
    config::{File, FileKind, ServerConfig, Source, StdioConfig, Transport},
    discovery::{Found, Places, ServerState},
    expand::Scope,
};

/// A workspace, and the home of its user.
pub(crate) struct World {
    directory: tempfile::TempDir,
    pub(crate) places: Places,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().join("workspace");
        let user = directory.path().join("home/.config/orchestra");
        fs::create_dir_all(&workspace).unwrap();
        let places = Places {
            command_line: Vec::new(),
            plugins: Vec::new(),
            environment: Vec::new(),
            workspace,
            owners: None,
            user: Some(user),
            system: None,
            only_named: false,
            trusted_by: None,
            ports: 7420..=7420,
        };
        Self { directory, places }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file; its directories are made.
    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn decisions(&self) -> DecisionFile {
        DecisionFile::new(&self.path().join("home/.local/state/orchestra"))
    }

    /// `SET` is set, nothing else is.
    pub(crate) fn scope(&self) -> Scope {
        let variables = |name: &str| (name == "SET").then(|| "value".to_owned());
        Scope::new(&self.places.workspace, None, variables)
    }

    pub(crate) fn find(&self) -> Found {
        let decisions = self.decisions().read().unwrap();
        self.places.find(&self.scope(), &decisions)
    }

    pub(crate) fn approve(&self, name: &str) {
        let found = self.find();
        let server = found.server(name).unwrap();
        let ServerState::NeedsApproval { fingerprint, .. } = &server.state else {
            panic!("{found:?}");
        };
        let workspace = &self.places.workspace;
        let approve = self
            .decisions()
            .change(|decisions| decisions.approve(workspace, &server.name, fingerprint));
        approve.unwrap();
    }

    /// Reason for which a server waits to be approved; `None` where it does not.
    pub(crate) fn waits(&self, name: &str) -> Option<Waits> {
        match &self.find().server(name).unwrap().state {
            ServerState::NeedsApproval { why, .. } => Some(why.clone()),
            _ => None,
        }
    }
}

/// A file that the user chose.
pub(crate) fn file(name: &str) -> File {
    File {
        path: Path::new("/w").join(name).into(),
        source: Source::CommandLine,
        trust: Source::CommandLine.trust(),
        directory: "/w".into(),
        kind: FileKind::Servers,
        owners: None,
    }
}

/// The process of a server.
pub(crate) fn stdio(config: &ServerConfig) -> &StdioConfig {
    match &config.transport {
        Transport::Stdio(stdio) => stdio,
        _ => panic!("{config:?}"),
    }
}

/// Each server with what becomes of it.
pub(crate) fn states(found: &Found) -> Vec<(&str, &str)> {
    let servers = found.servers.iter();
    servers
        .map(|server| (server.name.as_str(), server.state.as_str()))
        .collect()
}
