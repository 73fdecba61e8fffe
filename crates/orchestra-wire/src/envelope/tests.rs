//! What each kind of line is taken for.

use proptest::prelude::*;

use super::*;

fn check(line: &[u8], expected: &str) {
    let seen = match parse(line) {
        Ok(Inbound::Batch(items)) => format!("batch of {}", items.len()),
        Ok(Inbound::BatchTooLong) => "batch that is too long".to_owned(),
        Ok(Inbound::One(message)) => describe(&message),
        Err(Malformed { id, error }) => {
            let id = id.map_or_else(|| "null".to_owned(), |id| id.to_string());
            format!("{} to {id}: {}", error.code.0, error.message)
        }
    };
    assert_eq!(seen, expected, "{}", String::from_utf8_lossy(line));
}

fn describe(message: &Message<'_>) -> String {
    let raw = |value: Option<&RawValue>| value.map_or("-", RawValue::get).to_owned();
    match message {
        Message::Request(r) => format!("request {} {} {}", r.id, r.method, raw(r.raw_params())),
        Message::Notification(n) => format!("notification {} {}", n.method, raw(n.raw_params())),
        Message::Response(r) => {
            let id = r.id.as_ref().map_or("null", RequestId::as_json);
            match r.reply {
                Reply::Result(result) => format!("result of {id}: {}", result.get()),
                Reply::Error(error) => format!("error of {id}: {}", error.get()),
            }
        }
    }
}

#[test]
fn the_three_kinds_of_message_are_told_apart() {
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a" : [1.50]}}"#,
        r#"request 1 tools/call {"a" : [1.50]}"#,
    );
    check(
        br#" {"method":"m\u0065","id":"x","jsonrpc":"2.0"} "#,
        r#"request "x" me -"#,
    );
    check(br#"{"jsonrpc":"2.0","method":"n"}"#, "notification n -");
    check(
        br#"{"jsonrpc":"2.0","id":7,"result":null}"#,
        "result of 7: null",
    );
    check(
        br#"{"jsonrpc":"2.0","id":7,"error":{"code":1}}"#,
        r#"error of 7: {"code":1}"#,
    );
    check(
        br#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
        "error of null: {}",
    );
    check(br#"{"jsonrpc":"2.0","error":{}}"#, "error of null: {}");
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"m","extra":{"deep":[1]}}"#,
        "request 1 m -",
    );
}

#[test]
fn what_is_not_json_is_a_parse_error_to_null() {
    let text = "-32700 to null: parse error: not a single JSON value";
    for line in [
        "{",
        "{]",
        "nul",
        "{\"jsonrpc\":\"2.0\"} x",
        "[1,",
        "{\"a\":\"\u{1}\"}",
        "'a'",
    ] {
        check(line.as_bytes(), text);
    }
    check(
        b"{\"id\":1,\"method\":\"\xff\"}",
        "-32700 to null: parse error: not UTF-8",
    );
}

#[test]
fn nesting_is_limited_wherever_it_is() {
    let nested = |levels: usize| {
        let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{text}}}}}"#)
    };
    assert!(matches!(parse(nested(126).as_bytes()), Ok(Inbound::One(_))));
    for levels in [127, 10_000] {
        check(
            nested(levels).as_bytes(),
            "-32700 to 1: parse error: nested too deep",
        );
    }
    check(
        "[".repeat(10_000).as_bytes(),
        "-32700 to null: parse error: nested too deep",
    );
}

#[test]
fn json_that_no_type_of_rust_holds_is_a_message_all_the_same() {
    for params in [
        r#"{"a":"\ud800","b":[1e400,-1e999,340282366920938463463374607431768211456]}"#,
        r#"{"\ud800":1,"name":"\udc00","_meta":{"\udfff":1e400}}"#,
        r#"{"a":1,"a":2}"#,
        "1e400",
        r#""\ud800""#,
        "[1e400]",
    ] {
        check(
            format!(r#"{{"\ud800":"\ud800","jsonrpc":"2.0","id":"\udc00","method":"m","params":{params}}}"#)
                .as_bytes(),
            &format!(r#"request "\udc00" m {params}"#),
        );
        check(
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{params},"\udc00":1e400}}"#).as_bytes(),
            &format!("result of 1: {params}"),
        );
    }
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#,
        "-32600 to 1: invalid request: method must be a string",
    );
}

