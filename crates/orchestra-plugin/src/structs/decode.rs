//! A `Struct` becomes JSON.

use std::collections::HashSet;

use super::{MAX_DEPTH, StructError, Style, number, text};
use crate::field::{Field, FieldError, Fields, Value};
use crate::frame::MAX_FRAME_BYTES;

/// Up to so many members are compared with each other to find names that are there twice; of more
/// a set is made.
const FEW_MEMBERS: usize = 16;

/// Room for the names of so many members is made at once.
const MANY_MEMBERS: usize = 64 * 1024;

/// Makes the text of a JSON object from a `Struct`.
///
/// Fields that are not of the schema are skipped. What is allocated is in proportion to the bytes
/// that there are.
///
/// # Errors
///
/// See [`StructError`].
pub fn decode(message: &[u8], style: Style) -> Result<String, StructError> {
    let mut out = String::with_capacity(message.len());
    decode_into(message, style, &mut out)?;
    Ok(out)
}

/// Appends the text of a JSON object to `out`; after an error, a part of it.
///
/// # Errors
///
/// See [`StructError`].
pub fn decode_into(message: &[u8], style: Style, out: &mut String) -> Result<(), StructError> {
    if message.len() > MAX_FRAME_BYTES {
        return Err(StructError::TooLarge);
    }
    let mut decoder = Decoder {
        message,
        style,
        out,
        members: Vec::new(),
    };
    decoder.object(Span::new(0, message.len()), 1)
}

/// A part of the message. Short numbers, as a hostile message may have millions of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The message fits into a frame, and so do the places in it into 32 bits.
    fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// Where the bytes of `field`, a field of the message in this part, are.
    fn of(self, field: &Field<'_>) -> Result<Self, FieldError> {
        let length = field.bytes()?.len();
        let end = self.start as usize + field.end;
        Ok(Self::new(end - length, end))
    }
}

/// A member of an object.
#[derive(Debug, Clone, Copy)]
struct Member {
    name: Span,
    value: Span,
}

struct Decoder<'a> {
    message: &'a [u8],
    style: Style,
    out: &'a mut String,
    /// The members of all objects that are being written, the innermost last.
    members: Vec<Member>,
}

impl<'a> Decoder<'a> {
    fn object(&mut self, span: Span, depth: usize) -> Result<(), StructError> {
        if depth > MAX_DEPTH {
            return Err(StructError::TooDeep);
        }
        let first = self.members.len();
        for field in Fields::new(self.part(span)) {
            let field = field?;
            if field.number == super::STRUCT_FIELDS {
                let member = self.member(span.of(&field)?)?;
                // Millions of nameless members are two bytes each: they become one at once.
                match self.members[first..].last_mut() {
                    Some(last)
                        if self.message[range(last.name)] == self.message[range(member.name)] =>
                    {
                        *last = member;
                    }
                    _ => self.members.push(member),
                }
            }
        }
        self.put_in_order(first);

        self.out.push('{');
        for index in first..self.members.len() {
            let member = self.members[index];
            if index > first {
                self.out.push(',');
            }
            self.string(member.name, super::MEMBER_NAME)?;
            self.out.push(':');
            self.value(member.value, depth)?;
        }
        self.out.push('}');
        self.members.truncate(first);
        Ok(())
    }

    fn member(&self, span: Span) -> Result<Member, StructError> {
        let mut name = None;
        let mut value = None;
        for field in Fields::new(self.part(span)) {
            let field = field?;
            let slot = match field.number {
                super::MEMBER_NAME => &mut name,
                super::MEMBER_VALUE => &mut value,
                _ => continue,
            };
            if slot.replace(span.of(&field)?).is_some() {
                return Err(repeated(&field));
            }
        }
        let empty = Span::new(0, 0);
        Ok(Member {
            name: name.unwrap_or(empty),
            value: value.unwrap_or(empty),
        })
    }

