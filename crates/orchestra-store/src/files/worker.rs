//! The thread that keeps the files and the database in step, and how it is told to.
//!
//! Of all processes on a board one is the keeper, the leader of an election: it watches the files, takes
//! changes in and writes what is due, whoever committed it. The others only wait to follow it, so that a
//! change costs the same however many they are.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use orchestra_fs::Directory;
use orchestra_place::{Election, Leadership};

use super::FilesError;
use super::engine::Engine;
use super::flush::{Haste, Left};
use super::git::Git;
use crate::db::{FileId, KEEPER_LOCK};
use crate::place_check::PlaceCheck;
use crate::{Fault, Options, watch};

/// Election of the keeper.
const ELECTION: Election = Election::without_endpoint(KEEPER_LOCK);

/// How long changes of the database are gathered before they are written: a file is then there
/// within 100 ms, and many changes at once cost one sync.
const GATHER: Duration = Duration::from_millis(50);
/// How long after a failure the files are tried again; twice as long after each further one, up to the maximum.
const RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(8);
/// How often git's lock, and files that vanished, are looked at.
const AGAIN: Duration = Duration::from_millis(20);
/// How often a process that is not the keeper tries to become it.
const SUCCEED: Duration = Duration::from_millis(250);
/// The most changed files that are remembered one by one; beyond, all are looked through.
const MAX_REPORTED: usize = 10_000;

/// The readable files of an open store.
pub(crate) struct Files {
    shared: Arc<Shared>,
    /// The work of the thread, until it is started.
    idle: Mutex<Option<Worker>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread is told.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    told: Mutex<Told>,
    /// Rings for the thread.
    bell: Condvar,
    /// Rings for those who wait until files are up to date.
    done: Condvar,
}

#[derive(Debug, Default)]
struct Told {
    /// Since when files are to be written; taken by a turn that writes them, which looks again by
    /// itself where it could not.
    due: Option<Instant>,
    /// Files that may have changed, by their paths below `.projects/`.
    reported: BTreeSet<String>,
    /// Everything is to be looked through.
    sweep: bool,
    /// How often somebody asked for files that are up to date, and how far that was answered.
    asked: u64,
    answered: u64,
    /// Why the files could not be brought up to date, for whoever asked.
    failure: Option<FilesError>,
    /// Why the last turn failed, if it did.
    failing: Option<String>,
    closing: bool,
    role: Role,
}

/// Who keeps the files in step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Role {
    /// Not known yet.
    #[default]
    Open,
    /// This process.
    Keeper,
    /// Another one.
    Follower,
}

/// Until when the thread rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// Until there is something to do.
    None,
    /// Until then at most: something rests, or waits for something outside.
    Until(Instant),
    /// Until then, save that somebody asks.
    AfterFailure(Instant),
}

/// What the thread does next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// A turn; files are written when `flush` says so.
    Turn { flush: bool },
    /// Nothing before then.
    Sleep(Option<Instant>),
}

impl Told {
    /// What to do at `now`, where the last turn knew of `heard` of those who ask.
    fn next(&self, now: Instant, pause: Pause, heard: u64) -> Next {
        let asked = self.asked > self.answered && self.failure.is_none();
        // What is committed in the next moment goes along.
        let ripe = self.due.map(|since| since + GATHER);
        let reported = !self.reported.is_empty() || self.sweep;
        let (news, wakes) = match pause {
            Pause::AfterFailure(end) if now < end => (asked, Some(end)),
            // Files that rest hold up no others.
            Pause::Until(end) if now < end => (
                reported || self.asked > heard,
                Some(ripe.map_or(end, |ripe| ripe.min(end))),
            ),
            Pause::AfterFailure(_) | Pause::Until(_) => (true, None),
            Pause::None => (reported || asked, ripe),
        };
        if news || wakes.is_some_and(|wakes| wakes <= now) {
            let gathers = ripe.is_some_and(|ripe| now < ripe);
            return Next::Turn {
                flush: asked || !gathers,
            };
        }
        Next::Sleep(wakes)
    }

