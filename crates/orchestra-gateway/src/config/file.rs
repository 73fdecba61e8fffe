//! Files of servers, whatever program they were written for: the shape says where the servers
//! stand.

use std::{collections::BTreeMap, fs, io, io::Read as _, path, sync::Arc, time::Duration};

use super::{
    Diagnostic, Effect, Input, Origin, Place, Retry, ServerConfig, ServerName, Severity, Source,
    Trust,
    fields::Fields,
    misnamed::{misnamed, nothing},
    node::{Member, Node, Path, Value},
    report::{Finding, Report},
    server::{self, Shared},
    text::Notation,
};

/// The largest file that is read. The settings of clients hold more than servers.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The largest YAML file: places in it are found by reading it again.
const MAX_YAML_BYTES: u64 = 128 * 1024;

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
}

/// What a file says.
#[derive(Debug, Default)]
pub struct Contents {
    /// Its servers, in their order.
    pub servers: Vec<Written>,
    /// What becomes of calls that no rule is about, where it says so for all servers.
    pub default: Option<Effect>,
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
}

impl File {
    /// Reads the file; `None` when there is none. Whatever is wrong with a server, the others are
    /// there.
    #[must_use]
    pub fn read(&self) -> Option<Contents> {
        match read_text(&self.path) {
            Ok(None) => None,
            Ok(Some(text)) => Some(self.understand(&text)),
            Err(error) => Some(self.unreadable(Place::START, format!("cannot be read: {error}"))),
        }
    }

    /// Understands the text of the file.
    #[must_use]
    pub fn understand(&self, text: &str) -> Contents {
        let notation = Notation::of_file(&self.path);
        if notation == Notation::Yaml && text.len() as u64 > MAX_YAML_BYTES {
            let message = format!("is longer than {MAX_YAML_BYTES} bytes");
            return self.unreadable(Place::START, message);
        }
        let root = match notation.parse(text) {
            Ok(root) => root,
            Err(error) => return self.unreadable(error.place, error.message),
        };
        let report = Report::default();
        let (mut servers, mut default) = (Vec::new(), None);
        if let Some(section) = shape(&root, self.is_of_servers(), &report) {
            default = section.shared.default;
            self.read_servers(&section, (notation, text), &report, &mut servers);
        } else if self.is_named_for_servers() {
            nothing(&root, &report);
        }
        let findings = report.into_findings().into_iter();
        let diagnostics = findings.map(|finding| {
            let about = servers
                .iter()
                .find(|(path, _)| finding.path.is_within(path));
            let server = about.map(|(_, written)| written.name.clone());
            self.diagnostic(finding, server, notation, text)
        });
        Contents {
            diagnostics: diagnostics.collect(),
            default,
            servers: servers.into_iter().map(|(_, written)| written).collect(),
            is_broken: false,
        }
    }

    /// Whether it is there for its servers, rather than one that holds much else.
    fn is_of_servers(&self) -> bool {
        self.source == Source::CommandLine || self.is_named_for_servers()
    }

    /// Whether its name or directory says so.
    fn is_named_for_servers(&self) -> bool {
        let directory = self.path.parent().unwrap_or(&self.path);
        let is_called = |name| self.path.ends_with(name);
        directory.ends_with("mcp") || is_called("mcp.json") || is_called(".mcp.json")
    }

    fn read_servers(
        &self,
        section: &Section<'_>,
        (notation, text): (Notation, &str),
        report: &Report,
        servers: &mut Vec<(Path, Written)>,
    ) {
        let mut names: BTreeMap<ServerName, String> = BTreeMap::new();
        for (count, named) in section.servers.iter().enumerate() {
            let path = &named.path;
            if count == MAX_SERVERS {
                let message = format!("only the first {MAX_SERVERS} servers are read");
                report.error(named.place, path, message);
                break;
            }
            let place = notation.locate(text, path).unwrap_or(named.place);
            let name = ServerName::of_text(named.name);
            let origin = Origin {
                file: Arc::clone(&self.path),
                place,
                source: self.source,
                trust: self.trust,
                directory: self.directory.clone(),
            };
            if let Some(other) = names.insert(name.clone(), named.name.to_owned()) {
                let message = match other == named.name {
                    true => "stands here already; the first is taken".to_owned(),
                    false => format!("is called `{name}`, as `{other}` is; rename one of them"),
                };
                report.error(named.place, path, message);
                continue;
            }
            let config = server::read(
                named.name,
                named.node,
                path,
                origin.clone(),
                &section.shared,
                report,
            );
            let written = Written {
                name,
                shown_name: named.name.to_owned(),
                origin,
                config: config.map(Box::new),
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
            message,
        };
        Contents {
            servers: Vec::new(),
            default: None,
            diagnostics: vec![diagnostic],
            is_broken: true,
        }
    }

    fn diagnostic(
        &self,
        finding: Finding,
        server: Option<ServerName>,
        notation: Notation,
        text: &str,
    ) -> Diagnostic {
        let place = notation.locate(text, &finding.path);
        Diagnostic {
            severity: finding.severity,
            file: Arc::clone(&self.path),
            place: place.unwrap_or(finding.place),
            server,
            path: finding.path.to_string(),
            message: finding.message,
        }
    }
}

/// The text of a file, if it is one; whatever else has its name is not opened, for it may block.
fn read_text(path: &path::Path) -> io::Result<Option<String>> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    fs::File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        let message = format!("it is longer than {MAX_BYTES} bytes");
        return Err(io::Error::other(message));
    }
    Ok(Some(text))
}

