//! JSON becomes a `Struct`.

use bytes::Bytes;

use super::gaps::Gaps;
use super::{MAX_DEPTH, StructError, number, text};
use crate::field::{put_varint, varint_len};
use crate::frame::MAX_FRAME_BYTES;

/// The tags of the fields: number and wire type in one byte.
const TAG_STRUCT_FIELDS: u8 = (super::STRUCT_FIELDS as u8) << 3 | 2;
const TAG_MEMBER_VALUE: u8 = (super::MEMBER_VALUE as u8) << 3 | 2;
const TAG_MEMBER_NAME: u8 = (super::MEMBER_NAME as u8) << 3 | 2;
const TAG_LIST_VALUES: u8 = (super::LIST_VALUES as u8) << 3 | 2;
const TAG_NULL: u8 = (super::VALUE_NULL as u8) << 3;
const TAG_NUMBER: u8 = (super::VALUE_NUMBER as u8) << 3 | 1;
const TAG_STRING: u8 = (super::VALUE_STRING as u8) << 3 | 2;
const TAG_BOOL: u8 = (super::VALUE_BOOL as u8) << 3;
const TAG_STRUCT: u8 = (super::VALUE_STRUCT as u8) << 3 | 2;
const TAG_LIST: u8 = (super::VALUE_LIST as u8) << 3 | 2;

/// What becomes of integers that no double holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Numbers {
    /// The nearest double.
    #[default]
    Nearest,
    /// An error.
    Exact,
}

/// What a frame is to have room for beside arguments: names, a trace, fields of others.
const AROUND_BYTES: usize = 512 * 1024;

/// Makes a `Struct` from the text of a JSON object.
///
/// Everything that is JSON is accepted, and nothing else. White space around the object is allowed.
/// What is allocated is in proportion to the text, and ends at the size of a frame.
///
/// # Errors
///
/// See [`StructError`].
pub fn encode(json: &[u8], numbers: Numbers) -> Result<Bytes, StructError> {
    if let Err(error) = std::str::from_utf8(json) {
        return Err(StructError::Json {
            at: error.valid_up_to(),
            expected: "UTF-8",
        });
    }
    let mut encoder = Encoder {
        json,
        at: 0,
        out: Gaps::with_capacity((json.len() + json.len() / 8 + 64).min(MAX_FRAME_BYTES)),
        numbers,
    };
    if encoder.peek() == Some(b'{') {
        encoder.object(1)?;
    } else {
        encoder.value(TAG_LIST_VALUES, 1)?;
        encoder.end()?;
        return Err(StructError::NotAnObject);
    }
    encoder.end()?;
    if encoder.out.len() > MAX_FRAME_BYTES {
        return Err(StructError::TooLarge);
    }
    Ok(encoder.out.finish().into())
}

/// As [`encode`], for a message that says the same as JSON of `beside` bytes to those who look for
/// that; `None` where a frame does not hold both, so that the JSON goes alone.
///
/// # Errors
///
/// See [`StructError`]; a struct that is too large is none.
pub fn encode_beside(
    json: &[u8],
    beside: usize,
    numbers: Numbers,
) -> Result<Option<Bytes>, StructError> {
    match encode(json, numbers) {
        Ok(encoded) if encoded.len() + beside > MAX_FRAME_BYTES - AROUND_BYTES => Ok(None),
        Ok(encoded) => Ok(Some(encoded)),
        Err(StructError::TooLarge) => Ok(None),
        Err(error) => Err(error),
    }
}

struct Encoder<'a> {
    json: &'a [u8],
    at: usize,
    out: Gaps,
    numbers: Numbers,
}

