//! `orchestra memory export`.

use std::{
    io::{BufWriter, Write as _},
    path::Path,
};

use anyhow::Context as _;
use indicatif::ProgressBar;
use orchestra_board::Slug;
use orchestra_fs::{Access, Staged};
use orchestra_store::{Cursor, Page, PageRequest, Reader, Store};
use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    desk,
    line::{Line, Memory, Session},
    projects,
};
use crate::{
    commands::progress,
    exit::{Exit, Failure},
    output::{self, Format, counted},
    serving,
    stopping::Signals,
};

/// How many are read at once.
const BATCH: u32 = 200;

/// Where lines go.
enum Place<'a> {
    Stdout,
    File {
        writer: Box<BufWriter<Staged>>,
        path: &'a Path,
        /// A half of it is left to nobody: at a signal it is removed.
        signals: Signals,
        /// Tells of signals.
        _runtime: Runtime,
    },
}

/// Writes what is remembered.
pub(super) fn run(
    store: &Store,
    project: Option<&str>,
    file: &Path,
    format: Format,
) -> Result<Exit, Failure> {
    let mut place = Place::open(file)?;
    let (mut memories, mut sessions) = (0, 0);
    for slug in projects(store, project)? {
        let size = store
            .read(|reader| reader.memory_size(&slug))
            .map_err(desk::unread)?;
        let bar = progress::bar(size.chunks + size.sessions, "exporting");
        memories += pages(
            store,
            &slug,
            &mut place,
            &bar,
            |reader, slug, page| reader.chunks(slug, page),
            |chunk| Line::Memory(Memory::from(chunk)),
        )?;
        sessions += pages(
            store,
            &slug,
            &mut place,
            &bar,
            |reader, slug, page| reader.sessions(slug, page),
            |session| Line::Session(Session::from(session)),
        )?;
        bar.finish_and_clear();
    }
    if place.finish()? {
        format.print(&json!({"memories": memories, "sessions": sessions}), |_| {
            format!(
                "exported {} and {}\n",
                counted(memories, "memory"),
                counted(sessions, "session")
            )
        })?;
    }
    Ok(Exit::Ok)
}

/// Writes all of a list; says how many.
fn pages<T>(
    store: &Store,
    slug: &Slug,
    place: &mut Place<'_>,
    bar: &ProgressBar,
    read: fn(&Reader<'_>, &Slug, &PageRequest) -> Result<Page<T>, orchestra_store::ReadError>,
    line: fn(&T) -> Line,
) -> Result<u64, Failure> {
    let mut request = PageRequest::first(BATCH);
    let mut count = 0;
    loop {
        let page = store
            .read(|reader| read(reader, slug, &request))
            .map_err(desk::unread)?;
        for item in &page.items {
            let mut text = serde_json::to_vec(&line(item))?;
            text.push(b'\n');
            place.write(&text)?;
            count += 1;
            bar.inc(1);
        }
        match page.next_cursor {
            Some(cursor) => request.cursor = Some(Cursor::parse(&cursor)?),
            None => return Ok(count),
        }
    }
}

impl<'a> Place<'a> {
    fn open(file: &'a Path) -> Result<Self, Failure> {
        if file == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let runtime = serving::runtime()?;
        let entered = runtime.enter();
        let signals = Signals::listen()?;
        drop(entered);
        Ok(Self::File {
            writer: Box::new(BufWriter::new(orchestra_fs::stage(file, Access::Private)?)),
            path: file,
            signals,
            _runtime: runtime,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Stdout => output::raw(bytes),
            Self::File { signals, path, .. } if signals.have_come() => Err(interrupted(path)),
            Self::File { writer, path, .. } => Ok(writer
                .write_all(bytes)
                .with_context(|| format!("write {}", path.display()))?),
        }
    }

    /// Puts the file in its place, whole; says whether there is one.
    fn finish(self) -> Result<bool, Failure> {
        let Self::File {
            writer,
            path,
            signals,
            _runtime,
        } = self
        else {
            return Ok(false);
        };
        let wrote = || format!("write {}", path.display());
        let temporary = writer
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .with_context(wrote)?;
        if signals.have_come() {
            return Err(interrupted(path));
        }
        temporary.publish(path.file_name().unwrap_or_default())?;
        Ok(true)
    }
}

/// Somebody did not want to wait.
fn interrupted(path: &Path) -> Failure {
    let text = format!("stopped by a signal; {} is not written", path.display());
    anyhow::Error::msg(text).into()
}
