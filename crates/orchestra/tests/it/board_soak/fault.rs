//! Commands of git, kills and removals while clients work.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use serde_json::json;

use super::{
    Chance, PROJECT, STORY, Until, World,
    caller::{Caller, Kind, Victim},
    ledger::Change,
};
use crate::{
    one_board::git,
    support::{PATIENCE, until},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    CleanMain,
    CleanWorktree,
    Stash,
    Checkout,
    Rebase,
    AddWorktree,
    MoveWorktree,
    ReplaceWorktree,
    KillClient,
    KillUp,
    RemoveMirror,
    RemoveDatabase,
}

impl Fault {
    pub(super) const ALL: [Self; 12] = [
        Self::CleanMain,
        Self::CleanWorktree,
        Self::Stash,
        Self::Checkout,
        Self::Rebase,
        Self::AddWorktree,
        Self::MoveWorktree,
        Self::ReplaceWorktree,
        Self::KillClient,
        Self::KillUp,
        Self::RemoveMirror,
        Self::RemoveDatabase,
    ];
}

/// Everything that disturbs the clients. Faults happen one at a time, so that a program with the board open always lives.
pub(super) struct Faults<'w> {
    world: &'w World,
    chance: Chance,
    victims: Vec<Arc<Victim>>,
    /// Number of faults of each kind.
    pub(super) counts: BTreeMap<Fault, u64>,
    /// Number of worktrees that were added.
    added: usize,
}

impl<'w> Faults<'w> {
    pub(super) fn new(world: &'w World, victims: Vec<Arc<Victim>>, seed: u64) -> Self {
        Self {
            world,
            chance: Chance::new(seed),
            victims,
            counts: BTreeMap::new(),
            added: 0,
        }
    }

    /// Causes faults during a phase: each once in a short one, and random ones in a long one.
    pub(super) fn disturb(&mut self, until: Until) {
        match until {
            Until::Changes(_) => {
                let mut left = Fault::ALL.to_vec();
                while !left.is_empty() {
                    self.wait(until);
                    let next = self.below(left.len());
                    self.cause(left.swap_remove(next));
                }
            }
            Until::Instant(end) => {
                while Instant::now() < end {
                    self.wait(until);
                    let next = self.below(Fault::ALL.len());
                    self.cause(Fault::ALL[next]);
                }
            }
        }
    }

    fn below(&mut self, end: usize) -> usize {
        let found = self.chance.below(u64::try_from(end).expect("small"));
        usize::try_from(found).expect("below a small number")
    }

    /// Waits until half of the clients have changed something, or have nothing more to change.
    fn wait(&self, until_end: Until) {
        let (world, before) = (self.world, self.world.progress.load(Ordering::Relaxed));
        let enough = u64::try_from(self.victims.len() / 2).expect("small");
        until(|| {
            let is_over = match until_end {
                Until::Changes(_) => world.working.load(Ordering::Relaxed) == 0,
                Until::Instant(end) => Instant::now() >= end,
            };
            let changes = world.progress.load(Ordering::Relaxed) - before;
            (is_over || changes >= enough).then_some(())
        });
    }

    fn cause(&mut self, fault: Fault) {
        *self.counts.entry(fault).or_default() += 1;
        let main = self.world.repository.main();
        match fault {
            // Programs may write files of the mirror meanwhile, which fails the command.
            Fault::CleanMain => drop(attempt(&main, &["clean", "-fdx", "--quiet"])),
            Fault::CleanWorktree => drop(git(&self.worktree(), &["clean", "-fdx", "--quiet"])),
            Fault::Stash => self.stash(),
            Fault::Checkout => {
                let at = self.checkout();
                git(&at, &["checkout", "--quiet", "--detach", "HEAD~1"]);
                git(&at, &["checkout", "--quiet", "-"]);
            }
            Fault::Rebase => {
                let at = self.checkout();
                git(
                    &at,
                    &["commit", "--quiet", "--allow-empty", "--message", "More"],
                );
                git(&at, &["rebase", "--quiet", "--no-ff", "HEAD~2"]);
            }
            Fault::AddWorktree => self.add_worktree(),
            Fault::MoveWorktree => self.move_worktree(),
            Fault::ReplaceWorktree => self.replace_worktree(),
            Fault::KillClient => self.kill_client(),
            Fault::KillUp => self.world.restart_up(),
            Fault::RemoveMirror => remove(&main.join(".projects")),
            Fault::RemoveDatabase => remove(&self.world.repository.board()),
        }
    }

