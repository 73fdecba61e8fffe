//! What the system says of the processes of servers, whatever the gateway thinks of them. Where it
//! does not tell (everywhere but on Linux), nothing is seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    task::{JoinHandle, spawn_blocking},
    time::{MissedTickBehavior, interval},
};

/// How often the system is asked.
const EVERY: Duration = Duration::from_millis(100);

/// A process, told apart from a later one with the same id by when it was born.
pub(super) type Process = (u32, u64);

/// What was seen.
#[derive(Default)]
pub(super) struct Census {
    /// The most processes that one server had at a time.
    pub(super) most: usize,
    /// The servers' processes, and those that guard them.
    all: BTreeSet<Process>,
}

/// Counts processes until it is told to stop.
pub(super) struct Counting {
    stop: oneshot::Sender<()>,
    counted: JoinHandle<Census>,
}

impl Counting {
    /// Counts the processes that have a directory in one of their arguments, by that argument.
    pub(super) fn begin(directory: PathBuf) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let counted = tokio::spawn(async move {
            let mut census = Census::default();
            let mut ticks = interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    _ = &mut stopped => return census,
                }
                let directory = directory.clone();
                let found = spawn_blocking(move || servers(&directory)).await.unwrap();
                for processes in found.into_values() {
                    census.most = census.most.max(processes.len());
                    let guards = processes.iter().filter_map(|(id, _)| parent(*id));
                    let guards = guards.filter_map(|id| Some((id, born(id)?)));
                    census.all.extend(guards);
                    census.all.extend(processes);
                }
            }
        });
        Self { stop, counted }
    }

    pub(super) async fn end(self) -> Census {
        // It does not end by itself.
        let _ = self.stop.send(());
        self.counted.await.unwrap()
    }
}

impl Census {
    /// Those of them that are still there.
    pub(super) fn left(&self) -> Vec<u32> {
        let all = self.all.iter();
        let left = all.filter(|(id, birth)| born(*id) == Some(*birth));
        left.map(|(id, _)| *id).collect()
    }

    /// How many were seen in all.
    pub(super) fn seen(&self) -> usize {
        self.all.len()
    }
}

/// Servers' processes by their journal, which lies in the directory. All that are told of one server
/// were there at one moment, however long it took to look at everybody.
pub(super) fn servers(directory: &Path) -> BTreeMap<String, Vec<Process>> {
    let mut servers: BTreeMap<String, Vec<Process>> = BTreeMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for id in ids {
        if let (Some(birth), Some(journal)) = (born(id), journal(id, directory)) {
            servers.entry(journal).or_default().push((id, birth));
        }
    }
    for processes in servers.values_mut() {
        processes
            .retain(|(id, birth)| journal(*id, directory).is_some() && born(*id) == Some(*birth));
    }
    servers
}

/// The journal of a server; nothing of a process that has ended and whose end nobody has heard of.
fn journal(id: u32, directory: &Path) -> Option<String> {
    let words = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
    let mut words = words.split(|byte| *byte == 0);
    let is_journal =
        |word: &&str| word.ends_with(".journal") && Path::new(word).starts_with(directory);
    words
        .find_map(|word| str::from_utf8(word).ok().filter(is_journal))
        .map(str::to_owned)
}

/// The fields of `/proc/ID/stat` behind the name, which may contain anything.
fn stat(id: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    text.get(text.rfind(')')? + 2..).map(str::to_owned)
}

fn parent(id: u32) -> Option<u32> {
    stat(id)?.split(' ').nth(1)?.parse().ok()
}

/// When it was started, in ticks since the system was.
fn born(id: u32) -> Option<u64> {
    stat(id)?.split(' ').nth(19)?.parse().ok()
}
