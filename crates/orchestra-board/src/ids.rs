//! Names of things, parsed at the edge: no value of these types can leave the directory it names.

use std::fmt;

use crate::text::composed;

/// Text that is not an id of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not {expected}")]
pub struct IdError {
    shown: String,
    expected: &'static str,
}

impl IdError {
    fn new(text: &str, expected: &'static str) -> Self {
        let mut shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
        if text.chars().nth(40).is_some() {
            shown.push('…');
        }
        Self { shown, expected }
    }
}

/// The slug of a project, also the name of its directory: 1 to 64 of `a-z0-9-`, no `-` at an end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slug(String);

/// The key of a project, the front of its issue ids: 1 to 10 of `A-Z0-9`, neither `BUG` nor `REQ`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

/// The id of an issue, `{KEY}-{n}` or `BUG-{n}`; unique in its project and never used again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IssueId {
    prefix: String,
    number: u64,
}

/// Who works: a name of 1 to 64 printable characters that an agent or a person gives itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentName(String);

/// A label: 1 to 50 printable characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(String);

/// The id of a session, chosen by its caller: 1 to 128 of `A-Za-z0-9._-`, not starting with a
/// point, and not `index`, which names a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

/// The name of a saved plan: a slug of at most 64 characters, without the file's ending.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlanId(String);

fn slug_text(text: &str, max: usize) -> String {
    let latin = deunicode::deunicode(&composed(text)).to_ascii_lowercase();
    let mut slug = String::new();
    for word in latin
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(word);
    }
    slug.truncate(max);
    slug.trim_end_matches('-').to_owned()
}

fn is_slug(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

impl Slug {
    /// The most bytes a slug may have.
    pub const MAX_BYTES: usize = 64;

    /// Parses a slug.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        is_slug(text, Self::MAX_BYTES)
            .then(|| Self(text.to_owned()))
            .ok_or_else(|| IdError::new(text, "a project slug: 1 to 64 of a-z, 0-9 and -"))
    }

    /// The slug of a name: transliterated to Latin letters, other characters made `-`.
    /// `None` when nothing is left.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::parse(&slug_text(name, Self::MAX_BYTES)).ok()
    }

    /// The slug of a project whose name gives none: `project-{n}`.
    #[must_use]
    pub fn numbered(number: u64) -> Self {
        Self(format!("project-{number}"))
    }

    /// The slug of phase `number` of this project; `None` when it would be too long.
    #[must_use]
    pub fn phase(&self, number: u32) -> Option<Self> {
        Self::parse(&format!("{}-phase-{number}", self.0)).ok()
    }

    /// The slug as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PlanId {
    /// Parses a plan's name; an ending `.md` is dropped.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let name = text.strip_suffix(".md").unwrap_or(text);
        is_slug(name, Slug::MAX_BYTES)
            .then(|| Self(name.to_owned()))
            .ok_or_else(|| IdError::new(text, "a plan's name: 1 to 64 of a-z, 0-9 and -"))
    }

    /// The name for a title; `None` when the title has no letter or digit that can be
    /// transliterated.
    #[must_use]
    pub fn of_title(title: &str) -> Option<Self> {
        Self::parse(&slug_text(title, Slug::MAX_BYTES)).ok()
    }

    /// The name for the `number`th plan whose title gives none.
    #[must_use]
    pub fn numbered(number: u64) -> Self {
        Self(format!("plan-{number}"))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Key {
    const MAX_BYTES: usize = 10;

    /// Parses a key.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let legal = (1..=Self::MAX_BYTES).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
            && !matches!(text, "BUG" | "REQ");
        legal.then(|| Self(text.to_owned())).ok_or_else(|| {
            IdError::new(
                text,
                "a project key: 1 to 10 of A-Z and 0-9, not BUG or REQ",
            )
        })
    }

    /// The keys to try for a project's name, best first and without end: the initials of its words
    /// (`PRJ` when there are none), then the same with 2, 3, … behind.
    pub fn candidates(name: &str) -> impl Iterator<Item = Self> {
        let latin = deunicode::deunicode(&composed(name));
        let words = latin
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty());
        let mut initials: String = words
            .filter_map(|word| word.chars().next())
            .take(6)
            .map(|c| c.to_ascii_uppercase())
            .collect();
        if initials.is_empty() {
            "PRJ".clone_into(&mut initials);
        }
        let numbered = initials.clone();
        std::iter::once(initials)
            .chain((2_u32..10_000).map(move |number| format!("{numbered}{number}")))
            .filter_map(|text| Self::parse(&text).ok())
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl IssueId {
    /// The front of the ids that `report_bug` gives.
    pub const BUG: &str = "BUG";

    /// The `number`th id of a project.
    #[must_use]
    pub fn of_project(key: &Key, number: u64) -> Self {
        Self {
            prefix: key.0.clone(),
            number,
        }
    }

    /// The `number`th reported bug of a project.
    #[must_use]
    pub fn bug(number: u64) -> Self {
        Self {
            prefix: Self::BUG.to_owned(),
            number,
        }
    }

    /// Parses an id.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let error = || IdError::new(text, "an issue id such as MA-12 or BUG-3");
        let (prefix, digits) = text.rsplit_once('-').ok_or_else(error)?;
        let prefix_legal = (1..=Key::MAX_BYTES).contains(&prefix.len())
            && prefix
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        let digits_legal = (1..=15).contains(&digits.len())
            && digits.bytes().all(|b| b.is_ascii_digit())
            && !digits.starts_with('0');
        if !(prefix_legal && digits_legal) {
            return Err(error());
        }
        let number = digits.parse().map_err(|_| error())?;
        Ok(Self {
            prefix: prefix.to_owned(),
            number,
        })
    }

    /// The part before the number.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The number.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Whether `report_bug` gave this id.
    #[must_use]
    pub fn is_reported_bug(&self) -> bool {
        self.prefix == Self::BUG
    }
}

