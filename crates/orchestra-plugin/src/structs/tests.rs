//! Tests of `Struct` and JSON, with the trees of `prost-types` and `serde_json` as judges.

use proptest::prelude::*;
use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as ProtoValue};
use serde_json::Value as Json;

use super::*;

fn to_struct(json: &str) -> Result<Vec<u8>, StructError> {
    encode(json.as_bytes(), Numbers::Nearest).map(|bytes| bytes.to_vec())
}

fn to_json(message: &[u8]) -> Result<String, StructError> {
    decode(message, Style::Plain)
}

/// There and back.
fn back(json: &str) -> String {
    to_json(&to_struct(json).unwrap()).unwrap()
}

/// The value in an array, there and back.
fn value_back(value: &str) -> String {
    let json = back(&format!("{{\"v\":{value}}}"));
    json[5..json.len() - 1].to_owned()
}

fn proto(value: Kind) -> ProtoValue {
    ProtoValue { kind: Some(value) }
}

/// What the judge makes of JSON.
fn judged(json: &Json) -> ProtoValue {
    proto(match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(*value),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(items) => Kind::ListValue(ListValue {
            values: items.iter().map(judged).collect(),
        }),
        Json::Object(members) => Kind::StructValue(Struct {
            fields: members
                .iter()
                .map(|(name, value)| (name.clone(), judged(value)))
                .collect(),
        }),
    })
}

fn judged_struct(json: &Json) -> Struct {
    match judged(json).kind {
        Some(Kind::StructValue(value)) => value,
        other => panic!("{other:?} is no struct"),
    }
}

fn nested(depth: usize, open: &str, close: &str) -> String {
    format!(
        "{{\"a\":{}0{}}}",
        open.repeat(depth - 1),
        close.repeat(depth - 1)
    )
}

#[test]
fn values_become_the_bytes_that_every_peer_reads() {
    let bytes = to_struct("{\"a\":[1,\"é\",true,null,{}]}").unwrap();
    let wanted = b"\x0a\x20\x0a\x01a\x12\x1b\x32\x19\
        \x0a\x09\x11\x00\x00\x00\x00\x00\x00\xf0\x3f\
        \x0a\x04\x1a\x02\xc3\xa9\
        \x0a\x02\x20\x01\
        \x0a\x02\x08\x00";
    let mut wanted = wanted.to_vec();
    wanted.extend_from_slice(b"\x0a\x02\x2a\x00");
    wanted[1] = (wanted.len() - 2) as u8;
    wanted[6] = (wanted.len() - 7) as u8;
    wanted[8] = (wanted.len() - 9) as u8;
    assert_eq!(bytes, wanted);
    assert_eq!(to_struct(" {\n} "), Ok(vec![]));
    assert_eq!(to_json(b"").as_deref(), Ok("{}"));
}

