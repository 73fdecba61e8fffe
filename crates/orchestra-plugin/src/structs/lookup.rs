//! One member of a `Struct`, without the rest.

use super::StructError;
use crate::field::{Fields, Value};

/// The value of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member<'a> {
    /// A string.
    Text(&'a str),
    /// Anything else, `null` included.
    Other,
}

/// Looks the member `name` up in a `Struct`, at its top and not below. Of several with that name
/// the last counts.
///
/// # Errors
///
/// [`StructError::Field`] for what is no `Struct`. What the other members hold is not looked at.
pub fn member<'a>(message: &'a [u8], name: &str) -> Result<Option<Member<'a>>, StructError> {
    let mut found = None;
    for field in Fields::new(message) {
        let field = field?;
        if field.number == super::STRUCT_FIELDS {
            found = value_of(field.bytes()?, name)?.or(found);
        }
    }
    found.map(kind_of).transpose()
}

/// The `Value` of a member if it has this name.
fn value_of<'a>(member: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, StructError> {
    let mut is_wanted = name.is_empty();
    let mut value: &[u8] = &[];
    for field in Fields::new(member) {
        let field = field?;
        match field.number {
            super::MEMBER_NAME => is_wanted = field.bytes()? == name.as_bytes(),
            super::MEMBER_VALUE => value = field.bytes()?,
            _ => {}
        }
    }
    Ok(is_wanted.then_some(value))
}

fn kind_of(value: &[u8]) -> Result<Member<'_>, StructError> {
    let mut kind = Member::Other;
    for field in Fields::new(value) {
        let field = field?;
        kind = match (field.number, field.value) {
            (super::VALUE_STRING, Value::Bytes(_)) => Member::Text(field.text()?),
            (super::VALUE_NULL..=super::VALUE_LIST, _) => Member::Other,
            _ => continue,
        };
    }
    Ok(kind)
}