impl<'a> Encoder<'a> {
    /// Writes the fields of a `Struct`, or nothing for an empty one.
    fn object(&mut self, depth: usize) -> Result<(), StructError> {
        self.enter(depth)?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.expected("a member name in quotes"));
            }
            let member = self.out.open(TAG_STRUCT_FIELDS);
            self.string(None, TAG_MEMBER_NAME)?;
            if self.peek() != Some(b':') {
                return Err(self.expected("':'"));
            }
            self.at += 1;
            self.value(TAG_MEMBER_VALUE, depth)?;
            self.out.close(member);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.expected("',' or '}'")),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Writes the fields of a `ListValue`, or nothing for an empty one.
    fn array(&mut self, depth: usize) -> Result<(), StructError> {
        self.enter(depth)?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(TAG_LIST_VALUES, depth)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.expected("',' or ']'")),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Writes a `Value` behind `tag`; `depth` is that of what it stands in.
    fn value(&mut self, tag: u8, depth: usize) -> Result<(), StructError> {
        if self.out.len() > MAX_FRAME_BYTES {
            return Err(StructError::TooLarge);
        }
        match self.peek() {
            Some(b'"') => self.string(Some(tag), TAG_STRING)?,
            Some(b'{') => {
                let value = self.out.open(tag);
                let inner = self.out.open(TAG_STRUCT);
                self.object(depth + 1)?;
                self.out.close(inner);
                self.out.close(value);
            }
            Some(b'[') => {
                let value = self.out.open(tag);
                let inner = self.out.open(TAG_LIST);
                self.array(depth + 1)?;
                self.out.close(inner);
                self.out.close(value);
            }
            Some(b'-' | b'0'..=b'9') => {
                let value = self.number()?;
                let out = self.out.bytes();
                out.extend_from_slice(&[tag, 9, TAG_NUMBER]);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Some(b't') => self.word(b"true", &[tag, 2, TAG_BOOL, 1])?,
            Some(b'f') => self.word(b"false", &[tag, 2, TAG_BOOL, 0])?,
            Some(b'n') => self.word(b"null", &[tag, 2, TAG_NULL, 0])?,
            _ => return Err(self.expected("a value")),
        }
        Ok(())
    }

    /// Steps over the bracket of an object or array of this depth.
    fn enter(&mut self, depth: usize) -> Result<(), StructError> {
        if depth > MAX_DEPTH {
            return Err(StructError::TooDeep);
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &[u8], encoded: &[u8]) -> Result<(), StructError> {
        if !self.json[self.at..].starts_with(word) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        self.out.bytes().extend_from_slice(encoded);
        Ok(())
    }

    fn number(&mut self) -> Result<f64, StructError> {
        let at = self.at;
        let rest = &self.json[at..];
        let literal = number::read(rest).ok_or_else(|| self.expected("a number"))?;
        if !literal.value.is_finite() {
            return Err(StructError::OutOfRange { at });
        }
        if literal.doubtful
            && self.numbers == Numbers::Exact
            && !number::is_exact(&rest[..literal.length], literal.value)
        {
            return Err(StructError::Inexact { at });
        }
        self.at += literal.length;
        Ok(literal.value)
    }

    /// Writes a string behind `tag`, and both as a message behind `outer`.
    fn string(&mut self, outer: Option<u8>, tag: u8) -> Result<(), StructError> {
        self.at += 1;
        let plain = self.plain();
        if self.json.get(self.at) == Some(&b'"') {
            self.at += 1;
            let out = self.out.bytes();
            let length = plain.len() as u64;
            if let Some(outer) = outer {
                out.push(outer);
                put_varint(out, 1 + varint_len(length) as u64 + length);
            }
            out.push(tag);
            put_varint(out, length);
            out.extend_from_slice(plain);
            return Ok(());
        }
        let outer = outer.map(|outer| self.out.open(outer));
        let string = self.out.open(tag);
        self.out.bytes().extend_from_slice(plain);
        self.rest_of_string()?;
        self.out.close(string);
        if let Some(outer) = outer {
            self.out.close(outer);
        }
        Ok(())
    }

    /// Writes what an escaped string stands for, from the first escape on.
    fn rest_of_string(&mut self) -> Result<(), StructError> {
        loop {
            match self.json.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.expected("control characters in strings as escapes")),
                None => return Err(self.expected("the end of a string")),
            }
            let plain = self.plain();
            self.out.bytes().extend_from_slice(plain);
        }
        self.at += 1;
        Ok(())
    }

    /// Steps over what stands for itself in a string.
    fn plain(&mut self) -> &'a [u8] {
        let rest = &self.json[self.at..];
        let length = text::plain_len(rest);
        self.at += length;
        &rest[..length]
    }

    fn escape(&mut self) -> Result<(), StructError> {
        let escape = &self.json[self.at..];
        let byte = match escape.get(1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let (character, length) =
                    unicode(escape).map_err(|expected| self.expected(expected))?;
                let mut utf8 = [0; 4];
                let utf8 = character.encode_utf8(&mut utf8);
                self.out.bytes().extend_from_slice(utf8.as_bytes());
                self.at += length;
                return Ok(());
            }
            _ => return Err(self.expected("an escape of JSON")),
        };
        self.out.bytes().push(byte);
        self.at += 2;
        Ok(())
    }

    /// The byte behind any white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.json.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    fn end(&mut self) -> Result<(), StructError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end")),
        }
    }

    fn expected(&self, expected: &'static str) -> StructError {
        StructError::Json {
            at: self.at,
            expected,
        }
    }
}

/// The character of a `\u` escape, or of two that are a surrogate pair, and how long that is.
fn unicode(escape: &[u8]) -> Result<(char, usize), &'static str> {
    const DIGITS: &str = "four hexadecimal digits";
    const PAIR: &str = "a pair of surrogates, not one alone";
    let unit = |at: usize| -> Option<u32> {
        let digits = escape.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| {
            Some(unit << 4 | char::from(*digit).to_digit(16)?)
        })
    };
    let first = unit(0).ok_or(DIGITS)?;
    if let Some(character) = char::from_u32(first) {
        return Ok((character, 6));
    }
    match unit(6) {
        Some(second @ 0xdc00..0xe000) if first < 0xdc00 => {
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            Ok((char::from_u32(code).ok_or(PAIR)?, 12))
        }
        _ => Err(PAIR),
    }
}
