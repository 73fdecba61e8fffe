//! Certificates as they are shown: in a table, in full, as JSON. Never a key.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use orchestra_board::Timestamp;
use orchestra_plugin::{
    certs::{CA_RENEWAL, CertDir, CertError, LEAF_RENEWAL, Listed},
    ids::CertName,
};
use serde::Serialize;

use crate::{commands::table, output};

/// A certificate.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct Row {
    pub(super) name: String,
    /// What it is for.
    role: String,
    subject: String,
    /// The authority here that signed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    pub(super) not_after: String,
    /// Whether it is valid now: not over, and of an authority that is trusted here.
    valid: bool,
    /// Whether the authority that signed it is trusted here.
    trusted: bool,
    /// Whether it ends soon, or the authority that signed it is not the present one.
    renewal_due: bool,
    /// Whether its key lies beside it.
    has_key: bool,
    /// Whether others than its owner can read that key.
    key_exposed: bool,
    /// SHA-256.
    fingerprint: String,
}

impl Row {
    /// Every certificate of a directory: the authority first.
    pub(super) fn all(directory: &CertDir, now: SystemTime) -> Result<Vec<Self>, CertError> {
        let mut rows: Vec<Self> = directory
            .list(now)?
            .into_iter()
            .map(|listed| Self::of(listed, now))
            .collect();
        orchestra_sort::sort_by_key(&mut rows, |row| !is_authority(&row.name));
        Ok(rows)
    }

    fn of(listed: Listed, now: SystemTime) -> Self {
        let ends_within = |time| listed.not_after < now + time;
        let renewal_due = match listed.name.as_str() {
            "ca" => ends_within(CA_RENEWAL),
            // They end with what they tie together.
            name if is_authority(name) => false,
            _ => ends_within(LEAF_RENEWAL) || listed.signed_by.as_deref() != Some("ca"),
        };
        let trusted = listed.signed_by.is_some() || is_authority(&listed.name);
        Self {
            role: role(&listed.name),
            renewal_due,
            not_after: time(listed.not_after),
            issuer: listed.signed_by,
            subject: listed.subject,
            valid: listed.valid && trusted,
            trusted,
            has_key: listed.has_key,
            key_exposed: listed.has_key && listed.exposed,
            fingerprint: listed.fingerprint,
            name: listed.name,
        }
    }

    /// Whether nothing renews it by itself: the authority, and what is of no authority here.
    pub(super) fn needs_somebody(&self) -> bool {
        is_authority(&self.name) || !self.trusted
    }

    /// What is wrong with it, in a word or two.
    fn state(&self) -> &'static str {
        match (self.valid, self.renewal_due) {
            _ if !self.trusted => "not trusted",
            (false, _) => "not valid now",
            (true, true) => "renewal due",
            (true, false) => "valid",
        }
    }

    /// The most important of it.
    pub(in crate::commands) fn in_a_line(&self) -> String {
        let ends = day(&self.not_after);
        format!("{}, until {ends}, {}", self.role, self.state())
    }

    /// All of it, a line each.
    pub(super) fn in_full(&self) -> String {
        let issuer = self.issuer.as_deref().unwrap_or("no authority here");
        let key = match (self.has_key, self.key_exposed) {
            (true, false) => "beside it",
            (true, true) => "beside it, and other users can read it",
            (false, _) => "not here",
        };
        let text = format!(
            "name         {}\nrole         {}\nsubject      {}\nissuer       {issuer}\n\
             not after    {}\nstate        {}\nkey          {key}\nSHA-256      {}\n",
            self.name,
            self.role,
            self.subject,
            self.not_after,
            self.state(),
            self.fingerprint,
        );
        output::printable(&text).into_owned()
    }
}

fn is_authority(name: &str) -> bool {
    matches!(name, "ca" | "ca-previous" | "ca-cross" | "ca-next")
}

/// What a certificate of a name is for.
fn role(name: &str) -> String {
    match name {
        "ca" => return "authority".to_owned(),
        "ca-previous" => return "authority before, still trusted".to_owned(),
        "ca-cross" => return "authority, signed by the one before".to_owned(),
        "ca-next" => return "authority, half made".to_owned(),
        "orchestrator" => return "orchestrator, as server".to_owned(),
        _ => {}
    }
    if let Some(id) = name.strip_prefix("orchestrator-to-") {
        return format!("orchestrator towards {id}");
    }
    let parsed: Option<CertName> = name.parse().ok();
    match parsed.and_then(|name| name.plugin_client()) {
        Some(id) => format!("{id} towards the orchestrator"),
        None => format!("{name}, as server"),
    }
}

/// The certificates as a table; a word when there are none.
pub(super) fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no certificates; `orchestra certs init` creates an authority\n".to_owned();
    }
    let head = ["NAME", "ROLE", "ISSUER", "UNTIL", "STATE", "SHA-256"];
    let cells = rows.iter().map(|row| {
        vec![
            row.name.clone(),
            row.role.clone(),
            row.issuer.clone().unwrap_or_else(|| "-".to_owned()),
            day(&row.not_after).to_owned(),
            row.state().to_owned(),
            // Enough to compare by eye; the whole stands in `show NAME` and in JSON.
            row.fingerprint.chars().take(23).collect::<String>() + "…",
        ]
    });
    table::lines(&head, &cells.collect::<Vec<_>>())
}

/// What is to be done about them.
pub(super) fn notes(rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    let due = |row: &&Row| row.renewal_due || !row.valid;
    for row in rows.iter().filter(due) {
        let name = &row.name;
        notes.push(match name.as_str() {
            "ca" => "the authority expires soon; `orchestra certs rotate` replaces it".to_owned(),
            authority if is_authority(authority) => continue,
            _ if !row.trusted => format!(
                "no authority of this directory signed the certificate of {name}, so its connections are \
                 refused: a program that may read ca.key renews its certificate itself; to renew any other \
                 certificate, run `orchestra certs issue {name}`, with --out DIR if it was handed out"
            ),
            _ => format!(
                "the certificate of {name} is renewed when its program starts, if the program may read \
                 ca.key; otherwise run `orchestra certs issue {name}`, with --out DIR if it was handed out"
            ),
        });
    }
    notes
}

/// Keys that others can read: whoever has one is believed until its certificate ends.
pub(super) fn exposed(directory: &Path, rows: &[Row]) -> Vec<String> {
    let exposed = rows.iter().filter(|row| row.key_exposed);
    let told = exposed.map(|row| {
        let key = directory.join(format!("{}.key", row.name));
        format!(
            "other users can read {}: run `chmod 600` on it, and `orchestra certs rotate --now` if another user may have read it",
            key.display()
        )
    });
    told.collect()
}

/// Texts, a line each.
pub(super) fn lines(texts: &[String]) -> String {
    let lines = texts.iter().map(|text| format!("{text}\n"));
    output::printable(&lines.collect::<String>()).into_owned()
}

/// A time as files and answers show it.
pub(super) fn time(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(seconds.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_unix_seconds(seconds).to_string()
}

/// The day of a time.
pub(super) fn day(time: &str) -> &str {
    time.split('T').next().unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_is_for() {
        for (name, expected) in [
            ("ca", "authority"),
            ("orchestrator", "orchestrator, as server"),
            ("orchestrator-to-tools.a", "orchestrator towards tools.a"),
            ("tools.a", "tools.a, as server"),
            ("tools.a-client", "tools.a towards the orchestrator"),
        ] {
            assert_eq!(role(name), expected);
        }
    }
}
