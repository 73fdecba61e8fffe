//! Messages that cannot be parsed: the members that can still be found in them, and lists that are
//! nested too deep in some of their items alone.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::{MAX_DEPTH, RequestId, depth::after_string, without_mark};

/// Depth at which the members of an item of a list open: message, result, list, item.
const ITEM_DEPTH: usize = 4;

/// Members of results that are lists of definitions.
const LISTS: [&[u8]; 4] = [b"tools", b"prompts", b"resources", b"resourceTemplates"];

/// The members of a message that cannot be parsed, as far as they can be found.
#[derive(Debug, Default)]
pub struct Found {
    ids: Vec<RequestId>,
    has_method: bool,
    has_outcome: bool,
}

impl Found {
    /// The request that the message answers.
    #[must_use]
    pub fn answered(&self) -> Option<&RequestId> {
        match &self.ids[..] {
            [id, again @ ..] if self.has_outcome && !self.has_method => {
                again.iter().all(|other| other == id).then_some(id)
            }
            _ => None,
        }
    }

    /// The id of the message, where it is a request.
    #[must_use]
    pub fn asked(&self) -> Option<&RequestId> {
        match &self.ids[..] {
            [id] if self.has_method && !self.has_outcome => Some(id),
            _ => None,
        }
    }
}

enum Token<'t> {
    /// An array or object opens at this offset, inside so many others.
    Open(usize, usize),
    /// An array or object ends before this offset, inside so many others.
    Close(usize, usize),
    /// A member of the object at this depth, and the text from its value on.
    Member(usize, &'t [u8], &'t [u8]),
}

/// Finds the members of one message that cannot be parsed.
#[must_use]
pub fn find(text: &[u8]) -> Found {
    let mut found = Found::default();
    let text = without_mark(text).trim_ascii_start();
    if text.starts_with(b"{") {
        walk(text, |token| {
            if let Token::Member(1, key, value) = token {
                match key {
                    b"id" => found.ids.extend(id(value)),
                    b"method" => found.has_method = true,
                    b"result" | b"error" => found.has_outcome = true,
                    _ => {}
                }
            }
        });
    }
    found
}

fn id(value: &[u8]) -> Option<RequestId> {
    // Arrays and objects are not looked into.
    if !matches!(value.first()?, b'"' | b'-' | b'0'..=b'9') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_slice(value).into_iter::<&RawValue>();
    RequestId::from_raw(values.next()?.ok()?).ok()
}

/// A list whose only fault is that members of its items are nested too deep, with null in their
/// place. `None` for everything else.
#[must_use]
pub fn shallow_list(text: &[u8]) -> Option<Bytes> {
    let text = without_mark(text).trim_ascii_start();
    let (mut is_result, mut is_list) = (false, false);
    let (mut begin, mut is_deep) = (0, false);
    let mut cuts = Vec::new();
    if !text.starts_with(b"{") {
        return None;
    }
    walk(text, |token| match token {
        Token::Member(1, key, _) => is_result = key == b"result",
        Token::Member(2, key, _) => is_list = is_result && LISTS.contains(&key),
        Token::Open(at, ITEM_DEPTH) => (begin, is_deep) = (at, false),
        Token::Open(_, depth) if depth >= MAX_DEPTH => is_deep = true,
        Token::Close(end, ITEM_DEPTH) if is_deep && is_list => {
            cuts.push(begin..end);
            is_deep = false;
        }
        _ => {}
    });
    if cuts.is_empty() {
        return None;
    }
    let (mut left, mut at) = (Vec::new(), 0);
    for cut in cuts {
        left.extend_from_slice(&text[at..cut.start]);
        left.extend_from_slice(b"null");
        at = cut.end;
    }
    left.extend_from_slice(&text[at..]);
    Some(left.into())
}

/// Visits the tokens of the first value of a text, which may be no JSON.
fn walk<'t>(text: &'t [u8], mut visit: impl FnMut(Token<'t>)) {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                visit(Token::Open(at - 1, depth));
                depth += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                visit(Token::Close(at, depth));
                if depth == 0 {
                    return;
                }
            }
            b'"' => {
                let start = at;
                at = after_string(text, at);
                let behind = text[at..].trim_ascii_start();
                if let Some(value) = behind.strip_prefix(b":") {
                    let key = &text[start..(at - 1).max(start)];
                    visit(Token::Member(depth, key, value.trim_ascii_start()));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn id_of_an_answer_that_is_no_json_is_found() {
        let deep = [
            &b"{\"result\":"[..],
            &b"[".repeat(9_000),
            &b"]".repeat(9_000),
            b", \"id\" : 7}",
        ]
        .concat();
        for (text, expected) in [
            (&b"{\"id\":7,\"result\":{\"a\":NaN}}"[..], Some("7")),
            (b"{\"id\":\"7\",\"error\":{\"a\":'x'}}", Some("\"7\"")),
            (
                b"{\"result\":{\"id\":1,\"t\":\"\xff\"},\"id\":7}",
                Some("7"),
            ),
            (b"{\"result\":\"\\\"id\\\":1\",\"id\":7,}", Some("7")),
            (b"{\"id\":7,\"result\":{\"a\":\"cut o", Some("7")),
            (&deep, Some("7")),
            (b"{\"id\":7,\"id\":8,\"result\":NaN}", None),
            (b"{\"id\":7,\"id\":7,\"result\":NaN}", Some("7")),
            (b"{\"id\":7,\"method\":\"m\",\"result\":NaN}", None),
            (b"{\"id\":7,\"params\":NaN}", None),
            (b"{\"id\":{},\"result\":NaN}", None),
            (b"{\"result\":{\"id\":7},\"a\":NaN}", None),
            (b"[{\"id\":7,\"result\":NaN}]", None),
            (b"sent {\"id\":7,\"result\":{}}", None),
            (b"{\"", None),
            (b"{\"id\":", None),
        ] {
            let found = find(text);
            let found = found.answered().map(RequestId::as_json);
            assert_eq!(found, expected, "{}", text.escape_ascii());
        }
        let asks = find(b"{\"id\":7,\"method\":\"m\",\"params\":NaN}");
        assert_eq!(asks.asked().map(RequestId::as_json), Some("7"));
    }

    #[test]
    fn list_loses_the_members_that_are_nested_too_deep_alone() {
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        let list = |key: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"{key}":[{{"name":"a","inputSchema":{deep}}},{{"name":"b","inputSchema":{{}}}}]}}}}"#
            )
        };
        let text = list("tools");
        assert!(parse(text.as_bytes()).is_err());
        let shallow = shallow_list(text.as_bytes()).unwrap();
        assert!(parse(&shallow).is_ok());
        assert_eq!(
            &shallow[..],
            text.replace(&deep, "null").as_bytes(),
            "nothing else is changed"
        );
        assert!(shallow_list(list("content").as_bytes()).is_none());
        assert!(shallow_list(text.replace(&deep, "{}").as_bytes()).is_none());
    }
}
