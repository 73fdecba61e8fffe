//! What jobs may take and reach, as `[plans]` says, through the program.

use std::{fs, net::TcpListener};

use serde_json::Value;

use crate::{
    plans::{git, ok, plan},
    support::{Said, Workspace},
};

/// A job with a line of shell.
fn job(id: &str, line: &str) -> String {
    let line = line.replace('\n', "\n    ");
    format!("- producerId: {id}\n  task: Try\n  autoHeal: false\n  work: |\n    {line}\n")
}

/// How a job stands.
fn state(workspace: &Workspace, job: &str) -> Value {
    ok(workspace, &["show", "bounds", job])["state"].clone()
}

#[test]
fn who_takes_too_much_is_ended_and_the_limit_is_named_while_others_go_on() {
    let workspace = Workspace::git();
    workspace.write(
        "orchestra.toml",
        "[plans]\nheal_attempts = 0\nmemory_bytes = 50000000\npids_limit = 8\ncpu_seconds = 2\n\
         output_bytes = 100000\n",
    );
    let jobs = [
        job(
            "memory",
            "all=$(head -c 100000000 /dev/zero | tr '\\0' x)\nsleep 60",
        ),
        job(
            "forks",
            "n=0; while [ $n -lt 30 ]; do sleep 60 & n=$((n+1)); done; wait",
        ),
        job("computes", "while :; do :; done"),
        job("prints", "yes"),
        job("modest", "echo fine > fine.txt"),
    ];
    let text = format!(
        "name: bounds\ntargetBranch: bounds\nmaxParallel: 5\njobs:\n{}",
        jobs.concat()
    );
    workspace.write("bounds.yaml", &text);
    let ran = plan(&workspace, &["run", "bounds.yaml"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    for (job, words) in [
        ("memory", "too much memory"),
        ("memory", "of 50000000"),
        ("forks", "processes (8)"),
        ("computes", "CPU time (2 s)"),
        ("prints", "more than 100000 bytes"),
    ] {
        let state = state(&workspace, job);
        assert_eq!(state["status"], "failed", "{job}: {state}");
        let error = state["error"].as_str().unwrap_or_default();
        assert!(error.contains(words), "{job}: {state}");
    }
    let modest = state(&workspace, "modest");
    assert_eq!(modest["status"], "succeeded", "{modest}");
}

/// The values of limits of a run, as `config show` has them.
fn limits(workspace: &Workspace) -> [String; 4] {
    let said = workspace.run(["config", "show", "--json"]);
    let entries: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    ["memory_bytes", "pids_limit", "cpu_seconds", "output_bytes"].map(|key| {
        let key = format!("plans.{key}");
        let entry = entries.iter().find(|entry| entry["key"] == key.as_str());
        entry.unwrap()["value"].to_string().replace('"', "")
    })
}

/// Writes the user's own configuration.
fn of_user(workspace: &Workspace, text: &str) {
    let directory = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("orchestra.toml"), text).unwrap();
}

const NO_LIMITS: &str =
    "[plans]\nmemory_bytes = 0\npids_limit = 0\ncpu_seconds = 0\noutput_bytes = 0\n";

#[test]
fn memory_and_processes_are_limited_unless_that_is_switched_off() {
    let workspace = Workspace::git();
    let [memory, pids, ..] = limits(&workspace);
    if cfg!(target_os = "linux") {
        assert!(memory.parse::<u64>().unwrap() > 50_000_000, "{memory}");
        assert_eq!(pids, "1024");
    }
    of_user(&workspace, NO_LIMITS);
    assert_eq!(limits(&workspace), ["0", "0", "0", "0"]);
}

#[test]
fn limits_of_the_user_are_lowered_and_not_raised_by_a_workspace() {
    let workspace = Workspace::git();
    let usual = limits(&workspace);
    workspace.write("orchestra.toml", NO_LIMITS);
    assert_eq!(limits(&workspace), usual);
    let all = |number: u64| {
        format!(
            "[plans]\nmemory_bytes = {number}\npids_limit = {number}\ncpu_seconds = {number}\noutput_bytes = {number}\n"
        )
    };
    of_user(&workspace, &all(20));
    for text in [NO_LIMITS, &all(21)] {
        workspace.write("orchestra.toml", text);
        assert_eq!(limits(&workspace), ["20"; 4], "{text}");
    }
    let shown = workspace.run(["config", "show"]);
    assert!(
        shown.err.contains("higher plans.pids_limit is not used"),
        "{shown:?}"
    );
    workspace.write("orchestra.toml", &all(19));
    assert_eq!(limits(&workspace), ["19"; 4]);
    of_user(&workspace, NO_LIMITS);
    assert_eq!(limits(&workspace), ["19"; 4]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_job_in_the_sandbox_reaches_its_worktree_and_neither_the_checkout_nor_the_network() {
    let workspace = Workspace::git();
    workspace.write("orchestra.toml", "[plans]\nsandbox = \"workspace\"\n");
    workspace.write("secret.txt", "not for jobs\n");
    workspace.write("seen.txt", "for jobs\n");
    git(&workspace, &["add", "seen.txt"]);
    let who = ["-c", "user.name=U", "-c", "user.email=u@example.org"];
    git(
        &workspace,
        &[&who[..], &["commit", "-qm", "begin"]].concat(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let secret = workspace.join("secret.txt");
    let secret = secret.display();
    let run = workspace.run_directory();
    let run = run.display();
    // Without the sandbox each of these would do what must not be done.
    let line = format!(
        "set -e\ntest \"$(cat seen.txt)\" = 'for jobs'\ngit log --oneline | grep -q begin\n\
         git status --short\ntest -w \"$(mktemp)\"\necho x > \"$HOME/mine\"\n\
         if cat {secret}; then exit 11; fi\nif echo x > {secret}; then exit 12; fi\n\
         if echo x > ../../made.txt; then exit 13; fi\n\
         if (exec 3<>/dev/tcp/127.0.0.1/{port}); then exit 14; fi\n\
         if mkdir -p {run}/planted; then exit 15; fi\necho done > done.txt"
    );
    let line = line.replace('\n', "\n      ");
    let text = format!(
        "name: bounds\ntargetBranch: bounds\njobs:\n- producerId: inside\n  task: Try\n  \
         autoHeal: false\n  work:\n    type: shell\n    shell: bash\n    command: |\n      {line}\n"
    );
    workspace.write("bounds.yaml", &text);
    let ran = plan(&workspace, &["run", "bounds.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(git(&workspace, &["show", "bounds:done.txt"]), "done\n");
    assert_eq!(workspace.read("secret.txt"), "not for jobs\n");
    assert!(!workspace.join("made.txt").exists());
    // A workspace's file may close it, and not open it.
    workspace.write("orchestra.toml", "[plans]\nsandbox = \"none\"\n");
    let said = workspace.run(["config", "show"]);
    assert!(said.err.contains("plans.sandbox"), "{said:?}");
}

/// Runs a plan with one job, which is in the sandbox.
#[cfg(target_os = "linux")]
pub(crate) fn run_confined(workspace: &Workspace, line: &str) -> Said {
    workspace.write("orchestra.toml", "[plans]\nsandbox = \"workspace\"\n");
    let text = format!(
        "name: bounds\ntargetBranch: bounds\njobs:\n{}",
        job("inside", line)
    );
    workspace.write("bounds.yaml", &text);
    plan(workspace, &["run", "bounds.yaml"])
}

/// The user commits everything.
#[cfg(target_os = "linux")]
pub(crate) fn save(workspace: &Workspace) {
    git(workspace, &["add", "--all"]);
    let who = ["-c", "user.name=U", "-c", "user.email=u@example.org"];
    git(workspace, &[&who[..], &["commit", "-qm", "begin"]].concat());
}

#[test]
#[cfg(target_os = "linux")]
fn repository_of_a_sandboxed_job_runs_nothing_outside_of_the_sandbox() {
    let workspace = Workspace::git();
    let library = workspace.home().join("library");
    let library = library.to_str().unwrap();
    git(&workspace, &["init", "-q", library]);
    let who = ["-c", "user.name=U", "-c", "user.email=u@example.org"];
    let first = [
        "-C",
        library,
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "first",
    ];
    git(&workspace, &[&who[..], &first].concat());
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"];
    git(&workspace, &[&add[..], &[library, "sub"]].concat());
    save(&workspace);
    let ran = workspace.join("ran");
    let mark = format!("touch {}; cat", ran.display());
    // The time of the file is not that in the index of the submodule, so git reads it through the filter.
    for (change, code) in [("true", 0), ("echo b > a.txt", 6)] {
        let line = format!(
            "set -e\necho done > done.txt\nrm -rf sub\ngit init -q sub\ncd sub\necho a > a.txt\n\
             git add a.txt\ngit -c user.name=J -c user.email=j@example.org commit -qm a\n\
             git config filter.own.clean '{mark}'\ngit config core.fsmonitor '{mark}'\n\
             git config diff.external '{mark}'\necho '* filter=own' > .git/info/attributes\n\
             {change}\ntouch -d 2001-01-01 a.txt"
        );
        let said = run_confined(&workspace, &line);
        assert!(!ran.exists(), "{change}: {said:?}");
        assert_eq!(said.code, Some(code), "{change}: {said:?}");
    }
    let state = state(&workspace, "inside");
    let error = state["error"].as_str().unwrap_or_default();
    assert!(error.contains("sub"), "{state}");
}

#[test]
#[cfg(target_os = "linux")]
fn git_of_the_user_in_a_worktree_uses_no_repository_of_a_sandboxed_job() {
    let workspace = Workspace::git();
    workspace.write("seen.txt", "seen\n");
    save(&workspace);
    let ran = workspace.join("ran");
    let line = format!(
        "set -e\nrm .git\ngit init -q .\ngit config core.fsmonitor 'touch {}; false'\n",
        ran.display()
    );
    let said = run_confined(&workspace, &format!("{line}exit 1"));
    assert_eq!(said.code, Some(6), "{said:?}");
    let mut worktrees = fs::read_dir(workspace.join(".worktrees")).unwrap();
    let worktree = worktrees.next().unwrap().unwrap().path();
    git(&workspace, &["-C", worktree.to_str().unwrap(), "status"]);
    assert!(!ran.exists(), "{said:?}");
    let said = run_confined(&workspace, &format!("{line}echo done > done.txt"));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(git(&workspace, &["show", "bounds:done.txt"]), "done\n");
}

#[test]
#[cfg(target_os = "linux")]
fn agent_does_not_start_beside_a_repository_of_a_sandboxed_command() {
    let workspace = Workspace::git();
    workspace.write("src/seen.txt", "seen\n");
    workspace.write(".gitignore", "cache/\n");
    save(&workspace);
    let ran = workspace.join("ran");
    of_user(
        &workspace,
        "[plans]\nsandbox = \"workspace\"\nhealer = \"mine\"\n[agents.mine]\nprogram = \"sh\"\nprompt = \"stdin\"\n\
         arguments = [[\"-c\", \"git -C src status; echo done > done.txt\"]]\nprobe = { version = [], help = [] }\n",
    );
    let nested = |path: &str| {
        let program = format!("core.fsmonitor 'touch {}; false'", ran.display());
        format!("set -e\ngit init -q {path}\ngit -C {path} config {program}")
    };
    let bare = format!(
        "{}\nmv src/.git/* src\nrmdir src/.git\ngit config -f src/config core.worktree .",
        nested("src")
    );
    let run = |job: &str| {
        let text = format!(
            "name: bounds\ntargetBranch: bounds\njobs:\n- producerId: inside\n  task: Try\n{job}"
        );
        workspace.write("bounds.yaml", &text);
        plan(&workspace, &["run", "bounds.yaml"])
    };
    let work = |line: &str| format!("  work: |\n    {}\n", line.replace('\n', "\n    "));
    let agent = |line: &str| {
        let checks = work(line).replace("work:", "prechecks:");
        format!(
            "  autoHeal: false\n{checks}  work: {{ type: agent, agent: mine, instructions: Do it. }}\n"
        )
    };
    let fails = format!("{}\nexit 1", nested("src"));
    for (job, part, path) in [
        (agent(&nested("src")), "error", "src"),
        (agent(&bare), "error", "src"),
        (agent(&nested("lib")), "error", "lib"),
        (work(&fails), "healing", "src"),
    ] {
        let said = run(&job);
        assert!(!ran.exists(), "{job}: {said:?}");
        assert_eq!(said.code, Some(6), "{job}: {said:?}");
        let state = state(&workspace, "inside");
        let error = state[part].to_string();
        let is_named = error.contains("separate git repositories") && error.contains(path);
        assert!(is_named, "{job}: {state}");
        ok(&workspace, &["delete", "bounds"]);
    }
    let said = run(&agent(&nested("cache/lib")));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(git(&workspace, &["show", "bounds:done.txt"]), "done\n");
}

#[test]
#[cfg(target_os = "linux")]
fn filter_of_the_user_stores_what_a_sandboxed_job_has_written() {
    let workspace = Workspace::git();
    let filter =
        "[filter \"large\"]\n\tclean = sed s/^/stored:/\n\tsmudge = sed s/^stored://\n\trequired\n";
    std::fs::write(workspace.home().join(".gitconfig"), filter).unwrap();
    workspace.write(".gitattributes", "*.bin filter=large\n");
    save(&workspace);
    let said = run_confined(&workspace, "echo content > a.bin");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        git(&workspace, &["show", "bounds:a.bin"]),
        "stored:content\n"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn settings_of_git_lfs_that_a_sandboxed_job_leaves_are_refused() {
    let workspace = Workspace::git();
    workspace.write("seen.txt", "seen\n");
    save(&workspace);
    for line in [
        "echo '[lfs]' > .lfsconfig",
        "echo '[lfs]' > seen.txt; ln -s seen.txt .LFSCONFIG",
        "echo '[lfs]' > .lfsconfig; echo .lfsconfig > .gitignore",
    ] {
        let said = run_confined(&workspace, line);
        assert_eq!(said.code, Some(6), "{line}: {said:?}");
        let state = state(&workspace, "inside");
        let error = state["error"].as_str().unwrap_or_default().to_lowercase();
        let is_named = error.contains("the job left `.lfsconfig`");
        assert!(is_named && error.contains("commit it yourself"), "{state}");
        ok(&workspace, &["delete", "bounds"]);
    }
    workspace.write(".lfsconfig", "[lfs]\n");
    save(&workspace);
    let said = run_confined(&workspace, "echo other > seen.txt");
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn paths_of_orchestra_and_bare_repositories_that_a_job_commits_are_refused() {
    let workspace = Workspace::git();
    workspace.write("seen.txt", "seen\n");
    save(&workspace);
    for (line, part) in [
        (
            "mkdir -p .worktrees/other; echo x > .worktrees/other/evil.txt\n\
             printf '!/.worktrees/\\n!/.worktrees/**\\n' > .gitignore",
            ".worktrees/other/evil.txt",
        ),
        (
            "mkdir .Orchestrator; echo x > .Orchestrator/evil.txt",
            ".Orchestrator/evil.txt",
        ),
        (
            "mkdir -p .projects/p; echo x > .projects/p/P-4.toon",
            ".projects/p/P-4.toon",
        ),
        ("ln -s seen.txt .projects", "links or files of that name"),
        (
            "mkdir -p in/a/objects in/a/refs; echo x > in/a/objects/x; echo x > in/a/refs/x\n\
             echo 'ref: refs/heads/x' > in/a/HEAD",
            "adds bare git repositories",
        ),
    ] {
        let said = run_confined(&workspace, line);
        assert_eq!(said.code, Some(6), "{line}: {said:?}");
        let state = state(&workspace, "inside");
        let error = state["error"].as_str().unwrap_or_default();
        assert!(error.contains(part), "{line}: {state}");
        ok(&workspace, &["delete", "bounds"]);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn git_directory_is_read_only_for_a_sandboxed_job() {
    let workspace = Workspace::git();
    workspace.write("seen.txt", "seen\n");
    save(&workspace);
    let config = workspace.read(".git/config");
    // Files that are there: no line passes because a path is wrong.
    let line = "set -e\ncommon=$(git rev-parse --git-common-dir)\nown=$(git rev-parse --git-dir)\n\
                test -f \"$common/config\"\ntest -f \"$own/HEAD\"\ntest \"$own\" != \"$common\"\n\
                plans=\"$common/.orchestra/_/plans/plans.db\"\ntest -s \"$plans\"\n\
                if cat \"$plans\"; then exit 11; fi\n\
                if ls \"$common/.orchestra\"; then exit 12; fi\n\
                for path in config hooks/pre-commit info/attributes refs/heads/x objects/x worktrees/x \
                .orchestra/_/plans/plans.db .orchestra/x; do\n\
                if echo x >> \"$common/$path\"; then exit 13; fi\ndone\n\
                for path in config.worktree HEAD orchestra.json; do\n\
                if echo x >> \"$own/$path\"; then exit 14; fi\ndone\n\
                if ln \"$common/config\" linked && echo x >> linked; then exit 15; fi\necho done > done.txt";
    let said = run_confined(&workspace, line);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(git(&workspace, &["show", "bounds:done.txt"]), "done\n");
    assert_eq!(workspace.read(".git/config"), config);
    assert!(!workspace.join(".git/hooks/pre-commit").exists());
}

/// In its own worktree these are files as all others.
#[test]
#[cfg(target_os = "linux")]
fn settings_that_a_sandboxed_job_writes_are_part_of_its_change() {
    let workspace = Workspace::git();
    workspace.write("seen.txt", "seen\n");
    save(&workspace);
    let files = [
        ".claude/settings.json",
        ".envrc",
        ".mcp.json",
        ".vscode/tasks.json",
    ];
    let line = format!(
        "set -e\nmkdir .claude .vscode\nfor path in {}; do echo '{{}}' > $path; done",
        files.join(" ")
    );
    let said = run_confined(&workspace, &line);
    assert_eq!(said.code, Some(0), "{said:?}");
    let changed = git(&workspace, &["diff", "--name-only", "HEAD", "bounds"]);
    assert_eq!(changed.lines().collect::<Vec<_>>(), files);
    for file in files {
        assert!(!workspace.join(file).exists(), "{file}");
    }
}

/// The reader needs a time that grows with the square of the depth.
#[test]
fn plan_file_with_deeply_nested_brackets_is_refused_and_brackets_in_code_are_not() {
    let workspace = Workspace::git();
    let code = job(
        "code",
        &"if [ -n \"$a\" ]; then {\n  echo '[{['\n".repeat(500),
    );
    for (extra, refusal) in [
        (String::new(), None),
        (
            format!("extra: {}\n", "[{a: ".repeat(1_000)),
            Some("opens more than 128 brackets inside each other"),
        ),
    ] {
        let text = format!("name: deep\ntargetBranch: deep\njobs:\n{code}{extra}");
        workspace.write("deep.yaml", &text);
        let said = plan(&workspace, &["validate", "deep.yaml"]);
        match refusal {
            None => assert_eq!(said.code, Some(0), "{said:?}"),
            Some(refusal) => assert!(said.err.contains(refusal), "{said:?}"),
        }
    }
    workspace.write("directives.yaml", &"%TAG !a! tag:a\n".repeat(1_000));
    let said = plan(&workspace, &["validate", "directives.yaml"]);
    assert!(
        said.err.contains("more than 128 lines begin with `%`"),
        "{said:?}"
    );
}
