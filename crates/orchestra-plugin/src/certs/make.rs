//! Making certificates: exactly the fields that existing programs write and expect.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::{Duration, SystemTime},
};

use ring::digest;
use rustls_pki_types::CertificateDer;

use super::{
    der::{self, sequence, tag, value},
    error::CertError,
    key::{self, Key},
    parse::Cert,
    pem, time,
    x509::{ALTERNATIVE_NAMES, COMMON_NAME, DNS_NAME, KEY_IDENTIFIER, ORGANIZATION},
};
use crate::ids::CertName;

/// How long a certificate is valid from the moment that it is made.
pub const VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A certificate is valid from a little before it is made, for clocks that differ.
const BACKDATED: Duration = Duration::from_secs(60);

/// Serial numbers are random below 2^128.
const SERIAL_BYTES: usize = 16;

/// A key is known by so many bytes of a digest.
const KEY_IDENTIFIER_BYTES: usize = 20;

/// The name of every authority.
const AUTHORITY: &str = "Orchestra CA";

/// The organization of everybody.
const ORCHESTRA: &str = "Orchestra";

/// Other certificates that may stand between an authority and a leaf.
const AUTHORITIES_BELOW: u8 = 1;

/// Extensions that nobody reads back, as objects.
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];

/// What a leaf may be used for, as objects: to be called, and to call.
const SERVER: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

/// What a key may do: how many bits of the last byte are not used, and the bits.
const SIGNS_DATA: &[u8] = &[7, 0b1000_0000];
const SIGNS_CERTIFICATES_AND_REVOCATIONS: &[u8] = &[1, 0b0000_0110];

/// The truth, of which there is one encoding.
const TRUE: &[u8] = &[tag::BOOLEAN, 1, 0xff];

/// A new self-signed authority of a key.
pub(super) fn authority(key: &Key, now: SystemTime) -> Result<Cert, CertError> {
    let name = name(AUTHORITY);
    let plan = Plan {
        subject: &name,
        key,
        now,
        until: now + VALIDITY,
        extensions: authority_extensions(key),
    };
    plan.signed(&name, key)
}

/// The authority of `new`, signed by the one before it.
pub(super) fn cross(
    new: &Key,
    old: &Cert,
    old_key: &Key,
    now: SystemTime,
) -> Result<Cert, CertError> {
    let mut extensions = signer_extension(old);
    extensions.extend(authority_extensions(new));
    let plan = Plan {
        subject: &name(AUTHORITY),
        key: new,
        now,
        until: old.not_after().min(now + VALIDITY),
        extensions,
    };
    plan.signed(old.subject_der(), old_key)
}

/// A leaf for a name. It ends with its authority at the latest.
pub(super) fn leaf(
    called: &CertName,
    key: &Key,
    ca: &Cert,
    ca_key: &Key,
    now: SystemTime,
) -> Result<Cert, CertError> {
    let names = sequence(&[
        &value(DNS_NAME, &[called.as_str().as_bytes()]),
        &value(DNS_NAME, &[b"localhost"]),
        &value(tag::plain(7), &[&Ipv4Addr::LOCALHOST.octets()]),
        &value(tag::plain(7), &[&Ipv6Addr::LOCALHOST.octets()]),
    ]);
    let usages = [SERVER, CLIENT].map(|usage| value(tag::OBJECT, &[usage]));
    // Authorities of one directory have one name; some verifiers tell them apart by this alone.
    let mut extensions = signer_extension(ca);
    extensions.extend([
        extension(ALTERNATIVE_NAMES, &[], &names),
        extension(KEY_USAGE, TRUE, &value(tag::BIT_STRING, &[SIGNS_DATA])),
        extension(
            EXTENDED_KEY_USAGE,
            &[],
            &sequence(&[&usages[0], &usages[1]]),
        ),
    ]);
    let plan = Plan {
        subject: &name(called.as_str()),
        key,
        now,
        until: ca.not_after().min(now + VALIDITY),
        extensions,
    };
    plan.signed(ca.subject_der(), ca_key)
}

/// A certificate as a file holds it.
pub(super) fn to_pem(der: &CertificateDer<'_>) -> String {
    pem::encode("CERTIFICATE", der)
}

/// A certificate that is to be signed.
struct Plan<'a> {
    subject: &'a [u8],
    key: &'a Key,
    now: SystemTime,
    until: SystemTime,
    extensions: Vec<Vec<u8>>,
}

impl Plan<'_> {
    fn signed(&self, issuer: &[u8], issuer_key: &Key) -> Result<Cert, CertError> {
        let mut serial = [0_u8; SERIAL_BYTES];
        key::fill(&mut serial)?;
        let since = self.now.checked_sub(BACKDATED).unwrap_or(self.now);
        let validity = sequence(&[&told(since)?, &told(self.until)?]);
        let extensions: Vec<&[u8]> = self.extensions.iter().map(Vec::as_slice).collect();
        let fields = sequence(&[
            // The third version is the one that has extensions, counted from 0.
            &value(tag::around(0), &[&der::integer(&[2])]),
            &der::integer(&serial),
            issuer_key.signature_algorithm(),
            issuer,
            &validity,
            self.subject,
            &self.key.public_key_info(),
            &value(tag::around(3), &[&sequence(&extensions)]),
        ]);
        let certificate = sequence(&[
            &fields,
            issuer_key.signature_algorithm(),
            &der::bits(&issuer_key.sign(&fields)?),
        ]);
        Cert::from_der(certificate.into()).map_err(CertError::Make)
    }
}

fn authority_extensions(key: &Key) -> Vec<Vec<u8>> {
    let digest = digest::digest(&digest::SHA256, &key.public_key_info());
    let identifier = &digest.as_ref()[..KEY_IDENTIFIER_BYTES];
    let usage = value(tag::BIT_STRING, &[SIGNS_CERTIFICATES_AND_REVOCATIONS]);
    let below = der::integer(&[AUTHORITIES_BELOW]);
    vec![
        extension(KEY_USAGE, TRUE, &usage),
        extension(
            KEY_IDENTIFIER,
            &[],
            &value(tag::OCTET_STRING, &[identifier]),
        ),
        extension(BASIC_CONSTRAINTS, TRUE, &sequence(&[TRUE, &below])),
    ]
}

/// By which key a certificate is signed, as far as that of its authority says it.
fn signer_extension(ca: &Cert) -> Vec<Vec<u8>> {
    let named = ca.key_identifier().map(|identifier| {
        let identifier = value(tag::plain(0), &[identifier]);
        extension(AUTHORITY_KEY_IDENTIFIER, &[], &sequence(&[&identifier]))
    });
    named.into_iter().collect()
}

/// An extension; `critical` is the truth where whoever does not know it must not go on.
fn extension(object: &[u8], critical: &[u8], content: &[u8]) -> Vec<u8> {
    let object = value(tag::OBJECT, &[object]);
    sequence(&[&object, critical, &value(tag::OCTET_STRING, &[content])])
}

fn name(common_name: &str) -> Vec<u8> {
    let part = |object, text: &str| {
        let object = value(tag::OBJECT, &[object]);
        let text = value(tag::UTF8_STRING, &[text.as_bytes()]);
        value(tag::SET, &[&sequence(&[&object, &text])])
    };
    sequence(&[
        &part(ORGANIZATION, ORCHESTRA),
        &part(COMMON_NAME, common_name),
    ])
}

fn told(time: SystemTime) -> Result<Vec<u8>, CertError> {
    time::write(time)
        .ok_or_else(|| CertError::Make("the clock is before 1970 or after 9999".to_owned()))
}
