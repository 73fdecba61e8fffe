//! From the JSON object of a call to a typed struct; what does not fit is named.

mod types;

pub(crate) use types::{
    Arg, Choice, Count, FromText, Limit, Many, Money, Number, Short, not_one_of,
};

use orchestra_hub::parse_arguments;
use orchestra_wire::RawJson;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{failure::Failure, schema::Schemas};

/// Parses the arguments of a tool.
///
/// Fails with a text that names the argument and says what was expected.
pub(crate) fn parse<T: DeserializeOwned>(tool: &str, arguments: &RawJson) -> Result<T, Failure> {
    parse_arguments(arguments).map_err(|text| Failure::text(with_values(tool, text)))
}

/// Adds the possible values of a missing argument, if the schema of the tool lists them.
fn with_values(tool: &str, text: String) -> String {
    let missing = text.strip_prefix("missing argument `");
    let Some(name) = missing.and_then(|rest| rest.strip_suffix('`')) else {
        return text;
    };
    let schema: Value = Schemas::of(tool).input().parse().unwrap_or_default();
    let values = schema["properties"][name]["enum"].as_array();
    let values: Vec<&str> = values
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match values.is_empty() {
        true => text,
        false => format!("{text}: one of {}", values.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use orchestra_board::{Kind, Slug, Title};
    use orchestra_wire::RawJson;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::{Arg, Limit, Many, parse_arguments};

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsed")]
    struct Arguments {
        project: Arg<Slug>,
        #[serde(rename = "type")]
        kind: Option<Arg<Kind>>,
        names: Option<Many<Title>>,
        limit: Option<Limit>,
    }

    #[test]
    fn errors_name_the_argument_and_what_was_expected() {
        let check = |arguments: Value, expected: &str| {
            let arguments = RawJson::of(&arguments).unwrap();
            let error = parse_arguments::<Arguments>(&arguments).unwrap_err();
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

    /// Whatever is in the list, it is not gone through for each of its values.
    #[test]
    fn a_list_without_end_is_refused() {
        let of = |count: usize| {
            let names: Vec<String> = (0..count).map(|n| (n % 300).to_string()).collect();
            RawJson::of(&json!({"project": "a", "names": names})).unwrap()
        };
        assert_eq!(
            parse_arguments::<Arguments>(&of(256))
                .unwrap()
                .names
                .unwrap()
                .0
                .len(),
            256
        );
        let error = parse_arguments::<Arguments>(&of(1_000_000)).unwrap_err();
        assert!(error.contains("at most 256 values"), "{error}");
        assert!(error.starts_with("argument `names"), "{error}");
        let same = RawJson::of(&json!({"project": "a", "names": vec!["x"; 1_000]})).unwrap();
        assert_eq!(
            parse_arguments::<Arguments>(&same)
                .unwrap()
                .names
                .unwrap()
                .0
                .len(),
            1
        );
    }

    #[test]
    fn a_huge_value_does_not_come_back() {
        let arguments =
            RawJson::of(&json!({"project": "a", "limit": "x".repeat(1_000_000)})).unwrap();
        assert!(parse_arguments::<Arguments>(&arguments).unwrap_err().len() < 2_000);
    }

    #[test]
    fn whole_numbers_may_be_written_as_doubles() {
        let arguments = RawJson::of(&json!({"project": "a", "limit": 10.0})).unwrap();
        assert_eq!(
            parse_arguments::<Arguments>(&arguments)
                .unwrap()
                .limit
                .map(Limit::get),
            Some(10)
        );
    }
}
