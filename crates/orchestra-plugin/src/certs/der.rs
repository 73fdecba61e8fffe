//! DER: the encoding of certificates and keys, value by value. What a value means is left to others.
//!
//! There is one encoding of everything, so any other is refused. Nothing is allocated when it is
//! read, and nothing outside the bytes is ever looked at, whatever the lengths in them say.

/// The tags that occur in certificates.
pub(super) mod tag {
    pub(in super::super) const BOOLEAN: u8 = 0x01;
    pub(in super::super) const INTEGER: u8 = 0x02;
    pub(in super::super) const BIT_STRING: u8 = 0x03;
    pub(in super::super) const OCTET_STRING: u8 = 0x04;
    pub(in super::super) const OBJECT: u8 = 0x06;
    pub(in super::super) const UTF8_STRING: u8 = 0x0c;
    pub(in super::super) const NUMERIC_STRING: u8 = 0x12;
    pub(in super::super) const PRINTABLE_STRING: u8 = 0x13;
    pub(in super::super) const IA5_STRING: u8 = 0x16;
    pub(in super::super) const UTC_TIME: u8 = 0x17;
    pub(in super::super) const GENERALIZED_TIME: u8 = 0x18;
    pub(in super::super) const SEQUENCE: u8 = 0x30;
    pub(in super::super) const SET: u8 = 0x31;

    /// A value that has this number where it stands, and no type of its own.
    pub(in super::super) const fn plain(number: u8) -> u8 {
        0x80 | number
    }

    /// The same around another value.
    pub(in super::super) const fn around(number: u8) -> u8 {
        0xa0 | number
    }
}

/// The bits of a tag that say that its number follows.
const LONG_TAG: u8 = 0x1f;

/// One value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    /// Tag and length as well.
    pub(super) whole: &'a [u8],
}

/// Reads values that follow each other. What is not as it must be is `None`.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// That nothing follows.
    pub(super) fn end(&self) -> Option<()> {
        self.is_empty().then_some(())
    }

    /// The next value, whatever it is.
    pub(super) fn any(&mut self) -> Option<Value<'a>> {
        let (&tag, rest) = self.left.split_first()?;
        if tag & LONG_TAG == LONG_TAG {
            return None;
        }
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            ..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = digits
                    .iter()
                    .fold(0_usize, |length, digit| length << 8 | usize::from(*digit));
                // Only the shortest form is one.
                let is_shortest = length >= 0x80 && digits.first() != Some(&0);
                (is_shortest.then_some(length)?, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        let whole = &self.left[..self.left.len() - rest.len()];
        self.left = rest;
        Some(Value {
            tag,
            content,
            whole,
        })
    }

    /// The next value, if it has this tag.
    pub(super) fn value(&mut self, tag: u8) -> Option<Value<'a>> {
        self.any().filter(|value| value.tag == tag)
    }

    /// The content of the next value, if it has this tag.
    pub(super) fn content(&mut self, tag: u8) -> Option<&'a [u8]> {
        Some(self.value(tag)?.content)
    }

    /// What is in the next value, if it has this tag.
    pub(super) fn within(&mut self, tag: u8) -> Option<Self> {
        Some(Self::new(self.content(tag)?))
    }

    /// The content of the next value if it has this tag, and nothing where another stands.
    pub(super) fn optional(&mut self, tag: u8) -> Option<Option<&'a [u8]>> {
        match self.left.first() {
            Some(next) if *next == tag => self.content(tag).map(Some),
            _ => Some(None),
        }
    }
}

/// A value of these parts, one behind the other.
pub(super) fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut value = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => value.push(short),
        _ => {
            let digits = length.to_be_bytes();
            let zeros = digits.iter().take_while(|digit| **digit == 0).count();
            let digits = &digits[zeros..];
            value.push(0x80 | digits.len() as u8);
            value.extend_from_slice(digits);
        }
    }
    parts.iter().for_each(|part| value.extend_from_slice(part));
    value
}

/// A sequence of these values.
pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    value(tag::SEQUENCE, parts)
}

/// A number that is not negative, of its digits to the base 256.
pub(super) fn integer(digits: &[u8]) -> Vec<u8> {
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    let digits = &digits[zeros..];
    // The highest bit would be the sign, and a number has a digit.
    let sign: &[u8] = match digits.first() {
        Some(..=0x7f) => &[],
        _ => &[0],
    };
    value(tag::INTEGER, &[sign, digits])
}

/// Whole bytes as a string of bits.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    value(tag::BIT_STRING, &[&[0], bytes])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_have_one_form() {
        for (length, head) in [
            (0, &[4, 0][..]),
            (127, &[4, 127]),
            (128, &[4, 0x81, 128]),
            (255, &[4, 0x81, 255]),
            (256, &[4, 0x82, 1, 0]),
            (65_536, &[4, 0x83, 1, 0, 0]),
        ] {
            let content = vec![7; length];
            let whole = value(tag::OCTET_STRING, &[&content]);
            assert_eq!(&whole[..head.len()], head);
            let mut reader = Reader::new(&whole);
            let read = reader.value(tag::OCTET_STRING).unwrap();
            assert_eq!((read.content, read.whole), (&content[..], &whole[..]));
            assert_eq!(reader.end(), Some(()));
        }
        for bad in [
            &[4, 0x81, 127][..],
            &[4, 0x82, 0, 200],
            &[4, 0x80, 0, 0],
            &[4, 0x85, 1, 0, 0, 0, 0],
            &[4, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[4, 2, 0],
            &[4],
            &[0x1f, 1, 0],
        ] {
            assert_eq!(Reader::new(bad).any(), None, "{bad:?}");
        }
    }

    #[test]
    fn numbers_are_positive_and_short() {
        for (digits, encoded) in [
            (&[][..], &[2, 1, 0][..]),
            (&[0, 0], &[2, 1, 0]),
            (&[0, 1], &[2, 1, 1]),
            (&[0x80], &[2, 2, 0, 0x80]),
            (&[0x7f, 0], &[2, 2, 0x7f, 0]),
        ] {
            assert_eq!(integer(digits), encoded);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_within_its_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            let mut at = 0;
            while let Some(read) = reader.any() {
                prop_assert_eq!(read.whole, &bytes[at..at + read.whole.len()]);
                prop_assert_eq!(value(read.tag, &[read.content]), read.whole);
                at += read.whole.len();
            }
        }
    }
}
