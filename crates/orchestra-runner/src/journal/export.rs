//! The readable files of each plan: `plan.json`, what it is now, and `events.jsonl`, what happened.
//!
//! They follow from the database, some moments later: one thread writes what has changed meanwhile at
//! once. `plan.json` is replaced as a whole. `events.jsonl` is appended to; each line has a checksum, so
//! that what a power cut left of the last lines is found, cut off and written again. What is missing is
//! made anew. Trouble with them stops no plan.

mod line;
mod told;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, BufWriter, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use orchestra_fs::{Access, Directory};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{
    Fault, Kept, PlanKey, Reader,
    writer::{Queued, Work},
};
pub use line::{Exported, read_export};
pub(super) use told::Told;

/// What a plan is, for people.
pub const PLAN_FILE: &str = "plan.json";
/// What happened to it, a line each.
pub const EVENTS_FILE: &str = "events.jsonl";

/// The version of both files.
const SCHEMA: u32 = 1;
/// How long changes are collected before they are written: at least, and at most.
const BREATH: Duration = Duration::from_millis(250);
const LONGEST_BREATH: Duration = Duration::from_secs(5);
/// How many times as long as writing has taken, so that a large plan is not written all the time.
const SHARE: u32 = 20;
/// How long somebody waits for the files to be written.
const PATIENCE: Duration = Duration::from_secs(30);
/// Events that are read at a time.
const PAGE: u32 = 500;
/// A file that is larger than any plan's is none.
const MAX_BYTES: u64 = 1 << 30;
/// What stands before the name of a directory that is being removed.
const GONE: &str = ".gone-";

/// How plans and events are shown in files that people read and may pass on.
pub trait Readable: Send + Sync + 'static {
    /// What a plan is now; `None` where that is not known, or not to be shown. Without secrets.
    fn plan(&self, plan: &PlanKey) -> Option<Value>;

    /// An event without its secrets.
    fn event(&self, event: Value) -> Value;
}

