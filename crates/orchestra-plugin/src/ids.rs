//! Names of plugins and of certificates, parsed before anything is made of them.
//!
//! A name becomes a file name, a common name and a DNS name, so its alphabet is narrow and it never
//! starts with a dot.

use std::{fmt, str::FromStr};

/// The longest id of a plugin.
pub const MAX_ID_CHARS: usize = 64;

/// What an orchestrator puts before the id of a plugin to name itself towards it.
const TOWARDS: &str = "orchestrator-to-";

/// What a plugin puts after its id to name itself towards the orchestrator.
const CLIENT: &str = "-client";

/// The longest name of a certificate: the longest id behind the longest prefix.
pub const MAX_NAME_CHARS: usize = MAX_ID_CHARS + TOWARDS.len();

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty or too long.
    #[error("a name has 1 to {most} characters, this one has {found}")]
    Length {
        /// The most that is allowed.
        most: usize,
        /// What was found.
        found: usize,
    },
    /// It starts with a dot.
    #[error("a name does not start with a dot")]
    Dot,
    /// It holds a character outside the alphabet.
    #[error("a name consists of letters, digits, `.`, `_` and `-`, not of {found:?}")]
    Character {
        /// The first such character.
        found: char,
    },
}

/// The id of a plugin, such as `tools.features`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId(String);

impl PluginId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the certificate that the plugin's server presents.
    pub fn server_name(&self) -> CertName {
        CertName(self.0.clone())
    }

    /// The name of the certificate that the plugin presents to the orchestrator.
    pub fn client_name(&self) -> CertName {
        CertName(format!("{}{CLIENT}", self.0))
    }

    /// The name of the certificate that the orchestrator presents to the plugin.
    pub fn orchestrator_name(&self) -> CertName {
        CertName(format!("{TOWARDS}{}", self.0))
    }
}

/// The name in a certificate, which is the identity of who holds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertName(String);

impl CertName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The plugin that calls the orchestrator under this name, if it is such a name.
    pub fn plugin_client(&self) -> Option<PluginId> {
        self.0.strip_suffix(CLIENT)?.parse().ok()
    }
}

impl FromStr for PluginId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        parse(text, MAX_ID_CHARS).map(Self)
    }
}

impl FromStr for CertName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        parse(text, MAX_NAME_CHARS).map(Self)
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CertName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn parse(text: &str, most: usize) -> Result<String, NameError> {
    let foreign = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if let Some(found) = text.chars().take(most + 1).find(foreign) {
        return Err(NameError::Character { found });
    }
    if text.is_empty() || text.len() > most {
        return Err(NameError::Length {
            most,
            found: text.chars().count(),
        });
    }
    if text.starts_with('.') {
        return Err(NameError::Dot);
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_ids() {
        for good in ["a", "tools.features", "A_b-9", &"x".repeat(64)] {
            assert_eq!(good.parse::<PluginId>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "a/b",
            "a\\b",
            "a b",
            "ä",
            "a\0",
            "a\n",
            &"x".repeat(65),
        ] {
            assert!(bad.parse::<PluginId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_plugin_has_a_name_for_each_side() {
        let id: PluginId = "tools.features".parse().unwrap();
        assert_eq!(id.client_name().as_str(), "tools.features-client");
        assert_eq!(id.client_name().plugin_client(), Some(id.clone()));
        assert_eq!(id.server_name().plugin_client(), None);
        let longest: PluginId = "x".repeat(64).parse().unwrap();
        let name = longest.orchestrator_name();
        assert_eq!(name.as_str().parse::<CertName>(), Ok(name.clone()));
    }
}
