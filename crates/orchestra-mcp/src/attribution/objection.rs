//! Reasons for which a question of an upstream server is not shown to the user.

use std::fmt;

use orchestra_secret::{is_secret_field, mentions_secret};
use orchestra_wire::RawJson;
use serde_json::value::RawValue;

use super::has_web_address;

/// Levels of schemas in a property: a list has items, which are one of several choices.
const MAX_DEPTH: usize = 3;

/// Why a question is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objection {
    /// The field of this name is for a secret.
    Secret(String),
    /// The message asks for a secret, and the form has a field for any text.
    Message,
    /// The page has no address of HTTP.
    Address,
    /// The form is not one of MCP.
    Form,
}

impl Objection {
    /// Whether the user can allow it.
    #[must_use]
    pub const fn is_about_secrets(&self) -> bool {
        matches!(self, Self::Secret(_) | Self::Message)
    }
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(field) => write!(f, "the field {field} is for a secret"),
            Self::Message => f.write_str("the message is about a secret, and the form takes any text"),
            Self::Address => f.write_str("the address begins with neither https: nor http:"),
            Self::Form => f.write_str(
                "the form is no flat object whose properties are texts, numbers, booleans or choices",
            ),
        }
    }
}

/// Objection to the parameters of a question. Questions for secrets are refused unless the server may ask for them.
/// Of members with one name each is looked at: parsers differ in the one that counts.
#[must_use]
pub fn objection(params: &RawJson, may_ask_for_secrets: bool) -> Option<Objection> {
    let is_page = text(params, "mode").is_some_and(|mode| mode == "url");
    if (is_page || params.member("url").is_some()) && !has_web_address(params) {
        return Some(Objection::Address);
    }
    let members = params.members().into_iter().flatten();
    let schemas = members.filter(|member| member.key == "requestedSchema");
    let schemas: Vec<_> = schemas.map(|member| member.value).collect();
    if !schemas.iter().all(is_form) {
        return Some(Objection::Form);
    }
    if may_ask_for_secrets {
        return None;
    }
    let fields = schemas.iter().flat_map(fields);
    let free: Vec<_> = fields.filter(|(_, field)| is_free(field)).collect();
    if let Some((name, _)) = free.iter().find(|(name, field)| is_secret(name, field)) {
        return Some(Objection::Secret(name.clone()));
    }
    let said = texts(params, "message").chain(schemas.iter().flat_map(|schema| {
        let keys = ["title", "description"].into_iter();
        keys.flat_map(move |key| texts(schema, key))
    }));
    let mut said = said.filter(|_| !free.is_empty());
    said.any(|said| mentions_secret(&said))
        .then_some(Objection::Message)
}

fn text(object: &RawJson, key: &str) -> Option<String> {
    object.member(key)?.parse().ok()
}

/// All texts of one name.
fn texts<'a>(object: &'a RawJson, key: &'a str) -> impl Iterator<Item = String> + 'a {
    let members = object.members().into_iter().flatten();
    let named = members.filter(move |member| member.key == key);
    named.filter_map(|member| member.value.parse().ok())
}

fn fields(schema: &RawJson) -> Vec<(String, RawJson)> {
    let members = schema.members().into_iter().flatten();
    let mut all = Vec::new();
    for properties in members.filter(|member| member.key == "properties") {
        let properties = properties.value;
        let fields = properties.members().into_iter().flatten();
        all.extend(fields.map(|field| (field.key.into_owned(), field.value)));
    }
    all
}

/// Whether the user can enter anything: the field is neither a choice nor a boolean.
fn is_free(field: &RawJson) -> bool {
    let is_fixed = all(field, "type", |kind| kind.as_bytes() == b"\"boolean\"")
        || all(field, "enum", |values| elements(values).is_some())
        || all(field, "const", |_| true)
        || all(field, "oneOf", are_fixed)
        || all(field, "anyOf", are_fixed)
        || all(field, "items", |items| !is_free(items));
    !is_fixed
}

/// Whether the field has members of a name, and all of them are so.
fn all(field: &RawJson, key: &str, is: impl Fn(&RawJson) -> bool) -> bool {
    let members = field.members().into_iter().flatten();
    let named = members.filter(|member| member.key == key);
    let values: Vec<_> = named.map(|member| member.value).collect();
    !values.is_empty() && values.iter().all(is)
}

fn are_fixed(choices: &RawJson) -> bool {
    elements(choices).is_some_and(|choices| choices.iter().all(|choice| !is_free(choice)))
}

fn is_secret(name: &str, field: &RawJson) -> bool {
    is_secret_field(name)
        || texts(field, "title").any(|title| is_secret_field(&title))
        || texts(field, "description").any(|text| mentions_secret(&text))
        || texts(field, "format").any(|format| format == "password")
}

/// Whether a schema is one of a form (MCP, `ElicitRequestFormParams`): an object of primitive properties.
fn is_form(schema: &RawJson) -> bool {
    let Some(mut members) = schema.members() else {
        return false;
    };
    members.all(|member| match &*member.key {
        "type" => member.value.as_bytes() == b"\"object\"",
        "properties" => {
            let fields = member.value.members();
            fields
                .is_some_and(|mut fields| fields.all(|field| is_primitive(&field.value, MAX_DEPTH)))
        }
        "required" => true,
        _ => is_scalar(&member.value),
    })
}