/// The thread that writes the files.
#[derive(Debug)]
pub(super) struct Files {
    told: Arc<Told>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Files {
    pub(super) fn start(
        root: &Path,
        readable: Arc<dyn Readable>,
        jobs: mpsc::WeakSender<Queued>,
    ) -> Result<Self, Fault> {
        let told = Arc::new(Told::default());
        let work = Exporter {
            root: root.to_owned(),
            readable,
            reader: Reader::new(root),
            ends: BTreeMap::new(),
            jobs,
        };
        let theirs = Arc::clone(&told);
        let thread = std::thread::Builder::new()
            .name("plan-files".to_owned())
            .spawn(move || work.run(&theirs))
            .map_err(|error| Fault::io("start a thread for", root, error))?;
        Ok(Self {
            told,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(super) fn told(&self) -> Arc<Told> {
        Arc::clone(&self.told)
    }

    /// Has all files looked at that the database knows of.
    pub(super) fn look_after(&self, live: BTreeMap<PlanKey, u64>, dead: BTreeSet<PlanKey>) {
        self.told.tell(|state| {
            state.live.extend(live);
            state.dead.extend(dead);
        });
    }

    /// Waits until what was told before is in the files.
    pub(super) fn flush(&self) {
        let end = Instant::now() + PATIENCE;
        let mut state = self.told.lock();
        let told = state.told;
        while state.done < told && !state.stops {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || (state.live.is_empty() && state.dead.is_empty() && state.closes) {
                return;
            }
            state.is_urgent = true;
            self.told.changed.notify_all();
            let waiting = self.told.changed.wait_timeout(state, left);
            state = waiting.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has the rest written, and waits for it.
    pub(super) fn close(&self) {
        self.told.tell(|state| state.closes = true);
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // One that panicked leaves the files to the next start.
            let _ = thread.join();
        }
    }

    /// Leaves the rest to the next start.
    pub(super) fn stop(&self) {
        self.told.tell(|state| state.stops = true);
    }
}

/// How far a file of events goes.
#[derive(Debug, Clone, Copy)]
struct End {
    number: u64,
    bytes: u64,
}

struct Exporter {
    root: PathBuf,
    readable: Arc<dyn Readable>,
    reader: Reader,
    /// Of the files that were written by this process.
    ends: BTreeMap<PlanKey, End>,
    jobs: mpsc::WeakSender<Queued>,
}

impl Exporter {
    fn run(mut self, told: &Told) {
        self.remove_remains();
        let mut breath = BREATH;
        while let Some((live, dead, up_to)) = told.next(breath) {
            let began = Instant::now();
            for (plan, number) in live {
                if let Err(fault) = self.write(&plan, number) {
                    self.ends.remove(&plan);
                    tracing::warn!(%plan, "cannot update the readable files of a plan: {fault}");
                }
            }
            for plan in dead {
                self.ends.remove(&plan);
                if let Err(fault) = self.remove(&plan) {
                    tracing::warn!(%plan, "cannot remove the files of a deleted plan: {fault}");
                }
            }
            told.done(up_to);
            breath = (began.elapsed() * SHARE).clamp(BREATH, LONGEST_BREATH);
        }
    }

    /// Brings the files of a plan up to date. That of the events comes last: as long as it is behind, so
    /// may be the other, which is then seen.
    fn write(&mut self, plan: &PlanKey, number: u64) -> Result<(), Fault> {
        let directory = self.root.join(plan.as_str());
        let events = directory.join(EVENTS_FILE);
        let end = match self.ends.get(plan) {
            Some(end) if is_long(&events, end.bytes) => Some(*end),
            _ => line::end_of(&events, plan).map(|(number, bytes)| End { number, bytes }),
        };
        let end = end.filter(|end| end.number <= number);
        let shown = directory.join(PLAN_FILE);
        let is_shown = || match self.ends.contains_key(plan) {
            true => shown.exists(),
            false => shown_number(&shown, plan) == Some(number),
        };
        if end.is_some_and(|end| end.number == number) && is_shown() {
            return Ok(());
        }
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: orchestra_fs::Error| Fault::io("write", &path, error.into_cause())
        };
        Directory::open(&self.root)
            .and_then(|root| root.make_below(plan.as_str().as_ref(), Access::Private))
            .map_err(failed(&directory))?;
        if let Some(value) = self.readable.plan(plan) {
            let value =
                json!({"schema": SCHEMA, "id": plan.as_str(), "events": number, "plan": value});
            let mut text = serde_json::to_vec_pretty(&value)
                .map_err(|error| Fault::io("write", &shown, error.into()))?;
            text.push(b'\n');
            orchestra_fs::write(&shown, &text, Access::Private).map_err(failed(&shown))?;
        }
        let end = match end {
            Some(end) => self.append(plan, &events, end, number),
            None => self.make(plan, &events, number),
        };
        let end = end.map_err(|error| Fault::io("write", &events, error))?;
        self.ends.insert(plan.clone(), end);
        Ok(())
    }

    fn append(&self, plan: &PlanKey, path: &Path, end: End, number: u64) -> io::Result<End> {
        let mut file = orchestra_fs::open_or_create(path, Access::Private)?;
        if file.metadata()?.len() < end.bytes {
            return Err(io::ErrorKind::NotFound.into());
        }
        // What comes after the last whole line was never finished.
        file.set_len(end.bytes)?;
        file.seek(SeekFrom::Start(end.bytes))?;
        self.fill(plan, &mut file, end, number)
    }

    fn make(&self, plan: &PlanKey, path: &Path, number: u64) -> io::Result<End> {
        let header = line::header(plan);
        let mut end = End {
            number: 0,
            bytes: header.len() as u64,
        };
        let mut staged = orchestra_fs::stage(path, Access::Private)?;
        staged.write_all(header.as_bytes())?;
        end = self.fill(plan, staged.file(), end, number)?;
        staged.publish(EVENTS_FILE)?;
        Ok(end)
    }

    /// Writes the events after `end`, durably. Those after `number` came since `plan.json` was written: they wait until it
    /// is written again.
    fn fill(&self, plan: &PlanKey, file: &mut File, mut end: End, number: u64) -> io::Result<End> {
        let mut writer = BufWriter::new(file);
        loop {
            let page = self.reader.events(plan, end.number, PAGE);
            let page = page.map_err(io::Error::other)?;
            let all = page.events.iter();
            for event in all.take_while(|event| event.number <= number) {
                let line = self.line(event)?;
                writer.write_all(line.as_bytes())?;
                end.number = event.number;
                end.bytes += line.len() as u64;
            }
            if let Some(damage) = page.damage {
                return Err(io::Error::other(damage));
            }
            let last = page.events.last().map(|event| event.number);
            if !page.is_more || last.is_none_or(|last| last >= number) {
                break;
            }
        }
        writer.flush()?;
        writer.get_ref().sync_all()?;
        Ok(end)
    }

    fn line(&self, event: &Kept) -> io::Result<String> {
        let body: Value = serde_json::from_str(event.body.get())?;
        line::line(event, &self.readable.event(body))
    }

    /// Removes the directory of a deleted plan, and then its events.
    fn remove(&self, plan: &PlanKey) -> Result<(), Fault> {
        let directory = self.root.join(plan.as_str());
        let gone = self.root.join(format!("{GONE}{plan}"));
        let failed = |error| Fault::io("remove", &directory, error);
        remove_tree(&gone).map_err(failed)?;
        match fs::rename(&directory, &gone) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        remove_tree(&gone).map_err(failed)?;
        loop {
            // Nobody writes any more: the next start goes on.
            let Some(jobs) = self.jobs.upgrade() else {
                return Ok(());
            };
            let (answer, answered) = oneshot::channel();
            let work = Work::Sweep(plan.clone());
            if jobs.blocking_send(Queued { work, answer }).is_err() {
                return Ok(());
            }
            drop(jobs);
            match answered.blocking_recv() {
                Ok(Ok(receipt)) if receipt.number > 0 => {}
                Ok(Err(super::AppendError::Fault(fault))) => return Err(fault),
                _ => return Ok(()),
            }
        }
    }

    /// What a process that was killed was removing.
    fn remove_remains(&self) {
        let Ok(entries) = fs::read_dir(&self.root) else {
            return;
        };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(GONE) {
                // What cannot be removed now is tried at the next start.
                let _ = remove_tree(&entry.path());
            }
        }
    }
}

/// Number of the last event in a `plan.json`; `None` where it is none of this plan.
pub(crate) fn shown_number(path: &Path, plan: &PlanKey) -> Option<u64> {
    let text = orchestra_fs::read_own(path, MAX_BYTES).ok()??;
    let value: Value = serde_json::from_slice(&text).ok()?;
    let is_whole = value["id"] == plan.as_str() && value["plan"].is_object();
    is_whole.then(|| value["events"].as_u64())?
}

fn is_long(path: &Path, bytes: u64) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes)
}

fn remove_tree(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
