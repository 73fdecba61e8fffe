//! From the JSON object of a call to a typed struct; what does not fit is named.

mod types;

pub(crate) use types::{
    Arg, Choice, Count, FromText, Limit, Money, Number, choice_schema, not_one_of, texts,
};

use orchestra_wire::RawJson;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// The most characters of an error's text; the rest would only repeat the caller's own input.
const MAX_ERROR_CHARS: usize = 600;

/// Parses the arguments of a tool.
///
/// Fails with a text that names the argument and says what was expected.
pub(crate) fn parse<T: DeserializeOwned>(arguments: &RawJson) -> Result<T, Failure> {
    // A struct would be read from an array just as well.
    if !arguments.as_bytes().trim_ascii_start().starts_with(b"{") {
        return Err(Failure::text("the arguments must be an object"));
    }
    let mut json = serde_json::Deserializer::from_slice(arguments.as_bytes());
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        Failure::text(cut(&sentence(&path, &reason(error.inner()))))
    })
}

/// What is wrong, without the position in a text that the caller never saw.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

fn sentence(path: &str, reason: &str) -> String {
    let reason = reason.replace(" field `", " argument `");
    if path == "." {
        return reason;
    }
    // An unknown or missing argument is named already.
    if reason.contains(" argument `") && !path.contains(['.', '[']) {
        return reason;
    }
    format!("argument `{path}`: {reason}")
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_ERROR_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use orchestra_board::{Kind, Slug, Title};
    use orchestra_wire::RawJson;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::{Arg, Limit, parse};

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsed")]
    struct Arguments {
        project: Arg<Slug>,
        #[serde(rename = "type")]
        kind: Option<Arg<Kind>>,
        names: Option<Vec<Arg<Title>>>,
        limit: Option<Limit>,
    }

    #[test]
    fn errors_name_the_argument_and_what_was_expected() {
        let check = |arguments: Value, expected: &str| {
            let arguments = RawJson::of(&arguments).unwrap();
            let error = parse::<Arguments>(&arguments).unwrap_err().to_string();
            assert_eq!(error, expected);
        };
        check(json!({}), "missing argument `project`");
        check(
            json!({"project": null}),
            "argument `project`: invalid type: null, expected a string",
        );
        check(
            json!({"project": ".."}),
            "argument `project`: `..` is not a project slug: 1 to 64 of a-z, 0-9 and -",
        );
        check(
            json!({"project": "a", "type": "banana"}),
            "argument `type`: `banana` is not one of epic, story, task, bug, hotfix",
        );
        check(
            json!({"project": "a", "names": ["x", ""]}),
            "argument `names[1]`: must not be empty",
        );
        check(
            json!({"project": "a", "limit": 0}),
            "argument `limit`: invalid value: integer `0`, expected a whole number from 1 to 500",
        );
        check(
            json!({"project": "a", "limits": 1}),
            "unknown argument `limits`, expected one of `project`, `type`, `names`, `limit`",
        );
        check(json!(["a"]), "the arguments must be an object");
    }

    #[test]
    fn a_huge_value_does_not_come_back() {
        let arguments =
            RawJson::of(&json!({"project": "a", "limit": "x".repeat(1_000_000)})).unwrap();
        assert!(
            parse::<Arguments>(&arguments)
                .unwrap_err()
                .to_string()
                .len()
                < 2_000
        );
    }

    #[test]
    fn whole_numbers_may_be_written_as_doubles() {
        let arguments = RawJson::of(&json!({"project": "a", "limit": 10.0})).unwrap();
        assert_eq!(
            parse::<Arguments>(&arguments)
                .unwrap()
                .limit
                .map(Limit::get),
            Some(10)
        );
    }
}