#[test]
fn json_that_is_no_message_is_an_invalid_request() {
    for line in ["1", "null", "\"x\"", "true"] {
        check(
            line.as_bytes(),
            "-32600 to null: invalid request: not an object",
        );
    }
    check(
        b"{}",
        "-32600 to null: invalid request: jsonrpc must be \"2.0\"",
    );
    check(
        br#"{"id":1,"method":"m"}"#,
        "-32600 to 1: invalid request: jsonrpc must be \"2.0\"",
    );
    check(
        br#"{"jsonrpc":2.0,"id":1,"method":"m"}"#,
        "-32600 to 1: invalid request: jsonrpc must be \"2.0\"",
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        "-32600 to 1: invalid request: method must be a string",
    );
    let no_id = "-32600 to null: invalid request: id must be a string or an integer";
    for id in ["null", "1.5", "{}", "true"] {
        check(
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#).as_bytes(),
            no_id,
        );
    }
    let neither = "-32600 to 1: invalid request: neither a request nor a response";
    check(br#"{"jsonrpc":"2.0","id":1}"#, neither);
    check(
        br#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1}}"#,
        neither,
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
        neither,
    );
}

/// Newtonsoft.Json, Gson and others write members that are null, and integers as floats.
#[test]
fn members_that_are_null_belong_to_another_kind_of_message() {
    check(
        br#"{"jsonrpc":"2.0","id":7,"result":{},"error":null,"method":null,"params":null}"#,
        "result of 7: {}",
    );
    check(
        br#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":1}}"#,
        r#"error of 7: {"code":1}"#,
    );
    check(
        br#"{"jsonrpc":"2.0","id":7,"result":null,"error":null}"#,
        "result of 7: null",
    );
    check(
        br#"{"jsonrpc":"2.0","id":7,"method":"m","result":null,"error":null}"#,
        "request 7 m -",
    );
    check(
        br#"{"jsonrpc":"2.0","id":null,"method":"notifications/x"}"#,
        "notification notifications/x -",
    );
    check(
        br#"{"jsonrpc":"2.0","id":7.0,"method":"m"}"#,
        "request 7 m -",
    );
    check(
        br#"{"jsonrpc":"2.0","id":1e0,"result":{}}"#,
        "result of 1: {}",
    );
}

#[test]
fn empty_member_of_another_kind_of_message_is_left_out() {
    for empty in [
        "null",
        "false",
        "0",
        "\"\"",
        "[]",
        "[ ]",
        "{}",
        "{ }",
        r#"{"code":0,"message":""}"#,
        r#"{"message":"","code":0,"data":null}"#,
    ] {
        let of = |members: &str| format!(r#"{{"jsonrpc":"2.0","id":7,{members}}}"#);
        check(
            of(&format!(r#""result":{{"a":1}},"error":{empty}"#)).as_bytes(),
            r#"result of 7: {"a":1}"#,
        );
        check(
            of(&format!(r#""error":{{"code":1}},"result":{empty}"#)).as_bytes(),
            r#"error of 7: {"code":1}"#,
        );
        check(
            of(&format!(r#""method":"m","error":{empty},"result":null"#)).as_bytes(),
            "request 7 m -",
        );
    }
    check(
        br#"{"jsonrpc":"2.0","id":7,"method":"","result":{"a":1}}"#,
        r#"result of 7: {"a":1}"#,
    );
    // Neither side of these is empty.
    for error in [
        r#"{"code":0,"message":"m"}"#,
        r#"{"code":1,"message":""}"#,
        r#"{"code":0,"message":"","data":1}"#,
        r#"{"what":""}"#,
        "[0]",
        "true",
        "1",
        "\" \"",
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":1}},"error":{error}}}"#);
        check(
            text.as_bytes(),
            "-32600 to 7: invalid request: neither a request nor a response",
        );
    }
}

#[test]
fn response_of_another_version_is_one_if_it_has_nothing_else() {
    for odd in [
        "",
        r#""jsonrpc":"1.0","#,
        r#""jsonrpc":2.0,"#,
        r#""jsonrpc":null,"#,
        r#""jsonrpc":"2","#,
    ] {
        let begin = format!("{{{odd}\"id\":7,");
        check(
            format!(r#"{begin}"result":[],"error":null}}"#).as_bytes(),
            "result of 7: []",
        );
        check(
            format!(r#"{begin}"result":null,"error":"it broke"}}"#).as_bytes(),
            r#"error of 7: "it broke""#,
        );
        let refused = "-32600 to 7: invalid request: jsonrpc must be \"2.0\"";
        for other in [
            r#""result":[],"level":"info"}"#,
            r#""error":"it broke","time":1}"#,
            r#""method":"m"}"#,
        ] {
            check(format!("{begin}{other}").as_bytes(), refused);
        }
    }
    check(
        br#"{"error":"it broke"}"#,
        "-32600 to null: invalid request: jsonrpc must be \"2.0\"",
    );
}

#[test]
fn a_byte_order_mark_before_a_message_is_skipped() {
    check(
        "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\r".as_bytes(),
        "notification n -",
    );
    check("\u{feff}[1]".as_bytes(), "batch of 1");
}

#[test]
fn duplicate_keys_of_the_envelope_are_refused() {
    check(
        br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
        "-32600 to null: invalid request: duplicate key id",
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}"#,
        "-32600 to 1: invalid request: duplicate key method",
    );
}

#[test]
fn last_of_duplicate_keys_counts_in_a_response() {
    for (text, expected) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"id":3,"result":{}}"#,
            "result of 3: {}",
        ),
        (
            r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":3,"result":{},"result":{"a":1}}"#,
            r#"result of 3: {"a":1}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":1},"error":{"code":2}}"#,
            r#"error of 3: {"code":2}"#,
        ),
    ] {
        check(text.as_bytes(), expected);
    }
}

#[test]
fn error_with_an_id_that_cannot_be_read_has_none() {
    for id in ["[3]", "{}", "true", "null"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1}}}}"#);
        check(text.as_bytes(), r#"error of null: {"code":1}"#);
    }
}

#[test]
fn batches_are_recognised() {
    check(b"[]", "batch of 0");
    check(
        br#" [{"jsonrpc":"2.0","id":1,"method":"m"}, 3]"#,
        "batch of 2",
    );
    let of = |items: usize, end: &str| format!("[{}{end}", vec!["1"; items].join(","));
    check(of(MAX_BATCH, "]").as_bytes(), "batch of 1024");
    check(of(MAX_BATCH + 1, "]").as_bytes(), "batch that is too long");
    let not_json = "-32700 to null: parse error: not a single JSON value";
    check(of(MAX_BATCH + 1, ",}]").as_bytes(), not_json);
    check(of(MAX_BATCH, "").as_bytes(), not_json);
}

/// JSON with halves of surrogate pairs, numbers of any size and names that occur twice.
fn odd_json() -> impl Strategy<Value = String> {
    let text = prop::collection::vec(prop_oneof![any::<u16>(), 0xd7ff_u16..0xe001], 0..4);
    let text = text.prop_map(|units| {
        let escaped = units.iter().map(|unit| format!("\\u{unit:04x}"));
        format!("\"{}\"", escaped.collect::<String>())
    });
    let number = "-?(0|[1-9][0-9]{0,330})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,4})?";
    let word = prop_oneof![Just("true".to_owned()), Just("null".to_owned())];
    let leaf = prop_oneof![text.clone(), number, word];
    leaf.prop_recursive(5, 32, 4, move |inner| {
        let member = (text.clone(), inner.clone());
        let member = member.prop_map(|(name, value)| format!("{name}:{value}"));
        let list = |item, open, close| {
            prop::collection::vec(item, 0..4)
                .prop_map(move |items: Vec<String>| format!("{open}{}{close}", items.join(",")))
        };
        prop_oneof![
            list(inner.boxed(), '[', ']'),
            list(member.boxed(), '{', '}')
        ]
    })
}

proptest! {
    #[test]
    fn json_of_any_form_is_passed_on_as_it_came(json in odd_json()) {
        let request = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{json}}}"#);
        let described = |line: &str| match parse(line.as_bytes()) {
            Ok(Inbound::One(message)) => describe(&message),
            other => format!("{other:?}"),
        };
        let params = if json == "null" { "-" } else { &json };
        prop_assert_eq!(described(&request), format!("request 7 m {params}"));
        let response = format!(r#"{{"jsonrpc":"2.0","result":{json},"id":7}}"#);
        prop_assert_eq!(described(&response), format!("result of 7: {json}"));
        let unknown = format!(r#"{{"jsonrpc":"2.0","x":{json},"id":7,"method":"m"}}"#);
        prop_assert_eq!(described(&unknown), "request 7 m -");
    }

    #[test]
    fn request_that_is_nested_too_deep_is_refused_under_its_id(levels in 127_usize..4_000, first in any::<bool>()) {
        let deep = format!(r#""params":{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        let head = r#""jsonrpc":"2.0","id":"q","method":"m""#;
        let line = match first {
            true => format!("{{{deep},{head}}}"),
            false => format!("{{{head},{deep}}}"),
        };
        let refused = parse(line.as_bytes()).unwrap_err();
        let id = refused.id.map(|id| id.to_string());
        prop_assert_eq!(id.as_deref(), Some("\"q\""));
        prop_assert_eq!(refused.error.code, ErrorCode::PARSE_ERROR);
    }
}
