//! What a help text tells.

use std::{collections::BTreeSet, path::Path};

use super::{Capabilities, Feature};
use crate::agents::{
    Profile,
    profile::is_model,
    template::{Many, One},
};

/// What a program can do, by its profile and what it said.
pub(super) fn capabilities(
    profile: &Profile,
    program: &Path,
    version: Option<String>,
    help: Option<&str>,
    models: Option<Vec<String>>,
) -> Capabilities {
    let templates = [Some(&profile.arguments), profile.resume_arguments.as_ref()];
    let needs = templates
        .into_iter()
        .flatten()
        .flat_map(|template| template.needs());
    let known: BTreeSet<String> = needs
        .filter(|option| help.is_some_and(|help| names_option(help, option)))
        .map(str::to_owned)
        .collect();
    let is_known = |option: &str| known.contains(option);
    let arguments = &profile.arguments;
    let resumes = profile.resume_arguments.is_some() || arguments.names(One::Session, &is_known);
    let domains = arguments.names_many(Many::Domains, &is_known);
    let urls = arguments.names_many(Many::Urls, &is_known);
    let reads_everywhere = profile.text().reads_everywhere;
    let options = &profile.text().probe.options;
    let features = [
        (
            Feature::Model,
            arguments.names(One::Model, &is_known),
            &options.model,
        ),
        (Feature::Resume, resumes, &options.resume),
        (
            Feature::Effort,
            arguments.names(One::Effort, &is_known),
            &options.effort,
        ),
        (
            Feature::MaxTurns,
            arguments.names(One::MaxTurns, &is_known),
            &options.max_turns,
        ),
        (
            Feature::Folders,
            reads_everywhere || arguments.names_many(Many::Folders, &is_known),
            &options.folders,
        ),
        (Feature::Urls, urls || domains, &options.urls),
    ];
    let is_there = |option: &Option<String>| match (option, help) {
        (Some(option), Some(help)) => names_option(help, option),
        _ => true,
    };
    let features = features
        .into_iter()
        .filter(|(_, is_expressed, option)| *is_expressed && is_there(option));
    Capabilities {
        program: program.to_owned(),
        version,
        features: features.map(|(feature, ..)| feature).collect(),
        domains_only: domains && !urls,
        models,
        known,
    }
}

/// Whether a help text names an option, as a word of its own.
fn names_option(help: &str, option: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    help.match_indices(option).any(|(at, found)| {
        let before = help[..at].chars().next_back();
        let after = help[at + found.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// The choices that a help text gives for an option: `(choices: "a", "b")`, `[choices: "a", "b"]`
/// or `[possible values: a, b]`, before the next option begins.
pub(super) fn choices(help: &str, option: &str) -> Vec<String> {
    let begins = help
        .lines()
        .position(|line| line.trim_start().starts_with('-') && names_option(line, option));
    let Some(begins) = begins else {
        return Vec::new();
    };
    let mut text = String::new();
    for (at, line) in help.lines().skip(begins).enumerate() {
        if at > 0 && line.trim_start().starts_with('-') {
            break;
        }
        text.push(' ');
        text.push_str(line.trim());
    }
    let marks = ["choices:", "possible values:"];
    let from = marks
        .iter()
        .find_map(|mark| Some(&text[text.find(mark)? + mark.len()..]));
    let Some(from) = from else {
        return Vec::new();
    };
    let list = from.split([')', ']']).next().unwrap_or_default();
    let items = list
        .split(',')
        .map(|item| item.trim().trim_matches(['"', '\'']));
    items
        .filter(|item| is_model(item))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words_of_their_own() {
        let help = "  -m, --model <NAME>   model\n  --max-turns-total N\n  --effort=LEVEL, --auto";
        assert!(names_option(help, "--model"));
        assert!(names_option(help, "--effort"));
        assert!(names_option(help, "--auto"));
        assert!(!names_option(help, "--max-turns"));
        assert!(!names_option(help, "--mod"));
    }

    #[test]
    fn choices_are_read_from_the_help_of_their_option() {
        let help = "Options:\n  --mode <m>  (choices: \"plan\")\n  --model <model>  The model to use\n      \
                    (choices: \"gpt-5\", \"claude-4.5\",\n      \"x y\")\n  --other <o> (choices: \"no\")\n";
        assert_eq!(choices(help, "--model"), ["gpt-5", "claude-4.5"]);
        assert_eq!(choices(help, "--mode"), ["plan"]);
        assert!(choices("", "--model").is_empty());
        assert_eq!(
            choices("--model <M> [possible values: a, b]", "--model"),
            ["a", "b"]
        );
    }
}