impl PartialOrd for IssueId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// By prefix, then by number: `MA-2` before `MA-10`.
impl Ord for IssueId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.prefix
            .cmp(&other.prefix)
            .then(self.number.cmp(&other.number))
    }
}

fn printable(text: &str, max: usize, expected: &'static str) -> Result<String, IdError> {
    let trimmed = composed(text.trim());
    let legal = !trimmed.is_empty()
        && trimmed.chars().nth(max).is_none()
        && !trimmed.chars().any(char::is_control);
    legal
        .then(|| trimmed.into_owned())
        .ok_or_else(|| IdError::new(text, expected))
}

impl AgentName {
    /// Parses a name; surrounding white space is dropped.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        printable(text, 64, "a name of 1 to 64 printable characters").map(Self)
    }

    /// Returns whether a job in a sandbox has this name: `job PLAN/JOB`, or `NAME (job PLAN/JOB)`.
    #[must_use]
    pub fn is_of_job(&self) -> bool {
        self.0.starts_with("job ") || (self.0.contains(" (job ") && self.0.ends_with(')'))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Label {
    /// Parses a label; surrounding white space is dropped.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        printable(text, 50, "a label of 1 to 50 printable characters").map(Self)
    }

    /// The label as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SessionId {
    /// Parses a session id.
    ///
    /// # Errors
    /// When the text breaks the rule of the type.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let legal = (1..=128).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
            && !text.starts_with('.')
            && text != "index";
        legal.then(|| Self(text.to_owned())).ok_or_else(|| {
            IdError::new(
                text,
                "a session id: 1 to 128 of A-Z, a-z, 0-9, point, _ and -, not `index`",
            )
        })
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! display_text {
    ($($name:ident)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
display_text!(Slug Key AgentName Label SessionId PlanId);

impl fmt::Display for IssueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.prefix, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::{IssueId, Key, PlanId, SessionId, Slug};

    #[test]
    fn names_become_slugs_and_keys() {
        let check = |name: &str, slug: Option<&str>, key: &str| {
            assert_eq!(
                Slug::of_name(name).as_ref().map(Slug::as_str),
                slug,
                "{name}"
            );
            assert_eq!(
                Key::candidates(name).next().expect("endless").as_str(),
                key,
                "{name}"
            );
        };
        check("My App", Some("my-app"), "MA");
        check("My Cool Project", Some("my-cool-project"), "MCP");
        check("alpha", Some("alpha"), "A");
        check("3D Viewer", Some("3d-viewer"), "3V");
        check("Überblick", Some("uberblick"), "U");
        check("U\u{308}berblick", Some("uberblick"), "U");
        check("\u{304b}\u{3099}", Some("ga"), "G");
        check("北京", Some("bei-jing"), "BJ");
        check("--- !", None, "PRJ");
        check(
            "Build Unified Gateway",
            Some("build-unified-gateway"),
            "BUG2",
        );
        let second = Key::candidates("My App").nth(1).expect("endless");
        assert_eq!(second.as_str(), "MA2");
    }

    #[test]
    fn hostile_ids_are_refused() {
        let long = "a".repeat(1_000_000);
        for text in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "a\0",
            "-a",
            "a-",
            "A",
            "ä",
            " a",
            long.as_str(),
        ] {
            assert!(Slug::parse(text).is_err(), "{text:.20}");
            assert!(PlanId::parse(text).is_err(), "{text:.20}");
        }
        for text in [
            "",
            "..",
            "MA-",
            "-1",
            "MA-0",
            "MA-01",
            "ma-1",
            "MA-1/..",
            "MA-1\0",
            "MA-9999999999999999",
            "MA--1",
        ] {
            assert!(IssueId::parse(text).is_err(), "{text}");
        }
        for text in [
            "",
            ".",
            "..",
            ".x",
            "index",
            "a/b",
            "a\\b",
            "a b",
            long.as_str(),
        ] {
            assert!(SessionId::parse(text).is_err(), "{text:.20}");
        }
        assert_eq!(
            IssueId::parse("3V-12").map(|id| id.to_string()),
            Ok("3V-12".to_owned())
        );
    }

    #[test]
    fn ids_order_by_number() {
        let id = |text| IssueId::parse(text).expect("an id");
        assert!(id("MA-2") < id("MA-10"));
        assert!(id("BUG-9") < id("MA-1"));
    }
}
