//! Files of servers, whatever program they were written for.

use std::{collections::BTreeMap, io, path, sync::Arc};

use orchestra_mcp::{files, owners::Owners};

use super::{
    Diagnostic, Effect, Origin, Place, ServerConfig, ServerName, Severity, Source, Trust,
    misnamed::nothing,
    namesake::{misreading, namesakes},
    node::Path,
    plugin_list::{self, PluginsFile},
    report::{Finding, Report},
    server,
    shape::{Purpose, Section, shape},
    text::{Locator, Notation},
};

/// The largest file that is read. The settings of clients hold more than servers.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The largest YAML file: places in it are found by reading it again.
const MAX_YAML_BYTES: u64 = 128 * 1024;

/// Maximum number of bytes of all files of a workspace that may define servers.
pub(crate) const MAX_WORKSPACE_BYTES: u64 = 1024 * 1024;

/// How the configuration of this program is called.
const OWN: &str = "orchestra.toml";

/// Longest path of keys in a diagnostic, in bytes.
const MAX_PATH_BYTES: usize = 256;

/// Longest message of a diagnostic, in bytes.
const MAX_MESSAGE_BYTES: usize = 1_024;

/// The most servers of a file.
const MAX_SERVERS: usize = 512;

/// A file to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub path: Arc<path::Path>,
    /// Which kind of file it is.
    pub source: Source,
    /// Whether its servers may be started without asking.
    pub trust: Trust,
    /// The directory that relative paths in it start from.
    pub directory: path::PathBuf,
    /// What it lists.
    pub kind: FileKind,
    /// Users whose file it must be; `None` where any owner will do.
    pub owners: Option<Owners>,
}

/// What a file lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileKind {
    /// Servers, in whatever shape.
    #[default]
    Servers,
    /// Plugins, as a `plugins.yaml` does: in YAML, whatever the file is called.
    Plugins,
}

/// What a file says.
#[derive(Debug, Default)]
pub struct Contents {
    /// Its servers, in their order. In a file that other people may have written, a name of this program may occur more
    /// than once: clients start each of these.
    pub servers: Vec<Written>,
    /// What becomes of calls that no rule is about, where it says so for all servers.
    pub default: Option<Effect>,
    /// Whether that is `deny` because what it says cannot be understood: it may have been that.
    pub is_misread: bool,
    /// What it says beside its plugins, where it is a list of them.
    pub plugins_file: Option<PluginsFile>,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether nothing of it can be understood, as of one that is only half written.
    pub is_broken: bool,
}

/// A server as a file says it.
#[derive(Debug, Clone)]
pub struct Written {
    /// Its name.
    pub name: ServerName,
    /// Its name as it was written.
    pub shown_name: String,
    /// Where it was written.
    pub origin: Origin,
    /// The server, or why it cannot be used.
    pub config: Result<Box<ServerConfig>, String>,
    /// The keys of its definition, as they were written.
    pub keys: Vec<String>,
    /// Reason for which clients may start another program or reach another server by the same text.
    pub misreading: Option<String>,
}

impl FileKind {
    /// How a list of plugins is called in a workspace.
    pub(crate) const LIST: &str = "plugins.yaml";

    /// What a file lists that is called so.
    #[must_use]
    pub fn of_name(file: &path::Path) -> Self {
        match file.file_name().is_some_and(|name| name == Self::LIST) {
            true => Self::Plugins,
            false => Self::Servers,
        }
    }
}

impl File {
    /// Reads the file; `None` when there is none. Whatever is wrong with a server, the others are
    /// there.
    #[must_use]
    pub fn read(&self) -> Option<Contents> {
        let mut left = MAX_BYTES;
        self.read_within(&mut left)
    }

