//! Plugins: programs in any language that offer tools over QUIC with mutual TLS.
//!
//! The messages of the protocol are in [`generated`], made from the schema beside the sources;
//! [`frame`], [`envelope`], [`field`] and [`structs`] carry them without decoding more than is
//! needed. [`certs`] and [`ids`] say who somebody is, [`quic`] brings calls across, and [`kit`] is
//! what a plugin is written with.

pub mod envelope;
pub mod field;
pub mod frame;
#[rustfmt::skip]
#[expect(
    clippy::large_enum_variant,
    reason = "the code is generated from the schema"
)]
pub mod generated;
pub mod structs;
pub mod timestamp;

pub mod certs;
pub mod ids;
pub mod quic;

#[cfg(feature = "kit")]
pub mod kit;
