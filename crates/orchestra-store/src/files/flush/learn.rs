//! What is found on the disk beside what was known: what an earlier run had announced and written,
//! without coming to record it.

use crate::files::fields::{ContentHash, DESCRIPTION};
use crate::files::ledger::{Entry, Next, Seen};
use crate::files::place::{Part, Place};
use crate::io::Stat;

/// What the files of an owner tell beside what was known of them: an earlier run had announced it,
/// and written it without coming to record it.
pub(super) fn learned(looked: &[(Entry, Option<(Stat, ContentHash)>)]) -> Vec<(String, Seen)> {
    // The fields of an issue tell of its description as well, which may stand in another file: that
    // may be as it was while the fields are as announced, and the other way round.
    let early = looked
        .iter()
        .any(|(entry, arrived)| is_part(&entry.path, Part::Description) && arrived.is_some());
    let is_late = |(entry, arrived): &(Entry, Option<_>)| {
        let seen = entry.seen.as_ref().map(|seen| Next::Content(seen.hash));
        is_part(&entry.path, Part::Description)
            && arrived.is_none()
            && seen.is_some()
            && matches!(entry.next, Some(Next::Content(_)))
            && entry.next != seen
    };
    let late = looked.iter().any(is_late);
    let mut learned = Vec::new();
    for (entry, arrived) in looked {
        let Some(announced) = &entry.next_fields else {
            continue;
        };
        let fields = is_part(&entry.path, Part::Fields);
        let seen = match (arrived, &entry.seen) {
            (Some((stat, hash)), seen) => {
                let mut now = announced.clone();
                if let Some(seen) = seen
                    && fields
                    && late
                {
                    now.take(DESCRIPTION, &seen.fields);
                }
                Seen {
                    hash: *hash,
                    size: stat.size,
                    modified: stat.modified,
                    fields: now,
                }
            }
            (None, Some(seen)) if fields && early => {
                let mut seen = seen.clone();
                seen.fields.take(DESCRIPTION, announced);
                seen
            }
            _ => continue,
        };
        if entry.seen.as_ref() != Some(&seen) {
            learned.push((entry.path.clone(), seen));
        }
    }
    learned
}

/// Whether a file is that part of an issue.
pub(super) fn is_part(path: &str, part: Part) -> bool {
    matches!(Place::parse(path), Some(Place::Issue(_, found)) if found == part)
}
