//! Random histories in graphs of random shapes: what they are integrated to is what one after the other
//! would have come to.

use std::collections::BTreeMap;

use orchestra_plan::ids::Commit;
use orchestra_runner::git::Applied;
use proptest::{prelude::*, test_runner::TestRunner};

use super::kit::{World, commit, merged, prepare, ready, write};

/// How many graphs are tried; each starts some fifty processes.
const CASES: u32 = 12;

/// What a job does: the jobs that it depends on, and what it writes or deletes.
#[derive(Debug, Clone)]
struct Work {
    dependencies: Vec<usize>,
    writes: Vec<(u8, u8)>,
    deletes: bool,
    commits_itself: bool,
}

fn graphs() -> impl Strategy<Value = Vec<Work>> {
    let work = (
        any::<u8>(),
        prop::collection::vec(any::<(u8, u8)>(), 0..4),
        any::<bool>(),
        any::<bool>(),
    );
    prop::collection::vec(work, 1..9).prop_map(|works| {
        let work =
            |(index, (mask, writes, deletes, commits_itself)): (usize, (u8, _, _, _))| Work {
                dependencies: (0..index)
                    .filter(|other| mask >> (other % 8) & 1 == 1)
                    .collect(),
                writes,
                deletes,
                commits_itself,
            };
        works.into_iter().enumerate().map(work).collect()
    })
}

/// What the jobs leave when they run one after the other, in the order of the plan.
fn serially(works: &[Work]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::from([
        ("README".to_owned(), "read me\n".to_owned()),
        ("src/a.txt".to_owned(), "a\n".to_owned()),
    ]);
    for number in 0..works.len() {
        files.insert(format!("old/{number}"), "old\n".to_owned());
    }
    for (number, work) in works.iter().enumerate() {
        for (file, content) in &work.writes {
            files.insert(
                format!("job {number}/f{}", file % 5),
                format!("{content}\n"),
            );
        }
        if work.deletes {
            files.remove(&format!("old/{number}"));
        }
    }
    files
}

async fn integrated(works: &[Work]) -> BTreeMap<String, String> {
    let world = World::new();
    let old: Vec<String> = (0..works.len())
        .map(|number| format!("old/{number}"))
        .collect();
    let old: Vec<(&str, &str)> = old.iter().map(|path| (path.as_str(), "old\n")).collect();
    let base = world.save("old", &old);
    world.git(&["branch", "target"]);
    let before = world.picture();
    let repository = world.open().await;
    let mut commits: Vec<Commit> = Vec::new();
    for (number, work) in works.iter().enumerate() {
        let dependencies: Vec<Commit> = work
            .dependencies
            .iter()
            .map(|other| commits[*other].clone())
            .collect();
        let start = match dependencies.is_empty() {
            true => base.clone(),
            false => merged(&repository, &dependencies).await,
        };
        let worktree = prepare(&repository, number as u8, &start).await;
        for (file, content) in &work.writes {
            write(
                worktree.path(),
                &format!("job {number}/f{}", file % 5),
                format!("{content}\n"),
            );
        }
        if work.commits_itself {
            let git = |arguments: &[&str]| {
                super::kit::git_in(world.directory.path(), worktree.path(), arguments)
            };
            git(&["add", "-A"]);
            git(&["commit", "-q", "--allow-empty", "-m", "by the job"]);
        }
        if work.deletes {
            std::fs::remove_file(worktree.path().join(format!("old/{number}"))).unwrap();
        }
        commits.push(commit(&worktree, &start).await.commit);
    }
    let leaves: Vec<Commit> = (0..works.len())
        .filter(|number| !works.iter().any(|work| work.dependencies.contains(number)))
        .map(|number| commits[number].clone())
        .collect();
    let (intent, _) = match repository
        .integrate(&super::kit::branch("target"), &leaves, "plan", 0)
        .await
        .unwrap()
    {
        orchestra_runner::git::Integration::Ready { intent, landing } => (intent, landing),
        other => panic!("{other:?}"),
    };
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    assert_eq!(world.picture(), before);
    let again = ready(&repository, "target", &leaves).await;
    assert_eq!(
        again.1,
        orchestra_runner::git::Landing::There,
        "integrated once"
    );
    let target = world.rev("target");
    let files = world.files(&target);
    files
        .into_iter()
        .map(|path| (path.clone(), world.show(&target, &path)))
        .collect()
}

#[test]
fn any_graph_comes_to_what_running_it_serially_comes_to() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: CASES,
        max_shrink_iters: 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&graphs(), |works| {
            prop_assert_eq!(runtime.block_on(integrated(&works)), serially(&works));
            Ok(())
        })
        .unwrap();
}
