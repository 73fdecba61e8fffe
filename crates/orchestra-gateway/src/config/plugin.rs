//! Plugins, and orchestrators elsewhere: what is reached by the plugin protocol.

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr, time::Duration};

use super::{InheritEnv, Template};

/// The longest id.
const MAX_CHARS: usize = 64;

/// The longest part of an id between two dots.
const MAX_PART_CHARS: usize = 63;

/// How long a plugin may take to answer that it has shut down when nothing is said. With the time
/// after SIGTERM it stays within the ten seconds that a whole stop may take.
pub const DEFAULT_SHUTDOWN: Duration = Duration::from_secs(5);

/// What is said of the certificates of a plugin of the past.
pub(super) const LEGACY: &str = "legacy";

/// The id of a plugin, as `tools.features`: 1 to 64 of `A`–`Z`, `a`–`z`, `0`–`9`, `.`, `_` and `-`,
/// in parts between dots that a server's name in TLS may have: 1 to 63 characters, no `-` at an end,
/// the last of them no number. It names certificates and logs, and leads nowhere as a part of a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId(String);

/// A text that is no id of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginIdError {
    /// It cannot be one.
    #[error(
        "the id of the plugin is not valid; use 1 to 64 letters, digits, `_`, `-` and dots. Each part between dots \
         must have 1 to 63 characters and no `-` at its start or end, and the last part must not be a number"
    )]
    Form,
    /// Somebody else is known by it, or would be by the names of its certificates.
    #[error(
        "this name is reserved for orchestrators, bridges and authorities; choose another name for the plugin. Reserved are `orchestrator`, `transport.stdio`, `ca`, names that begin with `orchestrator-` or `ca-`, and names that end in `-client`"
    )]
    Reserved,
}

/// Names that are not plugins', in small letters, as some file systems take all names.
const RESERVED: [&str; 5] = [
    "ca",
    "orchestrator",
    "quic-bridge-server",
    "transport.quic-bridge",
    "transport.stdio",
];

impl PluginId {
    /// The id itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PluginId {
    type Err = PluginIdError;

    fn from_str(text: &str) -> Result<Self, PluginIdError> {
        let permitted = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_id = (1..=MAX_CHARS).contains(&text.len())
            && text.bytes().all(permitted)
            && text.split('.').all(is_part)
            && !text.rsplit('.').next().is_some_and(is_number);
        if !is_id {
            return Err(PluginIdError::Form);
        }
        let small = text.to_ascii_lowercase();
        let is_reserved = RESERVED.contains(&small.as_str())
            || small.starts_with("orchestrator-")
            || small.starts_with("ca-")
            || small.ends_with("-client");
        match is_reserved {
            true => Err(PluginIdError::Reserved),
            false => Ok(Self(text.to_owned())),
        }
    }
}

fn is_part(part: &str) -> bool {
    (1..=MAX_PART_CHARS).contains(&part.len()) && !part.starts_with('-') && !part.ends_with('-')
}

/// Whether a name that ends with this looks like an address
/// (<https://url.spec.whatwg.org/#ends-in-a-number-checker>).
fn is_number(part: &str) -> bool {
    let hex = part.strip_prefix("0x").or_else(|| part.strip_prefix("0X"));
    part.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A process that speaks the plugin protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginConfig {
    /// Its id, as it was written.
    pub id: PluginId,
    /// The program: a path that starts from `directory`. It is not looked up in `PATH`.
    pub binary: Template,
    /// The directory of the file that it stands in, absolute.
    pub directory: PathBuf,
    /// Its arguments, before those that every plugin is given.
    pub args: Vec<Template>,
    /// Its environment, beside what it inherits.
    pub env: BTreeMap<String, Template>,
    /// What it inherits of our environment.
    pub inherit_env: InheritEnv,
    /// Where it runs; where servers of its file do when nothing is said. Relative to that.
    pub cwd: Option<Template>,
    /// What it is told when it is booted. May hold secrets.
    pub config: BTreeMap<String, Template>,
    /// The kinds of storage that it keeps.
    pub provides_storage: Vec<String>,
    /// The providers of models that it stands for.
    pub provides_ai: Vec<String>,
    /// What it may have of what it needs.
    pub permit: Permit,
    /// The plugins that are started before it.
    pub depends_on: Vec<PluginId>,
    /// How long it may take to answer that it has shut down, until it is told to end.
    pub shutdown: Duration,
    /// Whether it may have been written for an orchestrator of the past, whose plugins share the key of
    /// their authority: it is one of a `plugins.yaml`, or is said to be such a one.
    pub is_legacy: bool,
}

/// What a plugin may have of what its manifest says that it needs: names, in which `*` stands for any
/// text. What is not said is not bounded here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permit {
    /// Tools that it may call.
    pub tools: Option<Vec<String>>,
    /// Kinds of storage.
    pub storage: Option<Vec<String>>,
    /// Providers of models.
    pub ai: Option<Vec<String>>,
    /// Topics that it may subscribe to.
    pub events: Option<Vec<String>>,
}

