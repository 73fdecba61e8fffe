//! Profiles that come along, in the form in which people write their own.
//!
//! Each file names the public pages that it was checked against. An option that could not be found
//! in them is left out rather than guessed: what a job then asks for is refused, and can be added by
//! a profile of the same name in the configuration.

use std::collections::BTreeMap;

use orchestra_plan::work::ProfileName;

use super::{Profile, ProfileText};

/// The agent of ours that does what a script says, for trying things out.
pub const SCRIPTED: &str = "scripted";

/// Profiles that come along, in the order in which one is looked for when work names none.
pub const ORDER: [&str; 8] = [
    "copilot", "claude", "codex", "gemini", "cursor", "opencode", "goose", "aider",
];

/// The text of a profile that comes along.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        "aider" => include_str!("ready/aider.toml"),
        "claude" => include_str!("ready/claude.toml"),
        "codex" => include_str!("ready/codex.toml"),
        "copilot" => include_str!("ready/copilot.toml"),
        "cursor" => include_str!("ready/cursor.toml"),
        "gemini" => include_str!("ready/gemini.toml"),
        "goose" => include_str!("ready/goose.toml"),
        "opencode" => include_str!("ready/opencode.toml"),
        SCRIPTED => include_str!("ready/scripted.toml"),
        _ => return None,
    })
}

/// Whether a profile of this name comes along.
#[must_use]
pub fn is_ready(name: &str) -> bool {
    text(name).is_some()
}

/// All of them.
pub(super) fn profiles() -> BTreeMap<ProfileName, Profile> {
    let names = ORDER.into_iter().chain([SCRIPTED]);
    names.map(profile).collect()
}

/// Returns whether the built-in profile of a program has a word among its arguments.
pub(super) fn has_word(program: &str, word: &str) -> bool {
    let names = ORDER.into_iter().chain([SCRIPTED]);
    let names = names.filter(|name| text(name).is_some_and(|text| text.contains(word)));
    names.map(profile).any(|(_, profile)| {
        let text = profile.text();
        let mut words = text.arguments.iter().flatten();
        text.program == program && words.any(|known| known == word)
    })
}

fn profile(name: &str) -> (ProfileName, Profile) {
    const CHECKED: &str = "the profiles that come along are read by a test";
    // A profile of the configuration is a table as well: one reader of profiles is compiled, not two.
    let table: toml::Table = toml::from_str(text(name).expect(CHECKED)).expect(CHECKED);
    let text: ProfileText = toml::Value::Table(table).try_into().expect(CHECKED);
    let profile = Profile::try_from(text).expect(CHECKED);
    (ProfileName::parse(name).expect(CHECKED), profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_hold_together_and_name_their_sources() {
        assert_eq!(profiles().len(), ORDER.len() + 1);
        for name in ORDER {
            let text = text(name).unwrap();
            assert!(text.starts_with("# "), "{name}");
            assert!(text.contains("Checked against:"), "{name}");
        }
        assert!(!is_ready("other"));
    }

    #[test]
    fn they_are_the_same_when_written_out_and_read_again() {
        for (name, profile) in profiles() {
            let written = toml::to_string(profile.text()).unwrap();
            let text: ProfileText = toml::from_str(&written).unwrap();
            assert_eq!(Profile::try_from(text).unwrap(), profile, "{name}");
        }
    }
}
