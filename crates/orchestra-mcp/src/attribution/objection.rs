//! Reasons for which a question of an upstream server is not shown to the user.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use orchestra_secret::{is_secret_field, label_asks_for_secret, mentions_secret};
use orchestra_wire::RawJson;
use serde_json::value::RawValue;

use super::has_web_address;

/// Levels of schemas in a property: a list has items, which are one of several choices.
const MAX_DEPTH: usize = 3;

/// Number of choices, and of characters in each, by which a person can spell a text: the keys of a keypad.
const MIN_KEYS: usize = 8;
const MAX_KEY_CHARS: usize = 2;

/// Number of fields with the same choices, [`MIN_KEYS`] or more, by which a person can spell a text.
const MIN_PLACES: usize = 3;

/// Number of bytes of a question, and of its fields and texts, that a person may be expected to read.
const MAX_BYTES: usize = 64 * 1024;
const MAX_TEXTS: usize = 4_000;

/// Why a question is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Objection {
    /// The field of this name is for a secret.
    Secret(String),
    /// The message or a label of the form asks for a secret, and the form has a field for any text.
    Message,
    /// The page has no address of HTTP, or one that does not show its host.
    Address,
    /// The form is not one of MCP.
    Form,
    /// The question is too long to be read by a person.
    Long,
}

impl Objection {
    /// Whether the user can allow it.
    pub(crate) const fn is_about_secrets(&self) -> bool {
        matches!(self, Self::Secret(_) | Self::Message)
    }
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(field) => write!(f, "the field {field} is for a secret"),
            Self::Message => f.write_str("the message is about a secret, and the form takes any text"),
            Self::Address => f.write_str(
                "the address begins with neither https: nor http:, or its host cannot be read",
            ),
            Self::Form => f.write_str(
                "the form is no flat object with `properties` that are texts, numbers, booleans or choices",
            ),
            Self::Long => write!(
                f,
                "the question has more than {MAX_BYTES} bytes, or more than {MAX_TEXTS} fields and texts"
            ),
        }
    }
}

/// Objection to the parameters of a question. Questions for secrets are refused unless the server may ask for them.
/// Of members with one name each is looked at: parsers differ in the one that counts.
pub(crate) fn objection(params: &RawJson, may_ask_for_secrets: bool) -> Option<Objection> {
    if params.as_bytes().len() > MAX_BYTES {
        return Some(Objection::Long);
    }
    let is_page = text(params, "mode").is_some_and(|mode| mode == "url");
    if (is_page || params.member("url").is_some()) && !has_web_address(params) {
        return Some(Objection::Address);
    }
    let members = params.members().into_iter().flatten();
    let schemas = members.filter(|member| member.key == "requestedSchema");
    let schemas: Vec<_> = schemas.map(|member| member.value).collect();
    if !schemas.iter().all(is_form) || (schemas.is_empty() && !is_page) {
        return Some(Objection::Form);
    }
    let fields: Vec<_> = schemas.iter().flat_map(fields).collect();
    if fields.len() + labels_of(params).len() > MAX_TEXTS {
        return Some(Objection::Long);
    }
    if may_ask_for_secrets {
        return None;
    }
    let keypads = keypads(&fields);
    let (free, fixed): (Vec<_>, Vec<_>) = fields
        .into_iter()
        .partition(|(_, field)| is_free(field) || keypads.contains(&values_of(field)));
    if let Some((name, _)) = free.iter().find(|(name, field)| is_secret(name, field)) {
        return Some(Objection::Secret(name.clone()));
    }
    if free.is_empty() {
        return None;
    }
    let mut said = texts(params, "message").chain(schemas.iter().flat_map(|schema| {
        let members = schema.members().into_iter().flatten();
        members
            .filter(|member| member.key != "properties" && member.key != "required")
            .filter_map(|member| member.value.parse_lossy().ok())
    }));
    let mut labels = fixed.iter().flat_map(|(_, field)| labels_of(field));
    let mut choices = fixed.iter().flat_map(|(_, field)| choices_of(field));
    let asks = said.any(|said| mentions_secret(&said))
        || choices.any(|choice| mentions_secret(&choice))
        || labels.any(|label| label_asks_for_secret(&label));
    asks.then_some(Objection::Message)
}

fn text(object: &RawJson, key: &str) -> Option<String> {
    object.member(key)?.parse_lossy().ok()
}

