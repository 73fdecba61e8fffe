//! Questions of an upstream server to the user of its client: who asks, and what is not asked. Without the name
//! of the server, every question would seem to come from this program.

mod labels;
mod objection;

use std::{borrow::Cow, collections::HashMap};

use orchestra_secret::is_invisible;
use orchestra_wire::{ErrorCode, RawJson, RpcError, shown};
use reqwest::Url;
use serde_json::value::RawValue;

use crate::translation::{object, others};

pub(crate) use objection::objection;

/// The member of a question's `_meta` that names the server.
const SERVER: &str = "orchestra/server";

/// Beginning of the members of `_meta` that only Orchestra sets.
const OWN: &str = "orchestra/";

/// The code of an error that asks the user to visit a page first (MCP 2025-11-25, `URLElicitationRequiredError`).
pub const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode(-32042);

/// Pages of such an error that are passed on.
const MAX_PAGES: usize = 16;

/// Questions by their keys, with the name of the server that asks: in `_meta`, and in the text that is shown to the
/// user or given to the model. Other members remain as they are; of several with one name the last counts.
#[must_use]
pub fn attribute(requests: &RawJson, server: &str) -> RawJson {
    let Some(members) = last_members(requests) else {
        return requests.clone();
    };
    let named = members
        .into_iter()
        .map(|(key, request)| (key, attributed(&request, server)));
    object(named)
}

/// An error of a server. One that asks the user to visit pages names the server as its questions do, and has no
/// pages but those of HTTP.
#[must_use]
pub fn attribute_error(error: RpcError, server: &str) -> RpcError {
    if error.code != URL_ELICITATION_REQUIRED {
        return error;
    }
    let pages = error
        .data
        .as_ref()
        .and_then(|data| data.member("elicitations"));
    let pages: Vec<&RawValue> = pages
        .as_ref()
        .and_then(|pages| pages.parse().ok())
        .unwrap_or_default();
    let pages = pages.into_iter().take(MAX_PAGES).map(RawJson::from_raw);
    let pages: Vec<_> = pages.filter(has_web_address).collect();
    if pages.is_empty() {
        let text = format!(
            "the MCP server `{server}` wants the user to visit a page and names none that begins with https: or http:"
        );
        return RpcError::new(ErrorCode::INTERNAL_ERROR, text);
    }
    let asks = format!("The MCP server `{server}` asks: ");
    let pages = pages
        .iter()
        .map(|page| named(page, "message", &asks, server));
    let pages: Vec<_> = pages.map(|page| page.as_str().to_owned()).collect();
    let pages = RawJson::checked(format!("[{}]", pages.join(",")).into());
    let pages = pages.unwrap_or_else(|_| RawJson::empty_object());
    let rest = error.data.as_ref().and_then(last_members);
    let rest = rest.into_iter().flatten();
    let rest = rest.filter(|(name, _)| name != "elicitations");
    let data = object(
        [(Cow::Borrowed("elicitations"), pages)]
            .into_iter()
            .chain(rest),
    );
    RpcError {
        code: error.code,
        message: format!("{asks}{}", in_a_line(&error.message)).into(),
        data: Some(data),
    }
}

/// Parameters of a notification whose method is unknown. `_meta` names the server, and has no other member of
/// Orchestra; the rest is unchanged.
#[must_use]
pub fn attribute_notification(params: Option<&RawJson>, server: &str) -> RawJson {
    let meta = params.and_then(|params| params.member("_meta"));
    let meta = meta.as_ref().and_then(last_members).into_iter().flatten();
    let meta = meta.filter(|(name, _)| !name.starts_with(OWN));
    let meta = object(meta.chain([(Cow::Borrowed(SERVER), string(server))]));
    let rest = params.and_then(last_members).into_iter().flatten();
    let rest = rest.filter(|(name, _)| name != "_meta");
    object(rest.chain([(Cow::Borrowed("_meta"), meta)]))
}

/// The result of a server, in which `_meta` has no member that only Orchestra sets. Other results are unchanged.
#[must_use]
pub fn attribute_result(result: RawJson) -> RawJson {
    let members = result.members().into_iter().flatten();
    let mut metas = members.filter(|member| member.key == "_meta");
    let has_own = metas.any(|meta| {
        let mut inner = meta.value.members().into_iter().flatten();
        inner.any(|member| member.key.starts_with(OWN))
    });
    if !has_own {
        return result;
    }
    let members = last_members(&result).into_iter().flatten();
    object(members.map(|(name, value)| match &*name {
        "_meta" => {
            let meta = last_members(&value).into_iter().flatten();
            (
                name,
                object(meta.filter(|(name, _)| !name.starts_with(OWN))),
            )
        }
        _ => (name, value),
    }))
}

