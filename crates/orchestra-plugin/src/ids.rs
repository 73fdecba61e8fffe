//! Names of plugins and of certificates, parsed before anything is made of them.
//!
//! A name becomes a file name, a common name and a DNS name, so its alphabet is narrow and it never
//! starts with a dot.

use std::{fmt, str::FromStr};

/// The longest id of a plugin.
pub const MAX_ID_CHARS: usize = 64;

/// The longest part of an id between two dots.
const MAX_PART_CHARS: usize = 63;

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
    #[error("a name of {found} characters is not possible; use 1 to {most} characters")]
    Length {
        /// The most that is allowed.
        most: usize,
        /// What was found.
        found: usize,
    },
    /// It starts with a dot.
    #[error("a name must not start with a dot")]
    Dot,
    /// A part of an id is none of a server's name in TLS, so nobody could connect to it.
    #[error("{0}; clients could not connect to this plugin, because its id is its TLS server name")]
    Part(&'static str),
    /// It holds a character outside the alphabet.
    #[error("a name must not contain {found:?}; use letters, digits, `.`, `_` and `-`")]
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

    /// The plugin or program that it belongs to, whichever of its certificates it names.
    ///
    /// # Errors
    /// Nobody can have it: what remains is no id of a plugin.
    pub fn owner(&self) -> Result<PluginId, NameError> {
        let name = self.0.strip_prefix(TOWARDS).unwrap_or(&self.0);
        name.strip_suffix(CLIENT).unwrap_or(name).parse()
    }
}

impl FromStr for PluginId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let id = parse(text, MAX_ID_CHARS)?;
        check_parts(&id)?;
        Ok(Self(id))
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

/// Refuses what is no name of a server (RFC 1035, 2.3.1), or looks like an address
/// (<https://url.spec.whatwg.org/#ends-in-a-number-checker>).
fn check_parts(id: &str) -> Result<(), NameError> {
    for part in id.split('.') {
        let why = match part {
            "" => "two dots follow each other, or it ends with one",
            _ if part.len() > MAX_PART_CHARS => "more than 63 characters are between two dots",
            _ if part.starts_with('-') || part.ends_with('-') => {
                "a `-` is beside a dot, at the beginning or at the end"
            }
            _ => continue,
        };
        return Err(NameError::Part(why));
    }
    let last = id.rsplit('.').next().unwrap_or(id);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match is_number {
        true => Err(NameError::Part("what comes after the last dot is a number")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustls_pki_types::ServerName;

    use super::*;

    #[test]
    fn only_plain_names_are_ids() {
        for good in ["a", "tools.features", "A_b-9", &"x".repeat(63)] {
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
    fn an_id_that_nobody_could_connect_to_is_refused_with_words() {
        for (bad, why) in [
            ("a..b", "two dots"),
            ("a.", "two dots"),
            ("a-", "a `-`"),
            ("-a", "a `-`"),
            ("a.-b", "a `-`"),
            ("a-.b", "a `-`"),
            (&"x".repeat(64), "more than 63"),
            ("7", "a number"),
            ("tools.2", "a number"),
            ("10.0.0.1", "a number"),
            ("tools.0x1F", "a number"),
            ("tools.0X", "a number"),
        ] {
            let told = bad.parse::<PluginId>().unwrap_err().to_string();
            assert!(told.contains(why), "{bad}: {told}");
        }
        for good in ["2.tools", "tools.2x", "0x.a", "a--b", "_a", "a_", "x0x1"] {
            assert!(good.parse::<PluginId>().is_ok(), "{good}");
        }
    }

    proptest! {
        #[test]
        fn every_id_is_the_name_of_a_server(text in "[A-Za-z0-9._-]{1,66}|[0-9x.a-]{1,8}") {
            if let Ok(id) = text.parse::<PluginId>() {
                let name = ServerName::try_from(id.as_str());
                prop_assert!(matches!(name, Ok(ServerName::DnsName(_))), "{}", text);
            }
        }
    }

    #[test]
    fn a_plugin_has_a_name_for_each_side() {
        let id: PluginId = "tools.features".parse().unwrap();
        assert_eq!(id.client_name().as_str(), "tools.features-client");
        assert_eq!(id.client_name().plugin_client(), Some(id.clone()));
        assert_eq!(id.server_name().plugin_client(), None);
        for name in [id.server_name(), id.client_name(), id.orchestrator_name()] {
            assert_eq!(name.owner(), Ok(id.clone()));
        }
        for nobody in [
            "tools.2",
            "tools.2-client",
            "orchestrator-to-tools.2",
            "-client",
        ] {
            let name: CertName = nobody.parse().unwrap();
            assert!(name.owner().is_err(), "{nobody}");
        }
        let longest: PluginId = ("x".repeat(32) + "." + &"y".repeat(31)).parse().unwrap();
        let name = longest.orchestrator_name();
        assert_eq!(name.as_str().parse::<CertName>(), Ok(name.clone()));
    }
}
