//! Where plugins and bridges reach `up`, and with which certificates. The workspace's file may move
//! it to another port of this machine, and say whose tool is meant where two have the same name: who may
//! be let in is not for a repository to say, and whoever holds the key of an authority is let in by it.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::{self, Path, PathBuf},
    str::FromStr,
};

use clap::Args;
use orchestra_gateway::config::PluginsFile;
use orchestra_plugin::{certs::CertDir, ids::PluginId};

use super::{Entry, Setting, file::ConfigFile, flag, settle};
use crate::{env::Variable, exit::Failure, http};

/// Address and certificates for plugins and bridges
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct QuicFlags {
    /// Address to listen on for plugins and bridges, such as 127.0.0.1:7421 or 7421, or `off`. If the port is
    /// in use, the next free one is taken; 0 takes any free port [default: 127.0.0.1:7421]
    #[arg(long, value_name = "ADDR")]
    pub(crate) quic: Option<QuicAddress>,
    /// Certificate directory of plugins, bridges and orchestrators [default: ~/.orchestra/certs]
    #[arg(long, value_name = "DIR")]
    pub(crate) certs_dir: Option<String>,
    /// Id of a plugin that may connect without being started by `up`, such as one on another machine; may be
    /// repeated
    #[arg(long, value_name = "ID")]
    pub(crate) admit: Vec<PluginId>,
}

/// Where to listen for plugins and bridges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuicAddress {
    /// Nowhere, but for the plugins of this program.
    Off,
    /// There.
    At(SocketAddr),
}

/// Text that is neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an address to listen on; use a form such as 127.0.0.1:7421, localhost:7421, 7421 or off"
)]
pub(crate) struct QuicAddressError;

impl FromStr for QuicAddress {
    type Err = QuicAddressError;

    fn from_str(text: &str) -> Result<Self, QuicAddressError> {
        match text {
            "off" => Ok(Self::Off),
            text => {
                let address = http::parse_address(text).map_err(|_| QuicAddressError)?;
                Ok(Self::At(address))
            }
        }
    }
}

impl fmt::Display for QuicAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl QuicAddress {
    /// Whether other machines may be let in there.
    const fn is_open(self) -> bool {
        match self {
            Self::Off => false,
            Self::At(address) => !address.ip().is_loopback(),
        }
    }
}

/// Where plugins and bridges reach the program, and with which certificates.
#[derive(Debug, Clone)]
pub(crate) struct QuicConfig {
    /// Where `up` listens.
    pub(crate) address: Setting<QuicAddress>,
    /// The directory of certificates as it was named; a leading `~` is the home, and nothing the
    /// usual one.
    pub(crate) certs: Setting<String>,
    /// Plugins that come in by themselves.
    pub(crate) admit: Setting<Vec<PluginId>>,
    /// Whether tools of the provider of models `claude` go before others of the same name.
    pub(crate) claude_first: Setting<bool>,
}

/// What a configuration file sets.
#[derive(Debug, Default)]
pub(super) struct QuicFile {
    pub(super) address: Option<QuicAddress>,
    pub(super) certs: Option<String>,
    pub(super) admit: Option<Vec<PluginId>>,
    pub(super) claude_first: Option<bool>,
}

impl QuicFile {
    /// Whether it says who is let in.
    pub(super) fn lets_in(&self) -> bool {
        self.certs.is_some()
            || self.admit.is_some()
            || self.address.is_some_and(QuicAddress::is_open)
    }

    /// Takes paths as relative to the directory of the file.
    pub(super) fn resolve(&mut self, directory: &Path) {
        if let Some(certs) = &mut self.certs
            && !certs.starts_with('~')
        {
            *certs = directory.join(&*certs).to_string_lossy().into_owned();
        }
    }
}

impl QuicFlags {
    /// These flags, and where they say nothing, what the first of the lists of plugins says that the
    /// command line names. A list that was only found is not asked: it came with the workspace, and
    /// must neither open an address nor say whom to trust.
    ///
    /// # Errors
    /// When such a list says where to listen and that is no address.
    pub(super) fn or_of(self, lists: &[PluginsFile]) -> Result<Self, Failure> {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let address = |list: &PluginsFile| {
            let text = said(&list.listen_addr)?;
            let wrong = |error| {
                let file = list.file.display();
                anyhow::Error::new(error).context(format!("{file}: listen_addr: {text:?}"))
            };
            Some(text.parse().map_err(wrong))
        };
        let certs = |list: &PluginsFile| {
            let named = said(&list.certs_dir)?;
            // Paths of a list start from its directory.
            match named == "~" || named.starts_with("~/") {
                true => Some(named),
                false => Some(list.directory.join(named).to_string_lossy().into_owned()),
            }
        };
        Ok(Self {
            quic: match self.quic {
                Some(given) => Some(given),
                None => lists.iter().find_map(address).transpose()?,
            },
            certs_dir: self.certs_dir.or_else(|| lists.iter().find_map(certs)),
            admit: self.admit,
        })
    }
}