#[test]
fn integers_have_no_fraction_and_come_back_wherever_a_double_holds_them() {
    for (json, written) in [
        ("0", "0"),
        ("-0", "-0"),
        ("1.0", "1"),
        ("-17", "-17"),
        ("90000", "90000"),
        ("1e3", "1000"),
        ("2.5", "2.5"),
        ("-0.1", "-0.1"),
        ("0.30000000000000004", "0.30000000000000004"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("1.5e-9", "1.5e-9"),
        ("9007199254740991", "9007199254740991"),
        ("9007199254740992", "9007199254740992"),
        // The first integer that no double holds becomes the nearest.
        ("9007199254740993", "9007199254740992"),
        ("1152921504606846976", "1152921504606846976"),
        ("18446744073709551616", "18446744073709551616"),
        ("100000000000000000000", "100000000000000000000"),
        ("1000000000000000000000", "1e+21"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("5e-324", "5e-324"),
        ("1e-999", "0"),
    ] {
        assert_eq!(value_back(json), written, "{json}");
    }
}

#[test]
fn who_asks_for_exact_integers_is_told_of_those_that_are_not() {
    let exact = |json: &str| encode(json.as_bytes(), Numbers::Exact);
    for json in [
        "[9007199254740992]",
        "[-9007199254740994]",
        "[1152921504606846976]",
        "[1000000000000000000000]",
        "[0.1]",
        "[9007199254740993.0]",
    ] {
        assert!(exact(&format!("{{\"a\":{json}}}")).is_ok(), "{json}");
    }
    for json in [
        "9007199254740993",
        "-9007199254740993",
        "1152921504606846977",
    ] {
        let error = Err(StructError::Inexact { at: 5 });
        assert_eq!(exact(&format!("{{\"a\":{json}}}")), error, "{json}");
    }
}

#[test]
fn numbers_without_a_form_are_refused() {
    for json in ["1e309", "-1e309", &"9".repeat(400)] {
        let error = Err(StructError::OutOfRange { at: 5 });
        assert_eq!(to_struct(&format!("{{\"a\":{json}}}")), error);
    }
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut message = b"\x0a\x0e\x0a\x01n\x12\x09\x11".to_vec();
        message.extend_from_slice(&value.to_le_bytes());
        assert_eq!(to_json(&message), Err(StructError::NotFinite));
    }
}

#[test]
fn what_is_not_json_is_refused_where_it_is_wrong() {
    let cases = [
        ("", 0),
        ("{", 1),
        ("{\"a\"", 4),
        ("{\"a\":", 5),
        ("{\"a\":1", 6),
        ("{\"a\":1,}", 7),
        ("{\"a\":1}x", 7),
        ("{a:1}", 1),
        ("{\"a\" 1}", 5),
        ("{\"a\":01}", 5),
        ("{\"a\":-}", 5),
        ("{\"a\":1.}", 5),
        ("{\"a\":.5}", 5),
        ("{\"a\":+1}", 5),
        ("{\"a\":1e}", 5),
        ("{\"a\":0x1}", 6),
        ("{\"a\":NaN}", 5),
        ("{\"a\":nul}", 5),
        ("{\"a\":[1 2]}", 8),
        ("{\"a\":[1,]}", 8),
        ("{\"a\":\"b", 7),
        ("{\"a\":\"b\\", 7),
        ("{\"a\":\"b\\\"", 9),
        ("{\"a\":\"\n\"}", 6),
        ("{\"a\":\"\\x\"}", 6),
        ("{\"a\":\"\\u12\"}", 6),
        ("{\"a\":\"\\u+123\"}", 6),
        ("{\"a\":\"b\\ud800\"}", 7),
        ("{\"a\":\"\\ud800\\u0041\"}", 6),
        ("{\"a\":\"\\udc00\\ud800\"}", 6),
        ("\u{feff}{}", 0),
        ("{} {}", 3),
    ];
    for (json, place) in cases {
        match to_struct(json) {
            Err(StructError::Json { at, .. }) => assert_eq!(at, place, "{json}"),
            other => panic!("{json}: {other:?}"),
        }
        assert!(serde_json::from_str::<Json>(json).is_err(), "{json}");
    }
    assert_eq!(
        encode(b"{\"a\":\"\xff\"}", Numbers::Nearest),
        Err(StructError::Json {
            at: 6,
            expected: "UTF-8"
        })
    );
    for json in ["[]", "null", " 1 ", "\"a\""] {
        assert_eq!(to_struct(json), Err(StructError::NotAnObject), "{json}");
    }
}

#[test]
fn strings_are_read_with_all_escapes_and_written_with_few() {
    let read = value_back(r#""\"\\\/\b\f\n\r\t\u0000\u001F\u00e9\ud83d\uDE00</\u2028>\u007f""#);
    assert_eq!(
        read,
        "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001fé😀</\u{2028}>\u{7f}\""
    );
    for length in 0..100 {
        for special in ["\"", "\\", "\u{1}", "é", "<", "\u{2029}", ""] {
            let text = format!("{}{special}{}", "x".repeat(length), "y".repeat(length % 7));
            let json = serde_json::json!({ text.clone(): text }).to_string();
            assert_eq!(back(&json), json);
        }
    }
}

#[test]
fn the_text_for_readers_is_sorted_and_escaped() {
    let bytes =
        to_struct("{\"b\":\"<a&b>\u{2028}\u{2029}â€é\",\"a\":{\"z\":1,\"é\":2,\"Z\":3}}").unwrap();
    assert_eq!(
        decode(&bytes, Style::Sorted).as_deref(),
        Ok("{\"a\":{\"Z\":3,\"z\":1,\"é\":2},\"b\":\"\\u003ca\\u0026b\\u003e\\u2028\\u2029â€é\"}")
    );
    let bytes = to_struct("{\"n\":1152921504606846976}").unwrap();
    let sorted = decode(&bytes, Style::Sorted);
    assert_eq!(sorted.as_deref(), Ok("{\"n\":1152921504606847000}"));
}

#[test]
fn nesting_ends_at_the_limit_both_ways() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deepest = nested(MAX_DEPTH, open, close);
        assert_eq!(back(&deepest), deepest);
        let deeper = nested(MAX_DEPTH + 1, open, close);
        assert_eq!(to_struct(&deeper), Err(StructError::TooDeep));
        let endless = nested(1_000_000, open, close);
        assert_eq!(to_struct(&endless), Err(StructError::TooDeep));
    }
    // Wrapped from the inside out: a value in a list, or in a member, again and again.
    for wrap in [&[(1, 6), (1, 1)][..], &[(2, 5), (1, 1)]] {
        for (depth, deep) in [(MAX_DEPTH - 1, false), (MAX_DEPTH, true), (5_000, true)] {
            let mut value = b"\x08\x00".to_vec();
            for _ in 0..depth {
                let mut list = Vec::new();
                put(&mut list, wrap[0].0, &value);
                if wrap[0].1 == 5 {
                    let mut structure = Vec::new();
                    put(&mut structure, 1, &list);
                    list = structure;
                }
                value.clear();
                put(&mut value, wrap[0].1, &list);
            }
            let mut member = Vec::new();
            put(&mut member, 2, &value);
            let mut message = Vec::new();
            put(&mut message, 1, &member);
            let json = to_json(&message);
            assert_eq!(json == Err(StructError::TooDeep), deep, "{depth}");
            assert_eq!(json.is_ok(), !deep, "{depth}");
        }
    }
}