fn is_primitive(schema: &RawJson, depth: usize) -> bool {
    let (Some(mut members), Some(depth)) = (schema.members(), depth.checked_sub(1)) else {
        return false;
    };
    members.all(|member| match &*member.key {
        "type" => !member.value.as_str().contains("\"object\""),
        "items" => is_primitive(&member.value, depth),
        "anyOf" | "oneOf" => elements(&member.value)
            .is_some_and(|choices| choices.iter().all(|choice| is_primitive(choice, depth))),
        "enum" | "enumNames" | "default" | "examples" => !member.value.as_bytes().starts_with(b"{"),
        _ => is_scalar(&member.value),
    })
}

fn is_scalar(value: &RawJson) -> bool {
    !value.as_bytes().starts_with(b"{") && !value.as_bytes().starts_with(b"[")
}

fn elements(array: &RawJson) -> Option<Vec<RawJson>> {
    let elements: Vec<&RawValue> = array.parse().ok()?;
    Some(elements.into_iter().map(RawJson::from_raw).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::checked(text.to_owned().into()).unwrap()
    }

    fn asked(message: &str, schema: &str) -> Option<Objection> {
        let message = RawJson::of(message).unwrap();
        let params = format!(
            r#"{{"message":{},"requestedSchema":{schema}}}"#,
            message.as_str()
        );
        objection(&raw(&params), false)
    }

    #[test]
    fn field_for_a_secret_is_found_by_every_text_that_names_it() {
        let plain = r#"{"properties":{"name":{"type":"string","title":"Your name"}}}"#;
        assert_eq!(asked("Name?", plain), None);
        for (schema, field) in [
            (
                r#"{"properties":{"name":{},"apiKey":{"type":"string"}}}"#,
                "apiKey",
            ),
            (
                r#"{"properties":{"value":{"title":"GitHub password"}}}"#,
                "value",
            ),
            (
                r#"{"properties":{"value":{"description":"Your GitHub password"}}}"#,
                "value",
            ),
            (r#"{"properties":{"value":{"format":"password"}}}"#, "value"),
            (r#"{"properties":{"pat":{"type":"string"}}}"#, "pat"),
            (r#"{"properties":{"pin":{"type":"integer"}}}"#, "pin"),
            (
                r#"{"properties":{"Passwort":{"type":"string"}}}"#,
                "Passwort",
            ),
            (
                r#"{"properties":{"tokens":{"title":"API tokens","type":"array","items":{"type":"string"}}}}"#,
                "tokens",
            ),
            (
                r#"{"properties":{"password":{}},"properties":{"name":{}}}"#,
                "password",
            ),
            (
                r#"{"properties":{"password":{"type":"boolean","type":"string"}}}"#,
                "password",
            ),
        ] {
            let found = Some(Objection::Secret(field.to_owned()));
            assert_eq!(asked("?", schema), found, "{schema}");
            let twice = format!(r#"{{"requestedSchema":{schema},"requestedSchema":{plain}}}"#);
            assert_eq!(objection(&raw(&twice), false), found, "{schema}");
            assert_eq!(objection(&raw(&twice), true), None, "{schema}");
        }
    }

    #[test]
    fn message_about_a_secret_is_refused_only_with_a_field_for_any_text() {
        let free = r#"{"properties":{"value":{"type":"string"}}}"#;
        assert_eq!(
            asked("Enter your GitHub token", free),
            Some(Objection::Message)
        );
        assert_eq!(asked("Enter the name", free), None);
        for field in [
            r#"{"type":"string","enum":["ann","bob"]}"#,
            r#"{"type":"boolean"}"#,
            r#"{"type":"string","oneOf":[{"const":"a","title":"Ann"},{"const":"b","title":"Bob"}]}"#,
            r#"{"type":"array","items":{"type":"string","enum":["ann"]}}"#,
            r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"Ann"}]}}"#,
        ] {
            let schema =
                format!(r#"{{"type":"object","properties":{{"reset_password":{field}}}}}"#);
            assert_eq!(
                asked("Reset the password of which user?", &schema),
                None,
                "{field}"
            );
        }
    }

    #[test]
    fn form_that_is_not_flat_is_refused_and_so_is_a_page_without_http() {
        for schema in [
            "1",
            r#"{"allOf":[{"properties":{"a":{}}}]}"#,
            r#"{"patternProperties":{"^a":{}}}"#,
            r#"{"properties":{"a":{"properties":{"b":{}}}}}"#,
            r#"{"properties":{"a":{"type":"object"}}}"#,
            r#"{"properties":{"a":{"anyOf":[{"properties":{"b":{}}}]}}}"#,
            r##"{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{}}}"##,
            r#"{"properties":[]}"#,
            &format!(
                r#"{{"properties":{{"a":{}{{}}{}}}}}"#,
                r#"{"anyOf":["#.repeat(100_000),
                "]}".repeat(100_000)
            ),
        ] {
            assert_eq!(asked("?", schema), Some(Objection::Form), "{schema}");
        }
        let all = r#"{"$schema":"x","type":"object","required":["a"],"properties":{
            "a":{"type":"string","minLength":1,"format":"email","default":"x"},"b":{"type":"integer","minimum":0},
            "c":{"type":"array","minItems":1,"items":{"anyOf":[{"const":"x","title":"X"}]},"default":["x"]},
            "d":{"anyOf":[{"type":"string"},{"type":"null"}]},"e":{"type":"string","enum":["1"],"enumNames":["One"]}}}"#;
        assert_eq!(asked("?", all), None);
        for (url, found) in [
            ("https://example.com/", None),
            ("HTTP://example.com", None),
            ("javascript:alert(1)", Some(Objection::Address)),
            ("https://a b", Some(Objection::Address)),
        ] {
            let params =
                format!(r#"{{"mode":"url","url":"{url}","message":"Sign in with your password"}}"#);
            assert_eq!(objection(&raw(&params), false), found, "{url}");
        }
    }
}
