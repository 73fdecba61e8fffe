//! Members that the body of a call may have. A misspelt one would otherwise be left out, and the call made without
//! it.

use axum::body::Bytes;
use orchestra_wire::RawJson;

use crate::refusal::{Reason, Refusal};

/// Maximum number of characters of a name that are reported.
const MAX_NAME_CHARS: usize = 64;

/// Refuses a body with a member that is none of `known`. Bodies that are no objects are left to their reader.
pub(super) fn check(body: &Bytes, known: &[&str]) -> Result<(), Refusal> {
    let Ok(body) = RawJson::checked(body.clone()) else {
        return Ok(());
    };
    let mut members = body.members().into_iter().flatten();
    match members.find(|member| !known.contains(&&*member.key)) {
        None => Ok(()),
        Some(member) => {
            let name: String = member.key.chars().take(MAX_NAME_CHARS).collect();
            let known = known.join(" or ");
            let text = format!("unknown field {}, expected {known}", name.escape_debug());
            Err(Refusal::new(Reason::Malformed, text))
        }
    }
}
