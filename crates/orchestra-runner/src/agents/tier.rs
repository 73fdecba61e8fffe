//! How strong a model and how much thinking work gets when its author did not say.

use std::collections::BTreeSet;

use orchestra_plan::work::{Effort, ModelTier};
use serde::Serialize;

/// Instructions of so many bytes are long.
const LONG_BYTES: usize = 4_000;

/// So many files named in instructions are many.
const MANY_FILES: usize = 6;

/// The longest name of a file that is recognised.
const MAX_FILE_CHARS: usize = 200;

/// Which tier and effort work gets, and why when nobody asked for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The tier; none leaves the model to the program.
    pub tier: Option<ModelTier>,
    /// The effort; none leaves it to the program.
    pub effort: Option<Effort>,
    /// One sentence for each thing that was chosen without being asked for, or left.
    pub reasons: Vec<String>,
}

/// Chooses for instructions that are long (4 000 bytes) or name many files (6) the premium tier and
/// high effort. What the author asked for stands: a model or a tier keeps the tier, an effort keeps
/// the effort.
#[must_use]
pub fn promote(
    has_model: bool,
    tier: Option<ModelTier>,
    effort: Option<Effort>,
    instructions: &str,
) -> Choice {
    let mut choice = Choice {
        tier,
        effort,
        reasons: Vec::new(),
    };
    let files = files_named(instructions);
    let why = if instructions.len() >= LONG_BYTES {
        format!("the instructions have {} bytes", instructions.len())
    } else if files >= MANY_FILES {
        format!("the instructions name {files} files")
    } else {
        return choice;
    };
    if !has_model && tier.is_none() {
        choice.tier = Some(ModelTier::Premium);
        choice.reasons.push(format!("premium tier: {why}"));
    }
    if effort.is_none() {
        choice.effort = Some(Effort::High);
        choice.reasons.push(format!("high effort: {why}"));
    }
    choice
}

/// How many different files a text names.
fn files_named(text: &str) -> usize {
    let is_around = |char: char| !(char.is_alphanumeric() || matches!(char, '/' | '_' | '.' | '-'));
    let words = text.split(|char: char| char.is_whitespace() || matches!(char, '(' | ')' | ','));
    let words = words.map(|word| word.trim_matches(is_around).trim_end_matches('.'));
    let files: BTreeSet<&str> = words.filter(|word| names_file(word)).collect();
    files.len()
}

/// Whether a word looks like a file: a stem, a point and an ending that begins with a letter.
fn names_file(word: &str) -> bool {
    if word.len() > MAX_FILE_CHARS || word.contains("://") {
        return false;
    }
    let name = word.rsplit('/').next().unwrap_or_default();
    let Some((stem, ending)) = name.rsplit_once('.') else {
        return false;
    };
    let is_word = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '.');
    (2..=8).contains(&ending.len())
        && ending.starts_with(|char: char| char.is_ascii_alphabetic())
        && ending.chars().all(|char| char.is_ascii_alphanumeric())
        && !stem.is_empty()
        && stem.chars().all(is_word)
        || (ending.len() == 1 && matches!(ending, "c" | "h" | "m" | "r") && stem.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_instructions_and_many_files_are_promoted_with_reasons() {
        let short = promote(false, None, None, "Fix the test.");
        assert_eq!(short, Choice::default());
        let long = promote(false, None, None, &"x".repeat(LONG_BYTES));
        assert_eq!(
            (long.tier, long.effort),
            (Some(ModelTier::Premium), Some(Effort::High))
        );
        assert_eq!(
            long.reasons,
            [
                "premium tier: the instructions have 4000 bytes",
                "high effort: the instructions have 4000 bytes"
            ]
        );
        let files = "Change `src/a.rs`, src/b.rs (and c.toml), d.py; e.ts. Also docs/f.md.";
        let many = promote(false, None, None, files);
        assert_eq!(
            many.reasons[0],
            "premium tier: the instructions name 6 files"
        );
    }

    #[test]
    fn what_was_asked_for_stands() {
        let long = "x".repeat(LONG_BYTES);
        let asked = promote(false, Some(ModelTier::Fast), Some(Effort::Low), &long);
        assert_eq!(
            (asked.tier, asked.effort),
            (Some(ModelTier::Fast), Some(Effort::Low))
        );
        assert!(asked.reasons.is_empty());
        let model = promote(true, None, None, &long);
        assert_eq!((model.tier, model.effort), (None, Some(Effort::High)));
    }

    #[test]
    fn what_is_no_file_is_not_counted() {
        let text = "e.g. 1.2.3 and i.e. https://example.com/a.html v2.0 U.S. end.\nnext";
        assert_eq!(files_named(text), 0);
        assert_eq!(files_named("main.c main.c util.h x"), 2);
    }
}