/// Whether `url` is an address of HTTP in the characters of URIs (RFC 3986), whose host can be read: without the name of
/// a user before it, which could look like the host, and without escapes in it. A browser must be able to read it too.
fn has_web_address(page: &RawJson) -> bool {
    let Some(Ok(url)) = page.member("url").map(|url| url.parse::<String>()) else {
        return false;
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let is_web = ["http", "https"]
        .iter()
        .any(|web| scheme.eq_ignore_ascii_case(web));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    is_web
        && url
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && !host.is_empty()
        && !host.contains(['@', '%'])
        && Url::parse(&url).is_ok()
}

/// Text of a server on one line: a second one could look like the name of another server.
pub(crate) fn in_a_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut is_behind_blank = false;
    for c in text.trim().chars() {
        let is_blank = c.is_whitespace();
        match c {
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                line.extend(c.escape_default());
            }
            // Blanks enough would wrap the text.
            _ if is_blank && is_behind_blank => {}
            _ if is_blank => line.push(' '),
            c if is_deceptive(c) => line.extend(c.escape_default()),
            c => line.push(c),
        }
        is_behind_blank = is_blank;
    }
    line
}

/// Text of a server inside a message, on one line between quotation marks: it cannot look like a part of the message.
#[must_use]
pub fn quoted(text: &str) -> String {
    let text = in_a_line(&text.replace('\\', r"\\").replace('"', r#"\""#));
    let mut seen = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => seen.extend(c.escape_default()),
            false => seen.push(c),
        }
    }
    format!("\"{}\"", shown(&seen))
}

/// Text of a server to a model, where lines are common.
pub(crate) fn in_lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => lines.push(c),
            c if is_deceptive(c) => lines.extend(c.escape_default()),
            c => lines.push(c),
        }
    }
    lines
}

/// Returns whether a character controls a terminal, turns the direction of text or cannot be seen. Joiners and selectors
/// of variants are part of ordinary text.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    let is_ordinary = matches!(
        c,
        '\u{34f}' | '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{e0100}'..='\u{e01ef}'
    );
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{2800}')
        || is_invisible(c) && !is_ordinary
}

/// Returns whether a character is not seen as what it is: [deceptive](is_deceptive) ones, fillers, joiners and
/// selectors of variants, and all blanks but the usual one.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    is_deceptive(c) || is_invisible(c) || c.is_whitespace() && c != ' '
}

/// Returns an address in ASCII, so that no letter of its host looks like another letter: a URL as it is requested
/// (`https://xn--…`), and any other address with the letters escaped.
#[must_use]
pub fn ascii_address(address: &str) -> String {
    if address.is_ascii() {
        return address.to_owned();
    }
    // A reference is no part of a URL.
    let url = Url::parse(address).ok();
    if let Some(url) = url.filter(|_| !address.contains("${")) {
        return url.into();
    }
    let mut escaped = String::with_capacity(address.len());
    for char in address.chars() {
        match char.is_ascii() {
            true => escaped.push(char),
            false => escaped.extend(char.escape_unicode()),
        }
    }
    escaped
}

fn attributed(request: &RawJson, server: &str) -> RawJson {
    let method: Option<String> = request
        .member("method")
        .and_then(|method| method.parse().ok());
    let (key, text) = match method.as_deref() {
        Some("elicitation/create") => ("message", format!("The MCP server `{server}` asks: ")),
        Some("sampling/createMessage") => (
            "systemPrompt",
            format!("This request comes from the MCP server `{server}`.\n\n"),
        ),
        _ => return request.clone(),
    };
    let params = request
        .member("params")
        .unwrap_or_else(RawJson::empty_object);
    let params = named(&params, key, &text, server);
    let rest = last_members(request).into_iter().flatten();
    let rest = rest.filter(|(name, _)| name != "params");
    object(rest.chain([(Cow::Borrowed("params"), params)]))
}

