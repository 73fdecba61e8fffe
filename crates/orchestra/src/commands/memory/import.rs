//! `orchestra memory import`.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, Read as _},
    path::Path,
};

use anyhow::Context as _;
use orchestra_board::{Label, Slug};
use orchestra_store::{Action, ActionError, Chunk, ChunkId, ChunkPatch, Made, NewChunk, Store};
use serde_json::json;

use super::{
    desk,
    line::{Line, Memory, Session},
};
use crate::{
    commands::progress,
    exit::{Exit, Failure},
    output::{self, Format, counted},
};

/// The longest line: more than the largest session comes to.
const MAX_LINE_BYTES: u64 = 32 * 1024 * 1024;
/// How many refused lines are told one by one.
const MAX_TOLD: usize = 20;

/// What came of the lines.
#[derive(Debug, Default)]
struct Report {
    saved: u64,
    known: u64,
    sessions: u64,
    expired: u64,
    refused: usize,
    told: Vec<String>,
}

impl Report {
    /// Counts what was refused, and tells why of the first ones.
    fn refuse(&mut self, why: impl FnOnce() -> String) {
        self.refused += 1;
        if self.told.len() < MAX_TOLD {
            self.told.push(why());
        }
    }
}

/// An import under way.
struct Import<'a> {
    store: &'a Store,
    project: Option<&'a str>,
    /// What ids of the file are here.
    ids: HashMap<(Slug, ChunkId), ChunkId>,
    /// What is superseded, and by which id of the file.
    superseded: Vec<(Slug, ChunkId, ChunkId)>,
    report: Report,
}

/// Remembers what a file says.
pub(super) fn run(
    store: &Store,
    project: Option<&str>,
    file: &Path,
    format: Format,
) -> Result<Exit, Failure> {
    super::named(store, project)?;
    let reading = || match file == Path::new("-") {
        true => "read stdin".to_owned(),
        false => format!("read {}", file.display()),
    };
    let (length, mut input): (u64, Box<dyn BufRead>) = if file == Path::new("-") {
        (0, Box::new(std::io::stdin().lock()))
    } else {
        let opened = File::open(file).with_context(reading)?;
        let length = opened.metadata().with_context(reading)?.len();
        (length, Box::new(BufReader::new(opened)))
    };
    let bar = match length {
        0 => progress::spinner("importing"),
        length => progress::bar(length, "importing"),
    };
    let mut import = Import {
        store,
        project,
        ids: HashMap::new(),
        superseded: Vec::new(),
        report: Report::default(),
    };
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        bytes.clear();
        let read = (&mut input)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut bytes)
            .with_context(reading)?;
        if read == 0 {
            break;
        }
        bar.inc(u64::try_from(read).unwrap_or(u64::MAX));
        if u64::try_from(read).is_ok_and(|read| read >= MAX_LINE_BYTES) {
            // What was imported is whole.
            import.supersede()?;
            bar.finish_and_clear();
            return Err(Failure::refused(format!(
                "line {number} is longer than {MAX_LINE_BYTES} bytes; the lines before it were imported"
            )));
        }
        if !bytes.trim_ascii().is_empty() {
            import.line(number, &bytes)?;
        }
    }
    import.supersede()?;
    bar.finish_and_clear();
    tell(&import.report, format)
}

fn tell(report: &Report, format: Format) -> Result<Exit, Failure> {
    let Report {
        saved,
        known,
        sessions,
        expired,
        refused,
        told,
    } = report;
    let answer = json!({"saved": saved, "known": known, "sessions": sessions, "expired": expired,
        "refused": refused, "reasons": told});
    format.print(&answer, |_| {
        format!(
            "imported {} and {}; skipped {} and {expired} expired\n",
            counted(*saved, "memory"),
            counted(*sessions, "session"),
            counted(*known, "duplicate")
        )
    })?;
    if *refused > 0 && format == Format::Text {
        for reason in told {
            output::complain(&output::printable(reason));
        }
        let were = if *refused == 1 { "was" } else { "were" };
        output::complain(&format!(
            "error: {} {were} refused",
            counted(*refused, "line")
        ));
    }
    Ok(desk::exit_of(*refused))
}