/// Appends a field of bytes.
fn put(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    crate::field::put_bytes_head(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

#[test]
fn of_members_with_one_name_the_last_counts() {
    assert_eq!(back("{\"a\":1,\"b\":2,\"a\":3}"), "{\"b\":2,\"a\":3}");
    assert_eq!(back("{\"a\":1,\"a\":2}"), "{\"a\":2}");
    let bytes = to_struct("{\"b\":0,\"a\":1,\"b\":2,\"a\":3,\"c\":4}").unwrap();
    let sorted = decode(&bytes, Style::Sorted);
    assert_eq!(sorted.as_deref(), Ok("{\"a\":3,\"b\":2,\"c\":4}"));
    let many: Vec<String> = (0..60).map(|n| format!("\"{}\":{n}", n % 40)).collect();
    let last: Vec<String> = (20..60).map(|n| format!("\"{}\":{n}", n % 40)).collect();
    let json = back(&format!("{{{}}}", many.join(",")));
    assert_eq!(json, format!("{{{}}}", last.join(",")));
}

#[test]
fn what_is_missing_or_unknown_in_a_struct_is_no_error() {
    for (message, json) in [
        // A member without a name, without a value, with an empty value, in another order.
        (&b"\x0a\x00"[..], "{\"\":null}"),
        (b"\x0a\x03\x0a\x01a", "{\"a\":null}"),
        (b"\x0a\x05\x0a\x01a\x12\x00", "{\"a\":null}"),
        (b"\x0a\x07\x12\x02\x20\x01\x0a\x01a", "{\"a\":true}"),
        // Fields that are not of the schema.
        (
            b"\x12\x01x\x0a\x0a\x0a\x01a\x12\x05\x20\x01\x3a\x01x",
            "{\"a\":true}",
        ),
    ] {
        assert_eq!(to_json(message).as_deref(), Ok(json), "{message:02x?}");
    }
}

#[test]
fn structs_that_receivers_would_differ_about_are_refused() {
    let cases: [(&[u8], FieldError); 8] = [
        // A value of two kinds, of one kind twice, two names, two values.
        (
            b"\x0a\x09\x0a\x01a\x12\x04\x20\x01\x08\x00",
            FieldError::Repeated { number: 1 },
        ),
        (
            b"\x0a\x09\x0a\x01a\x12\x04\x2a\x00\x2a\x00",
            FieldError::Repeated { number: 5 },
        ),
        (
            b"\x0a\x06\x0a\x01a\x0a\x01b",
            FieldError::Repeated { number: 1 },
        ),
        (
            b"\x0a\x07\x0a\x01a\x12\x00\x12\x00",
            FieldError::Repeated { number: 2 },
        ),
        // A value of the wrong type, text that is none, a name that is none.
        (
            b"\x0a\x07\x0a\x01a\x12\x02\x18\x01",
            FieldError::Type { number: 3 },
        ),
        (
            b"\x0a\x08\x0a\x01a\x12\x03\x1a\x01\xff",
            FieldError::Utf8 { number: 3 },
        ),
        (b"\x0a\x03\x0a\x01\xff", FieldError::Utf8 { number: 1 }),
        (b"\x08\x01", FieldError::Type { number: 1 }),
    ];
    for (message, error) in cases {
        assert_eq!(to_json(message), Err(error.into()), "{message:02x?}");
    }
}

#[test]
fn a_member_is_found_without_the_rest() {
    let bytes = to_struct("{\"a\":{\"text\":\"no\"},\"text\":\"hi <é>\",\"n\":null}").unwrap();
    assert_eq!(member(&bytes, "text"), Ok(Some(Member::Text("hi <é>"))));
    assert_eq!(member(&bytes, "n"), Ok(Some(Member::Other)));
    assert_eq!(member(&bytes, "a"), Ok(Some(Member::Other)));
    assert_eq!(member(&bytes, "x"), Ok(None));
    assert_eq!(member(b"", "text"), Ok(None));
    let twice = to_struct("{\"text\":1,\"text\":\"last\"}").unwrap();
    assert_eq!(member(&twice, "text"), Ok(Some(Member::Text("last"))));
    assert!(member(b"\x0a\x05", "text").is_err());
}

#[test]
fn what_is_allocated_is_in_proportion_to_what_came() {
    // The worst that can be said in few bytes, each way.
    let zeros = format!("{{\"a\":[{}0]}}", "0,".repeat(100_000));
    let bytes = to_struct(&zeros).unwrap();
    assert!(bytes.len() <= 6 * zeros.len());
    assert_eq!(to_json(&bytes).unwrap(), zeros);
    let nameless = b"\x0a\x00".repeat(100_000);
    assert_eq!(to_json(&nameless).as_deref(), Ok("{\"\":null}"));
    let control = "\u{1}".repeat(100_000);
    let mut member = Vec::new();
    put(&mut member, 1, control.as_bytes());
    let mut message = Vec::new();
    put(&mut message, 1, &member);
    assert!(to_json(&message).unwrap().len() < 7 * message.len());
}

#[test]
fn a_struct_over_the_size_of_a_frame_is_refused() {
    let json = format!("{{\"a\":[{}0]}}", "0,".repeat(2_000_000));
    assert_eq!(to_struct(&json), Err(StructError::TooLarge));
    let text = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_FRAME_BYTES));
    assert_eq!(to_struct(&text), Err(StructError::TooLarge));
    let message = vec![0; MAX_FRAME_BYTES + 1];
    assert_eq!(to_json(&message), Err(StructError::TooLarge));
}