/// A question with the name of its server: in `_meta`, and as `text` before the member `key`.
fn named(params: &RawJson, key: &'static str, text: &str, server: &str) -> RawJson {
    let said: Option<String> = params.member(key).and_then(|said| said.parse_lossy().ok());
    let said = said.unwrap_or_default();
    let said = match key {
        "message" => in_a_line(&said),
        _ => indented(&in_lines(&said)),
    };
    let text = format!("{text}{said}");
    let meta = params.member("_meta");
    let meta = others(meta.as_ref(), SERVER).chain([(Cow::Borrowed(SERVER), string(server))]);
    let own = [
        (Cow::Borrowed("_meta"), object(meta)),
        (Cow::Borrowed(key), string(text.trim_end())),
    ];
    let rest = last_members(params).into_iter().flatten();
    let rest = rest.filter(|(name, _)| name != "_meta" && name != key);
    let rest = rest.map(|(name, value)| match &*name {
        "requestedSchema" => {
            let value = labels::in_lines_of_form(&value).unwrap_or(value);
            (name, value)
        }
        _ => (name, value),
    });
    object(own.into_iter().chain(rest))
}

/// Text of a server to a model below a line of this program: none of its lines looks like that line.
fn indented(text: &str) -> String {
    let lines = text
        .trim_matches('\n')
        .split('\n')
        .map(|line| match line.is_empty() {
            true => String::new(),
            false => format!("  {line}"),
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// The members of an object; of several with one name the last. `None` when it is no object.
fn last_members(value: &RawJson) -> Option<Vec<(Cow<'_, str>, RawJson)>> {
    let members: Vec<_> = value
        .members()?
        .map(|member| (member.key, member.value))
        .collect();
    let names = members.iter().enumerate();
    let last: HashMap<String, usize> = names
        .map(|(place, (name, _))| (name.to_string(), place))
        .collect();
    let kept = members.into_iter().enumerate();
    let kept = kept.filter(|(place, (name, _))| last.get(&**name) == Some(place));
    Some(kept.map(|(_, member)| member).collect())
}

fn string(text: &str) -> RawJson {
    RawJson::of(text).expect("a text has a JSON form")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::checked(text.to_owned().into()).unwrap()
    }

    #[test]
    fn every_question_names_its_server_and_keeps_the_rest() {
        let requests = raw(
            r#"{"a":{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{"z":{"type":"string"},"b":{"type":"string"}}},"_meta":{"x":1,"orchestra/server":"other"}}},
            "b":{"method":"elicitation/create","params":{"mode":"url","url":"https://example.com/","message":"Visit","elicitationId":"1"}},
            "c":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}},
            "d":{"method":"sampling/createMessage","params":{"systemPrompt":"\nBe brief.\n\nThis request","maxTokens":5}},
            "e":{"method":"roots/list"}}"#,
        );
        let named = attribute(&requests, "git-hub");
        assert!(
            named.as_str().contains(r#""properties":{"z":"#),
            "the order of fields remains"
        );
        let named: Value = named.parse().unwrap();
        for key in ["a", "b", "c", "d"] {
            assert_eq!(
                named[key]["params"]["_meta"]["orchestra/server"], "git-hub",
                "{key}"
            );
        }
        assert_eq!(named["a"]["params"]["_meta"]["x"], 1);
        for (key, member, expected) in [
            ("a", "message", "The MCP server `git-hub` asks: Name?"),
            ("b", "message", "The MCP server `git-hub` asks: Visit"),
            ("b", "url", "https://example.com/"),
            (
                "c",
                "systemPrompt",
                "This request comes from the MCP server `git-hub`.",
            ),
            (
                "d",
                "systemPrompt",
                "This request comes from the MCP server `git-hub`.\n\n  Be brief.\n\n  This request",
            ),
        ] {
            assert_eq!(named[key]["params"][member], expected, "{key}");
        }
        assert_eq!(named["c"]["params"]["maxTokens"], 5);
        assert_eq!(named["e"], json!({"method": "roots/list"}));
    }

    #[test]
    fn member_that_is_repeated_hides_no_other_text() {
        let twice = r#"{"a":{"method":"elicitation/create","params":{"message":"1","message":"2","url":"x","url":"y"}}}"#;
        let named = attribute(&raw(twice), "s");
        assert_eq!(named.as_str().matches("\"message\"").count(), 1);
        assert_eq!(named.as_str().matches("\"url\"").count(), 1);
        assert!(named.as_str().contains("asks: 2") && named.as_str().contains(r#""url":"y""#));
    }

    #[test]
    fn text_of_a_server_cannot_look_like_a_line_of_ours() {
        let said = "Na\u{ad}me?\u{180e}\r\n\u{1b}[2K\u{202e}\u{1d173}x    y\u{2028}The MCP server `bank` asks: PIN";
        let request =
            serde_json::json!({"a": {"method": "elicitation/create", "params": {"message": said}}});
        let named: Value = attribute(&RawJson::of(&request).unwrap(), "s")
            .parse()
            .unwrap();
        assert_eq!(
            named["a"]["params"]["message"],
            r"The MCP server `s` asks: Na\u{ad}me?\u{180e}\r\n\u{1b}[2K\u{202e}\u{1d173}x y\u{2028}The MCP server `bank` asks: PIN"
        );
    }

    #[test]
    fn result_has_no_member_of_orchestra_in_meta() {
        let own = r#"{"content":[],"_meta":{"a":1},"_meta":{"orchestra/error":{"code":"x"},"b":2,"orchestra\/server":"s"}}"#;
        assert_eq!(
            attribute_result(raw(own)).as_str(),
            r#"{"content":[],"_meta":{"b":2}}"#
        );
        for other in [
            r#"{ "content":[], "_meta":{"vendor/x":1} }"#,
            r#"{"orchestra/error":1,"structuredContent":{"orchestra/error":1}}"#,
            "[]",
        ] {
            assert_eq!(attribute_result(raw(other)).as_str(), other);
        }
    }

    #[test]
    fn error_that_asks_for_a_visit_names_its_server_and_opens_pages_of_http_only() {
        let page = |url: &str| json!({"mode": "url", "elicitationId": "1", "url": url, "message": "Orchestra asks"});
        let error = |pages: Vec<Value>| {
            let data = json!({"elicitations": pages, "more": 1});
            let error = RpcError::new(URL_ELICITATION_REQUIRED, "Orchestra needs you\nto sign in");
            attribute_error(error.with_data(RawJson::of(&data).unwrap()), "s")
        };
        let many: Vec<_> = (0..100).map(|_| page("https://x.example/")).collect();
        let many: Value = error(many).data.unwrap().parse().unwrap();
        assert_eq!(many["elicitations"].as_array().unwrap().len(), MAX_PAGES);
        let pages = [
            "https://x.example/",
            "javascript:alert(1)",
            "file:///etc",
            "HTTP://y.example",
            "https://a\u{202e}b",
        ];
        let named = error(pages.map(page).to_vec());
        assert_eq!(named.code, URL_ELICITATION_REQUIRED);
        assert_eq!(
            named.message,
            r"The MCP server `s` asks: Orchestra needs you\nto sign in"
        );
        let data: Value = named.data.unwrap().parse().unwrap();
        assert_eq!(data["more"], 1);
        let pages = data["elicitations"].as_array().unwrap();
        let urls: Vec<_> = pages
            .iter()
            .map(|page| page["url"].as_str().unwrap())
            .collect();
        assert_eq!(urls, ["https://x.example/", "HTTP://y.example"]);
        for page in pages {
            assert_eq!(page["message"], "The MCP server `s` asks: Orchestra asks");
            assert_eq!(page["_meta"]["orchestra/server"], "s");
            assert_eq!(page["elicitationId"], "1");
        }
        let none = error(vec![page("data:text/html,x")]);
        assert_eq!((none.code, none.data), (ErrorCode::INTERNAL_ERROR, None));
        let other = RpcError::invalid_params("a\nb");
        assert_eq!(attribute_error(other.clone(), "s"), other);
    }

    #[test]
    fn address_with_letters_outside_ascii_is_written_in_ascii() {
        for (address, expected) in [
            ("https://example.com", "https://example.com"),
            ("https://${HOST}:${PORT}/mcp", "https://${HOST}:${PORT}/mcp"),
            (
                "https://ex\u{e4}mple.com:8443/mcp",
                "https://xn--exmple-cua.com:8443/mcp",
            ),
            ("https://\u{ff45}xample.com/mcp", "https://example.com/mcp"),
            (
                "https://${A}.g\u{43e}od/mcp",
                r"https://${A}.g\u{43e}od/mcp",
            ),
            ("https://g\u{43e}od:x/mcp", r"https://g\u{43e}od:x/mcp"),
            ("g\u{43e}od.example:7421", r"g\u{43e}od.example:7421"),
        ] {
            assert_eq!(ascii_address(address), expected);
        }
    }
}
