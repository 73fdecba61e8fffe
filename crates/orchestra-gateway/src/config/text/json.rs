//! JSON with comments.

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{self, ObjectPropName},
    common::Ranged as _,
    parse_to_ast,
};

use super::{
    super::node::{Member, Node, Value},
    Lines, TextError,
};
use crate::config::Place;

/// What clients permit in their files, and nothing more of JSON5.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn parse(text: &str) -> Result<Node, TextError> {
    let lines = Lines::new(text);
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS);
    let parsed = parsed.map_err(|error| TextError {
        place: lines.place(error.range().start),
        message: error.kind().to_string().to_lowercase(),
    })?;
    match parsed.value {
        Some(value) => Ok(node(&lines, value)),
        None => Ok(Node {
            place: Place::START,
            value: Value::Null,
        }),
    }
}

/// The parser ends nesting at 512.
fn node(lines: &Lines<'_>, value: ast::Value<'_>) -> Node {
    let place = lines.place(value.range().start);
    let value = match value {
        ast::Value::StringLit(text) => Value::Text(text.value.into_owned()),
        ast::Value::NumberLit(number) => Value::Number(number.value.to_owned()),
        ast::Value::BooleanLit(flag) => Value::Bool(flag.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(list) => {
            let items = list.elements.into_iter();
            Value::List(items.map(|item| node(lines, item)).collect())
        }
        ast::Value::Object(object) => {
            let members = object.properties.into_iter().map(|property| Member {
                place: lines.place(property.range.start),
                key: match property.name {
                    ObjectPropName::String(text) => text.value.into_owned(),
                    ObjectPropName::Word(word) => word.value.to_owned(),
                },
                node: node(lines, property.value),
            });
            Value::Map(members.collect())
        }
    };
    Node { place, value }
}
