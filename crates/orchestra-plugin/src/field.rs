//! Reads and writes the fields of a protobuf message one by one, without knowing the message.
//! What a field means is left to others.

use bytes::{Bytes, BytesMut};

/// Longest encoding of a varint.
const MAX_VARINT_BYTES: usize = 10;

/// Highest number that a field may have: 29 bits, as the encoding says.
const MAX_NUMBER: u64 = (1 << 29) - 1;

/// Why bytes are not the fields of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The message ends inside a field.
    #[error("the message ends inside a field, at byte {at}")]
    Truncated {
        /// Where the field starts.
        at: usize,
    },
    /// A varint is longer than ten bytes, or its value than 64 bits.
    #[error("a varint at byte {at} is longer than 64 bits")]
    Varint {
        /// Where the varint starts.
        at: usize,
    },
    /// The number of a field is 0 or has more than 29 bits.
    #[error("the field at byte {at} has an invalid field number")]
    Number {
        /// Where the field starts.
        at: usize,
    },
    /// The field is a group, or of a wire type that does not exist.
    #[error(
        "field {number} has wire type {wire_type}: send no groups, they are not part of proto3"
    )]
    WireType {
        /// The number of the field.
        number: u32,
        /// Its wire type.
        wire_type: u8,
    },
    /// A known field has another wire type than its own.
    #[error("field {number} does not have the type of the schema")]
    Type {
        /// The number of the field.
        number: u32,
    },
    /// A field that holds one value is there twice.
    #[error("field {number} occurs twice: send it once")]
    Repeated {
        /// The number of the field.
        number: u32,
    },
    /// A string is not UTF-8.
    #[error("field {number} is a string that is not UTF-8")]
    Utf8 {
        /// The number of the field.
        number: u32,
    },
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number of up to 64 bits, a truth value or a member of an enum.
    Varint(u64),
    /// Eight bytes, little-endian: a double, for one.
    Fixed64(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
    /// Four bytes, little-endian.
    Fixed32(u32),
}

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// The number of the field.
    pub number: u32,
    /// Its value.
    pub value: Value<'a>,
    /// Where its encoding starts in the message, its tag included.
    pub start: usize,
    /// Where its encoding ends.
    pub end: usize,
}

impl<'a> Field<'a> {
    /// The bytes of a field that has bytes.
    ///
    /// # Errors
    ///
    /// [`FieldError::Type`] when it has a number.
    pub fn bytes(&self) -> Result<&'a [u8], FieldError> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(FieldError::Type {
                number: self.number,
            }),
        }
    }

    /// The text of a field that has text.
    ///
    /// # Errors
    ///
    /// [`FieldError::Type`] when it has a number, [`FieldError::Utf8`] when its bytes are no text.
    pub fn text(&self) -> Result<&'a str, FieldError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| FieldError::Utf8 {
            number: self.number,
        })
    }

    /// The part of `message`, the buffer of the message that this field was read from, which holds
    /// the bytes of the field; not copied.
    ///
    /// # Errors
    ///
    /// [`FieldError::Type`] when it has a number.
    pub fn shared(&self, message: &Bytes) -> Result<Bytes, FieldError> {
        let length = self.bytes()?.len();
        Ok(message.slice(self.end - length..self.end))
    }
}

/// The fields of a message, in the order in which they stand. It ends after the first error.
///
/// Nothing is allocated, and nothing outside the message is ever looked at, whatever the lengths
/// in it say.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Reads the fields of `message`.
    #[must_use]
    pub fn new(message: &'a [u8]) -> Self {
        Self { message, at: 0 }
    }

    #[inline]
    fn read(&mut self) -> Result<Field<'a>, FieldError> {
        let start = self.at;
        let tag = self.varint(start)?;
        let number = match tag >> 3 {
            number @ 1..=MAX_NUMBER => number as u32,
            _ => return Err(FieldError::Number { at: start }),
        };
        let value = match (tag & 7) as u8 {
            0 => Value::Varint(self.varint(start)?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array(start)?)),
            2 => {
                let length = self.varint(start)?;
                let length = usize::try_from(length)
                    .ok()
                    .filter(|length| *length <= self.message.len() - self.at)
                    .ok_or(FieldError::Truncated { at: start })?;
                let bytes = &self.message[self.at..self.at + length];
                self.at += length;
                Value::Bytes(bytes)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array(start)?)),
            wire_type => return Err(FieldError::WireType { number, wire_type }),
        };
        Ok(Field {
            number,
            value,
            start,
            end: self.at,
        })
    }

    fn array<const N: usize>(&mut self, start: usize) -> Result<[u8; N], FieldError> {
        let bytes = self.message[self.at..]
            .first_chunk::<N>()
            .ok_or(FieldError::Truncated { at: start })?;
        self.at += N;
        Ok(*bytes)
    }

    #[inline]
    fn varint(&mut self, start: usize) -> Result<u64, FieldError> {
        let rest = &self.message[self.at..];
        match rest.first() {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(start),
        }
    }

    fn long_varint(&mut self, start: usize) -> Result<u64, FieldError> {
        let mut value = 0;
        for (index, byte) in self.message[self.at..]
            .iter()
            .take(MAX_VARINT_BYTES)
            .enumerate()
        {
            // The tenth byte has room for the 64th bit alone.
            if index == MAX_VARINT_BYTES - 1 && *byte > 1 {
                return Err(FieldError::Varint { at: self.at });
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        Err(FieldError::Truncated { at: start })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, FieldError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.message.len() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.at = self.message.len();
        }
        Some(field)
    }
}

