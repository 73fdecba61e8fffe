//! The name of a plugin that is made: of its package, its program and, behind `tools.`, its id.

use std::{fmt, str::FromStr};

/// A name that is a package of Cargo and a part of a plugin's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(String);

/// The longest name; behind `tools.` it is still the id of a plugin, and with `_greet` a tool.
const MAX_CHARS: usize = 50;

/// Names that Cargo or the compiler keep for themselves, and those of what the project is made with.
const TAKEN: [&str; 62] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "orchestra-plugin",
    "orchestra_plugin",
    "override",
    "priv",
    "proc-macro",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "schemars",
    "self",
    "serde",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "use",
    "where",
    "while",
];

/// A text that is no such name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameError {
    #[error(
        "a plugin's name must have 1 to {MAX_CHARS} characters of a-z, 0-9, `_` and `-`, and start with a letter"
    )]
    Form,
    #[error("`{0}` is reserved by Rust or Cargo; choose another name")]
    Taken(String),
}

impl Name {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The plugin's id.
    pub(super) fn id(&self) -> String {
        format!("tools.{}", self.0)
    }

    /// The name of its tool, which no other plugin made so has.
    pub(super) fn tool(&self) -> String {
        format!("{}_greet", self.0.replace('-', "_"))
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let permitted =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        let is_name = (1..=MAX_CHARS).contains(&text.len())
            && text.bytes().all(permitted)
            && text.starts_with(|first: char| first.is_ascii_lowercase());
        match is_name {
            false => Err(NameError::Form),
            true if TAKEN.contains(&text) => Err(NameError::Taken(text.to_owned())),
            true => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_package_and_a_part_of_an_id() {
        for good in ["hello", "a", "my-tool_2", &"x".repeat(MAX_CHARS)] {
            let name: Name = good.parse().unwrap();
            let id: orchestra_plugin::ids::PluginId = name.id().parse().unwrap();
            assert_eq!(id.as_str(), format!("tools.{good}"));
        }
        let long = "x".repeat(MAX_CHARS + 1);
        for bad in [
            "", "1a", "-a", "A", "a.b", "a/b", "..", "a b", "ä", "a\n", &long,
        ] {
            assert_eq!(bad.parse::<Name>(), Err(NameError::Form), "{bad:?}");
        }
        for taken in TAKEN {
            assert_eq!(taken.parse::<Name>(), Err(NameError::Taken(taken.into())));
        }
    }

    #[test]
    fn a_tool_has_a_name_of_its_own() {
        let name: Name = "my-tool".parse().unwrap();
        assert_eq!(name.tool(), "my_tool_greet");
    }
}