#[test]
fn long_lengths_at_every_depth_are_put_in() {
    let mut json = format!("\"{}\"", "x\\n".repeat(60));
    for depth in 0..30 {
        let filler = "y".repeat(depth * 9 % 140);
        json = format!("[{json},\"{filler}\\t\",{{\"k\\\"{depth}\":[{json}]}}]");
        if json.len() > 300_000 {
            break;
        }
    }
    let json = format!("{{\"a\":{json}}}");
    let tree: Json = serde_json::from_str(&json).unwrap();
    let bytes = to_struct(&json).unwrap();
    assert_eq!(bytes.len(), judged_struct(&tree).encoded_len());
    assert_eq!(Struct::decode(&bytes[..]).unwrap(), judged_struct(&tree));
    assert_eq!(to_json(&bytes).unwrap(), json);
}

fn arbitrary_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,6}",
        "\\PC{0,80}",
        "[\u{0}-\u{20}\"\\\\<>&é\u{2028}\u{1f600}]{0,40}",
        "x{120,140}",
    ]
}

fn arbitrary_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<i32>().prop_map(f64::from),
        any::<i64>().prop_map(|number| number as f64),
        proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
    ]
}

fn arbitrary_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        arbitrary_number().prop_map(Json::from),
        arbitrary_text().prop_map(Json::from),
    ];
    let value = leaf.prop_recursive(6, 60, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Json::from),
            proptest::collection::btree_map(arbitrary_text(), inner, 0..8)
                .prop_map(|members| members.into_iter().collect()),
        ]
    });
    proptest::collection::btree_map(arbitrary_text(), value, 0..24)
        .prop_map(|members| members.into_iter().collect())
}

