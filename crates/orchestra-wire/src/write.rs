//! Writes JSON and JSON-RPC messages into a [`Rope`]. Messages carry no line end; the driver of a
//! line-based stream adds it.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::{ErrorCode, RawJson, RequestId, Rope, RpcError, SPLICE_BYTES};

/// How many bytes are looked at together in the search for bytes that need an escape.
const BLOCK: usize = 32;

/// Appends `text` as a JSON string.
pub fn string(rope: &mut Rope, text: &str) {
    rope.push_byte(b'"');
    escape(rope, text.as_bytes());
    rope.push_byte(b'"');
}

/// Appends `text` as a JSON string; large text that needs no escape is not copied.
pub fn string_owned(rope: &mut Rope, text: String) {
    if text.len() < SPLICE_BYTES || first_escape(text.as_bytes()).is_some() {
        return string(rope, &text);
    }
    rope.push_byte(b'"');
    rope.push_body(Bytes::from(text));
    rope.push_byte(b'"');
}

/// Appends a JSON value as it is, save that line breaks between its tokens become spaces.
pub fn raw(rope: &mut Rope, value: &RawJson) {
    let text = value.as_bytes();
    if memchr::memchr2(b'\n', b'\r', text).is_none() {
        rope.push_body(value.to_bytes());
        return;
    }
    // A raw line break cannot occur inside a JSON string, so each of them is white space.
    let flat = text.iter().map(|byte| {
        if matches!(byte, b'\n' | b'\r') {
            b' '
        } else {
            *byte
        }
    });
    rope.push_body(Bytes::from(flat.collect::<Vec<u8>>()));
}

/// Appends an unsigned number.
pub fn number(rope: &mut Rope, number: u64) {
    rope.push(number.to_string().as_bytes());
}

/// Appends a number; one that is not finite becomes `0`, as JSON has no form for it.
pub fn float(rope: &mut Rope, number: f64) {
    let text = serde_json::Number::from_f64(number).map_or_else(|| "0".into(), |n| n.to_string());
    rope.push(text.strip_suffix(".0").unwrap_or(&text).as_bytes());
}

/// Appends the head of a response with a result; the result and [`close`] follow.
pub fn result_head(rope: &mut Rope, id: &RequestId) {
    rope.push(b"{\"jsonrpc\":\"2.0\",\"id\":");
    rope.push(id.as_bytes());
    rope.push(b",\"result\":");
}

/// Appends a response with an error; without an id it goes to `null`.
pub fn error(rope: &mut Rope, id: Option<&RequestId>, error: &RpcError) {
    rope.push(b"{\"jsonrpc\":\"2.0\",\"id\":");
    rope.push(id.map_or(b"null", RequestId::as_bytes));
    rope.push(b",\"error\":");
    error_object(rope, error);
    rope.push_byte(b'}');
}

/// Appends an error object alone.
pub fn error_object(rope: &mut Rope, error: &RpcError) {
    rope.push(b"{\"code\":");
    rope.push(error.code.0.to_string().as_bytes());
    rope.push(b",\"message\":");
    string(rope, &error.message);
    if let Some(data) = &error.data {
        rope.push(b",\"data\":");
        raw(rope, data);
    }
    rope.push_byte(b'}');
}

/// Appends the head of a notification with parameters; the parameters and [`close`] follow.
pub fn notification_head(rope: &mut Rope, method: &str) {
    rope.push(b"{\"jsonrpc\":\"2.0\",\"method\":");
    string(rope, method);
    rope.push(b",\"params\":");
}

/// Appends a notification.
pub fn notification(rope: &mut Rope, method: &str, params: Option<&RawJson>) {
    rope.push(b"{\"jsonrpc\":\"2.0\",\"method\":");
    string(rope, method);
    end(rope, params);
}

/// Appends a request.
pub fn request(rope: &mut Rope, id: &RequestId, method: &str, params: Option<&RawJson>) {
    rope.push(b"{\"jsonrpc\":\"2.0\",\"id\":");
    rope.push(id.as_bytes());
    rope.push(b",\"method\":");
    string(rope, method);
    end(rope, params);
}

fn end(rope: &mut Rope, params: Option<&RawJson>) {
    if let Some(params) = params {
        rope.push(b",\"params\":");
        raw(rope, params);
    }
    close(rope);
}

/// Appends the end of a message whose head was written by one of the `_head` functions.
pub fn close(rope: &mut Rope) {
    rope.push_byte(b'}');
}

/// The request that a response answers, and its error code if it has one, read from the head of a
/// response as this module writes it; `None` for anything else, also where the head is cut off.
#[must_use]
pub fn answered(response: &[u8]) -> Option<(RequestId, Option<ErrorCode>)> {
    let rest = response.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":")?;
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
    let id = values.next()?.ok()?;
    let rest = &rest[values.byte_offset()..];
    let id = RequestId::from_raw(id).ok()?;
    if rest.starts_with(b",\"result\":") {
        return Some((id, None));
    }
    let code = rest.strip_prefix(b",\"error\":{\"code\":")?;
    let end = code.iter().position(|byte| *byte == b',')?;
    let code = std::str::from_utf8(&code[..end]).ok()?.parse().ok()?;
    Some((id, Some(ErrorCode(code))))
}