    /// As [`read`](Self::read), for one of several files that may have `left` bytes together. Subtracts its bytes.
    pub(crate) fn read_within(&self, left: &mut u64) -> Option<Contents> {
        let message = match self.read_text(*left) {
            Ok(None) => return None,
            Ok(Some(text)) => {
                *left -= text.len() as u64;
                return Some(self.understand(&text));
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge && *left < MAX_BYTES => {
                format!(
                    "is too long: the files of the workspace that may define servers have more than {MAX_WORKSPACE_BYTES} bytes"
                )
            }
            Err(error) => format!("cannot be read: {error}"),
        };
        Some(self.unreadable(Place::START, message))
    }

    /// The text of the file, if there is one.
    fn read_text(&self, most: u64) -> io::Result<Option<String>> {
        let read = match &self.owners {
            Some(owners) => files::read_own_text(&self.path, most, owners),
            None => files::read_text(&self.path, most),
        };
        match read {
            Err(error) if is_absent(&error) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Understands the text of the file.
    #[must_use]
    pub fn understand(&self, text: &str) -> Contents {
        let notation = self.notation();
        if notation == Notation::Yaml && text.len() as u64 > MAX_YAML_BYTES {
            let message = format!("is longer than {MAX_YAML_BYTES} bytes");
            return self.unreadable(Place::START, message);
        }
        let root = match notation.parse(text) {
            Ok(root) => root,
            Err(error) => return self.unreadable(error.place, error.message),
        };
        let report = Report::default();
        let mut servers = Vec::new();
        let (mut section, beside) = match self.kind {
            FileKind::Servers => (shape(&root, self.purpose(), &report), None),
            FileKind::Plugins => {
                let (section, beside) = plugin_list::read(&root, &report);
                (section, Some(beside.of_file(&self.path, self.trust)))
            }
        };
        if self.kind == FileKind::Servers && self.trust == Trust::Ask {
            let read = section.servers.get(..MAX_SERVERS);
            section.hidden = namesakes(&root, read.unwrap_or(&section.servers));
        }
        let locator = Locator::new(notation, text);
        self.read_servers(&section, &locator, &report, &mut servers);
        if !section.is_known && self.is_named_for_servers() {
            nothing(&root, &report);
        }
        let (default, is_misread) = (section.shared.default, section.shared.is_misread);
        let findings = report.into_findings().into_iter();
        let diagnostics = findings.map(|finding| {
            let about = servers
                .iter()
                .find(|(path, _)| finding.path.is_within(path));
            let server = about.map(|(_, written)| written.name.clone());
            self.diagnostic(finding, server, &locator)
        });
        Contents {
            diagnostics: diagnostics.collect(),
            default,
            is_misread,
            servers: servers.into_iter().map(|(_, written)| written).collect(),
            plugins_file: beside,
            is_broken: false,
        }
    }

    /// How it is written.
    pub(super) fn notation(&self) -> Notation {
        match self.kind {
            FileKind::Servers => Notation::of_file(&self.path),
            FileKind::Plugins => Notation::Yaml,
        }
    }

    /// What it is there for: its servers, or much else.
    pub(super) fn purpose(&self) -> Purpose {
        Purpose {
            is_of_servers: self.source == Source::CommandLine || self.is_named_for_servers(),
            is_ours: self.path.ends_with(OWN),
        }
    }

    /// Whether its name or directory says so.
    fn is_named_for_servers(&self) -> bool {
        let directory = self.path.parent().unwrap_or(&self.path);
        let is_called = |name| self.path.ends_with(name);
        // A workspace may be called so as well, and its file says much else.
        let is_theirs = directory.ends_with("mcp") && !is_called(OWN);
        is_theirs || is_called("mcp.json") || is_called(".mcp.json")
    }

    fn read_servers(
        &self,
        section: &Section<'_>,
        locator: &Locator<'_>,
        report: &Report,
        servers: &mut Vec<(Path, Written)>,
    ) {
        let mut names: BTreeMap<ServerName, String> = BTreeMap::new();
        if let Some(named) = section.servers.get(MAX_SERVERS) {
            let message = format!("only the first {MAX_SERVERS} servers and plugins are read");
            report.error(named.place, &named.path, message);
        }
        let read = section.servers.iter().take(MAX_SERVERS);
        let read = read.map(|named| (named, false));
        let hidden = section.hidden.iter().map(|named| (named, true));
        for (named, is_hidden) in read.chain(hidden) {
            let path = &named.path;
            let place = locator.place(path).unwrap_or(named.place);
            let name = ServerName::of_text(named.name);
            let origin = Origin {
                file: Arc::clone(&self.path),
                place,
                source: self.source,
                trust: self.trust,
                directory: self.directory.clone(),
            };
            if let Some(other) = names.insert(name.clone(), named.name.to_owned())
                && !is_hidden
            {
                let message = match other == named.name {
                    true => format!("{other} is already defined here; the first is used"),
                    false => format!("has the name `{name}`, as `{other}` has; rename one of them"),
                };
                report.error(named.place, path, message);
                if self.trust != Trust::Ask || !name.is_of_program() {
                    continue;
                }
            }
            let config = server::read(named, origin.clone(), &section.shared, report);
            let keys = named.node.members().unwrap_or_default().iter();
            let written = Written {
                name,
                shown_name: named.name.to_owned(),
                origin,
                config: config
                    .map(Box::new)
                    .map_err(|reason| cut(reason, MAX_MESSAGE_BYTES)),
                keys: keys.map(|member| member.key.clone()).collect(),
                misreading: misreading(named.node),
            };
            servers.push((path.clone(), written));
        }
    }

    fn unreadable(&self, place: Place, message: String) -> Contents {
        let diagnostic = Diagnostic {
            severity: Severity::Error,
            file: Arc::clone(&self.path),
            place,
            path: String::new(),
            server: None,
            message: cut(message, MAX_MESSAGE_BYTES),
        };
        Contents {
            servers: Vec::new(),
            // A list of plugins has nothing to say of calls.
            default: (self.kind == FileKind::Servers).then_some(Effect::Deny),
            is_misread: self.kind == FileKind::Servers,
            plugins_file: None,
            diagnostics: vec![diagnostic],
            is_broken: true,
        }
    }

    fn diagnostic(
        &self,
        finding: Finding,
        server: Option<ServerName>,
        locator: &Locator<'_>,
    ) -> Diagnostic {
        let place = locator.place(&finding.path);
        Diagnostic {
            severity: finding.severity,
            file: Arc::clone(&self.path),
            place: place.unwrap_or(finding.place),
            server,
            path: cut(finding.path.to_string(), MAX_PATH_BYTES),
            message: cut(finding.message, MAX_MESSAGE_BYTES),
        }
    }
}

/// A text that may quote the file, of which no more than `most` bytes are shown.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

/// Whether there is no such file.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}