proptest! {
    #[test]
    fn json_becomes_the_struct_that_the_judge_makes(json in arbitrary_json(), pretty: bool) {
        let text = if pretty {
            serde_json::to_string_pretty(&json).unwrap()
        } else {
            json.to_string()
        };
        let bytes = to_struct(&text).unwrap();
        prop_assert_eq!(Struct::decode(&bytes[..]).unwrap(), judged_struct(&json));
    }

    #[test]
    fn a_struct_of_the_judge_becomes_json_and_comes_back(json in arbitrary_json()) {
        let wanted = judged_struct(&json);
        let message = wanted.encode_to_vec();
        for style in [Style::Plain, Style::Sorted] {
            let text = decode(&message, style).unwrap();
            prop_assert!(serde_json::from_str::<Json>(&text).is_ok(), "{}", text);
            let bytes = to_struct(&text).unwrap();
            prop_assert_eq!(Struct::decode(&bytes[..]).unwrap(), wanted.clone());
        }
    }

    #[test]
    fn every_double_comes_back_bit_for_bit(bits: u64) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        for style in [Style::Plain, Style::Sorted] {
            let mut text = String::new();
            number::put(&mut text, value, style).unwrap();
            let literal = number::read(text.as_bytes()).unwrap();
            prop_assert_eq!(literal.length, text.len());
            prop_assert_eq!(literal.value.to_bits(), bits, "{}", text);
        }
    }

    #[test]
    fn what_is_json_to_us_is_json_to_the_judge(
        text in "[{}\\[\\]\",:0-9eE.+\\-truefalsn\\\\ \u{0}é]{0,24}",
    ) {
        for json in [text.clone(), format!("{{\"a\":{text}}}"), format!("{{\"{text}\":1}}")] {
            let ours = to_struct(&json);
            let judge = serde_json::from_str::<Json>(&json);
            // Numbers beyond the doubles are an error to both.
            prop_assert_eq!(
                ours.is_ok(),
                judge.as_ref().is_ok_and(Json::is_object),
                "{} {:?} {:?}", json, ours, judge
            );
        }
    }

    #[test]
    fn hostile_bytes_never_panic_and_become_json_or_an_error(message: Vec<u8>) {
        let _ = to_struct(&String::from_utf8_lossy(&message));
        let _ = encode(&message, Numbers::Exact);
        let _ = member(&message, "text");
        for style in [Style::Plain, Style::Sorted] {
            if let Ok(json) = decode(&message, style) {
                prop_assert!(serde_json::from_str::<Json>(&json).is_ok(), "{}", json);
            }
        }
    }

    #[test]
    fn a_struct_with_wrong_bytes_never_panics_and_becomes_json_or_an_error(
        json in arbitrary_json(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut message = to_struct(&json.to_string()).unwrap();
        prop_assume!(!message.is_empty());
        for (place, byte) in changes {
            let place = place.index(message.len());
            message[place] = byte;
        }
        if let Ok(json) = to_json(&message) {
            prop_assert!(serde_json::from_str::<Json>(&json).is_ok(), "{}", json);
        }
    }
}