impl Permit {
    /// Each kind with its names, where they are bounded.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let kinds = [
            ("tools", &self.tools),
            ("storage", &self.storage),
            ("ai", &self.ai),
            ("events", &self.events),
        ];
        let said = kinds.into_iter();
        said.filter_map(|(kind, names)| Some((kind, names.as_deref()?)))
    }
}

/// An orchestrator elsewhere, which is reached as a plugin reaches its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrchestratorConfig {
    /// Where it is: `host:port`.
    pub address: Template,
    /// The directory of our certificates; the usual one when nothing is said. Relative to the
    /// directory that paths of its file start from.
    pub certs_dir: Option<Template>,
}

/// A host and a port, as `hub.example:7421` or `[::1]:7421`; `None` for anything else.
#[must_use]
pub fn host_and_port(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inner) => {
            let host = inner.strip_suffix(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            host
        }
        None => host,
    };
    let is_bracketed = address.starts_with('[');
    let permitted = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_host = is_bracketed || (!host.is_empty() && host.bytes().all(permitted));
    // Signs and spaces are no part of a port, whatever a parser of numbers takes.
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| is_port && *port != 0)?;
    (is_host && host.len() <= MAX_HOST_CHARS).then(|| (host.to_owned(), port))
}

/// The longest name of a host (RFC 1035, 2.3.4).
const MAX_HOST_CHARS: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_dotted_and_leads_nowhere() {
        for text in [
            "tools.features",
            "a",
            "A_b-1.x",
            "2.a",
            "0x.a",
            "a--b",
            &"a".repeat(63),
        ] {
            assert_eq!(text.parse::<PluginId>().unwrap().as_str(), text);
        }
        for text in [
            "",
            ".",
            "..",
            ".a",
            "a/b",
            "a b",
            "ä",
            "a\n",
            &"a".repeat(64),
            &format!("{}.{}", "a".repeat(32), "b".repeat(32)),
            "a..b",
            "a.",
            "a-",
            "-a",
            "a-.b",
            "7",
            "tools.2",
            "10.0.0.1",
            "tools.0x1F",
        ] {
            assert_eq!(
                text.parse::<PluginId>(),
                Err(PluginIdError::Form),
                "{text:?}"
            );
        }
        // Whose certificates it would be given.
        for text in [
            "transport.stdio",
            "Transport.Stdio",
            "transport.stdio-client",
            "tools.a-client",
            "orchestrator",
            "orchestrator-to-tools.a",
            "CA",
            "ca-previous",
        ] {
            let parsed = text.parse::<PluginId>();
            assert_eq!(parsed, Err(PluginIdError::Reserved), "{text}");
        }
    }

    #[test]
    fn an_address_is_a_host_with_a_port() {
        for (text, host, port) in [
            ("hub.example:7421", "hub.example", 7421),
            ("127.0.0.1:1", "127.0.0.1", 1),
            ("[::1]:65535", "::1", 65535),
        ] {
            assert_eq!(host_and_port(text), Some((host.to_owned(), port)));
        }
        for text in [
            "",
            ":",
            "hub",
            "hub:",
            ":1",
            "hub:0",
            "hub:65536",
            "hub:+1",
            "::1:1",
            "[x]:1",
            "[::1:1",
            "a b:1",
            "https://hub:1",
            "u@hub:1",
        ] {
            assert_eq!(host_and_port(text), None, "{text}");
        }
    }
}