impl QuicConfig {
    pub(super) fn settle(flags: QuicFlags, files: &[(PathBuf, ConfigFile)]) -> Self {
        let usual = QuicAddress::At((Ipv4Addr::LOCALHOST, DEFAULT_PORT).into());
        Self {
            address: settle(flag(flags.quic), files, |file| file.quic.address, || usual),
            certs: settle(
                flag(flags.certs_dir),
                files,
                |file| file.quic.certs.clone(),
                String::new,
            ),
            admit: settle(
                flag(Some(flags.admit).filter(|ids| !ids.is_empty())),
                files,
                |file| file.quic.admit.clone(),
                Vec::new,
            ),
            claude_first: settle(None, files, |file| file.quic.claude_first, || false),
        }
    }

    /// The directory of certificates, which may not be there yet.
    ///
    /// # Errors
    /// When it is below the home and nobody knows that: what to do.
    pub(crate) fn directory(&self) -> Result<PathBuf, String> {
        certs_directory(&self.certs.value)
    }

    pub(super) fn entries(&self) -> [Entry; 4] {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        [
            Entry {
                key: "quic",
                value: quoted(&self.address.value.to_string()),
                meaning: "address on which `orchestra up` listens for plugins and bridges, or off; if the port is in use, the next free port",
                origin: self.address.origin.clone(),
            },
            Entry {
                key: "certs_dir",
                value: quoted(match &*self.certs.value {
                    "" => USUAL,
                    named => named,
                }),
                meaning: "directory of the certificates with which plugins, bridges and orchestrators authenticate each other",
                origin: self.certs.origin.clone(),
            },
            Entry {
                key: "admit",
                value: list(&self.admit.value),
                meaning: "ids of plugins that may connect without being started by Orchestra",
                origin: self.admit.origin.clone(),
            },
            Entry {
                key: "claude_first",
                value: self.claude_first.value.to_string(),
                meaning: "whether plugins and bridges that name no model provider reach the tools of `claude` before other tools of the same name",
                origin: self.claude_first.origin.clone(),
            },
        ]
    }
}

fn list(ids: &[PluginId]) -> String {
    let ids = ids.iter().map(|id| toml::Value::from(id.as_str()));
    toml::Value::Array(ids.collect()).to_string()
}

/// Beside that of HTTP.
const DEFAULT_PORT: u16 = 7421;

/// The directory of certificates where none is named, as it is written.
const USUAL: &str = "~/.orchestra/certs";

/// The directory of certificates that a text names, which may not be there yet.
///
/// # Errors
/// When it is below the home and nobody knows that: what to do.
fn certs_directory(named: &str) -> Result<PathBuf, String> {
    let home = Variable::Home.directory();
    let located = CertDir::locate(named, home.as_deref()).map_err(|error| error.to_string())?;
    // What is told of it is for programs that run elsewhere.
    path::absolute(located).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_or_off() {
        let at = |text: &str| Ok(QuicAddress::At(text.parse().unwrap()));
        for (text, expected) in [
            ("off", Ok(QuicAddress::Off)),
            ("7421", at("127.0.0.1:7421")),
            ("localhost:0", at("127.0.0.1:0")),
            ("[::1]:1", at("[::1]:1")),
            ("0.0.0.0:1", at("0.0.0.0:1")),
            ("", Err(QuicAddressError)),
            ("on", Err(QuicAddressError)),
            ("hub.example:1", Err(QuicAddressError)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
            if let Ok(address) = expected {
                assert_eq!(address.to_string().parse(), Ok(address));
            }
        }
    }

    #[test]
    fn a_file_lets_in_by_its_authority_or_to_other_machines() {
        let file = |address: Option<&str>, certs: Option<&str>| QuicFile {
            address: address.map(|text| text.parse().unwrap()),
            certs: certs.map(str::to_owned),
            ..QuicFile::default()
        };
        assert!(!file(None, None).lets_in());
        assert!(!file(Some("off"), None).lets_in());
        assert!(!file(Some("127.0.0.1:1"), None).lets_in());
        assert!(file(Some("0.0.0.0:1"), None).lets_in());
        assert!(file(None, Some("certs")).lets_in());
    }
}
