//! What is read is what another reader reads, of certificates of ours and of others, whole and broken.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use x509_parser::{extensions::GeneralName, prelude::FromDer as _};

use super::*;
use crate::certs::{key::Key, make};

/// What matters of a certificate.
#[derive(Debug, PartialEq)]
struct Read {
    subject: String,
    common_names: Vec<String>,
    dns_names: Vec<String>,
    public_key: Vec<u8>,
    times: [SystemTime; 2],
}

fn ours(der: &[u8]) -> Option<Read> {
    let x509 = X509::read(der)?;
    let common_names = x509.subject.common_name().map(str::to_owned);
    Some(Read {
        subject: x509.subject.to_text(),
        common_names: common_names.into_iter().collect(),
        dns_names: x509.dns_names().into_iter().map(str::to_owned).collect(),
        public_key: x509.public_key.to_vec(),
        times: [x509.not_before, x509.not_after],
    })
}

fn theirs(der: &[u8]) -> Option<Read> {
    let (rest, x509) = x509_parser::certificate::X509Certificate::from_der(der).ok()?;
    let names = x509.subject().iter_common_name();
    let names: Vec<_> = names.map(|name| name.as_str().ok()).collect();
    let common_names = match names.as_slice() {
        [Some(only)] => vec![(*only).to_owned()],
        _ => Vec::new(),
    };
    let alternatives = x509.subject_alternative_name().ok().flatten();
    let dns_names = alternatives.into_iter().flat_map(|all| {
        all.value
            .general_names
            .iter()
            .filter_map(|name| match name {
                GeneralName::DNSName(dns) => Some((*dns).to_owned()),
                _ => None,
            })
    });
    let time = |time: x509_parser::time::ASN1Time| {
        let seconds = u64::try_from(time.timestamp()).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    };
    rest.is_empty().then(|| Read {
        subject: x509.subject().to_string(),
        common_names,
        dns_names: dns_names.collect(),
        public_key: x509.public_key().subject_public_key.data.to_vec(),
        times: [
            time(x509.validity().not_before),
            time(x509.validity().not_after),
        ],
    })
}

/// Certificates of ours, each of another kind.
fn made() -> Vec<Vec<u8>> {
    let now = SystemTime::now();
    let (old_key, new_key) = (Key::generate().unwrap(), Key::generate().unwrap());
    let old = make::authority(&old_key, now).unwrap();
    let cross = make::cross(&new_key, &old, &old_key, now).unwrap();
    let name = "tools.demo".parse().unwrap();
    let leaf = make::leaf(&name, &new_key, &old, &old_key, now).unwrap();
    [old, cross, leaf].map(|cert| cert.der().to_vec()).to_vec()
}

/// One of another program, with all that a certificate may have.
fn foreign(names: &[String], day: i64, key: &rcgen::KeyPair) -> Vec<u8> {
    let mut params = rcgen::CertificateParams::new(names.to_vec()).unwrap();
    params.not_before = rcgen::date_time_ymd(1975, 1, 1);
    params.not_after = rcgen::date_time_ymd(1975, 1, 1) + Duration::from_secs(day as u64 * 86_400);
    let subject = &mut params.distinguished_name;
    *subject = rcgen::DistinguishedName::new();
    subject.push(rcgen::DnType::CountryName, "DE");
    subject.push(rcgen::DnType::OrganizationalUnitName, "Ünits");
    for name in names {
        subject.push(rcgen::DnType::CommonName, name.as_str());
    }
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.crl_distribution_points = vec![rcgen::CrlDistributionPoint {
        uris: vec!["http://example.com".to_owned()],
    }];
    params.self_signed(key).unwrap().der().to_vec()
}

#[test]
fn what_we_make_is_read_alike() {
    for der in made() {
        let read = ours(&der).unwrap();
        assert_eq!(Some(&read), theirs(&der).as_ref());
        assert!(read.subject.starts_with("O=Orchestra, CN="), "{read:?}");
        // Anything less or more is none.
        assert!(ours(&der[..der.len() - 1]).is_none());
        assert!(ours(&[&der[..], &[0]].concat()).is_none());
    }
}

#[test]
fn two_common_names_are_none() {
    let key = rcgen::KeyPair::generate().unwrap();
    let der = foreign(&["a".to_owned()], 1, &key);
    assert_eq!(X509::read(&der).unwrap().subject.common_name(), Some("a"));
    let part = [0x30, 8, 6, 3, 0x55, 4, 3, 0x0c, 1, b'a'];
    let set = [&[0x31, 10][..], &part].concat();
    let twice = [&[0x30, 24][..], &set, &set].concat();
    let name = |der: &'static [u8]| Name(Reader::new(der).any().unwrap());
    assert_eq!(name(twice.leak()).common_name(), None);
    let once = [&[0x30, 12][..], &set].concat();
    assert_eq!(name(once.leak()).common_name(), Some("a"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_others_make_is_read_alike(
        name in "[a-z][a-z0-9-]{0,20}(\\.[a-z]{1,9}){0,3}",
        days in 0_i64..2_000_000,
    ) {
        let key = rcgen::KeyPair::generate().unwrap();
        let der = foreign(&[name], days, &key);
        prop_assert_eq!(ours(&der), theirs(&der));
    }

    /// Whatever happens to a certificate, it is refused or names nobody else.
    #[test]
    fn broken_ones_are_refused_or_read_alike(
        which in 0_usize..3,
        hits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut der = made().swap_remove(which);
        for (at, byte) in hits {
            let at = at.index(der.len());
            der[at] = byte;
        }
        if let (Some(ours), Some(theirs)) = (ours(&der), theirs(&der)) {
            if !ours.common_names.is_empty() && !theirs.common_names.is_empty() {
                prop_assert_eq!(&ours.common_names, &theirs.common_names);
            }
            prop_assert_eq!(ours.public_key, theirs.public_key);
            prop_assert_eq!(ours.times, theirs.times);
        }
    }
}
