//! What texts stand for.

use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::config::{Input, Origin, Place, Source};

fn config(directory: &Path) -> ServerConfig {
    let origin = Origin {
        file: Path::new("/w/mcp.json").into(),
        place: Place::START,
        source: Source::User,
        trust: Source::User.trust(),
        directory: directory.to_owned(),
    };
    let stdio = StdioConfig {
        command: "server".into(),
        args: Vec::new(),
        cwd: None,
        env: BTreeMap::new(),
        env_file: None,
        inherit_env: InheritEnv::Default,
    };
    let mut config = ServerConfig::new("a".parse().unwrap(), origin, Transport::Stdio(stdio));
    let input = |default: Option<&str>| Input {
        default: default.map(str::to_owned),
        ..Input::default()
    };
    let inputs = [
        ("key".to_owned(), input(None)),
        ("team".to_owned(), input(Some("us"))),
    ];
    config.inputs = Arc::new(inputs.into());
    config
}

fn scope() -> Scope {
    let known = |name: &str| {
        let value = match name {
            "TOKEN" => "s3cret",
            "EMPTY" => "",
            "ORCHESTRA_INPUT_KEY" => "k",
            "DOLLAR" => "${TOKEN}$$",
            _ => return None,
        };
        Some(value.to_owned())
    };
    Scope::new(Path::new("/w/project"), Some(Path::new("/home/me")), known)
}

#[test]
fn every_form_stands_for_what_it_says() {
    let config = config(Path::new("/w"));
    for (text, expected) in [
        ("plain", "plain"),
        ("", ""),
        ("Bearer ${TOKEN}", "Bearer s3cret"),
        ("${env:TOKEN}/${TOKEN}", "s3cret/s3cret"),
        ("${NO:-default}", "default"),
        ("${NO:-}", ""),
        ("${EMPTY:-default}", "default"),
        ("[${EMPTY}]", "[]"),
        ("${env:NO:-a:-b}", "a:-b"),
        ("${input:key} ${input:team}", "k us"),
        ("${workspaceFolder}/x", "/w/project/x"),
        ("${workspaceFolderBasename}", "project"),
        ("${userHome}", "/home/me"),
        ("$$", "$"),
        ("$${TOKEN}", "${TOKEN}"),
        ("$HOME costs 5$ or $", "$HOME costs 5$ or $"),
        // What comes out is not looked at again.
        ("${DOLLAR}", "${TOKEN}$$"),
    ] {
        let expanded = scope().expand(&Template::new(text), &config);
        assert_eq!(expanded.as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn defaults_are_put_in_the_place_of_references() {
    for (text, expected) in [
        ("plain $ $$", "plain $ $"),
        ("${A:-./x} ${B}/y", "./x /y"),
        ("${A:-b:-c}${input:d}", "b:-c"),
        ("a${", "a"),
    ] {
        assert_eq!(with_defaults(text), expected);
    }
}

#[test]
fn text_that_grows_too_long_is_refused() {
    let scope = Scope::new(Path::new("/w"), None, |_| Some("x".repeat(100_000)));
    let text = |references: usize| Template::new("${A}".repeat(references));
    let config = config(Path::new("/w"));
    assert!(scope.expand(&text(41), &config).is_ok());
    let refused = scope.expand(&text(1_000_000), &config);
    assert!(matches!(refused, Err(ExpandError::Unusable(_))));
}

#[test]
fn what_is_not_there_is_named_and_values_are_not() {
    let mut config = config(Path::new("/w"));
    for (text, expected) in [
        ("${TOKEN}${NO}", "the environment variable NO is not set"),
        (
            "${input:other-id}",
            "set the environment variable ORCHESTRA_INPUT_OTHER_ID",
        ),
        ("${a b}", "placeholder ${a b} is not known"),
        ("${}", "placeholder ${} is not known"),
        ("${command:x}", "placeholder ${command:x} is not known"),
        ("${TOKEN", "has no closing brace"),
    ] {
        let Transport::Stdio(stdio) = &mut config.transport else {
            unreachable!()
        };
        stdio.env.insert("X".into(), Template::new(text));
        let message = scope().check(&config).unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
        assert!(!message.contains("s3cret"), "{message}");
    }
}

#[test]
fn a_process_is_made_of_its_file_and_its_texts() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path());
    let file =
        "\u{feff}# a comment\r\nA=1\nexport B=\"two \\\"x\\\"\\n\"\nC='$x' \nA = 3 # again\nD=\n";
    std::fs::write(directory.path().join("vars"), file).unwrap();
    let Transport::Stdio(stdio) = &mut config.transport else {
        unreachable!()
    };
    stdio.command = "./bin/server".into();
    stdio.args = vec!["${TOKEN}".into()];
    stdio.env_file = Some("vars".into());
    stdio.env.insert("C".into(), "${TOKEN}".into());
    let stdio = stdio.clone();
    let process = scope().process(&stdio, &config).unwrap();
    assert!(Path::new(&process.command).is_absolute());
    assert!(process.command.ends_with("/./bin/server"));
    assert_eq!(process.cwd, directory.path());
    let env: Vec<(&str, &str)> = process
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let expected = [("B", "two \"x\"\n"), ("A", "3"), ("D", ""), ("C", "s3cret")];
    assert_eq!(env, expected);
    for shown in [format!("{process:?}"), format!("{config:?}")] {
        assert!(
            !shown.contains("s3cret") && !shown.contains("TOKEN"),
            "{shown}"
        );
    }
    std::fs::write(
        directory.path().join("vars"),
        "A=1\nsecret-without-equals\n",
    )
    .unwrap();
    let error = scope().process(&stdio, &config).unwrap_err().to_string();
    assert!(
        error.contains("line 2: no =") && !error.contains("secret-w"),
        "{error}"
    );
}

#[test]
fn references_are_told_before_they_are_used() {
    let mut config = config(Path::new("/w"));
    let Transport::Stdio(stdio) = &mut config.transport else {
        unreachable!()
    };
    stdio.args = vec!["${TOKEN:-x}".into(), "${input:key}".into(), "$${NO}".into()];
    let references = references(&config);
    let variables: Vec<_> = references.iter().filter_map(Reference::variable).collect();
    assert_eq!(variables, ["TOKEN", "ORCHESTRA_INPUT_KEY"]);
}
