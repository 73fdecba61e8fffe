//! The list of plugins that a `plugins.yaml` is, as it is read by every orchestrator: its keys and
//! nothing beside them, and texts as they stand.

use std::{
    path::{self, PathBuf},
    sync::Arc,
};

use super::{
    Trust,
    fields::Fields,
    node::{Node, Path, Value},
    report::Report,
    shape::{Kind, Named, Section},
};

/// Whose keys and texts a plugin is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wording {
    /// Those of `orchestra.toml`.
    Ours,
    /// Those of a `plugins.yaml`.
    List,
}

/// What a `plugins.yaml` says beside its plugins. Nothing of it is checked, and of a file that
/// [others may have written](Trust::Ask) nothing may be used that opens something to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginsFile {
    /// The file.
    pub file: Arc<path::Path>,
    /// Whether the user chose it.
    pub trust: Trust,
    /// Its directory, absolute.
    pub directory: PathBuf,
    /// Where the orchestrator listens by QUIC.
    pub listen_addr: Option<String>,
    /// Where certificates are.
    pub certs_dir: Option<String>,
    /// Where an orchestrator of the past listened without encryption. Never served.
    pub tcp_addr: Option<String>,
}

/// What stands beside the plugins.
#[derive(Debug, Default)]
pub(super) struct Beside {
    pub(super) listen_addr: Option<String>,
    pub(super) certs_dir: Option<String>,
    pub(super) tcp_addr: Option<String>,
}

/// The directory of a file, absolute.
pub(super) fn beside(file: &path::Path) -> PathBuf {
    let absolute = path::absolute(file).unwrap_or_else(|_| file.to_owned());
    absolute.parent().map(PathBuf::from).unwrap_or(absolute)
}

/// Finds the plugins, and what stands beside them.
pub(super) fn read<'a>(root: &'a Node, report: &'a Report) -> (Section<'a>, Beside) {
    let mut section = Section {
        is_known: true,
        ..Section::default()
    };
    let top = Path::default();
    // A file that says nothing lists nothing.
    if root.value == Value::Null {
        return (section, Beside::default());
    }
    let Some(mut fields) = Fields::of(root, &top, report) else {
        return (section, Beside::default());
    };
    let beside = Beside {
        listen_addr: fields.text(&["listen_addr"]),
        certs_dir: fields.text(&["certs_dir"]),
        tcp_addr: fields.text(&["tcp_addr"]),
    };
    if let Some(member) = fields.take(&["tcp_addr"]) {
        let message = "is not served: plain TCP neither authenticates callers nor encrypts; plugins and bridges use `listen_addr`";
        report.warn(member.place, &top.key(&member.key), message);
    }
    if let Some(member) = fields.take(&["plugins"]) {
        section.servers = plugins(&member.node, &top.key(&member.key), report);
    }
    // What is wrong beside the plugins is told, and harms none of them.
    let _told = fields.end();
    (section, beside)
}

fn plugins<'a>(node: &'a Node, path: &Path, report: &Report) -> Vec<Named<'a>> {
    let Value::List(items) = &node.value else {
        let message = format!("must be a list of plugins, not {}", node.value.kind());
        report.error(node.place, path, message);
        return Vec::new();
    };
    let mut all: Vec<(Named<'a>, bool)> = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        let path = path.index(place);
        let id = item.member("id").and_then(|member| member.node.text());
        let Some(id) = id else {
            let message = "must be an object with an `id`; it is ignored";
            report.error(item.place, &path, message);
            continue;
        };
        let named = Named {
            name: id,
            place: item.place,
            path,
            node: item,
            kind: Kind::Plugin(Wording::List),
        };
        all.push((named, is_enabled(item)));
    }
    // One that is left out takes no id from one that is not.
    let enabled: Vec<&str> = all
        .iter()
        .filter(|(_, enabled)| *enabled)
        .map(|(named, _)| named.name)
        .collect();
    let enabled: std::collections::BTreeSet<&str> = enabled.into_iter().collect();
    all.into_iter()
        .filter(|(named, is_enabled)| *is_enabled || !enabled.contains(named.name))
        .map(|(named, _)| named)
        .collect()
}

/// Whether an entry is not skipped: only where it says so.
fn is_enabled(entry: &Node) -> bool {
    let member = entry.member("enabled");
    member.is_some_and(|member| flag(&member.node) == Some(true))
}

/// Yes or no, as the files of the past have it.
pub(super) fn flag(node: &Node) -> Option<bool> {
    match &node.value {
        Value::Bool(flag) => Some(*flag),
        Value::Text(text) => match text.to_ascii_lowercase().as_str() {
            "y" | "yes" | "on" => Some(true),
            "n" | "no" | "off" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

impl Beside {
    /// As it is told of its file.
    pub(super) fn of_file(self, file: &Arc<path::Path>, trust: Trust) -> PluginsFile {
        PluginsFile {
            file: Arc::clone(file),
            trust,
            directory: beside(file),
            listen_addr: self.listen_addr,
            certs_dir: self.certs_dir,
            tcp_addr: self.tcp_addr,
        }
    }
}
