//! Masking of secrets, for every place where data leaves the program: logs, audit, recordings, exports, events
//! of hooks, errors, and the dashboard.
//!
//! One [`Masker`] finds four kinds of secrets:
//!
//! - known values, such as those of secret variables of the environment, in any text;
//! - values under a name that means a secret, in any notation: `PASSWORD=…`, `"api_key": "…"`, `--token …`,
//!   `X-Auth-Token: …`, `?sig=…`;
//! - tokens of well-known forms: `ghp_…`, `glpat-…`, JSON Web Tokens, private keys in PEM;
//! - arguments of well-known programs: `mysql -p…`, `sshpass -p …`, `curl -u user:…`, `echo … | sudo -S`.
//!
//! A masked secret becomes [`MASK`]. The prefix of a well-known token remains, so that a reader recognises what
//! was there: `glpat-***`. Masking is idempotent, takes time linear in the text, and never panics.
//!
//! Limit: the crate guesses no secret from randomness alone, since digests and ids look the same.
//! Values that only refer to a secret (`$TOKEN`, `${{ secrets.TOKEN }}`, `<token>`) are not masked.

mod form;
mod json;
mod known;
mod masker;
mod name;
pub mod sample;
mod scan;
mod stream;
pub mod table;
mod value;

pub use form::{is_invisible, is_secret_field, label_asks_for_secret, mentions_secret};
pub use masker::{Masker, excerpt, text};
pub use name::is_secret_name;
pub use stream::Stream;
pub use value::{MIN_SECRET_BYTES, is_plain_value, is_secret_value, url_passwords};

/// Replacement of a secret.
pub const MASK: &str = "***";