impl Import<'_> {
    /// Takes a line; one that is wrong is told, and the others are taken.
    fn line(&mut self, number: u64, bytes: &[u8]) -> Result<(), Failure> {
        let line: Result<Line, String> = serde_json::from_slice(bytes)
            .map_err(|error| format!("is no memory or session: {error}"));
        let taken = match line {
            Ok(Line::Memory(memory)) => self.memory(&memory),
            Ok(Line::Session(session)) => self.session(&session),
            Err(wrong) => Ok(Err(wrong)),
        };
        if let Err(wrong) = taken? {
            self.report.refuse(|| format!("line {number}: {wrong}"));
        }
        Ok(())
    }

    fn slug(&self, named: &str) -> Result<Slug, String> {
        Slug::parse(self.project.unwrap_or(named)).map_err(|error| format!("project: {error}"))
    }

    fn memory(&mut self, memory: &Memory) -> Result<Result<(), String>, Failure> {
        let parsed = || {
            let slug = self.slug(&memory.project)?;
            let new = memory.new_chunk(slug.clone())?;
            Ok((slug, new, memory.old_id()?, memory.old_superseder()?))
        };
        let (slug, new, old, by) = match parsed() {
            Ok(parsed) => parsed,
            Err(wrong) => return Ok(Err(wrong)),
        };
        if new.expires_at.is_some_and(|at| at <= self.store.now()) {
            self.report.expired += 1;
            return Ok(Ok(()));
        }
        let known = self
            .store
            .read(|reader| reader.chunk_of_text(&slug, &new.content));
        let action = match known {
            Ok(Some(known)) => {
                self.report.known += 1;
                self.note(slug, old, by, known.id);
                return self.unite_tags(known, &new.tags);
            }
            Ok(None) => Action::SaveMemory(NewChunk { ..new }),
            Err(orchestra_store::ReadError::Refused(refusal)) => {
                return Ok(Err(desk::as_commands(&refusal.to_string())));
            }
            Err(error) => return Err(error.into()),
        };
        match self.act(action)? {
            Ok(Made::Chunk { chunk, .. }) => {
                self.report.saved += 1;
                self.note(slug, old, by, chunk.id);
                Ok(Ok(()))
            }
            Ok(_) => Ok(Ok(())),
            Err(wrong) => Ok(Err(wrong)),
        }
    }

    fn note(&mut self, slug: Slug, old: Option<ChunkId>, by: Option<ChunkId>, id: ChunkId) {
        if let Some(by) = by {
            self.superseded.push((slug.clone(), id, by));
        }
        if let Some(old) = old {
            self.ids.insert((slug, old), id);
        }
    }

    fn unite_tags(&self, known: Chunk, tags: &[Label]) -> Result<Result<(), String>, Failure> {
        let mut all = known.tags;
        let before = all.len();
        for tag in tags {
            if all.len() < NewChunk::MAX_TAGS && !all.contains(tag) {
                all.push(tag.clone());
            }
        }
        if all.len() == before {
            return Ok(Ok(()));
        }
        let patch = ChunkPatch {
            tags: Some(all),
            ..ChunkPatch::of(known.project, known.id)
        };
        let done = self.act(Action::UpdateMemory(Box::new(patch)))?;
        Ok(done.map(drop))
    }

    fn session(&mut self, session: &Session) -> Result<Result<(), String>, Failure> {
        let slug = self.slug(&session.project);
        let new = match slug.and_then(|slug| session.new_session(slug)) {
            Ok(new) => new,
            Err(wrong) => return Ok(Err(wrong)),
        };
        let known = self
            .store
            .read(|reader| reader.session(&new.project, &new.id))?;
        // What somebody wrote is better than what was made of hook events.
        let is_better =
            |known: &orchestra_store::SessionRecord| match (known.from_hooks, new.from_hooks) {
                (true, false) => true,
                (false, true) => false,
                (true, true) | (false, false) => {
                    new.ended_at.is_some_and(|ended| ended > known.ended_at)
                }
            };
        if known.as_ref().is_some_and(|known| !is_better(known)) {
            self.report.known += 1;
            return Ok(Ok(()));
        }
        let done = self.act(Action::SaveSession(new))?;
        if done.is_ok() {
            self.report.sessions += 1;
        }
        Ok(done.map(drop))
    }

    /// Notes what supersedes what, now that all is there.
    fn supersede(&mut self) -> Result<(), Failure> {
        for (slug, id, by) in std::mem::take(&mut self.superseded) {
            let Some(by) = self.ids.get(&(slug.clone(), by)).copied() else {
                continue;
            };
            let patch = ChunkPatch {
                superseded_by: Some(Some(by)),
                ..ChunkPatch::of(slug, id)
            };
            if let Err(wrong) = self.act(Action::UpdateMemory(Box::new(patch)))? {
                self.report.refuse(|| format!("{id}: {wrong}"));
            }
        }
        Ok(())
    }

    /// Does something; what the board refuses is told apart from what broke.
    fn act(&self, action: Action) -> Result<Result<Made, String>, Failure> {
        match self.store.submit_blocking(None, action) {
            Ok(receipt) => Ok(Ok(receipt.made)),
            Err(error @ (ActionError::Invalid(_) | ActionError::Refused(_))) => {
                Ok(Err(desk::as_commands(&error.to_string())))
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_TOLD, Report};

    #[test]
    fn many_refusals_are_counted_and_few_are_told() {
        let mut report = Report::default();
        for number in 0..1_000 {
            report.refuse(|| format!("line {number}: wrong"));
        }
        assert_eq!((report.refused, report.told.len()), (1_000, MAX_TOLD));
    }
}