    /// Puts the members from `first` on into the order in which they are written, and drops those
    /// that are followed by another of the same name.
    fn put_in_order(&mut self, first: usize) {
        let message = self.message;
        let name = |member: &Member| &message[range(member.name)];
        let count = self.members.len() - first;
        if count < 2 {
            return;
        }
        let members = &mut self.members;
        if self.style == Style::Sorted {
            // The sort keeps the order of equal names: of them the last comes last.
            members[first..].sort_by(|one, other| name(one).cmp(name(other)));
            let mut kept = first;
            for index in first..members.len() {
                let next = members.get(index + 1);
                if next.is_none_or(|next| name(next) != name(&members[index])) {
                    members[kept] = members[index];
                    kept += 1;
                }
            }
            members.truncate(kept);
        } else if count <= FEW_MEMBERS {
            let mut index = first;
            while index < members.len() {
                let this = name(&members[index]);
                if members[index + 1..].iter().any(|other| name(other) == this) {
                    members.remove(index);
                } else {
                    index += 1;
                }
            }
        } else {
            let mut seen = HashSet::with_capacity(count.min(MANY_MEMBERS));
            let mut kept = members.len();
            for index in (first..members.len()).rev() {
                if seen.insert(name(&members[index])) {
                    kept -= 1;
                    members[kept] = members[index];
                }
            }
            members.drain(first..kept);
        }
    }

    /// Writes a `Value`; `depth` is that of what it stands in.
    fn value(&mut self, span: Span, depth: usize) -> Result<(), StructError> {
        let mut found: Option<Field<'_>> = None;
        for field in Fields::new(self.part(span)) {
            let field = field?;
            if matches!(field.number, super::VALUE_NULL..=super::VALUE_LIST)
                && found.replace(field).is_some()
            {
                return Err(repeated(&field));
            }
        }
        let Some(field) = found else {
            self.out.push_str("null");
            return Ok(());
        };
        match (field.number, field.value) {
            (super::VALUE_NULL, Value::Varint(_)) => self.out.push_str("null"),
            (super::VALUE_NUMBER, Value::Fixed64(bits)) => {
                number::put(self.out, f64::from_bits(bits), self.style)?;
            }
            (super::VALUE_STRING, Value::Bytes(_)) => {
                self.string(span.of(&field)?, super::VALUE_STRING)?;
            }
            (super::VALUE_BOOL, Value::Varint(value)) => {
                self.out.push_str(if value == 0 { "false" } else { "true" });
            }
            (super::VALUE_STRUCT, Value::Bytes(_)) => self.object(span.of(&field)?, depth + 1)?,
            (super::VALUE_LIST, Value::Bytes(_)) => self.list(span.of(&field)?, depth + 1)?,
            (number, _) => return Err(FieldError::Type { number }.into()),
        }
        Ok(())
    }

    fn list(&mut self, span: Span, depth: usize) -> Result<(), StructError> {
        if depth > MAX_DEPTH {
            return Err(StructError::TooDeep);
        }
        self.out.push('[');
        let mut separate = false;
        for field in Fields::new(self.part(span)) {
            let field = field?;
            if field.number == super::LIST_VALUES {
                if std::mem::replace(&mut separate, true) {
                    self.out.push(',');
                }
                self.value(span.of(&field)?, depth)?;
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn string(&mut self, span: Span, number: u32) -> Result<(), StructError> {
        let text = std::str::from_utf8(self.part(span)).map_err(|_| FieldError::Utf8 { number })?;
        text::put_string(self.out, text, self.style);
        Ok(())
    }

    fn part(&self, span: Span) -> &'a [u8] {
        &self.message[range(span)]
    }
}

fn range(span: Span) -> std::ops::Range<usize> {
    span.start as usize..span.end as usize
}

fn repeated(field: &Field<'_>) -> StructError {
    FieldError::Repeated {
        number: field.number,
    }
    .into()
}
