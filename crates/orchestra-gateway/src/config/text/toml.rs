//! TOML.

use toml::{
    Spanned,
    de::{DeInteger, DeTable, DeValue},
};

use super::{
    super::node::{Member, Node, Value},
    Lines, TextError,
};
use crate::config::Place;

pub(super) fn parse(text: &str) -> Result<Node, TextError> {
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|error| TextError {
        place: error
            .span()
            .map_or(Place::START, |span| lines.place(span.start)),
        message: error.message().to_owned(),
    })?;
    Ok(Node {
        place: Place::START,
        value: map(&lines, table.into_inner()),
    })
}

/// The parser ends nesting by itself.
fn node(lines: &Lines<'_>, value: Spanned<DeValue<'_>>) -> Node {
    let place = lines.place(value.span().start);
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => Value::Number(decimal(&number)),
        DeValue::Float(number) => Value::Number(number.to_string()),
        DeValue::Boolean(flag) => Value::Bool(flag),
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Array(list) => {
            Value::List(list.into_iter().map(|item| node(lines, item)).collect())
        }
        DeValue::Table(table) => map(lines, table),
    };
    Node { place, value }
}

/// A table, in the order of the file.
fn map(lines: &Lines<'_>, table: DeTable<'_>) -> Value {
    let mut entries: Vec<_> = table.into_iter().collect();
    orchestra_sort::sort_by_key(&mut entries, |(key, _)| key.span().start);
    let members = entries.into_iter().map(|(key, value)| Member {
        place: lines.place(key.span().start),
        key: key.into_inner().into_owned(),
        node: node(lines, value),
    });
    Value::Map(members.collect())
}

fn decimal(number: &DeInteger<'_>) -> String {
    i64::from_str_radix(number.as_str(), number.radix())
        .map_or_else(|_| number.as_str().to_owned(), |number| number.to_string())
}
