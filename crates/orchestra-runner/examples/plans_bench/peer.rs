//! The peer of a plan: the commands of git that it took, done again by a driver that does nothing else.
//!
//! The driver does them in the same order, with as many jobs side by side, on the same repository made
//! anew at the same place. Worktrees are added and removed in the very order of the plan, so that each git
//! meets as many of them as it did then. Between two commands of a job the driver does nothing; what it takes
//! longer to run the plan than that is what running plans costs beside git.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::trace::{self, Process};

/// The command that adds and removes worktrees.
const WORKTREE: &str = "worktree";

/// What git gets of our environment.
const INHERITED: [&str; 2] = ["HOME", "PATH"];

/// A command.
#[derive(Debug)]
struct Step {
    process: Process,
    /// Its place among those that add or remove worktrees of jobs.
    turn: Option<usize>,
}

/// The commands of a job.
#[derive(Debug, Default)]
struct Job {
    /// Until those that depend on it may go on.
    work: Vec<Step>,
    /// When they do.
    removal: Vec<Step>,
}

/// The commands of a plan of chains.
#[derive(Debug)]
pub(crate) struct Peer {
    git: PathBuf,
    root: PathBuf,
    before: Vec<Step>,
    chains: Vec<Vec<Job>>,
    after: Vec<Step>,
}

/// What a peer took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    /// Commands that ended otherwise than in the plan.
    pub(crate) strayed: usize,
}

/// One at a time adds or removes a worktree, in the order of the plan.
#[derive(Debug, Default)]
struct Turns {
    one: Mutex<()>,
    /// How many turns are over.
    over: Mutex<usize>,
    ended: Condvar,
}

impl Turns {
    fn with<T>(&self, turn: Option<usize>, act: impl FnOnce() -> T) -> T {
        if let Some(turn) = turn {
            let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.ended.wait_while(over, |over| *over != turn);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
        let one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let done = act();
        drop(one);
        if turn.is_some() {
            *self.over.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.ended.notify_all();
        }
        done
    }
}

impl Peer {
    /// Sorts the commands of a plan that was run in `root` to the jobs that they were for: the ids of each
    /// chain, in their order.
    pub(crate) fn of(root: &Path, processes: &[Process], chains: &[Vec<String>]) -> Self {
        let ids = || chains.iter().flatten().map(String::as_str);
        let mut of_job: HashMap<&str, Vec<Step>> = ids().map(|id| (id, Vec::new())).collect();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut turns = 0..;
        for process in processes {
            let named = ids().find(|id| process.words.contains(id));
            let is_worktree = trace::command(&process.arguments) == WORKTREE;
            let turn = (named.is_some() && is_worktree)
                .then(|| turns.next())
                .flatten();
            let step = Step {
                process: process.clone(),
                turn,
            };
            match named.and_then(|id| of_job.get_mut(id)) {
                Some(of) => of.push(step),
                None if turns.start > 0 => after.push(step),
                None => before.push(step),
            }
        }
        // The last jobs are followed by the validation of the plan.
        let is_validation = |step: &&Step| step.process.words.contains("_snapshot-");
        let last = after.iter().find(is_validation);
        let last = last.map_or(f64::MAX, |step| step.process.began);
        let begins: HashMap<&str, f64> = of_job
            .iter()
            .filter_map(|(id, steps)| Some((*id, steps.first()?.process.began)))
            .collect();
        let sorted = chains.iter().map(|chain| {
            let mut jobs = Vec::new();
            for (at, id) in chain.iter().enumerate() {
                let next = chain.get(at + 1).and_then(|next| begins.get(next.as_str()));
                let next = next.copied().unwrap_or(last);
                let all = of_job.remove(id.as_str()).unwrap_or_default();
                let (work, removal) = all.into_iter().partition(|step| step.process.began < next);
                jobs.push(Job { work, removal });
            }
            jobs
        });
        let path = std::env::var_os("PATH").unwrap();
        let mut found = std::env::split_paths(&path).map(|directory| directory.join("git"));
        Self {
            git: found.find(|git| git.is_file()).unwrap(),
            root: root.to_owned(),
            chains: sorted.collect(),
            before,
            after,
        }
    }

    /// How many commands it has.
    pub(crate) fn len(&self) -> usize {
        let jobs = self.chains.iter().flatten();
        let jobs: usize = jobs.map(|job| job.work.len() + job.removal.len()).sum();
        jobs + self.before.len() + self.after.len()
    }

    /// Does all commands again.
    pub(crate) fn run(&self) -> Took {
        let worktrees = self.root.join(".worktrees");
        let begin = Instant::now();
        // Where the plan's are, which makes it beforehand.
        std::fs::create_dir_all(worktrees).unwrap();
        let turns = Turns::default();
        let all = |steps: &[Step]| -> usize {
            let strays = steps.iter().map(|step| self.again(step, &turns));
            strays.map(usize::from).sum()
        };
        let all = &all;
        let mut strayed = all(&self.before);
        strayed += thread::scope(|scope| {
            let chains: Vec<_> = self
                .chains
                .iter()
                .map(|chain| {
                    scope.spawn(move || {
                        let mut before: &[Step] = &[];
                        let (mut strayed, mut removals) = (0, Vec::new());
                        for job in chain {
                            // A worktree is removed once the next job has its own.
                            let (first, rest) = job.work.split_at(job.work.len().min(2));
                            strayed += all(first);
                            removals.push(scope.spawn(move || all(before)));
                            strayed += all(rest);
                            before = &job.removal;
                        }
                        removals.push(scope.spawn(move || all(before)));
                        (strayed, removals)
                    })
                })
                .collect();
            let (mut strayed, mut removals) = (0, Vec::new());
            for chain in chains {
                let (strays, more) = chain.join().unwrap();
                strayed += strays;
                removals.extend(more);
            }
            strayed += all(&self.after);
            let removals = removals.into_iter();
            strayed
                + removals
                    .map(|removal| removal.join().unwrap())
                    .sum::<usize>()
        });
        Took {
            wall: begin.elapsed(),
            strayed,
        }
    }

    /// Does a command again; whether it ended otherwise.
    fn again(&self, step: &Step, turns: &Turns) -> bool {
        let process = &step.process;
        let variable = |name: &str| process.variables.iter().find(|(known, _)| known == name);
        let directory = variable("GIT_WORK_TREE").map(|(_, value)| Path::new(value));
        let inherited = INHERITED
            .iter()
            .filter_map(|name| Some((*name, std::env::var_os(name)?)));
        // By its path, as the runner does it: looking for it would cost a copy of this process.
        let mut command = Command::new(&self.git);
        command
            .env_clear()
            .envs(inherited)
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .envs(process.variables.iter().map(|(name, value)| (name, value)))
            .args(&process.arguments)
            .current_dir(directory.unwrap_or(&self.root))
            .stdin(Stdio::null());
        let mut run = || command.output().unwrap().status.code().map(i64::from);
        let code = match trace::command(&process.arguments) {
            WORKTREE => {
                if process.arguments.iter().any(|word| word == "remove") {
                    // Its files are gone by then.
                    let path = process.arguments.last().unwrap();
                    let _ = std::fs::remove_dir_all(path);
                }
                // Git makes two worktrees at once in each other's way.
                turns.with(step.turn, run)
            }
            _ => run(),
        };
        code != Some(process.code)
    }
}
