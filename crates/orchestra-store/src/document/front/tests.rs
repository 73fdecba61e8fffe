//! Files of documents: as they are written, and whatever is read.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{read, write};
use crate::document::{DocumentBody, Metadata};

fn body(metadata: &Value, content: &[u8]) -> DocumentBody {
    DocumentBody {
        content: content.to_vec(),
        metadata: Metadata::parse(&metadata.to_string()).expect("metadata"),
    }
}

fn text(metadata: &Value, content: &str) -> String {
    String::from_utf8(write(&body(metadata, content.as_bytes()))).expect("text")
}

/// What front matter says, as JSON; or what is wrong with it.
fn said(yaml: &str) -> String {
    match read(format!("---\n{yaml}---\n\nbody\n").as_bytes()) {
        Ok(body) => {
            assert_eq!(body.content, b"body\n");
            let metadata = body.metadata.as_ref().map(Metadata::as_json);
            metadata.unwrap_or("nothing").to_owned()
        }
        Err(error) => format!("line {}: {}", error.line, error.what),
    }
}

#[test]
fn a_file_is_front_matter_a_blank_line_and_the_body() {
    let metadata = json!({
        "id": "FEAT-ABC", "title": "A: title", "version": 3, "labels": ["a", "b c"], "none": [],
        "signals": [{"metric": "m", "actual": 1.5}, [1, [2]]], "nested": {"y": true, "deep": {}},
        "text": "two\nlines", "more": "and\n\n  more\n", "description": "",
    });
    let expected = "---
description: \"\"
id: FEAT-ABC
labels:
    - a
    - b c
more: |
    and

      more
nested:
    deep: {}
    \"y\": true
none: []
signals:
    - actual: 1.5
      metric: m
    - - 1
      - - 2
text: |-
    two
    lines
title: \"A: title\"
version: 3
---

# Body
";
    assert_eq!(text(&metadata, "# Body\n"), expected);
    assert_eq!(text(&json!({}), "# Body\n"), "# Body\n");
}

#[test]
fn texts_that_could_pass_for_another_type_are_quoted() {
    for odd in [
        "true",
        "null",
        "~",
        "1",
        "0x1",
        "1e3",
        "yes",
        "on",
        "",
        "2025-01-01T00:00:00Z",
        "2025-01-01",
        "No",
        "OFF",
        "y",
        ".inf",
        ".nan",
        "-",
        "- a",
        "a: b",
        "a:",
        "a #b",
        "#",
        " a",
        "a ",
        "[a]",
        "{a}",
        "*a",
        "&a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "'a'",
        "\"a\"",
        "?",
        "? a",
        "12:30",
        "=",
        "<<",
        "---",
        "...",
        "\t",
        "\u{85}",
        "\u{feff}x",
        "\u{7f}",
    ] {
        let file = text(&json!({ "key": odd }), "");
        assert!(file.starts_with("---\nkey: \""), "{file}");
        assert_eq!(read(file.as_bytes()), Ok(body(&json!({ "key": odd }), b"")));
    }
    for plain in [
        "a",
        "FEAT-ABC",
        "My App",
        "in-progress",
        "http://x.y/z",
        "été, oui",
        "it's (so)!",
    ] {
        let file = text(&json!({ "key": plain }), "");
        assert_eq!(file, format!("---\nkey: {plain}\n---\n\n"));
        assert_eq!(
            read(file.as_bytes()),
            Ok(body(&json!({ "key": plain }), b""))
        );
    }
}

#[test]
fn what_earlier_programs_and_people_write_is_read() {
    for (yaml, expected) in [
        (
            "a: 1e+06\nb: 1.234567e+06\nc: 1e-05\nd: 999999\n",
            r#"{"a":1000000,"b":1234567,"c":0.00001,"d":999999}"#,
        ),
        (
            "true: x\n1: y\nnull: z\n0x1: w\n",
            r#"{"0x1":"w","1":"y","null":"z","true":"x"}"#,
        ),
        ("\"y\": true\nz: !!str 1\n", r#"{"y":true,"z":"1"}"#),
        (
            "at: 2025-01-01T00:00:00Z\n",
            r#"{"at":"2025-01-01T00:00:00Z"}"#,
        ),
        ("a: yes\nb: ~\nc:\n", r#"{"a":"yes","b":null,"c":null}"#),
        ("labels:\n    - a\n    - b\n", r#"{"labels":["a","b"]}"#),
        ("a: |-\n    x\n    y\r\nb: c\r\n", r#"{"a":"x\ny","b":"c"}"#),
        ("# nothing\n\n", "nothing"),
        ("{}\n", "nothing"),
        ("- a\n", "line 2: the front matter has no fields"),
        (
            "a: .inf\n",
            "line 2: the front matter is no YAML that can be kept: a: a number that is none or without end; quote it at line 1 column 4",
        ),
    ] {
        assert_eq!(said(yaml), expected, "{yaml}");
    }
    for (yaml, part) in [
        ("a: 1\na: 2\n", "twice"),
        ("a: [\n", "line"),
        ("a: !x 1\n", "tag"),
    ] {
        assert!(said(yaml).contains(part), "{yaml}: {}", said(yaml));
    }
    let unclosed = read(b"---\na: 1\n").expect_err("not closed");
    assert_eq!(unclosed.line, 1);
    assert_eq!(
        read(b"---\r\na: b\r\n---\r\n\r\nx"),
        Ok(body(&json!({"a": "b"}), b"x"))
    );
    assert_eq!(read(b"---\na: b\n---"), Ok(body(&json!({"a": "b"}), b"")));
    assert_eq!(read(b"--- \nx"), Ok(body(&json!({}), b"--- \nx")));
}

#[test]
fn what_is_named_and_used_again_does_not_grow_without_end() {
    let mut yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let before = vec![format!("*a{}", level - 1); 9].join(", ");
        yaml.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    assert!(said(&yaml).starts_with("line "), "it is refused");
}

fn values() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-1e7..1e7_f64).prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        any::<String>().prop_map(Value::from),
        "[-a-z0-9 :#'\"\\n\\t|>&*!%@?.,{}\\[\\]]{0,12}".prop_map(Value::from),
        "(line|\\n| |- a|a: b|#|---){0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(10, 64, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z0-9: ~#-]{0,6}|true|\\PC{0,5}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn documents_come_back_from_their_files(
        fields in prop::collection::btree_map("[a-z]{1,6}|\\PC{0,8}|true|1|~", values(), 0..5),
        content in prop_oneof![
            any::<Vec<u8>>(),
            "(---|\\r|\\n|a: b|x){0,8}".prop_map(String::into_bytes),
        ],
    ) {
        let written = body(&Value::Object(fields.into_iter().collect()), &content);
        let file = write(&written);
        prop_assert_eq!(read(&file), Ok(written), "{}", String::from_utf8_lossy(&file));
    }

    #[test]
    fn whatever_a_file_holds_it_is_read_or_refused(file in any::<Vec<u8>>(), yaml in "\\PC{0,60}") {
        drop(read(&file));
        if let Ok(body) = read(format!("---\n{yaml}\n---\nx").as_bytes()) {
            prop_assert_eq!(read(&write(&body)), Ok(body));
        }
    }
}
