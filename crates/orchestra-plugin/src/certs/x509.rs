//! What stands in a certificate, as far as it is needed: who it names, of which key, until when, and
//! what is signed. Whether it may be believed is for TLS to say, which verifies it by itself.

use std::time::SystemTime;

use super::{
    der::{Reader, Value, tag},
    time,
};

/// The extension that holds the names of a server.
pub(super) const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// The extension by which a key is known.
pub(super) const KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x0e];

/// Parts of a name.
pub(super) const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
pub(super) const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// How parts of a name are called.
const CALLED: [(&[u8], &str); 6] = [
    (COMMON_NAME, "CN"),
    (&[0x55, 0x04, 0x06], "C"),
    (&[0x55, 0x04, 0x07], "L"),
    (&[0x55, 0x04, 0x08], "ST"),
    (ORGANIZATION, "O"),
    (&[0x55, 0x04, 0x0b], "OU"),
];

/// The number of a DNS name among those of a server.
pub(super) const DNS_NAME: u8 = tag::plain(2);

/// A certificate that was read.
#[derive(Debug)]
pub(super) struct X509<'a> {
    /// What the signature is of.
    pub(super) signed: &'a [u8],
    pub(super) signature: &'a [u8],
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
    pub(super) subject: Name<'a>,
    pub(super) public_key: &'a [u8],
    extensions: Reader<'a>,
}

impl<'a> X509<'a> {
    /// Reads a certificate; `None` for what is none.
    pub(super) fn read(der: &'a [u8]) -> Option<Self> {
        let mut file = Reader::new(der);
        let mut certificate = file.within(tag::SEQUENCE)?;
        file.end()?;
        let signed = certificate.value(tag::SEQUENCE)?;
        certificate.content(tag::SEQUENCE)?;
        let signature = bits(certificate.content(tag::BIT_STRING)?)?;
        certificate.end()?;

        let mut fields = Reader::new(signed.content);
        let _version = fields.optional(tag::around(0))?;
        let _serial = fields.content(tag::INTEGER)?;
        let _algorithm = fields.content(tag::SEQUENCE)?;
        let _issuer = fields.content(tag::SEQUENCE)?;
        let mut validity = fields.within(tag::SEQUENCE)?;
        let not_before = time::read(validity.any()?)?;
        let not_after = time::read(validity.any()?)?;
        validity.end()?;
        let subject = Name(fields.value(tag::SEQUENCE)?);
        subject.parts()?;
        let mut key = fields.within(tag::SEQUENCE)?;
        key.content(tag::SEQUENCE)?;
        let public_key = bits(key.content(tag::BIT_STRING)?)?;
        key.end()?;
        let _issuer_id = fields.optional(tag::plain(1))?;
        let _subject_id = fields.optional(tag::plain(2))?;
        let extensions = match fields.optional(tag::around(3))? {
            None => Reader::new(&[]),
            Some(content) => {
                let mut outer = Reader::new(content);
                let inner = outer.within(tag::SEQUENCE)?;
                outer.end()?;
                inner
            }
        };
        fields.end()?;
        Some(Self {
            signed: signed.whole,
            signature,
            not_before,
            not_after,
            subject,
            public_key,
            extensions,
        })
    }

    /// The DNS names; none where they cannot be read, or are there twice.
    pub(super) fn dns_names(&self) -> Vec<&'a str> {
        self.read_dns_names().unwrap_or_default()
    }

    /// By what certificates of this key's name it.
    pub(super) fn key_identifier(&self) -> Option<&'a [u8]> {
        Reader::new(self.extension(KEY_IDENTIFIER)?).content(tag::OCTET_STRING)
    }

    fn read_dns_names(&self) -> Option<Vec<&'a str>> {
        let mut outer = Reader::new(self.extension(ALTERNATIVE_NAMES)?);
        let mut inner = outer.within(tag::SEQUENCE)?;
        outer.end()?;
        let mut names = Vec::new();
        while !inner.is_empty() {
            let name = inner.any()?;
            if name.tag == DNS_NAME {
                let text = std::str::from_utf8(name.content).ok();
                names.push(text.filter(|text| text.is_ascii())?);
            }
        }
        Some(names)
    }

    /// The content of an extension, if it is there once.
    fn extension(&self, wanted: &[u8]) -> Option<&'a [u8]> {
        let mut found = None;
        let mut all = self.extensions.clone();
        while !all.is_empty() {
            let mut extension = all.within(tag::SEQUENCE)?;
            let object = extension.content(tag::OBJECT)?;
            let _critical = extension.optional(tag::BOOLEAN)?;
            let content = extension.content(tag::OCTET_STRING)?;
            extension.end()?;
            if object == wanted && found.replace(content).is_some() {
                return None;
            }
        }
        found
    }
}

/// Who holds a certificate, or signs it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'a>(Value<'a>);

impl<'a> Name<'a> {
    /// As it stands in the certificate.
    pub(super) fn der(&self) -> &'a [u8] {
        self.0.whole
    }

    /// The common name, if there is just one: with two, programs differ about which counts.
    pub(super) fn common_name(&self) -> Option<&'a str> {
        let parts = self.parts()?;
        let mut names = parts.iter().filter(|(object, _)| *object == COMMON_NAME);
        let (_, name) = names.next()?;
        names.next().is_none().then_some(text(name)?)
    }

    /// The whole for people: `O=Orchestra, CN=tools.hello`.
    pub(super) fn to_text(self) -> String {
        let parts = self.parts().unwrap_or_default();
        let shown = parts.iter().map(|(object, value)| {
            let called = CALLED.iter().find(|(known, _)| known == object);
            let called = called.map_or_else(|| hex(object), |(_, called)| (*called).to_owned());
            let value = text(value).map_or_else(|| hex(value.content), str::to_owned);
            format!("{called}={value}")
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    fn parts(&self) -> Option<Vec<(&'a [u8], Value<'a>)>> {
        let mut parts = Vec::new();
        let mut sets = Reader::new(self.0.content);
        while !sets.is_empty() {
            let mut set = sets.within(tag::SET)?;
            while !set.is_empty() {
                let mut part = set.within(tag::SEQUENCE)?;
                parts.push((part.content(tag::OBJECT)?, part.any()?));
                part.end()?;
            }
        }
        Some(parts)
    }
}

/// A text, in one of the spellings that are a part of UTF-8.
fn text<'a>(value: &Value<'a>) -> Option<&'a str> {
    let is_text = [
        tag::UTF8_STRING,
        tag::NUMERIC_STRING,
        tag::PRINTABLE_STRING,
        tag::IA5_STRING,
    ]
    .contains(&value.tag);
    std::str::from_utf8(value.content).ok().filter(|_| is_text)
}

/// The bytes of a string of bits that are whole bytes.
fn bits(content: &[u8]) -> Option<&[u8]> {
    content.strip_prefix(&[0])
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("#{}", digits.collect::<String>())
}

#[cfg(test)]
mod tests;