/// Where the first byte stands that JSON does not allow inside a string as it is.
fn first_escape(text: &[u8]) -> Option<usize> {
    let mut blocks = text.chunks_exact(BLOCK);
    let mut start = 0;
    for block in blocks.by_ref() {
        // No early exit inside a block, so that the compiler can use vector instructions.
        if block
            .iter()
            .fold(false, |found, byte| found | needs_escape(*byte))
        {
            break;
        }
        start += BLOCK;
    }
    text[start..]
        .iter()
        .position(|byte| needs_escape(*byte))
        .map(|at| start + at)
}

const fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn escape(rope: &mut Rope, mut text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    while let Some(at) = first_escape(text) {
        rope.push(&text[..at]);
        match text[at] {
            b'\n' => rope.push(b"\\n"),
            b'\r' => rope.push(b"\\r"),
            b'\t' => rope.push(b"\\t"),
            byte @ (b'"' | b'\\') => rope.push(&[b'\\', byte]),
            byte => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                rope.push(b"\\u00");
                rope.push(&digits);
            }
        }
        text = &text[at + 1..];
    }
    rope.push(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Rope)) -> String {
        let mut rope = Rope::new();
        write(&mut rope);
        String::from_utf8(rope.into_vec()).unwrap()
    }

    #[test]
    fn messages_have_exactly_these_bytes() {
        let id = RequestId::from_number(3);
        let error_object = RpcError::method_not_found("a\"b");
        assert_eq!(
            written(|rope| error(rope, Some(&id), &error_object)),
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"method not found: a\"b"}}"#
        );
        let error_object =
            RpcError::new(ErrorCode::PARSE_ERROR, "x").with_data(RawJson::of(&[1]).unwrap());
        assert_eq!(
            written(|rope| error(rope, None, &error_object)),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":[1]}}"#
        );
        assert_eq!(
            written(|rope| request(rope, &id, "roots/list", None)),
            r#"{"jsonrpc":"2.0","id":3,"method":"roots/list"}"#
        );
        assert_eq!(
            written(|rope| {
                result_head(rope, &id);
                rope.push(b"{}");
                close(rope);
            }),
            r#"{"jsonrpc":"2.0","id":3,"result":{}}"#
        );
    }

    #[test]
    fn a_response_tells_what_it_answers() {
        for id in ["3", "\"a,\\\"b\"", "-12345678901234567890123"] {
            let id = RequestId::from_raw(serde_json::from_str(id).unwrap()).unwrap();
            let result = written(|rope| {
                result_head(rope, &id);
                rope.push(b"{\"error\":1}");
                close(rope);
            });
            assert_eq!(answered(result.as_bytes()), Some((id.clone(), None)));
            let refused =
                written(|rope| error(rope, Some(&id), &RpcError::method_not_found("a,b")));
            let code = Some(ErrorCode::METHOD_NOT_FOUND);
            assert_eq!(answered(refused.as_bytes()), Some((id.clone(), code)));
            let asked = written(|rope| request(rope, &id, "roots/list", None));
            assert_eq!(answered(asked.as_bytes()), None);
        }
        let told = written(|rope| notification_head(rope, "x"));
        assert_eq!(answered(told.as_bytes()), None);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(1.0, "1"), (0.5, "0.5"), (f64::NAN, "0"), (1e300, "1e+300")] {
            assert_eq!(written(|rope| float(rope, value)), text);
        }
    }

    #[test]
    fn raw_values_lose_their_line_breaks_only() {
        let value = serde_json::from_str("{\"a\":\r\n[1,\n \"x\\n\"]}").unwrap();
        let value = RawJson::from_raw(value);
        assert_eq!(
            written(|rope| raw(rope, &value)),
            "{\"a\":  [1,  \"x\\n\"]}"
        );
    }

    #[test]
    fn large_clean_text_is_not_copied() {
        let text = "x".repeat(SPLICE_BYTES);
        let start = text.as_ptr();
        let mut rope = Rope::new();
        string_owned(&mut rope, text);
        assert_eq!(rope.pieces().nth(1).unwrap().as_ptr(), start);
        let mut rope = Rope::new();
        string_owned(&mut rope, "\n".repeat(SPLICE_BYTES));
        assert_eq!(rope.len(), 2 * SPLICE_BYTES + 2);
    }

    proptest::proptest! {
        #[test]
        fn strings_round_trip(text in "(\\PC|[\\x00-\\x1f\"\\\\]|é|x{30}){0,12}") {
            let json = written(|rope| string(rope, &text));
            proptest::prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            proptest::prop_assert!(!json.contains('\n'));
        }
    }
}
