//! Runs the commands of README's tour and of the tutorial, block by block, in an empty directory.

use std::{fs, path::Path};

use crate::support::{Said, Workspace, said};

/// Exit code of a call that a tool refuses.
const REFUSED: i32 = 3;

/// Beginning of the commands that a gate refuses without evidence.
const ADVANCE: &str = "orchestra tool call advance_task ";

/// Text of a page of the repository.
fn page(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap()
}

/// Shell blocks of a text, except those that build, or serve until a signal.
fn blocks(text: &str) -> Vec<&str> {
    let fenced = text.split("```").skip(1).step_by(2);
    let typed = fenced.filter_map(|block| block.strip_prefix("sh\n"));
    typed
        .filter(|block| !block.starts_with("cargo ") && *block != "orchestra up\n")
        .collect()
}

/// Runs a block as a reader does: the first one in an empty directory, the rest in the repository that it creates.
fn run(workspace: &Workspace, block: &str) -> Said {
    let mut created = ["demo", "tutorial"]
        .map(|name| workspace.home().join(name))
        .into_iter();
    let directory = created
        .find(|path| path.exists())
        .unwrap_or_else(|| workspace.path());
    let mut command = workspace.command_as(Path::new("sh"), ["-e", "-c", block]);
    command
        .current_dir(directory)
        .env_remove("ORCHESTRATOR_WORKSPACE")
        .envs(["AUTHOR", "COMMITTER"].map(|of| (format!("GIT_{of}_NAME"), "Ada")))
        .envs(["AUTHOR", "COMMITTER"].map(|of| (format!("GIT_{of}_EMAIL"), "ada@example.org")));
    said(command, "")
}

/// Runs all blocks. Returns the output of the last one, after the call that shows the task.
fn follow(text: &str, show: &str) -> (Said, String) {
    let workspace = Workspace::new();
    let mut last = None;
    let mut refused = 0;
    for block in blocks(text) {
        let end = block.lines().last().unwrap();
        let is_refused = end.starts_with(ADVANCE) && !end.contains("evidence=");
        let ran = run(&workspace, block);
        let expected = if is_refused { REFUSED } else { 0 };
        assert_eq!(ran.code, Some(expected), "{block}: {ran:?}");
        refused += usize::from(is_refused);
        last = Some(ran);
    }
    assert_eq!(refused, 1);
    let shown = run(&workspace, show);
    (last.unwrap(), shown.out)
}

#[test]
fn commands_of_the_tour_in_readme_run_as_written() {
    let readme = page("README.md");
    let (_, tour) = readme.split_once("\n## Two-minute tour\n").unwrap();
    let (tour, _) = tour.split_once("\n## ").unwrap();
    let show = "orchestra tool call get_task project=my-app task_id=MA-3";
    let (last, task) = follow(tour, show);
    assert!(task.contains(r#""status":"ready-for-testing""#), "{task}");
    for shown in [r#""title":"Say hello twice""#, r#""source":"file""#] {
        assert!(last.out.contains(shown), "{shown}: {last:?}");
    }
    assert!(last.out.contains("everything is in order"), "{last:?}");
    assert!(!last.out.contains("?? .projects/"), "{last:?}");
}

#[test]
fn commands_of_the_tutorial_run_as_written() {
    let show = "orchestra tool call get_task project=shop task_id=S-3";
    let (last, task) = follow(&page("docs/tutorial.md"), show);
    assert!(task.contains(r#""status":"done""#), "{task}");
    // The last command lists the projects in a linked worktree.
    assert!(last.out.contains("shop"), "{last:?}");
}
