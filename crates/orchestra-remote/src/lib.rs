//! Servers of models, asked over HTTP.
//!
//! An [`Endpoint`] is one server: where it is, how it is trusted, and the key that it is shown. What it answers is
//! bounded, and what is told of it never has the key in it, whatever the server repeats.

mod endpoint;
mod trust;
mod words;

pub use endpoint::{Answer, Endpoint, EndpointError, Fault, Limits};
pub use trust::{is_local, is_local_address, trusting};
pub use words::{in_a_line, shown, with_causes};
