//! Databases of plans that this user's programs did not create: nothing in them starts until the user accepts them.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use orchestra_runner::journal::{Append, Fresh, Journal, Options, PlanKey};
use serde_json::{Value, json};

use crate::support::{Running, Said, Session, Workspace, get, said, until, until_ready};

/// Where earlier versions kept plans.
const FORMER: &str = ".orchestrator/plans";

/// A plan whose job adds a line to a file, and ends when another file exists.
fn marks(name: &str, marker: &Path, gate: &Path) -> String {
    let (marker, gate) = (marker.display(), gate.display());
    format!(
        "name: {name}\ntargetBranch: {name}\njobs:\n- producerId: marks\n  task: Mark\n  autoHeal: false\n  \
         work: |\n    echo started >> '{marker}'\n    while ! test -e '{gate}'; do sleep 0.02; done\n    \
         echo here > {name}.txt\n"
    )
}

fn plan(workspace: &Workspace, words: &[&str]) -> Said {
    let words: Vec<&str> = ["plan"].iter().chain(words).copied().collect();
    workspace.run(words)
}

fn status(workspace: &Workspace, name: &str) -> Value {
    let shown = plan(workspace, &["show", name, "--json"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    serde_json::from_str::<Value>(&shown.out).unwrap()["status"].clone()
}

/// Copies the database of plans from one workspace into another, as a clone or an archive brings it along.
fn plant(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in ["plans.db", "plans.db-wal"] {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

/// The files of a directory, by name.
fn files(directory: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let file = |entry: fs::DirEntry| (entry.file_name(), fs::read(entry.path()).unwrap());
    files.map(file).collect()
}

fn names_the_command(said: &Said) {
    let text = format!("{}{}", said.out, said.err);
    assert!(text.contains("orchestra plan trust"), "{said:?}");
}

/// A workspace with a plan that was running and one that was not started when its database was copied, and the files
/// to which their jobs add lines.
struct Planted {
    workspace: Workspace,
    running: PathBuf,
    waiting: PathBuf,
    /// The workspace of the program that created the database, and the home of its user.
    origin: Workspace,
}

fn planted(storage: impl Fn(&Workspace) -> PathBuf) -> Planted {
    let origin = Workspace::git();
    let running = origin.home().join("running");
    let waiting = origin.home().join("waiting");
    let gate = origin.home().join("gate");
    origin.write("running.yaml", &marks("running", &running, &gate));
    origin.write("waiting.yaml", &marks("waiting", &waiting, &gate));
    let created = plan(&origin, &["create", "waiting.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let mut run = Running::start(origin.command(["plan", "run", "running.yaml", "--json"]));
    until(|| running.exists().then_some(()));
    run.kill();
    let workspace = Workspace::git();
    plant(&origin.plans(), &storage(&workspace));
    fs::write(gate, "").unwrap();
    Planted {
        workspace,
        running,
        waiting,
        origin,
    }
}

impl Planted {
    fn nothing_started(&self) {
        assert_eq!(fs::read_to_string(&self.running).unwrap(), "started\n");
        assert!(!self.waiting.exists());
    }
}

#[test]
fn planted_plans_start_only_after_they_are_accepted_and_continued() {
    let planted = planted(Workspace::plans);
    let workspace = &planted.workspace;
    for words in [
        &["plan", "list"][..],
        &["plan", "show", "running"],
        &["plan", "watch", "running"],
        &["plan", "resume", "waiting"],
        &["plan", "retry", "running"],
        &["plan", "clone", "running"],
        &["tool", "call", "clone_copilot_plan", "sourcePlanId=running"],
        &["doctor"],
        &["doctor", "--fix"],
    ] {
        names_the_command(&workspace.run(words.iter().copied()));
    }
    assert_eq!(status(workspace, "running"), "running");
    let mut session = Session::start(workspace.command(["stdio"]));
    let listed = session.ok("list_copilot_plans", &json!({}));
    assert_eq!(listed["count"], 2, "{listed}");
    let resume = json!({"planId": "waiting"});
    let refused = session.refused("resume_copilot_plan", &resume);
    assert!(refused.contains("orchestra plan trust"), "{refused}");
    let create = json!({"name": "Other", "jobs": [
        {"producerId": "one", "task": "One", "work": "true"},
    ]});
    let refused = session.refused("create_copilot_plan", &create);
    assert!(refused.contains("orchestra plan trust"), "{refused}");
    assert_eq!(session.process.end().code(), Some(0));
    until_ready(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    planted.nothing_started();

    let denied = plan(workspace, &["trust"]);
    assert_ne!(denied.code, Some(0), "{denied:?}");
    assert!(denied.err.contains("running"), "{denied:?}");
    let accepted = plan(workspace, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert!(accepted.out.contains("running"), "{accepted:?}");
    let stopped = status(workspace, "running");
    assert!(
        ["failed", "paused"].iter().any(|status| stopped == *status),
        "{stopped}"
    );
    let waits = status(workspace, "waiting");
    assert!(
        ["pending-start", "paused"]
            .iter()
            .any(|status| waits == *status),
        "{waits}"
    );
    let again = plan(workspace, &["trust"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    planted.nothing_started();

    let resumed = plan(workspace, &["resume", "waiting"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let watched = plan(workspace, &["watch", "waiting"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(fs::read_to_string(&planted.waiting).unwrap(), "started\n");
    assert_eq!(fs::read_to_string(&planted.running).unwrap(), "started\n");
}

#[test]
fn ended_plans_are_shown_before_they_are_accepted() {
    let origin = Workspace::git();
    let marker = origin.home().join("marker");
    origin.write("ended.yaml", &marks("ended", &marker, &origin.home()));
    let ran = plan(&origin, &["run", "ended.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let workspace = Workspace::git();
    plant(&origin.plans(), &workspace.plans());
    let denied = plan(&workspace, &["trust"]);
    assert_ne!(denied.code, Some(0), "{denied:?}");
    assert!(
        denied.err.contains("ended (") && denied.err.contains("): succeeded, "),
        "{denied:?}"
    );
}

#[test]
fn plans_of_a_program_without_ids_are_accepted_once() {
    let planted = planted(Workspace::plans);
    let workspace = &planted.workspace;
    // As an earlier version leaves it.
    let storage = workspace.plans();
    fs::remove_dir_all(&storage).unwrap();
    fs::create_dir_all(&storage).unwrap();
    drop(Journal::open(&storage, Options::default()).unwrap());
    workspace.write(
        "other.yaml",
        "name: Other\njobs:\n- {producerId: one, task: One, work: 'true'}\n",
    );
    let refused = plan(workspace, &["create", "other.yaml"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    names_the_command(&refused);
    let accepted = plan(workspace, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    let created = plan(workspace, &["create", "other.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
}

#[test]
fn copy_of_a_workspace_gets_an_id_of_its_own_and_runs_only_by_command() {
    let planted = planted(Workspace::plans);
    let (origin, workspace) = (&planted.origin, &planted.workspace);
    // The same user, who created the original.
    let run = |words: &[&str]| {
        let mut command = workspace.command(words);
        command.env("HOME", origin.home());
        said(command, "")
    };
    let mut up = workspace.command(["up", "--http", "127.0.0.1:0", "--json"]);
    up.env("HOME", origin.home());
    until_ready(up);
    planted.nothing_started();
    let created = run(&["plan", "resume", "waiting"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let shown = run(&["plan", "show", "running", "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    assert!(
        ["failed", "paused"]
            .iter()
            .any(|status| shown["status"] == *status),
        "{shown}"
    );
    let watched = run(&["plan", "watch", "waiting"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(fs::read_to_string(&planted.running).unwrap(), "started\n");
    // The original is trusted as before.
    let looked = plan(origin, &["list"]);
    assert!(!looked.err.contains("plan trust"), "{looked:?}");
    let list = origin.home().join(".local/state/orchestra/plans.json");
    let list: Value = serde_json::from_str(&fs::read_to_string(list).unwrap()).unwrap();
    let entries = list["databases"].as_array().unwrap().iter();
    let of_plans = entries.filter(|entry| entry["path"].as_str().unwrap().ends_with("plans"));
    let ids: Vec<&Value> = of_plans.map(|entry| &entry["id"]).collect();
    assert_eq!(ids.len(), 2, "{list}");
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn copy_whose_new_id_could_not_be_listed_is_still_a_copy() {
    let planted = planted(Workspace::plans);
    let resume = || {
        let mut command = planted.workspace.command(["plan", "resume", "waiting"]);
        command.env("HOME", planted.origin.home());
        said(command, "")
    };
    let lock = planted
        .origin
        .home()
        .join(".local/state/orchestra/plans.lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let refused = resume();
    assert_ne!(refused.code, Some(0), "{refused:?}");
    planted.nothing_started();
    fs::remove_dir(&lock).unwrap();
    let resumed = resume();
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let mut watch = planted.workspace.command(["plan", "watch", "waiting"]);
    watch.env("HOME", planted.origin.home());
    let watched = said(watch, "");
    assert_eq!(watched.code, Some(0), "{watched:?}");
}

#[test]
fn copied_plans_are_accepted_together_with_planted_ones_in_the_working_tree() {
    let planted = planted(Workspace::plans);
    let workspace = &planted.workspace;
    let former = workspace.join(FORMER);
    fs::create_dir_all(&former).unwrap();
    drop(Journal::open(&former, Options::default()).unwrap());
    let mut trust = workspace.command(["plan", "trust", "--yes"]);
    // The same user, who created the original.
    trust.env("HOME", planted.origin.home());
    let accepted = said(trust, "");
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    is_retired(workspace);
    planted.nothing_started();
}

/// A plan with a quick job, as a file of the workspace.
fn other(workspace: &Workspace) {
    workspace.write(
        "other.yaml",
        "name: Other\ntargetBranch: other\njobs:\n- {producerId: one, task: One, work: echo 1 > one.txt}\n",
    );
}

fn names_of_all(workspace: &Workspace) -> Vec<String> {
    let listed = plan(workspace, &["list", "--status", "all", "--json"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let items = listed["items"].as_array().unwrap().iter();
    let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
    let mut names: Vec<String> = items.map(name).collect();
    names.sort();
    names
}

/// Waits until no process runs the plans: a program in the background may do so for a moment.
fn until_unheld(workspace: &Workspace) {
    let lock = workspace.plans().join(".lock");
    until(|| (!orchestra_fs::is_locked(&lock).unwrap()).then_some(()));
}

/// Checks that the database of an earlier version is refused by programs, with a sentence.
fn is_retired(workspace: &Workspace) {
    let mut command = workspace.command(["plan", "list"]);
    command.env("ORCHESTRATOR_STORAGE", FORMER);
    let refused = said(command, "");
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains("were moved"), "{refused:?}");
}

#[test]
fn planted_plans_in_the_working_tree_are_shown_and_block_no_other_plan() {
    let planted = planted(|workspace| workspace.join(FORMER));
    let workspace = &planted.workspace;
    let former = workspace.join(FORMER);
    fs::write(former.join("plans.db-shm"), "").unwrap();
    let before = files(&former);
    assert!(before.contains_key(&OsString::from("plans.db-wal")));
    for words in [
        &["plan", "list"][..],
        &["plan", "show", "running"],
        &["plan", "watch", "running"],
        &["plan", "resume", "waiting"],
        &["plan", "clone", "running"],
        &["tool", "call", "clone_copilot_plan", "sourcePlanId=running"],
        &["doctor"],
        &["doctor", "--fix"],
    ] {
        names_the_command(&workspace.run(words.iter().copied()));
    }
    assert_eq!(status(workspace, "running"), "running");
    let mut session = Session::start(workspace.command(["stdio"]));
    let listed = session.ok("list_copilot_plans", &json!({}));
    assert_eq!(listed["Plans"][0]["waitsForTrust"], true, "{listed}");
    assert_eq!(session.process.end().code(), Some(0));
    let listed = plan(workspace, &["list"]);
    assert!(listed.out.contains("untrusted"), "{listed:?}");
    other(workspace);
    let ran = plan(workspace, &["run", "other.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(names_of_all(workspace), ["Other", "running", "waiting"]);
    let up = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    let ready = up.json();
    let address = ready["http"].as_str().unwrap();
    let address = address.strip_prefix("http://").unwrap();
    let waits = "plans wait for `orchestra plan trust`";
    until(|| {
        let health = get(address, "/health").json();
        let mut parts = health["parts"].as_array().into_iter().flatten();
        parts.any(|part| part["reason"] == waits).then_some(())
    });
    drop(up);
    planted.nothing_started();
    // A repository that contains them stays unmodified.
    assert_eq!(files(&former), before);

    let denied = plan(workspace, &["trust"]);
    assert_ne!(denied.code, Some(0), "{denied:?}");
    // It is not in question.
    assert!(!denied.err.contains("Other ("), "{denied:?}");
    // The runner of `up` ends after it.
    let accepted = until(|| {
        let accepted = plan(workspace, &["trust", "--yes"]);
        (!accepted.err.contains("runs the plans")).then_some(accepted)
    });
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    for part in ["running (", "2 plans were moved from the working tree"] {
        assert!(accepted.out.contains(part), "{accepted:?}");
    }
    is_retired(workspace);
    assert_eq!(names_of_all(workspace), ["Other", "running", "waiting"]);
    planted.nothing_started();
    for words in [["resume", "waiting"], ["watch", "waiting"]] {
        let done = plan(workspace, &words);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    assert_eq!(fs::read_to_string(&planted.running).unwrap(), "started\n");
}

#[test]
fn own_plans_in_the_working_tree_are_moved_once_and_paused() {
    let planted = planted(Workspace::plans);
    let (workspace, gate) = (&planted.origin, planted.origin.home().join("gate"));
    let (former, storage) = (workspace.join(FORMER), workspace.plans());
    fs::create_dir_all(former.parent().unwrap()).unwrap();
    fs::rename(&storage, &former).unwrap();
    // As a program leaves it that is killed before it has marked the database.
    let before = tempfile::tempdir().unwrap();
    plant(&former, before.path());
    other(workspace);
    let mut versions = Vec::new();
    for _ in 0..2 {
        let ran = plan(
            workspace,
            &["create", "other.yaml", "--key", "the-same-key-0001"],
        );
        assert_eq!(ran.code, Some(0), "{ran:?}");
        is_retired(workspace);
        assert_eq!(names_of_all(workspace), ["Other", "running", "waiting"]);
        let shown = plan(workspace, &["show", "running", "--json"]);
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        assert!(
            ["failed", "paused"]
                .iter()
                .any(|status| shown["status"] == *status),
            "{shown}"
        );
        versions.push(shown["stateVersion"].clone());
        let id = shown["planId"].as_str().unwrap();
        assert!(storage.join(id).join("plan.json").exists());
        assert!(!former.join(id).exists());
        fs::remove_dir_all(&former).unwrap();
        plant(before.path(), &former);
    }
    assert_eq!(versions[0], versions[1]);
    assert!(gate.exists());
    planted.nothing_started();
}

#[test]
fn plan_that_cannot_be_read_is_named_and_moved_with_the_others() {
    let workspace = Workspace::git();
    other(&workspace);
    for name in ["Newer", "Older"] {
        let created = plan(&workspace, &["create", "other.yaml", "--name", name]);
        assert_eq!(created.code, Some(0), "{created:?}");
    }
    let shown = plan(&workspace, &["show", "Newer", "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    let id = shown["planId"].as_str().unwrap();
    until_unheld(&workspace);
    // As a program of a newer version would.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let journal = Journal::open(&workspace.plans(), Options::default()).unwrap();
        let body = json!({"at": 1, "what": {"fromTheFuture": {}}});
        let append = Append {
            plan: PlanKey::parse(id).unwrap(),
            expected: shown["stateVersion"].as_u64().unwrap(),
            events: vec![Fresh::new(1, &body).unwrap()],
            once: None,
        };
        journal.append(append).await.unwrap();
        journal.close().await;
    });
    let (former, storage) = (workspace.join(FORMER), workspace.plans());
    fs::create_dir_all(former.parent().unwrap()).unwrap();
    fs::rename(&storage, &former).unwrap();
    let is_named = || {
        let listed = plan(&workspace, &["list", "--json"]);
        let listed: Value = serde_json::from_str(&listed.out).unwrap();
        assert_eq!(listed["unreadable"][0]["id"], id, "{listed}");
        assert_eq!(listed["unreadable"].as_array().unwrap().len(), 1);
        let told = workspace.run(["doctor"]);
        assert!(told.out.contains(id), "{told:?}");
    };
    is_named();
    assert_eq!(names_of_all(&workspace), ["Older"]);
    let created = plan(&workspace, &["create", "other.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    is_retired(&workspace);
    is_named();
    assert_eq!(names_of_all(&workspace), ["Older", "Other"]);
    assert!(storage.join(id).join("plan.json").exists());
}

#[test]
fn link_to_the_plans_of_another_workspace_is_not_followed() {
    let (origin, workspace) = (Workspace::git(), Workspace::git());
    for place in [&origin, &workspace] {
        other(place);
    }
    let created = plan(&origin, &["create", "other.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    // The same user, whose program lists the database.
    let run = |words: &[&str]| {
        let mut command = workspace.command(words);
        command.env("HOME", origin.home());
        said(command, "")
    };
    let link = workspace.join(FORMER);
    for (link, target) in [
        (link.clone(), origin.plans()),
        (
            link.parent().unwrap().to_owned(),
            origin.plans().parent().unwrap().to_owned(),
        ),
    ] {
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, &link).unwrap();
        let listed = run(&["plan", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed.out).unwrap();
        assert_eq!(listed["items"], json!([]), "{listed}");
        let resumed = run(&["plan", "resume", "Other"]);
        assert_ne!(resumed.code, Some(0), "{resumed:?}");
        assert!(origin.plans().join("plans.db").exists());
        assert_eq!(names_of_all(&origin), ["Other"]);
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(workspace.join(".orchestrator")).unwrap_or_default();
    }
}

#[test]
fn commands_that_look_create_nothing_and_start_no_runner() {
    let workspace = Workspace::git();
    for words in [
        &["plan", "list"][..],
        &["doctor"],
        &["tool", "call", "list_copilot_plans"],
        &["config", "show"],
    ] {
        workspace.run(words.iter().copied());
    }
    assert!(!workspace.join(".git/.orchestra").exists());
    let state = workspace.home().join(".local/state/orchestra");
    assert!(!state.join("workspaces").exists());

    let (marker, gate) = (
        workspace.home().join("marker"),
        workspace.home().join("gate"),
    );
    workspace.write("left.yaml", &marks("left", &marker, &gate));
    let mut run = Running::start(workspace.command(["plan", "run", "left.yaml", "--json"]));
    until(|| marker.exists().then_some(()));
    run.kill();
    let said = workspace.home().join("said");
    let stderr = fs::File::create(&said).unwrap();
    let command = workspace.command(["plan", "watch", "left", "--json"]);
    let mut watch = Running::with_stderr(command, stderr);
    let reports = || fs::read_to_string(&said).is_ok_and(|text| text.contains("no process runs"));
    until(|| reports().then_some(()));
    for words in [
        &["plan", "show", "left"][..],
        &["tool", "call", "get_copilot_plan_status", "planId=left"],
    ] {
        let said = workspace.run(words.iter().copied());
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    let told = workspace.run(["doctor"]);
    assert!(told.out.contains("no process runs these plans"), "{told:?}");
    // It shows what another process does.
    let fixed = workspace.run(["doctor", "--fix"]);
    assert_eq!(fixed.code, Some(0), "{fixed:?}");
    fs::write(&gate, "").unwrap();
    assert!(watch.wait().code().is_some());
}

#[test]
fn each_checkout_has_the_plans_that_were_created_in_it() {
    let workspace = Workspace::git();
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=n", "-c", "user.email=n@example.org"]);
        let status = command.args(words).current_dir(workspace.path()).status();
        assert!(status.unwrap().success(), "{words:?}");
    };
    git(&["commit", "--quiet", "--allow-empty", "--message", "one"]);
    let linked = workspace.home().join("linked");
    git(&["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    other(&workspace);
    let created = plan(&workspace, &["create", "other.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let in_linked = |words: &[&str]| {
        let mut command = workspace.command(words);
        command.current_dir(&linked);
        said(command, "")
    };
    let listed = in_linked(&["plan", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed["items"], json!([]), "{listed}");
    let other = &listed["elsewhere"][0];
    assert_eq!(other["checkout"], json!(workspace.path()), "{listed}");
    assert_eq!(other["items"][0]["name"], "Other", "{listed}");
    let refused = in_linked(&["plan", "resume", "Other"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let checkout = workspace.path().display().to_string();
    assert!(refused.err.contains(&checkout), "{refused:?}");
    let file = workspace.join("other.yaml");
    let created = in_linked(&["plan", "create", file.to_str().unwrap()]);
    assert_eq!(created.code, Some(0), "{created:?}");
    assert!(
        workspace
            .join(".git/worktrees/linked/.orchestra/_/plans/plans.db")
            .exists()
    );
    assert_eq!(names_of_all(&workspace), ["Other"]);
}

#[test]
fn repository_that_other_users_write_has_no_plans_unless_their_place_is_the_state_directory() {
    let workspace = Workspace::board();
    other(&workspace);
    let config = workspace.join(".git/config");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        format!("{text}[core]\n\tsharedRepository = group\n"),
    )
    .unwrap();
    for words in [&["create", "other.yaml"][..], &["list"]] {
        let refused = plan(&workspace, words);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        for part in ["core.sharedRepository", "place = \"state\""] {
            assert!(refused.err.contains(part), "{refused:?}");
        }
    }
    let told = workspace.run(["doctor"]);
    assert!(told.out.contains("core.sharedRepository"), "{told:?}");
    // A file of the workspace does not choose it.
    workspace.write("orchestra.toml", "place = \"state\"\n");
    let refused = plan(&workspace, &["create", "other.yaml"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains("place is ignored"), "{refused:?}");
    let own = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("orchestra.toml"), "place = \"state\"\n").unwrap();
    let created = plan(&workspace, &["create", "other.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    assert!(!workspace.join(".git/.orchestra").exists());
    let places = workspace.home().join(".local/state/orchestra/workspaces");
    assert_eq!(fs::read_dir(places).unwrap().count(), 1);
}

#[test]
fn plans_in_the_place_that_is_not_chosen_are_reported() {
    let workspace = Workspace::board();
    other(&workspace);
    let created = plan(&workspace, &["create", "other.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let listed = plan(&workspace, &["list"]);
    assert!(!listed.err.contains("not used"), "{listed:?}");
    let (in_git, own) = (
        workspace.plans(),
        workspace.home().join(".config/orchestra"),
    );
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("orchestra.toml"), "place = \"state\"\n").unwrap();
    let listed = plan(&workspace, &["list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let told = workspace.run(["doctor"]);
    let path = in_git.display().to_string();
    for part in [&*path, "place = \"repository\""] {
        assert!(listed.err.contains(part), "{listed:?}");
        assert!(told.out.contains(part), "{told:?}");
    }
}

#[test]
fn filter_in_a_configuration_that_other_users_may_write_is_not_run() {
    use std::os::unix::fs::PermissionsExt as _;

    let workspace = Workspace::git();
    other(&workspace);
    let marker = workspace.home().join("filtered");
    let config = workspace.join(".git/config");
    let text = fs::read_to_string(&config).unwrap();
    let filter = format!(
        "[filter \"x\"]\n\tclean = \"touch '{}'; cat\"\n",
        marker.display()
    );
    fs::write(&config, text + &filter).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o666)).unwrap();
    workspace.write(".gitattributes", "* filter=x\n");
    let refused = plan(&workspace, &["run", "other.yaml"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let step = format!("chmod go-w {}", config.display());
    assert!(refused.err.contains(&step), "{refused:?}");
    let told = workspace.run(["doctor"]);
    assert!(told.out.contains(&step), "{told:?}");
    assert!(!marker.exists());
}

#[test]
fn moved_workspace_continues_without_a_question() {
    let workspace = Workspace::git();
    let (marker, gate) = (workspace.home().join("marker"), workspace.home());
    workspace.write("moved.yaml", &marks("moved", &marker, &gate));
    let created = plan(&workspace, &["create", "moved.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let commands: Vec<Command> = ["resume", "watch"]
        .iter()
        .map(|word| workspace.command(["plan", word, "moved"]))
        .collect();
    let moved = workspace.home().join("moved to here");
    fs::rename(workspace.path(), &moved).unwrap();
    for mut command in commands {
        command.current_dir(&moved);
        let done = said(command, "");
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    assert_eq!(fs::read_to_string(&marker).unwrap(), "started\n");
}

#[test]
fn other_directory_at_the_path_of_a_workspace_does_not_inherit_its_plans() {
    let workspace = Workspace::git();
    let (marker, gate) = (workspace.home().join("marker"), workspace.home());
    let own = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("orchestra.toml"), "place = \"state\"\n").unwrap();
    workspace.write("one.yaml", &marks("one", &marker, &gate));
    let created = plan(&workspace, &["create", "one.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let places = workspace.home().join(".local/state/orchestra/workspaces");
    let place = fs::read_dir(places).unwrap().next().unwrap().unwrap();
    let lock = place.path().join("plans/.lock");
    until(|| (!orchestra_fs::is_locked(&lock).unwrap()).then_some(()));
    let (here, away) = (workspace.path(), workspace.home().join("moved away"));
    fs::rename(&here, &away).unwrap();
    let mut copy = Command::new("cp");
    let copied = copy.arg("-r").arg(&away).arg(&here).status();
    assert!(copied.unwrap().success());
    let refused = plan(&workspace, &["resume", "one"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let why = "were created for another directory";
    assert!(refused.err.contains(why), "{refused:?}");
    names_the_command(&refused);
    let doctor = workspace.run(["doctor"]);
    let said = format!("{doctor:?}");
    assert!(said.contains(why), "{said}");
    assert!(!marker.exists());
    let accepted = plan(&workspace, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    for word in ["resume", "watch"] {
        let done = plan(&workspace, &[word, "one"]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}

#[test]
fn damaged_list_of_databases_trusts_none_and_is_named() {
    let workspace = Workspace::git();
    let gate = workspace.home();
    workspace.write("one.yaml", &marks("one", &gate.join("marker"), &gate));
    let created = plan(&workspace, &["create", "one.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    let list = workspace.home().join(".local/state/orchestra/plans.json");
    fs::write(&list, "{").unwrap();
    let refused = plan(&workspace, &["resume", "one"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains("plans.json"), "{refused:?}");
    names_the_command(&refused);
    fs::remove_file(&list).unwrap();
    let accepted = plan(&workspace, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    for word in ["resume", "watch"] {
        let done = plan(&workspace, &[word, "one"]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}