    /// Takes the reports of files that do not lie right below `.projects/`.
    fn take_reported_files(&mut self) -> BTreeSet<String> {
        let (files, tops) = std::mem::take(&mut self.reported)
            .into_iter()
            .partition(|path| path.contains('/'));
        self.reported = tops;
        files
    }

    /// Takes what there is to do.
    fn take(&mut self, flush: bool) -> Work {
        if flush {
            self.due = None;
        }
        Work {
            reported: std::mem::take(&mut self.reported),
            sweep: std::mem::take(&mut self.sweep),
            asked: self.asked,
            flush,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was committed, by this process or another.
    pub(crate) fn committed(&self) {
        let mut told = self.lock();
        if told.due.is_none() && told.role != Role::Follower {
            told.due = Some(Instant::now());
            drop(told);
            self.bell.notify_one();
        }
    }

    /// Whether this process keeps the files in step with what all processes commit.
    pub(crate) fn is_keeper(&self) -> bool {
        self.lock().role == Role::Keeper
    }

    /// Why the files are not being kept in step, if they are not.
    pub(crate) fn failing(&self) -> Option<String> {
        self.lock().failing.clone()
    }

    /// A file may have changed.
    pub(crate) fn report(&self, path: String) {
        let mut told = self.lock();
        if told.reported.len() >= MAX_REPORTED {
            told.reported.clear();
            told.sweep = true;
        } else {
            told.reported.insert(path);
        }
        drop(told);
        self.bell.notify_one();
    }

    /// Any file may have changed.
    pub(crate) fn report_all(&self) {
        self.lock().sweep = true;
        self.bell.notify_one();
    }
}

impl Files {
    /// The readable files of a store, without a thread yet.
    pub(crate) fn new(options: &Options, engine: Engine, board: &crate::shared::Shared) -> Self {
        let (paths, shared) = (&board.paths, Arc::clone(&board.reports));
        shared.lock().sweep = options.sweep;
        shared.lock().due = Some(Instant::now());
        let worker = Worker {
            engine,
            shared: Arc::clone(&shared),
            place_check: Arc::clone(&board.place_check),
            store: paths.store.clone(),
            leadership: None,
            sweeps: options.sweep,
            git: options
                .home
                .removes()
                .then(|| Git::around(&paths.workspace, Arc::clone(&options.files))),
            later: BTreeSet::new(),
            sweep_later: false,
            flushes: options.flush,
            watches: options.watch.then(|| paths.projects.clone()),
            watcher: None,
            watched: None,
            told_git: false,
            failed: false,
            heard: 0,
            goal: None,
        };
        Self {
            shared,
            idle: Mutex::new(Some(worker)),
            thread: Mutex::default(),
        }
    }

    /// Starts the thread, and the watcher if it is wanted, unless they run.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let worker = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(worker) = worker else {
            return Ok(());
        };
        let thread = std::thread::Builder::new()
            .name("orchestra-files".to_owned())
            .spawn(move || worker.run())?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Waits until the files show what was committed before.
    pub(crate) fn settle(&self, timeout: Duration) -> Result<(), FilesError> {
        let mut told = self.shared.lock();
        told.asked += 1;
        told.due.get_or_insert_with(Instant::now);
        told.failure = None;
        let mine = told.asked;
        self.shared.bell.notify_one();
        let unanswered =
            |told: &mut Told| told.answered < mine && told.failure.is_none() && !told.closing;
        let waited = self
            .shared
            .done
            .wait_timeout_while(told, timeout, unanswered);
        let mut told = waited.unwrap_or_else(PoisonError::into_inner).0;
        if told.answered >= mine {
            return Ok(());
        }
        Err(told.failure.take().unwrap_or(FilesError::Timeout))
    }

    /// Brings the files up to date once more, and ends the thread.
    pub(crate) fn close(&self, timeout: Duration) {
        let Some(thread) = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        else {
            return;
        };
        // What a follower leaves is written by its keeper, or by its thread if there is none.
        let follows = self.shared.lock().role == Role::Follower;
        if !follows
            && let Err(error) = self.settle(timeout)
            // Without time only the thread is woken.
            && !timeout.is_zero()
        {
            tracing::warn!("the readable files are not up to date: {error}");
        }
        self.shared.lock().closing = true;
        self.shared.bell.notify_one();
        self.shared.done.notify_all();
        if thread.join().is_err() {
            tracing::error!("the thread of the readable files panicked");
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.bell.notify_one();
    }
}

/// What the thread found to do.
#[derive(Debug, Default)]
struct Work {
    reported: BTreeSet<String>,
    sweep: bool,
    asked: u64,
    /// Whether what is committed is written, and not gathered any longer.
    flush: bool,
}

struct Worker {
    engine: Engine,
    shared: Arc<Shared>,
    place_check: Arc<PlaceCheck>,
    /// Directory of the database, in which the keeper is elected.
    store: PathBuf,
    /// The leadership of the keeper, while this process is it.
    leadership: Option<Leadership>,
    /// Whether what changed while nobody watched is looked for.
    sweeps: bool,
    /// The repository whose commands change the files; `None` for a mirror, which git ignores.
    git: Option<Git>,
    /// Files that vanished a moment ago.
    later: BTreeSet<String>,
    /// Whether everything is to be looked through once that is possible.
    sweep_later: bool,
    flushes: bool,
    /// What is to be watched, if anything.
    watches: Option<PathBuf>,
    watcher: Option<watch::Watcher>,
    /// The directory that the watcher was started on.
    watched: Option<FileId>,
    told_git: bool,
    /// Whether the last turn failed.
    failed: bool,
    /// How far the last turn knew of those who ask.
    heard: u64,
    /// Who asked a follower, and which change of the board the files must show for that.
    goal: Option<(u64, i64)>,
}

impl Worker {
    fn run(mut self) {
        let (mut pause, mut retry) = (None, RETRY);
        while let Some(work) = self.wait(pause) {
            (self.failed, self.heard) = (false, work.asked);
            pause = match self.turn(work) {
                Ok(pause) => {
                    self.shared.lock().failing = None;
                    retry = RETRY;
                    pause
                }
                Err((error, work)) => {
                    let message = Some(error.to_string());
                    if self.shared.lock().failing != message {
                        tracing::warn!("cannot update the readable files: {error}");
                    }
                    if error.is_of_this_process() {
                        self.resign();
                    }
                    self.put_back(error, work);
                    self.failed = true;
                    let pause = retry;
                    retry = (2 * retry).min(MAX_RETRY);
                    Some(pause)
                }
            };
        }
        if let Err(error) = self.leave() {
            tracing::warn!("the readable files are not up to date: {error}");
        }
    }

    /// Sees to it that somebody writes what is due, at the end. Whoever keeps the files looks once
    /// more after it has ceased to; so a change is seen by the keeper of its time, or there is none
    /// any more.
    fn leave(&mut self) -> Result<(), FilesError> {
        self.watches = None;
        while self.flushes {
            (self.leadership, self.watcher) = (None, None);
            if !self.engine.is_due()? || !self.is_keeper()? {
                break;
            }
            let asked = self.shared.lock().answered + 1;
            let work = Work {
                asked,
                flush: true,
                ..Work::default()
            };
            if self.do_all(&work)?.is_some() {
                // Something stands in the way; whoever comes next sees to it.
                break;
            }
        }
        Ok(())
    }

    /// Waits until there is something to do; `None` at the end.
    fn wait(&self, pause: Option<Duration>) -> Option<Work> {
        let pause = match pause {
            None => Pause::None,
            Some(time) if self.failed => Pause::AfterFailure(Instant::now() + time),
            Some(time) => Pause::Until(Instant::now() + time),
        };
        let mut told = self.shared.lock();
        loop {
            if told.closing {
                return None;
            }
            let now = Instant::now();
            let bell = &self.shared.bell;
            told = match told.next(now, pause, self.heard) {
                // Whoever cannot write after all looks again by itself, after a pause.
                Next::Turn { flush } => return Some(told.take(flush)),
                Next::Sleep(Some(until)) => {
                    let waited = bell.wait_timeout(told, until - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Next::Sleep(None) => bell.wait(told).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Does what there is to do; says after which pause to go on by itself.
    fn turn(&mut self, mut work: Work) -> Result<Option<Duration>, (FilesError, Work)> {
        work.reported.append(&mut self.later);
        work.sweep |= std::mem::take(&mut self.sweep_later);
        if let Some(watcher) = &mut self.watcher {
            // A directory that is new is watched before it is looked at.
            work.reported
                .iter()
                .filter(|path| !path.contains('/'))
                .for_each(|name| watcher.add(name));
        }
        if (work.sweep || !work.reported.is_empty()) && self.is_git_at_work() {
            self.later = std::mem::take(&mut work.reported);
            self.sweep_later = work.sweep;
            return Ok(Some(AGAIN));
        }
        match self.do_all(&work) {
            Ok(pause) => Ok(pause),
            Err(error) => Err((error, work)),
        }
    }

    fn do_all(&mut self, work: &Work) -> Result<Option<Duration>, FilesError> {
        self.place_check.check()?;
        if self.flushes && !self.is_keeper()? {
            return self.follow(work);
        }
        let Some(_lock) = self.engine.try_lock()? else {
            self.later.extend(work.reported.iter().cloned());
            self.sweep_later = work.sweep;
            return Ok(Some(AGAIN));
        };
        if self.flushes && !self.told_git {
            self.engine.tell_git()?;
            self.told_git = true;
        }
        let mut flush = work.flush;
        if !work.reported.is_empty() {
            let changed = self.engine.really_changed(work.reported.clone())?;
            // What was merged with an edit is in its file before the person edits that again.
            flush |= !changed.is_empty();
            self.later.append(&mut self.engine.take_in(changed)?);
        }
        if work.sweep {
            self.sweep()?;
        }
        if self.engine.waiting && !self.later.is_empty() {
            // What was not taken in yet must not be written over in part.
            return Ok(Some(AGAIN));
        }
        // Whoever asks while this runs is served in the next turn.
        let haste = if work.asked > self.shared.lock().answered {
            Haste::Now
        } else {
            Haste::None
        };
        while self.flushes && flush {
            // A mirror that was removed comes back with what is written into it.
            if self.git.is_none() && self.engine.is_due()? {
                self.engine.tell_git()?;
            }
            match self.engine.flush(haste)? {
                Left::More => {
                    self.take_in_reported()?;
                    if self.engine.waiting && !self.later.is_empty() {
                        return Ok(Some(AGAIN));
                    }
                }
                Left::Theirs(paths) => {
                    if self.is_git_at_work() {
                        // What it has half done is not looked at, as when it is reported.
                        self.later.extend(paths);
                        return Ok(Some(AGAIN));
                    }
                    let later = self.engine.take_in_theirs(paths)?;
                    if self.engine.waiting {
                        self.later.extend(later);
                        return Ok(Some(AGAIN));
                    }
                }
                Left::Waiting(wait) => {
                    let pause = self.pause();
                    return Ok(Some(pause.map_or(wait, |pause| pause.min(wait))));
                }
                Left::Nothing => break,
            }
        }
        self.watch_again();
        if self.later.is_empty() && flush {
            let mut told = self.shared.lock();
            told.answered = told.answered.max(work.asked);
            told.failing = None;
            drop(told);
            self.shared.done.notify_all();
        }
        Ok(self.pause())
    }

    /// Time after which files that could not be taken in yet are looked at again; `None` without such files.
    fn pause(&self) -> Option<Duration> {
        (!self.later.is_empty()).then_some(AGAIN)
    }

    /// Looks through all files. What is reported meanwhile does not wait for that.
    fn sweep(&mut self) -> Result<(), FilesError> {
        let shared = Arc::clone(&self.shared);
        let Self {
            engine, git, later, ..
        } = self;
        let mut waits = false;
        let mut between = |engine: &mut Engine| -> Result<bool, FilesError> {
            take_in_reported(engine, &shared, git.as_mut(), later)?;
            waits |= engine.waiting;
            Ok(!shared.lock().closing)
        };
        let mut swept = engine.sweep(&mut between)?;
        engine.waiting |= waits;
        later.append(&mut swept);
        Ok(())
    }

    /// Takes in what was reported while files are written.
    fn take_in_reported(&mut self) -> Result<(), FilesError> {
        let git = self.git.as_mut();
        take_in_reported(&mut self.engine, &self.shared, git, &mut self.later)
    }

    fn is_git_at_work(&mut self) -> bool {
        self.git.as_mut().is_some_and(Git::is_at_work)
    }

    /// Watches the directory of a mirror that was removed and created again.
    fn watch_again(&mut self) {
        let (None, Some(root), true) = (&self.git, &self.watches, self.watcher.is_some()) else {
            return;
        };
        let now = FileId::of(root);
        if now.is_some() && now != self.watched {
            self.watcher = Some(watch::Watcher::start(root, &self.shared));
            self.watched = now;
        }
    }

    /// Gives up keeping the files, so that a process that can write them does.
    fn resign(&mut self) {
        (self.leadership, self.watcher) = (None, None);
        self.shared.lock().role = Role::Follower;
    }

    /// Whether this process is the keeper, after it has tried to be.
    fn is_keeper(&mut self) -> Result<bool, FilesError> {
        // With the directory the lock may have been removed and created again.
        if self.leadership.as_ref().is_some_and(Leadership::is_current) {
            return Ok(true);
        }
        (self.leadership, self.watcher) = (None, None);
        let directory = Directory::open(&self.store).map_err(Fault::from)?;
        self.leadership = ELECTION.lead(&directory).map_err(Fault::from)?;
        if self.leadership.is_none() {
            self.shared.lock().role = Role::Follower;
            return Ok(false);
        }
        // Before anything is looked at, so that nothing is missed in between.
        let watches = self.watches.as_ref();
        self.watcher = watches.map(|root| watch::Watcher::start(root, &self.shared));
        self.watched = watches.and_then(|root| FileId::of(root));
        let mut told = self.shared.lock();
        let succeeds = told.role == Role::Follower;
        told.role = Role::Keeper;
        told.due.get_or_insert_with(Instant::now);
        told.sweep |= succeeds && self.sweeps;
        Ok(true)
    }

    /// What is left to do while another process is the keeper: tell those who wait for it, when what
    /// was edited before they asked is taken in as well.
    fn follow(&mut self, work: &Work) -> Result<Option<Duration>, FilesError> {
        self.later.clear();
        if work.asked <= self.shared.lock().answered {
            // The keeper sees what is edited; only who asks looks for what it has not seen yet.
            self.sweep_later = work.sweep;
            return Ok(Some(SUCCEED));
        }
        if work.sweep && !self.sweep_beside()? {
            return Ok(Some(AGAIN));
        }
        // What is committed after somebody asked is not waited for, or a busy board would never be
        // up to date.
        let (asked, change) = match self.goal {
            Some(goal) => goal,
            None => *self.goal.insert((work.asked, self.engine.last_change()?)),
        };
        if self.engine.is_due_since(change)? {
            return Ok(Some(AGAIN));
        }
        self.goal = None;
        let mut told = self.shared.lock();
        told.answered = told.answered.max(asked);
        drop(told);
        self.shared.done.notify_all();
        Ok(Some(if work.asked > asked { AGAIN } else { SUCCEED }))
    }

    /// Takes in what was edited before somebody asked, although another process is the keeper: it may
    /// not have heard of it yet. False where that is not done yet.
    fn sweep_beside(&mut self) -> Result<bool, FilesError> {
        self.sweep_later = true;
        let Some(_lock) = self.engine.try_lock()? else {
            return Ok(false);
        };
        let shared = Arc::clone(&self.shared);
        let later = self.engine.sweep(&mut |_| Ok(!shared.lock().closing))?;
        self.sweep_later = self.engine.waiting || !later.is_empty();
        Ok(!self.sweep_later)
    }

    /// Keeps what could not be done for the next try, and tells those who wait.
    fn put_back(&mut self, error: FilesError, mut work: Work) {
        let mut told = self.shared.lock();
        told.reported.append(&mut work.reported);
        told.sweep |= work.sweep;
        told.due.get_or_insert_with(Instant::now);
        told.failing = Some(error.to_string());
        if told.asked > told.answered {
            told.failure = Some(error);
        }
        drop(told);
        self.shared.done.notify_all();
    }
}

/// Takes in the files that were reported since the turn began. A directory right below `.projects/` waits for the next
/// turn, which has it watched before it is looked at.
fn take_in_reported(
    engine: &mut Engine,
    shared: &Shared,
    git: Option<&mut Git>,
    later: &mut BTreeSet<String>,
) -> Result<(), FilesError> {
    let reported = shared.lock().take_reported_files();
    if reported.is_empty() {
        return Ok(());
    }
    if git.is_some_and(Git::is_at_work) {
        later.extend(reported);
        return Ok(());
    }
    let changed = engine.really_changed(reported.clone());
    match changed.and_then(|changed| engine.take_in(changed)) {
        Ok(mut again) => later.append(&mut again),
        Err(error) => {
            shared.lock().reported.extend(reported);
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Duration = Duration::from_millis(10);

    #[test]
    fn what_is_committed_is_gathered_whatever_is_reported_meanwhile() {
        let now = Instant::now();
        let mut told = Told {
            due: Some(now),
            ..Told::default()
        };
        let next = |told: &Told, after| told.next(now + after, Pause::None, 0);
        assert_eq!(next(&told, PART), Next::Sleep(Some(now + GATHER)));
        assert_eq!(next(&told, GATHER), Next::Turn { flush: true });
        told.report("a");
        assert_eq!(next(&told, PART), Next::Turn { flush: false });
        let work = told.take(false);
        assert!(work.reported.contains("a"));
        assert_eq!(next(&told, PART), Next::Sleep(Some(now + GATHER)));
        told.asked = 1;
        assert_eq!(next(&told, PART), Next::Turn { flush: true });
        told.take(true);
        told.answered = 1;
        assert_eq!(next(&told, GATHER), Next::Sleep(None));
    }

    #[test]
    fn directories_right_below_the_root_wait_for_the_next_turn() {
        let mut told = Told::default();
        for path in ["a", "a/b", "c/d"] {
            told.report(path);
        }
        let files = told.take_reported_files();
        assert_eq!(files, ["a/b", "c/d"].map(str::to_owned).into());
        assert_eq!(told.reported, ["a"].map(str::to_owned).into());
    }

    #[test]
    fn what_rests_holds_up_nothing_else() {
        let now = Instant::now();
        let end = now + 10 * GATHER;
        let next = |told: &Told| told.next(now, Pause::Until(end), 1);
        let asked_before = Told {
            asked: 1,
            ..Told::default()
        };
        assert_eq!(next(&asked_before), Next::Sleep(Some(end)));
        let asked = Told {
            asked: 2,
            ..Told::default()
        };
        assert_eq!(next(&asked), Next::Turn { flush: true });
        let swept = Told {
            sweep: true,
            ..Told::default()
        };
        assert_eq!(next(&swept), Next::Turn { flush: true });
        let due = Told {
            due: Some(now),
            ..Told::default()
        };
        assert_eq!(next(&due), Next::Sleep(Some(now + GATHER)));
        let over = Told::default().next(end, Pause::Until(end), 1);
        assert_eq!(over, Next::Turn { flush: true });
    }

    #[test]
    fn after_a_failure_only_who_asks_is_listened_to() {
        let now = Instant::now();
        let end = now + RETRY;
        let mut told = Told {
            due: Some(now - GATHER),
            sweep: true,
            ..Told::default()
        };
        told.report("a");
        let next = |told: &Told, at| told.next(at, Pause::AfterFailure(end), 0);
        assert_eq!(next(&told, now), Next::Sleep(Some(end)));
        assert_eq!(next(&told, end), Next::Turn { flush: true });
        told.asked = 1;
        assert_eq!(next(&told, now), Next::Turn { flush: true });
        told.failure = Some(FilesError::Timeout);
        assert_eq!(next(&told, now), Next::Sleep(Some(end)));
    }

    impl Told {
        fn report(&mut self, path: &str) {
            self.reported.insert(path.to_owned());
        }
    }
}
