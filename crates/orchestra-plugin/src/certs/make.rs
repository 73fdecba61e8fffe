//! Making certificates: exactly the fields that existing programs write and expect.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyUsagePurpose, SanType, SerialNumber,
};
use rustls_pki_types::CertificateDer;

use super::{error::CertError, key::Key, parse::Cert};
use crate::ids::CertName;

/// How long a certificate is valid from the moment that it is made.
pub const VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A certificate is valid from a little before it is made, for clocks that differ.
const BACKDATED: Duration = Duration::from_secs(60);

/// Serial numbers are random below 2^128.
const SERIAL_BYTES: usize = 16;

/// A new self-signed authority of a key.
pub(super) fn authority(key: &Key, now: SystemTime) -> Result<Cert, CertError> {
    let params = authority_params(now, now + VALIDITY)?;
    let made = params.self_signed(key.pair()).map_err(failed)?;
    Cert::from_der(made.der().clone()).map_err(CertError::Make)
}

/// The authority of `new`, signed by the one before it.
pub(super) fn cross(
    new: &Key,
    old: &Cert,
    old_key: &Key,
    now: SystemTime,
) -> Result<Cert, CertError> {
    let mut params = authority_params(now, old.not_after().min(now + VALIDITY))?;
    params.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_ca_cert_der(old.der(), old_key.pair()).map_err(failed)?;
    let made = params.signed_by(new.pair(), &issuer).map_err(failed)?;
    Cert::from_der(made.der().clone()).map_err(CertError::Make)
}

/// A leaf for a name. It ends with its authority at the latest.
pub(super) fn leaf(
    name: &CertName,
    key: &Key,
    ca: &Cert,
    ca_key: &Key,
    now: SystemTime,
) -> Result<Cert, CertError> {
    let mut params = params(name.as_str(), now, ca.not_after().min(now + VALIDITY))?;
    // Authorities of one directory have one name; some verifiers tell them apart by this alone.
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.subject_alt_names = vec![
        SanType::DnsName(name.as_str().try_into().map_err(failed)?),
        SanType::DnsName("localhost".try_into().map_err(failed)?),
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ];
    let issuer = Issuer::from_ca_cert_der(ca.der(), ca_key.pair()).map_err(failed)?;
    let made = params.signed_by(key.pair(), &issuer).map_err(failed)?;
    Cert::from_der(made.der().clone()).map_err(CertError::Make)
}

/// A certificate as a file holds it.
pub(super) fn to_pem(der: &CertificateDer<'_>) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new("CERTIFICATE", der.to_vec()), config)
}

fn authority_params(now: SystemTime, until: SystemTime) -> Result<CertificateParams, CertError> {
    let mut params = params("Orchestra CA", now, until)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn params(
    common_name: &str,
    now: SystemTime,
    until: SystemTime,
) -> Result<CertificateParams, CertError> {
    let mut serial = [0_u8; SERIAL_BYTES];
    getrandom::fill(&mut serial).map_err(|error| CertError::Random(error.to_string()))?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "Orchestra");
    subject.push(DnType::CommonName, common_name);
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = subject;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch(now)?.saturating_sub(BACKDATED);
    params.not_after = epoch + since_epoch(until)?;
    Ok(params)
}

fn since_epoch(time: SystemTime) -> Result<Duration, CertError> {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_err(|_| CertError::Make("the clock is before 1970".to_owned()))?;
    // Certificates tell whole seconds.
    Ok(Duration::from_secs(since.as_secs()))
}

fn failed(error: rcgen::Error) -> CertError {
    CertError::Make(error.to_string())
}
