//! The whole router over real sockets, as clients see it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dashboard;
mod embed;
mod health;
mod integrated;
mod old;
mod openapi;
mod rest;
mod servers;
mod site;
mod toys;