/// The message with the string field `number` set to `text`, and all other bytes as they were.
///
/// Every occurrence of the field is replaced by the one. A message that says so already is returned
/// as it is, without a copy.
///
/// # Errors
///
/// What [`Fields`] finds wrong with the message.
pub fn with_text(message: &Bytes, number: u32, text: &str) -> Result<Bytes, FieldError> {
    let mut occurrences = 0;
    let mut same = false;
    for field in Fields::new(message) {
        let field = field?;
        if field.number == number {
            occurrences += 1;
            same = field.value == Value::Bytes(text.as_bytes());
        }
    }
    if (occurrences == 1 && same) || (occurrences == 0 && text.is_empty()) {
        return Ok(message.clone());
    }
    let mut changed = Vec::with_capacity(message.len() + bytes_field_len(number, text.len()));
    let mut kept_to = 0;
    let mut pending = Some(text);
    for field in Fields::new(message) {
        let field = field?;
        if field.number == number {
            changed.extend_from_slice(&message[kept_to..field.start]);
            put_text(&mut changed, number, pending.take().unwrap_or_default());
            kept_to = field.end;
        }
    }
    changed.extend_from_slice(&message[kept_to..]);
    put_text(&mut changed, number, pending.unwrap_or_default());
    Ok(changed.into())
}

/// How many bytes the varint of `value` has.
#[must_use]
pub fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends `value` as a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes a field of `length` bytes has, its tag and length included.
#[must_use]
pub fn bytes_field_len(number: u32, length: usize) -> usize {
    varint_len(u64::from(number) << 3) + varint_len(length as u64) + length
}

/// Appends a tag of a field that holds bytes and the length of these; the bytes follow.
pub fn put_bytes_head(out: &mut Vec<u8>, number: u32, length: usize) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, length as u64);
}

/// Appends a string field; an empty string is the same as none.
pub fn put_text(out: &mut Vec<u8>, number: u32, text: &str) {
    if !text.is_empty() {
        put_bytes_head(out, number, text.len());
        out.extend_from_slice(text.as_bytes());
    }
}

/// The fields of `message` that `keep` wants, one behind the other as they stand. Nothing is copied
/// when they stand together.
///
/// # Errors
///
/// What [`Fields`] finds wrong with the message.
pub(crate) fn retained(
    message: &Bytes,
    mut keep: impl FnMut(&Field<'_>) -> Result<bool, FieldError>,
) -> Result<Bytes, FieldError> {
    let mut kept = Bytes::new();
    let mut joined = BytesMut::new();
    let mut run: Option<(usize, usize)> = None;
    let mut close = |run: Option<(usize, usize)>| {
        if let Some((start, end)) = run {
            if kept.is_empty() && joined.is_empty() {
                kept = message.slice(start..end);
            } else {
                if joined.is_empty() {
                    joined.extend_from_slice(&kept);
                }
                joined.extend_from_slice(&message[start..end]);
            }
        }
    };
    for field in Fields::new(message) {
        let field = field?;
        if !keep(&field)? {
            close(run.take());
        } else {
            run = Some((run.map_or(field.start, |run| run.0), field.end));
        }
    }
    close(run);
    Ok(if joined.is_empty() {
        kept
    } else {
        joined.freeze()
    })
}

#[cfg(test)]
mod tests;
