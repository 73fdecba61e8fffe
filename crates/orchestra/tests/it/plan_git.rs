//! Plans see what git sees: files that a checkout converts, sparse checkouts, submodules, and names of branches
//! and directories.

use std::fs;

use crate::{
    plans::{git, ok, plan},
    support::{Workspace, said, until},
};

/// A repository with one commit, whose user has a name.
fn repository() -> Workspace {
    let workspace = Workspace::git();
    git(&workspace, &["config", "user.name", "A User"]);
    git(&workspace, &["config", "user.email", "user@example.org"]);
    save(&workspace, &[("README", "read me\n")]);
    workspace
}

/// Commits files.
fn save(workspace: &Workspace, files: &[(&str, &str)]) {
    for (path, content) in files {
        workspace.write(path, content);
        git(workspace, &["add", "--sparse", path]);
    }
    git(workspace, &["commit", "--quiet", "--message", "files"]);
}

/// Runs a plan with these jobs onto a target; its exit code and what it printed.
fn run(workspace: &Workspace, target: &str, jobs: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut text = format!("name: Plan\ntargetBranch: {target}\njobs:\n");
    for (name, work) in jobs {
        text.push_str(&format!(
            "- {{producerId: {name}, task: Work, autoHeal: false, work: \"{work}\"}}\n"
        ));
    }
    let file = workspace.home().join(format!("{target}.yaml"));
    fs::write(&file, text).unwrap();
    let ran = plan(workspace, &["run", file.to_str().unwrap()]);
    (ran.code, format!("{}{}", ran.out, ran.err))
}

fn changed(workspace: &Workspace, target: &str) -> String {
    git(workspace, &["diff", "--name-only", "HEAD", target])
}

#[test]
fn files_that_a_checkout_converts_are_not_changes_of_jobs() {
    let workspace = repository();
    save(
        &workspace,
        &[("dos.txt", "a\r\nb\r\n"), ("more.txt", "a\r\n")],
    );
    save(&workspace, &[(".gitattributes", "*.txt text eol=lf\n")]);
    let (code, shown) = run(&workspace, "added", &[("one", "echo x > x.md")]);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(changed(&workspace, "added"), "x.md\n");
    let own = "echo x > x.md && git add -A && git -c user.name=J -c user.email=j@example.org commit -qam x";
    let (code, shown) = run(&workspace, "own", &[("one", own)]);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(changed(&workspace, "own"), "x.md\n");
    let (code, shown) = run(&workspace, "nothing", &[("one", "touch dos.txt")]);
    assert_eq!(code, Some(6), "{shown}");
    assert!(shown.contains("changed nothing"), "{shown}");
    let jobs = [
        ("one", "echo x > x.md"),
        ("two", "printf 'c\\\\n' >> dos.txt"),
        ("three", "printf 'c\\\\n' >> more.txt"),
    ];
    let (code, shown) = run(&workspace, "all", &jobs);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(changed(&workspace, "all"), "dos.txt\nmore.txt\nx.md\n");
    assert_eq!(git(&workspace, &["show", "all:dos.txt"]), "a\nb\nc\n");
}

#[test]
fn jobs_change_files_outside_of_a_sparse_checkout_that_stays_sparse() {
    let workspace = repository();
    save(&workspace, &[("a/f", "1\n"), ("b/f", "1\n")]);
    git(&workspace, &["sparse-checkout", "set", "--cone", "a"]);
    let branch = git(&workspace, &["branch", "--show-current"]);
    let jobs = [
        ("inside", "echo 2 > a/f"),
        ("new", "mkdir c && echo z > c/z"),
        ("there", "echo 2 > b/f"),
    ];
    let (code, shown) = run(&workspace, branch.trim(), &jobs);
    assert_eq!(code, Some(0), "{shown}");
    let files = git(&workspace, &["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(files, "README\na/f\nb/f\nc/z\n");
    assert_eq!(git(&workspace, &["show", "HEAD:b/f"]), "2\n");
    assert_eq!(workspace.read("a/f"), "2\n");
    assert!(!workspace.join("b").exists() && !workspace.join("c").exists());
    assert_eq!(git(&workspace, &["status", "--porcelain"]), "");
    assert_eq!(git(&workspace, &["sparse-checkout", "list"]), "a\n");
}

#[test]
fn branches_in_the_way_of_those_of_plans_are_reported_and_other_prefixes_used() {
    let workspace = repository();
    let file = workspace.home().join("plan.yaml");
    let text = "name: Mine\njobs:\n- {producerId: one, task: One, work: echo 1 > one.txt}\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let valid = ok(&workspace, &["validate", file]).to_string();
    assert!(!valid.contains("git cannot create branches"), "{valid}");
    for branch in ["orchestra", "orchestrator"] {
        git(&workspace, &["branch", branch]);
    }
    let valid = ok(&workspace, &["validate", file]).to_string();
    for part in ["`orchestra-`", "`orchestrator-snapshot-`"] {
        assert!(valid.contains(part), "{part}: {valid}");
    }
    let ran = plan(&workspace, &["run", file]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(git(&workspace, &["show", "orchestra-mine:one.txt"]), "1\n");
    // It goes after the plan has ended.
    until(|| {
        let branches = git(&workspace, &["branch", "--format=%(refname:short)"]);
        (!branches.contains("snapshot")).then_some(())
    });
}

#[test]
fn job_that_ends_on_a_branch_without_commits_is_merged() {
    let workspace = repository();
    let work = "git checkout -q --orphan alone && echo x > x.md";
    let (code, shown) = run(&workspace, "orphan", &[("one", work)]);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(changed(&workspace, "orphan"), "x.md\n");
}

#[test]
fn plan_adds_only_directories_of_ours_to_the_ignored_files_of_the_repository() {
    let workspace = repository();
    let before = workspace.read(".git/info/exclude");
    let agent = "- {producerId: two, task: Two, autoHeal: false, work: {type: agent, agent: scripted, \
                 instructions: Do it}}\n";
    let text = format!(
        "name: Both\ntargetBranch: both\njobs:\n- {{producerId: one, task: One, work: echo 1 > one.txt}}\n{agent}"
    );
    let file = workspace.home().join("both.yaml");
    fs::write(&file, text).unwrap();
    plan(&workspace, &["run", file.to_str().unwrap()]);
    let after = workspace.read(".git/info/exclude");
    let added = after.strip_prefix(&before).unwrap();
    let lines: Vec<&str> = added
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(lines, [".worktrees/", ".orchestrator/"]);
}

#[test]
fn repository_whose_path_has_a_line_break_is_refused_with_what_to_do() {
    let workspace = repository();
    let root = workspace.join("line\nbreak");
    git(
        &workspace,
        &["clone", "--quiet", ".", root.to_str().unwrap()],
    );
    let file = workspace.home().join("plan.yaml");
    let text = "name: P\njobs:\n- {producerId: one, task: One, work: echo 1 > one.txt}\n";
    fs::write(&file, text).unwrap();
    let mut command = workspace.command(["plan", "run", file.to_str().unwrap()]);
    command.current_dir(&root);
    let ran = said(command, "");
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("line break"), "{ran:?}");
    assert!(ran.err.contains("rename the directory"), "{ran:?}");
}