/// Whether there is no such file.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// The servers of a file.
pub(super) struct Section<'a> {
    pub(super) servers: Vec<Named<'a>>,
    shared: Shared,
}

pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    place: Place,
    pub(super) path: Path,
    node: &'a Node,
}

/// Finds the servers. A file may hold much else, which is not ours to judge; one that looks like
/// none of the known shapes is told so, but for a file with the settings of a program.
pub(super) fn shape<'a>(
    root: &'a Node,
    is_of_servers: bool,
    report: &'a Report,
) -> Option<Section<'a>> {
    let top = Path::default();
    let Some(members) = root.members() else {
        if root.value != Value::Null {
            let message = format!("must be an object, not {}", root.value.kind());
            report.error(root.place, &top, message);
        }
        return None;
    };
    for name in ["mcpServers", "mcp_servers", "context_servers"] {
        if let Some(member) = root.member(name) {
            return servers(member, &top.key(name), Shared::default(), report);
        }
    }
    if let Some(member) = root.member("servers") {
        let mut shared = Shared::default();
        if let Some(listed) = root.member("inputs") {
            shared.inputs = Arc::new(inputs(&listed.node, report));
        }
        return servers(member, &top.key("servers"), shared, report);
    }
    if let Some(member) = root.member("mcp") {
        return section(member, &top.key("mcp"), report);
    }
    if let Some(name) = root.member("name").and_then(|name| name.node.text())
        && ["command", "baseURL", "url", "transport"]
            .iter()
            .any(|key| root.member(key).is_some())
    {
        let alone = Named {
            name,
            place: root.place,
            path: top,
            node: root,
        };
        return Some(Section {
            servers: vec![alone],
            shared: Shared::default(),
        });
    }
    let of_servers = |member: &Member| {
        let is_reached = |key: &&str| member.node.member(key).is_some();
        ["command", "url"].iter().any(is_reached)
    };
    if members.iter().any(of_servers) {
        let message = "holds no servers where they are looked for; put them below `mcpServers`";
        report.error(root.place, &top, message);
    } else {
        misnamed(members, is_of_servers, report);
    }
    None
}

fn servers<'a>(
    member: &'a Member,
    path: &Path,
    shared: Shared,
    report: &Report,
) -> Option<Section<'a>> {
    let Some(members) = member.node.members() else {
        if member.node.value != Value::Null {
            let message = format!(
                "must be an object of servers, not {}",
                member.node.value.kind()
            );
            report.error(member.node.place, path, message);
        }
        return None;
    };
    let named = members.iter().map(|server| Named {
        name: &server.key,
        place: server.place,
        path: path.key(&server.key),
        node: &server.node,
    });
    Some(Section {
        servers: named.collect(),
        shared,
    })
}

/// `mcp`: servers, and what holds for all of them.
fn section<'a>(member: &'a Member, path: &Path, report: &'a Report) -> Option<Section<'a>> {
    let mut fields = Fields::of(&member.node, path, report)?;
    let mut shared = Shared {
        disabled: !fields.flag(&["enabled"]).unwrap_or(true),
        ..Shared::default()
    };
    if let Some(mut inner) = fields.object(&["retry"]) {
        shared.retry = server::retry(&mut inner, Retry::default());
        let _told = inner.end();
    }
    let second = Duration::from_secs(1);
    let day = Duration::from_secs(86_400);
    shared.health_interval = fields.duration(&["health_check_interval"], second..=day);
    let calls = fields.number(&["max_concurrent"], 1..=100);
    shared.concurrency = calls.and_then(|calls| u32::try_from(calls).ok());
    if let Some(listed) = fields.take(&["inputs"]) {
        shared.inputs = Arc::new(inputs(&listed.node, report));
    }
    shared.default = server::default(&mut fields);
    if shared.default.is_none() && fields.take(&["default"]).is_some() {
        // What cannot be understood must not let calls through.
        shared.default = Some(Effect::Deny);
    }
    fields.ignore(&["prefer_mcp"]);
    let found = fields.take(&["servers"]);
    // What is wrong beside the servers is told, and harms none of them.
    let _told = fields.end();
    let Some(found) = found else {
        return Some(Section {
            servers: Vec::new(),
            shared,
        });
    };
    servers(found, &path.key("servers"), shared, report)
}

/// `inputs`: what `${input:ID}` may mean.
fn inputs(node: &Node, report: &Report) -> BTreeMap<String, Input> {
    let path = Path::default().key("inputs");
    let Value::List(items) = &node.value else {
        let message = format!("must be a list, not {}", node.value.kind());
        report.warn(node.place, &path, message);
        return BTreeMap::new();
    };
    let read = |item: &Node| {
        let text = |key: &str| {
            let member = item.member(key)?;
            member.node.text().map(str::to_owned)
        };
        let is_secret = item
            .member("password")
            .is_some_and(|member| member.node.value == Value::Bool(true));
        let input = Input {
            description: text("description"),
            default: text("default"),
            is_secret,
        };
        Some((text("id")?, input))
    };
    items.iter().filter_map(read).collect()
}
