//! Where servers are looked for: files and directories of files, strongest first.

use std::{
    collections::BTreeSet,
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestra_mcp::owners::Owners;

use crate::config::{File, FileKind, Source};

/// The most files of a directory; of more, the first by their names.
const MAX_FILES: usize = 256;

/// The configuration of this program, in a workspace and of the user.
pub(super) const CONFIG_FILE: &str = "orchestra.toml";

/// The file of the user, and of the system, that holds servers and nothing else.
const SERVERS_FILE: &str = "mcp.json";

/// The directory of a workspace that is this program's own.
pub(super) const OWN_DIRECTORY: &str = ".orchestra";

/// The directory of files of servers, in [`OWN_DIRECTORY`] and of the system.
const SERVERS_DIRECTORY: &str = "mcp";

/// The files of a workspace that other programs read as well, strongest first.
pub(super) const WORKSPACE_FILES: [&str; 4] = [
    ".mcp.json",
    "mcp.json",
    ".vscode/mcp.json",
    ".cursor/mcp.json",
];

/// Where servers are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Files that the command line names, strongest first.
    pub command_line: Vec<PathBuf>,
    /// Lists of plugins that the command line names, strongest first.
    pub plugins: Vec<PathBuf>,
    /// Files, and directories of files, that the environment names.
    pub environment: Vec<PathBuf>,
    /// The workspace.
    pub workspace: PathBuf,
    /// Users whose files the workspace's must be; `None` where any owner will do.
    pub owners: Option<Owners>,
    /// The user's configuration directory of this program.
    pub user: Option<PathBuf>,
    /// The configuration directory that all users of this machine share.
    pub system: Option<PathBuf>,
    /// Whether only files count that the command line names.
    pub only_named: bool,
    /// The directory of the user's `trusted_directories` that the workspace is in: its servers need no approval.
    pub trusted_by: Option<Arc<Path>>,
    /// Ports at which this program may listen. A server at another port is another program.
    pub ports: RangeInclusive<u16>,
}

impl Places {
    /// Every file that may hold servers, strongest first, also those that are not there.
    #[must_use]
    pub fn files(&self) -> Vec<File> {
        let mut files = Vec::new();
        for path in &self.command_line {
            files.push(self.file(path, Source::CommandLine));
        }
        for path in &self.plugins {
            files.push(self.plugins_file(path, Source::CommandLine));
        }
        if self.only_named {
            return files;
        }
        for path in &self.environment {
            let within = listed(path);
            let paths = within.as_deref().unwrap_or(std::slice::from_ref(path));
            files.extend(self.all(paths, Source::Environment));
        }
        files.push(self.file(&self.workspace.join(CONFIG_FILE), Source::Workspace));
        let path = self.workspace.join(FileKind::LIST);
        files.push(self.plugins_file(&path, Source::Workspace));
        let within = listed(&self.workspace_directory()).unwrap_or_default();
        files.extend(self.all(&within, Source::Workspace));
        for name in WORKSPACE_FILES {
            files.push(self.file(&self.workspace.join(name), Source::Workspace));
        }
        for name in [CONFIG_FILE, SERVERS_FILE] {
            let path = self.user.as_ref().map(|user| user.join(name));
            files.extend(path.map(|path| self.file(&path, Source::User)));
        }
        if let Some(system) = &self.system {
            files.push(self.file(&system.join(SERVERS_FILE), Source::System));
            let within = listed(&system.join(SERVERS_DIRECTORY)).unwrap_or_default();
            files.extend(self.all(&within, Source::System));
        }
        files
    }

    /// The directories whose files may hold servers, also those that are not there. A path of the
    /// environment may be a file as well.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        if self.only_named {
            return Vec::new();
        }
        let mut directories = self.environment.clone();
        directories.push(self.workspace_directory());
        let system = self.system.as_ref();
        directories.extend(system.map(|system| system.join(SERVERS_DIRECTORY)));
        directories
    }

    fn workspace_directory(&self) -> PathBuf {
        self.workspace.join(OWN_DIRECTORY).join(SERVERS_DIRECTORY)
    }

    fn all(&self, paths: &[PathBuf], source: Source) -> Vec<File> {
        paths.iter().map(|path| self.file(path, source)).collect()
    }

    /// A list of plugins. They run where their orchestrator does, wherever the list lies; their
    /// programs start from the list.
    fn plugins_file(&self, path: &Path, source: Source) -> File {
        File {
            kind: FileKind::Plugins,
            directory: self.workspace.clone(),
            ..self.file(path, source)
        }
    }

    fn file(&self, path: &Path, source: Source) -> File {
        let directory = match source {
            Source::Workspace | Source::User | Source::System => self.workspace.clone(),
            Source::CommandLine | Source::Environment => {
                project_of(path).unwrap_or_else(|| self.workspace.clone())
            }
        };
        File {
            path: path.into(),
            source,
            trust: source.trust(),
            directory,
            kind: FileKind::Servers,
            owners: self.owners.clone().filter(|_| source == Source::Workspace),
        }
    }
}

/// The files of a directory, in the order of their names; `None` when it is none.
fn listed(path: &Path) -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(path).ok()?;
    let mut files = BTreeSet::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("json" | "jsonc" | "toml" | "yaml" | "yml")) {
            files.insert(path);
        }
        if files.len() > MAX_FILES {
            files.pop_last();
        }
    }
    Some(files.into_iter().collect())
}

/// The directory of the project that a file belongs to: the settings of editors have a directory
/// of their own in it.
fn project_of(file: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(file).ok()?;
    let parent = absolute.parent()?;
    let name = parent.file_name().and_then(|name| name.to_str());
    let is_settings = matches!(name, Some(".vscode" | ".cursor"));
    let project = if is_settings {
        parent.parent()?
    } else {
        parent
    };
    Some(project.to_owned())
}