/// All texts of one name.
fn texts<'a>(object: &'a RawJson, key: &'a str) -> impl Iterator<Item = String> + 'a {
    let members = object.members().into_iter().flatten();
    let named = members.filter(move |member| member.key == key);
    named.filter_map(|member| member.value.parse_lossy().ok())
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

/// Whether the user can enter anything: the field is neither a choice nor a boolean, or its choices spell a text.
fn is_free(field: &RawJson) -> bool {
    let is_fixed = all(field, "type", |kind| kind.as_bytes() == b"\"boolean\"")
        || all(field, "enum", |values| {
            elements(values).is_some_and(|values| !are_keys(&values))
        })
        || all(field, "const", |_| true)
        || all(field, "oneOf", are_fixed)
        || all(field, "anyOf", are_fixed)
        || all(field, "items", |items| !is_free(items));
    !is_fixed
}

/// Whether choices are those of a keypad.
fn are_keys(choices: &[RawJson]) -> bool {
    let is_key = |choice: &RawJson| {
        let text = choice.parse_lossy::<String>();
        let length = text.map_or(choice.as_bytes().len(), |text| text.chars().count());
        length <= MAX_KEY_CHARS
    };
    choices.len() >= MIN_KEYS && choices.iter().all(is_key)
}

/// Choices that several fields have, each of which may take one sign of a text.
fn keypads(fields: &[(String, RawJson)]) -> HashSet<Vec<String>> {
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    for (_, field) in fields {
        let values = values_of(field);
        if values.len() >= MIN_KEYS {
            *places.entry(values).or_default() += 1;
        }
    }
    places.retain(|_, count| *count >= MIN_PLACES);
    places.into_keys().collect()
}

/// The values of the choices of a field, each once, in one order.
fn values_of(field: &RawJson) -> Vec<String> {
    let (mut values, mut rest) = (Vec::new(), vec![field.clone()]);
    while let Some(field) = rest.pop() {
        for member in field.members().into_iter().flatten() {
            let choices = || elements(&member.value).unwrap_or_default();
            match &*member.key {
                "enum" => values.extend(choices().iter().map(unescaped)),
                "const" => values.push(unescaped(&member.value)),
                "oneOf" | "anyOf" => rest.extend(choices()),
                "items" => rest.push(member.value),
                _ => {}
            }
        }
    }
    values.sort_unstable();
    values.dedup();
    values
}

/// A value as it is written without needless escapes.
fn unescaped(value: &RawJson) -> String {
    let parsed = value.parse::<serde_json::Value>();
    parsed.map_or_else(|_| value.as_str().to_owned(), |value| value.to_string())
}

/// Whether the field has members of a name, and all of them are so.
fn all(field: &RawJson, key: &str, is: impl Fn(&RawJson) -> bool) -> bool {
    let members = field.members().into_iter().flatten();
    let named = members.filter(|member| member.key == key);
    let values: Vec<_> = named.map(|member| member.value).collect();
    !values.is_empty() && values.iter().all(is)
}

fn are_fixed(choices: &RawJson) -> bool {
    elements(choices).is_some_and(|choices| {
        let constants = choices.iter().filter_map(|choice| choice.member("const"));
        let constants: Vec<_> = constants.collect();
        choices.iter().all(|choice| !is_free(choice)) && !are_keys(&constants)
    })
}

/// Whether a field that takes any text is for a secret, by its name or by any text about it.
fn is_secret(name: &str, field: &RawJson) -> bool {
    is_secret_field(name)
        || texts(field, "title").any(|title| is_secret_field(&title))
        || texts(field, "format").any(|format| format == "password")
        || field
            .members()
            .into_iter()
            .flatten()
            .any(|member| member.key == "writeOnly" && member.value.as_bytes() == b"true")
        || texts(field, "pattern").any(|pattern| mentions_secret(&pattern.replace('\\', "")))
        || labels_of(field).iter().any(|text| mentions_secret(text))
}

/// The texts by which the choices of a field are shown: `enumNames`, and the texts about those of `oneOf` and `anyOf`.
fn choices_of(field: &RawJson) -> Vec<String> {
    let (mut shown, mut rest) = (Vec::new(), vec![field.clone()]);
    while let Some(field) = rest.pop() {
        for member in field.members().into_iter().flatten() {
            match &*member.key {
                "enumNames" => shown.extend(labels_of(&member.value)),
                "items" => rest.push(member.value),
                "oneOf" | "anyOf" => {
                    let choices = elements(&member.value).unwrap_or_default();
                    let about = ["title", "description"];
                    shown.extend(about.iter().flat_map(|key| {
                        let said = choices.iter().flat_map(|choice| texts(choice, key));
                        said.collect::<Vec<_>>()
                    }));
                    rest.extend(choices);
                }
                _ => {}
            }
        }
    }
    shown
}

/// All texts of a field, at every level: titles, descriptions, choices, examples.
fn labels_of(field: &RawJson) -> Vec<String> {
    let (mut labels, mut rest) = (Vec::new(), vec![field.clone()]);
    while let Some(value) = rest.pop() {
        if value.as_bytes().starts_with(b"\"") {
            labels.extend(value.parse_lossy::<String>());
        } else if let Some(members) = value.members() {
            rest.extend(members.map(|member| member.value));
        } else {
            rest.extend(elements(&value).unwrap_or_default());
        }
    }
    labels
}

/// Whether a schema is one of a form (MCP, `ElicitRequestFormParams`): an object of primitive properties.
fn is_form(schema: &RawJson) -> bool {
    let Some(mut members) = schema.members() else {
        return false;
    };
    let mut has_properties = false;
    let is_flat = members.all(|member| match &*member.key {
        "type" => member.value.as_bytes() == b"\"object\"",
        "properties" => {
            has_properties = true;
            let fields = member.value.members();
            fields
                .is_some_and(|mut fields| fields.all(|field| is_primitive(&field.value, MAX_DEPTH)))
        }
        "required" => true,
        _ => is_scalar(&member.value),
    });
    is_flat && has_properties
}

fn is_primitive(schema: &RawJson, depth: usize) -> bool {
    let (Some(mut members), Some(depth)) = (schema.members(), depth.checked_sub(1)) else {
        return false;
    };
    let is_flat = members.all(|member| match &*member.key {
        "type" => !member.value.as_str().contains("\"object\""),
        "items" => is_primitive(&member.value, depth),
        "anyOf" | "oneOf" => choices(&member.value)
            .is_some_and(|choices| choices.iter().all(|choice| is_primitive(choice, depth))),
        "enum" => choices(&member.value).is_some(),
        "enumNames" | "default" | "examples" => !member.value.as_bytes().starts_with(b"{"),
        _ => is_scalar(&member.value),
    });
    let has = |key: &str| schema.member(key).is_some();
    let is_list = !all(schema, "type", |kind| !kind.as_str().contains("\"array\""));
    is_flat
        && match has("type") {
            true => !is_list || all(schema, "items", has_choices),
            false => ["enum", "const", "anyOf", "oneOf"].into_iter().any(has),
        }
}

/// Whether a schema has a choice of values, and of nothing else.
fn has_choices(schema: &RawJson) -> bool {
    let of_choices =
        |all: &RawJson| choices(all).is_some_and(|choices| choices.iter().all(has_choices));
    all(schema, "enum", |values| choices(values).is_some())
        || all(schema, "const", |_| true)
        || all(schema, "oneOf", of_choices)
        || all(schema, "anyOf", of_choices)
}

/// The elements of an array that is not empty: clients may show a choice of nothing as a field for any text.
fn choices(array: &RawJson) -> Option<Vec<RawJson>> {
    elements(array).filter(|choices| !choices.is_empty())
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
                r#"{"properties":{"name":{"type":"string"},"apiKey":{"type":"string"}}}"#,
                "apiKey",
            ),
            (
                r#"{"properties":{"value":{"type":"string","title":"GitHub password"}}}"#,
                "value",
            ),
            (
                r#"{"properties":{"value":{"type":"string","description":"Your GitHub password"}}}"#,
                "value",
            ),
            (
                r#"{"properties":{"value":{"type":"string","format":"password"}}}"#,
                "value",
            ),
            (r#"{"properties":{"pat":{"type":"string"}}}"#, "pat"),
            (r#"{"properties":{"pin":{"type":"integer"}}}"#, "pin"),
            (
                r#"{"properties":{"Passwort":{"type":"string"}}}"#,
                "Passwort",
            ),
            (
                r#"{"properties":{"tokens":{"title":"API tokens","type":"array","items":{"enum":["1","2","3","4","5","6","7","8"]}}}}"#,
                "tokens",
            ),
            (
                r#"{"properties":{"password":{"type":"string"}},"properties":{"name":{"type":"string"}}}"#,
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
    fn secret_in_any_text_of_a_form_is_found_and_an_ordinary_choice_is_none() {
        let with = |field: &str| {
            format!(r#"{{"properties":{{"value":{{"type":"string"}},"other":{field}}}}}"#)
        };
        for field in [
            r#"{"enum":["ok","I typed my password above"]}"#,
            r#"{"oneOf":[{"const":"a","title":"Enter your PIN in the field"}]}"#,
            r#"{"oneOf":[{"const":"a","title":"API key"}]}"#,
            r#"{"enum":["a","b"],"enumNames":["Name","Password"]}"#,
            r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"Token"}]}}"#,
            r#"{"type":"boolean","title":"Paste the seed phrase above"}"#,
            r#"{"type":"array","items":{"enum":["a"],"description":"Введите ваш пароль в поле выше"}}"#,
        ] {
            let schema = with(field);
            assert_eq!(asked("?", &schema), Some(Objection::Message), "{schema}");
        }
        for field in [
            r#"{"enum":["password","access token","none"]}"#,
            r#"{"type":"boolean","title":"Reset the password"}"#,
            r#"{"oneOf":[{"const":"a","title":"One login for all"}]}"#,
        ] {
            let schema = with(field);
            assert_eq!(asked("Host and kind of login", &schema), None, "{schema}");
        }
        for field in [
            r#"{"type":"string","examples":["my password"]}"#,
            r#"{"type":"string","default":"p\u200ba\ud800ssword"}"#,
            r#"{"type":"string","title":"\ud800Pass\udc00word"}"#,
            r#"{"type":"string","description":"One-time code"}"#,
            r#"{"type":"string","x-hint":"Passwort"}"#,
            r#"{"type":"string","writeOnly":true}"#,
            r#"{"type":"string","pattern":"^ghp_[A-Za-z0-9]{36}$"}"#,
            r#"{"type":"string","pattern":"^sk\\-ant\\-.+$"}"#,
        ] {
            let schema = format!(r#"{{"properties":{{"value":{field}}}}}"#);
            assert_eq!(
                asked("?", &schema),
                Some(Objection::Secret("value".to_owned())),
                "{schema}"
            );
        }
        let schema = r#"{"properties":{"pass\ud800word":{"type":"string"}}}"#;
        assert!(matches!(asked("?", schema), Some(Objection::Secret(_))));
        let schema = r#"{"properties":{"value":{"type":"string"}},"x-title":"Your bearer token"}"#;
        assert_eq!(asked("?", schema), Some(Objection::Message));
        let half = r#"{"message":"Enter your \ud800 password","requestedSchema":{"properties":{"a":{"type":"string"}}}}"#;
        assert_eq!(objection(&raw(half), false), Some(Objection::Message));
    }

    #[test]
    fn choices_of_a_keypad_take_any_text() {
        let digits: Vec<_> = (0..10).map(|digit| format!("\"{digit}\"")).collect();
        let titled = digits.iter().map(|digit| format!(r#"{{"const":{digit}}}"#));
        let titled = titled.collect::<Vec<_>>().join(",");
        for keys in [
            format!(r#"{{"enum":[{}]}}"#, digits.join(",")),
            format!(r#"{{"oneOf":[{titled}]}}"#),
            format!(r#"{{"type":"array","items":{{"anyOf":[{titled}]}}}}"#),
        ] {
            let schema = format!(r#"{{"properties":{{"first":{keys},"second":{keys}}}}}"#);
            assert_eq!(
                asked("Choose the digits of your PIN", &schema),
                Some(Objection::Message)
            );
            assert_eq!(asked("Choose a time", &schema), None, "{schema}");
        }
        // In words, and in another order in each place.
        let mut digits = "zero one two three four five six seven eight nine"
            .split(' ')
            .collect::<Vec<_>>();
        let mut place = |name: &str| {
            digits.rotate_left(1);
            format!(r#""{name}":{{"type":"string","enum":{digits:?}}}"#)
        };
        let [first, second, third] = ["first", "second", "third"].map(&mut place);
        let second = second.replace("one", r"\u006fne");
        for (places, found) in [
            (
                [&first, &second, &third].as_slice(),
                Some(Objection::Message),
            ),
            (&[&first, &second], None),
        ] {
            let places = places.iter().map(|place| place.as_str());
            let places = places.collect::<Vec<_>>().join(",");
            let schema = format!(r#"{{"properties":{{{places}}}}}"#);
            assert_eq!(asked("Enter your PIN", &schema), found, "{schema}");
            assert_eq!(asked("Choose a time", &schema), None, "{schema}");
        }
    }

    #[test]
    fn question_that_is_too_long_to_be_read_is_refused() {
        let fields = |count: usize, field: &str| {
            let fields: Vec<_> = (0..count).map(|n| format!(r#""f{n}":{field}"#)).collect();
            format!(r#"{{"properties":{{{}}}}}"#, fields.join(","))
        };
        // Counts as a field and nine texts.
        let field = r#"{"enum":["","","","","","","","",""]}"#;
        let choices = format!(r#"{{"enum":[{}""]}}"#, r#""a","#.repeat(MAX_TEXTS));
        let zone = |n: usize| format!(r#"{{"const":"Area/City{n}","title":"City {n} (UTC+1)"}}"#);
        let zones: Vec<_> = (0..600).map(zone).collect();
        let zones = format!(r#"{{"type":"string","oneOf":[{}]}}"#, zones.join(","));
        for (message, schema, found) in [
            (String::new(), fields(MAX_TEXTS / 10 - 1, field), None),
            (
                String::new(),
                fields(MAX_TEXTS / 10, field),
                Some(Objection::Long),
            ),
            (String::new(), fields(1, &choices), Some(Objection::Long)),
            (String::new(), fields(1, &zones), None),
            (
                "a".repeat(MAX_BYTES),
                fields(1, field),
                Some(Objection::Long),
            ),
        ] {
            let params = format!(r#"{{"message":"{message}","requestedSchema":{schema}}}"#);
            assert_eq!(objection(&raw(&params), true), found);
        }
    }

    #[test]
    fn form_that_is_not_flat_is_refused_and_so_is_a_page_without_http() {
        let absent = r#"{"message":"Enter your password"}"#;
        for may_ask in [false, true] {
            assert_eq!(objection(&raw(absent), may_ask), Some(Objection::Form));
        }
        for schema in [
            "1",
            "{}",
            r#"{"type":"object"}"#,
            r#"{"type":"string","properties":{"a":{"type":"string"}}}"#,
            r#"{"allOf":[{"properties":{"a":{}}}]}"#,
            r#"{"patternProperties":{"^a":{}}}"#,
            r#"{"properties":{"a":{"properties":{"b":{}}}}}"#,
            r#"{"properties":{"a":{"type":"object"}}}"#,
            r#"{"properties":{"a":{"anyOf":[{"properties":{"b":{}}}]}}}"#,
            r##"{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{}}}"##,
            r#"{"properties":[]}"#,
            r#"{"properties":{"a":{}}}"#,
            r#"{"properties":{"a":{"title":"A"}}}"#,
            r#"{"properties":{"a":{"type":"array"}}}"#,
            r#"{"properties":{"a":{"type":"array","items":{"type":"string"}}}}"#,
            r#"{"properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string"}]}}}}"#,
            r#"{"properties":{"a":{"anyOf":[{"type":"array","items":{"type":"string"}}]}}}"#,
            r#"{"properties":{"a":{"type":"string","enum":[]}}}"#,
            r#"{"properties":{"a":{"type":"string","oneOf":[]}}}"#,
            r#"{"properties":{"a":{"type":"array","items":{"type":"string","enum":[]}}}}"#,
            &format!(
                r#"{{"properties":{{"a":{}{{}}{}}}}}"#,
                r#"{"anyOf":["#.repeat(5_000),
                "]}".repeat(5_000)
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
            (
                "https://github.com@evil.example/login",
                Some(Objection::Address),
            ),
            (
                r"https:\/\/evil.example\\@github.com/",
                Some(Objection::Address),
            ),
            ("https://githυb.com/", Some(Objection::Address)),
            ("https://git%68ub.com/", Some(Objection::Address)),
            ("https:///a", Some(Objection::Address)),
            ("https://example.com:80:90/", Some(Objection::Address)),
            ("https://example.com:99999/", Some(Objection::Address)),
            ("https://[::1/", Some(Objection::Address)),
            ("https://example.com:8443/a", None),
            ("https://example.com/a?b=c@d%20e#f", None),
        ] {
            let params =
                format!(r#"{{"mode":"url","url":"{url}","message":"Sign in with your password"}}"#);
            assert_eq!(objection(&raw(&params), false), found, "{url}");
        }
    }
}
