//! Questions of an upstream server to the user of its client: who asks, and whether it is for a secret. Without
//! the name of the server, every question would seem to come from this program.

use std::{borrow::Cow, collections::HashMap};

use orchestra_secret::is_secret_name;
use orchestra_wire::RawJson;

use crate::translation::{object, others};

/// The member of a question's `_meta` that names the server.
const SERVER: &str = "orchestra/server";

/// Depth to which a schema is searched. The forms of MCP are flat.
const MAX_DEPTH: usize = 32;

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

/// The first field of a form that means a secret, by its name, its title or its format.
#[must_use]
pub fn secret_field(params: &RawJson) -> Option<String> {
    let mut members = params.members()?;
    members.find_map(|member| match &*member.key {
        "requestedSchema" => secret_property(&member.value, MAX_DEPTH),
        _ => None,
    })
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
    let said: Option<String> = params.member(key).and_then(|said| said.parse().ok());
    let text = format!("{text}{}", said.unwrap_or_default());
    let meta = params.member("_meta");
    let meta = others(meta.as_ref(), SERVER).chain([(Cow::Borrowed(SERVER), string(server))]);
    let own = [
        (Cow::Borrowed("_meta"), object(meta)),
        (Cow::Borrowed(key), string(text.trim_end())),
    ];
    let rest = last_members(&params).into_iter().flatten();
    let rest = rest.filter(|(name, _)| name != "_meta" && name != key);
    let params = object(own.into_iter().chain(rest));
    object(others(Some(request), "params").chain([(Cow::Borrowed("params"), params)]))
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

fn secret_property(schema: &RawJson, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    for member in schema.members()? {
        let fields = member
            .value
            .members()
            .filter(|_| member.key == "properties");
        let secret =
            fields.and_then(|mut fields| fields.find(|field| is_secret(&field.key, &field.value)));
        if let Some(field) = secret {
            return Some(field.key.into_owned());
        }
        if let Some(name) = secret_property(&member.value, depth) {
            return Some(name);
        }
    }
    None
}

fn is_secret(name: &str, field: &RawJson) -> bool {
    let text = |key| {
        field
            .member(key)
            .and_then(|text| text.parse::<String>().ok())
    };
    is_secret_name(name)
        || text("title").is_some_and(|title| is_secret_name(&title))
        || text("format").as_deref() == Some("password")
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
            "d":{"method":"sampling/createMessage","params":{"systemPrompt":"Be brief.","maxTokens":5}},
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
                "This request comes from the MCP server `git-hub`.\n\nBe brief.",
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
    fn field_for_a_secret_is_found_wherever_a_form_names_it() {
        let plain = r#"{"properties":{"name":{"type":"string","title":"Your name"}}}"#;
        assert_eq!(
            secret_field(&raw(&format!(r#"{{"requestedSchema":{plain}}}"#))),
            None
        );
        for (schema, field) in [
            (
                r#"{"properties":{"name":{},"apiKey":{"type":"string"}}}"#,
                "apiKey",
            ),
            (
                r#"{"properties":{"value":{"title":"GitHub password"}}}"#,
                "value",
            ),
            (r#"{"properties":{"value":{"format":"password"}}}"#, "value"),
            (
                r#"{"properties":{"a":{"properties":{"token":{}}}}}"#,
                "token",
            ),
            (
                r#"{"properties":{"password":{}},"properties":{"name":{}}}"#,
                "password",
            ),
        ] {
            let params = format!(r#"{{"requestedSchema":{schema},"requestedSchema":{plain}}}"#);
            assert_eq!(
                secret_field(&raw(&params)).as_deref(),
                Some(field),
                "{schema}"
            );
        }
    }
}
