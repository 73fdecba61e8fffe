//! Where things stand in files, and how deep they nest.

use super::*;
use crate::config::node::Step;

fn at(line: u32, column: u32) -> Place {
    Place { line, column }
}

#[test]
fn every_notation_tells_where_things_stand() {
    let json = "// a comment\n{\n  \"ä\": {\"b\": [1, true,],},\n}";
    let root = Notation::Json.parse(json).unwrap();
    let outer = root.member("ä").unwrap();
    assert_eq!(outer.place, at(3, 3));
    let inner = outer.node.member("b").unwrap();
    assert_eq!((inner.place, inner.node.place), (at(3, 9), at(3, 14)));

    let toml = "x = 1\n[mcp.servers.\"ä\"]\ncommand = \"x\"\nargs = [\"a\", 0x10]\n";
    let root = Notation::Toml.parse(toml).unwrap();
    let servers = &root.member("mcp").unwrap().node;
    let server = servers.member("servers").unwrap().node.member("ä").unwrap();
    assert_eq!(server.place, at(2, 14));
    assert_eq!(server.node.member("command").unwrap().node.place, at(3, 11));

    let yaml = "# c\nmcp:\n  servers:\n    a:\n      args: [one, two]\n    b: {}\n";
    Notation::Yaml.parse(yaml).unwrap();
    let path = |steps: &[&str]| {
        Path(
            steps
                .iter()
                .map(|step| Step::Key((*step).to_owned()))
                .collect(),
        )
    };
    let locator = Locator::new(Notation::Yaml, yaml);
    assert_eq!(locator.place(&path(&["mcp"])), Some(at(2, 1)));
    let server = path(&["mcp", "servers", "b"]);
    assert_eq!(locator.place(&server), Some(at(6, 5)));
    let args = path(&["mcp", "servers", "a", "args"]);
    assert_eq!(locator.place(&args.index(1)), Some(at(5, 19)));
    assert_eq!(locator.place(&path(&["mcp", "no"])), None);
}

#[test]
fn what_cannot_be_understood_is_told_with_its_place() {
    for (notation, text, place) in [
        (Notation::Json, "{\n  \"a\" 1}", at(2, 7)),
        (Notation::Json, "{'a': 1}", at(1, 2)),
        (Notation::Toml, "a = 1\nb = = 2", at(2, 5)),
        (Notation::Yaml, "a: 1\n b: [", at(2, 3)),
    ] {
        let error = Notation::parse(notation, text).err().unwrap();
        assert_eq!(error.place.line, place.line, "{text}: {error:?}");
        assert!(!error.message.is_empty());
    }
}

#[test]
fn nesting_ends_before_the_stack_does() {
    for (notation, open, close) in [
        (Notation::Json, "[", "]"),
        (Notation::Yaml, "[", "]"),
        (Notation::Toml, "[", "]"),
    ] {
        let depth = 100_000;
        let before = if notation == Notation::Toml {
            "a = "
        } else {
            ""
        };
        let text = format!("{before}{}{}", open.repeat(depth), close.repeat(depth));
        assert!(notation.parse(&text).is_err(), "{notation:?}");
    }
    let bomb = (0..12).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
        format!(
            "{text}a{}: &a{} [*a{n}, *a{n}, *a{n}, *a{n}, *a{n}, *a{n}, *a{n}, *a{n}]\n",
            n + 1,
            n + 1
        )
    });
    assert!(Notation::Yaml.parse(&bomb).is_err());
}

/// The reader would need a time that grows with the square of the depth, and would name the limit of its own.
#[test]
fn nested_yaml_is_refused_before_it_is_read() {
    let text = format!("a: 1\nb: {}", "[{c: ".repeat(1_000));
    let error = Notation::Yaml.parse(&text).err().unwrap();
    assert!(
        error.message.contains("line 2 opens more than 128"),
        "{error:?}"
    );
}

#[test]
fn a_mark_at_the_beginning_is_no_error() {
    assert!(Notation::Json.parse("\u{feff}{}").is_ok());
}

#[test]
fn a_merge_key_takes_over_the_members_of_another_mapping() {
    let text = "a: &a {command: x, args: [y]}\nb: &b\n  <<: *a\n  command: z\nc: {<<: *b, cwd: d}\n\
         d: {<<: [*b, *a], env: e}\n";
    let root = Notation::Yaml.parse(text).unwrap();
    for (name, keys) in [
        ("b", &["command", "args"][..]),
        ("c", &["command", "args", "cwd"]),
        ("d", &["command", "args", "env"]),
    ] {
        let node = &root.member(name).unwrap().node;
        assert!(keys.iter().all(|key| node.member(key).is_some()), "{name}");
        assert!(node.member("<<").is_none(), "{name}");
        assert_eq!(node.member("command").unwrap().node.text(), Some("z"));
    }
    assert!(Notation::Yaml.parse("a: {<<: 7}").is_err());
}