    /// Path of a linked worktree.
    fn worktree(&mut self) -> PathBuf {
        let worktree = self.below(self.world.worktrees.len());
        self.world.stay(worktree).clone()
    }

    /// Path of a linked worktree or of the main checkout.
    fn checkout(&mut self) -> PathBuf {
        match self.below(self.world.worktrees.len() + 1) {
            0 => self.world.repository.main(),
            _ => self.worktree(),
        }
    }

    fn stash(&mut self) {
        let at = self.checkout();
        fs::write(at.join("code.txt"), "stashed\n").expect("a writable checkout");
        fs::write(at.join("new.txt"), "stashed\n").expect("a writable checkout");
        git(&at, &["stash", "--quiet", "--include-untracked"]);
        git(&at, &["stash", "pop", "--quiet"]);
        git(&at, &["checkout", "--quiet", "--", "code.txt"]);
        fs::remove_file(at.join("new.txt")).expect("popped");
    }

    /// Adds a worktree, has a command there change the board, and removes it.
    fn add_worktree(&mut self) {
        self.added += 1;
        let name = format!("../added-{}", self.added);
        let main = self.world.repository.main();
        git(&main, &["worktree", "add", "--quiet", "--detach", &name]);
        let title = format!("added {}", self.added);
        let task = json!({"project": PROJECT, "story_id": STORY, "title": title, "type": "task"});
        let mut caller = Caller::new(self.world, Kind::Command, 0).at(main.join(&name));
        let created = caller.call_until_acknowledged("create_task", &task);
        let id = created["id"].as_str().expect("a task has an id");
        self.world.ledger().record(id, Change::Created { title });
        git(&main, &["worktree", "remove", "--force", &name]);
    }

    fn move_worktree(&mut self) {
        self.added += 1;
        let worktree = self.below(self.world.worktrees.len());
        let mut path = self.world.leave(worktree);
        let moved = path.with_file_name(format!("moved-{}", self.added));
        let words = [path.as_os_str(), moved.as_os_str()].map(|word| word.to_str());
        let [Some(from), Some(to)] = words else {
            panic!("a path that is not UTF-8");
        };
        let main = self.world.repository.main();
        git(&main, &["worktree", "move", from, to]);
        *path = moved;
    }

    /// Removes a worktree in which clients work, and adds it again.
    fn replace_worktree(&mut self) {
        let worktree = self.below(self.world.worktrees.len());
        let path = self.world.leave(worktree);
        let at = path.to_str().expect("a path in UTF-8");
        let main = self.world.repository.main();
        git(&main, &["worktree", "remove", "--force", at]);
        git(&main, &["worktree", "add", "--quiet", "--detach", at]);
    }

    /// Kills the process of a client, or of another one where that has none.
    fn kill_client(&mut self) {
        let first = self.below(self.victims.len());
        let (before, after) = self.victims.split_at(first);
        for victim in after.iter().chain(before) {
            if victim.kill() {
                return;
            }
        }
    }
}

/// Runs git, which may fail.
fn attempt(directory: &Path, words: &[&str]) -> io::Result<Output> {
    Command::new("git")
        .args(words)
        .current_dir(directory)
        .output()
}

/// Removes a directory in which programs may create files meanwhile.
fn remove(directory: &Path) {
    let end = Instant::now() + PATIENCE;
    while let Err(error) = fs::remove_dir_all(directory) {
        if error.kind() == ErrorKind::NotFound {
            return;
        }
        assert!(Instant::now() < end, "{}: {error}", directory.display());
    }
}
