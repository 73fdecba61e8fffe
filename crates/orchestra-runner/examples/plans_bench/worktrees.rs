//! Worktrees of a large repository, beside those that git adds.

use std::time::Instant;

use orchestra_plan::ids::{Commit, JobId, PlanId};
use orchestra_runner::git::{EXCLUDED, Git, GitSettings, Owner, Repository};

use super::{
    bars::{Bars, percentile},
    git, repository,
};

const FILES: usize = 20_000;
const WORKTREES: u8 = 20;

pub(crate) async fn measure(bars: &mut Bars) {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("work");
    std::fs::create_dir(&root).unwrap();
    repository(&root);
    for at in 0..FILES {
        let directory = root.join(format!("part-{}/of-{}", at / 1_000, at / 100));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(
            directory.join(format!("file-{at}.txt")),
            format!("{at}\n").repeat(40),
        )
        .unwrap();
    }
    git(&root, &["add", "-A"]);
    git(&root, &["commit", "-q", "-m", "many"]);
    let head = git(&root, &["rev-parse", "HEAD"]);
    let commit = Commit::parse(head.trim()).unwrap();
    let program = Git::find(GitSettings::default()).await.unwrap();
    let opened = Repository::open(&program, &root).await.unwrap();
    opened.exclude(&EXCLUDED).await.unwrap();
    let plan = PlanId::of_random([1; 16]);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut processes = 0;
    for at in 0..=WORKTREES {
        let path = home.path().join(format!("git-{at}"));
        let mut add = || {
            let begin = Instant::now();
            let words = [
                "worktree",
                "add",
                "-q",
                "--detach",
                path.to_str().unwrap(),
                head.trim(),
            ];
            git(&root, &words);
            begin.elapsed().as_secs_f64() * 1000.0
        };
        // Each goes first every other time.
        let mut alone = (at % 2 == 0).then(&mut add);
        let before = opened.git().times().processes;
        let begin = Instant::now();
        let owner = Owner::Job(plan, JobId::of_random([at; 16]));
        let prepared = opened.prepare(owner, &commit).await.unwrap();
        let took = begin.elapsed().as_secs_f64() * 1000.0;
        assert!(!prepared.reused);
        let alone = alone.take().unwrap_or_else(add);
        // The disk is not to fill up, and what is deleted does not count.
        std::fs::remove_dir_all(&path).unwrap();
        std::fs::remove_dir_all(prepared.worktree.path()).unwrap();
        if at == 0 {
            // Once, so that files are in memory.
            continue;
        }
        processes += opened.git().times().processes - before;
        ours.push(took);
        theirs.push(alone);
    }
    println!("\n== {WORKTREES} worktrees of {FILES} files, interleaved (ms)");
    println!("{:<24} {:>8} {:>8}", "", "median", "p95");
    for (what, times) in [("prepared", &mut ours), ("git worktree add", &mut theirs)] {
        let (middle, most) = (percentile(times, 50), percentile(times, 95));
        println!("{what:<24} {middle:>8.0} {most:>8.0}");
    }
    let each = processes as f64 / f64::from(WORKTREES);
    println!("{each:.1} git processes for each");
    let ratio = percentile(&mut ours, 95) / percentile(&mut theirs, 95);
    bars.at_most(
        "preparation of a worktree, p95 to that of git worktree add",
        1.2,
        "",
        ratio,
    );
}
