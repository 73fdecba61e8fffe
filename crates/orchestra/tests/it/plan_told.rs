//! What is said of plans that wait, that were made before, that failed of themselves or that leave something
//! behind, and that what is said to do about it does so.

use std::fs;

use serde_json::json;

use crate::{
    plans::{git, ok, plan, waits_for},
    support::{Running, Workspace, until},
};

const ONE: &str = "jobs:\n- {producerId: one, task: One, work: echo one > one.txt}\n";

#[test]
fn what_is_made_again_under_a_key_is_said_to_be_and_refused_where_it_is_something_else() {
    let workspace = Workspace::git();
    let text = format!("name: Keyed\ntargetBranch: keyed\nidempotencyKey: k\n{ONE}");
    workspace.write("keyed.yaml", &text);
    let ran = plan(&workspace, &["run", "keyed.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.err.contains("already created"), "{ran:?}");
    let again = plan(&workspace, &["run", "keyed.yaml"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(
        again.err.contains("was already created with this key"),
        "{again:?}"
    );
    // What the plan has become since is no difference.
    let other = plan(&workspace, &["run", "keyed.yaml", "--target", "elsewhere"]);
    assert_eq!(other.code, Some(3), "{other:?}");
    assert!(other.err.contains("targetBranch"), "{other:?}");
    let more = text.replace("echo one", "echo two")
        + "- {producerId: two, task: Two, work: echo two > two.txt}\n";
    workspace.write("keyed.yaml", &more);
    for command in ["run", "create"] {
        let other = plan(&workspace, &[command, "keyed.yaml"]);
        assert_eq!(other.code, Some(3), "{other:?}");
        for named in [
            "work of job `one`",
            "job `two` is new",
            "Nothing was created",
        ] {
            assert!(other.err.contains(named), "{other:?}");
        }
    }
    assert_eq!(ok(&workspace, &["list"])["total"], 1);
    assert_eq!(git(&workspace, &["show", "keyed:one.txt"]), "one\n");
}

#[test]
fn a_plan_that_waits_for_another_starts_by_itself_and_says_for_which() {
    let workspace = Workspace::git();
    let go = workspace.home().join("go");
    workspace.write("first.yaml", &waits_for("First", &go));
    let first = ok(&workspace, &["create", "first.yaml", "--start"]);
    let after = first["planId"].as_str().unwrap();
    let then = |name: &str| {
        let text = format!("name: {name}\ntargetBranch: {name}\nresumeAfterPlan: {after}\n{ONE}");
        let file = format!("{name}.yaml");
        workspace.write(&file, &text);
        file
    };
    let made = plan(&workspace, &["create", &then("Second")]);
    let expected = format!("starts when plan First ({after}) has succeeded");
    assert!(made.out.contains(&expected), "{made:?}");
    assert!(!made.out.contains("plan resume"), "{made:?}");
    let named = format!("after    plan First ({after}), which is running");
    until(|| {
        let shown = plan(&workspace, &["show", "Second"]);
        shown.out.contains(&named).then_some(())
    });
    // A person may have it start at once, and is told what that undoes.
    let resumed = plan(&workspace, &["resume", "Second"]);
    let expected = format!("does not wait any longer for plan First ({after})");
    assert!(resumed.out.contains(&expected), "{resumed:?}");
    // Who runs one waits for both.
    let mut run = Running::start(workspace.command(["plan", "run", &then("Third"), "--json"]));
    assert_eq!(run.json()["event"], "made");
    assert_eq!(run.json()["status"], "pending-start");
    fs::write(&go, "").unwrap();
    while run.json()["event"] != "ended" {}
    assert_eq!(run.wait().code(), Some(0));
    let time = |name, what: &str| ok(&workspace, &["show", name])[what].as_u64().unwrap();
    assert!(time("Third", "startedAt") >= time("First", "endedAt"));
}

#[test]
fn a_plan_that_waits_for_one_that_rests_is_left_with_words_that_say_so() {
    let workspace = Workspace::git();
    workspace.write("first.yaml", &format!("name: First\n{ONE}"));
    let first = ok(&workspace, &["create", "first.yaml"]);
    let after = first["planId"].as_str().unwrap();
    let text = format!("name: Second\nresumeAfterPlan: {after}\n{ONE}");
    workspace.write("second.yaml", &text);
    let ran = plan(&workspace, &["run", "second.yaml"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    let expected = format!("waits for plan First ({after}), which is pending-start");
    assert!(ran.out.contains(&expected), "{ran:?}");
}

#[test]
fn validate_looks_for_what_making_a_plan_looks_for() {
    let workspace = Workspace::git();
    let validate = |text: String| {
        workspace.write("v.yaml", &text);
        plan(&workspace, &["validate", "v.yaml"])
    };
    let wrong = validate(format!("name: V\nbaseBranch: nosuch\n{ONE}"));
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("`nosuch`"), "{wrong:?}");
    let id = "6c84fb90-12c4-41e1-840d-7b25c5ee775a";
    let wrong = validate(format!("name: V\nresumeAfterPlan: {id}\n{ONE}"));
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains(id), "{wrong:?}");
    let warned = validate(format!(
        "name: V\n{}",
        ONE.replace("task: One", "task: One, baseBranch: nosuch")
    ));
    assert_eq!(warned.code, Some(0), "{warned:?}");
    assert!(
        warned
            .out
            .contains("job `one`, baseBranch: there is no commit"),
        "{warned:?}"
    );
    assert!(!workspace.join(".orchestrator").exists());
    assert!(!workspace.join(".git/.orchestra").exists());
    // A byte order mark is no part of a text.
    let marked = validate(format!("\u{feff}name: V\n{ONE}"));
    assert_eq!(marked.code, Some(0), "{marked:?}");
    let json = json!({"name": "V", "jobs": [{"producerId": "one", "task": "1", "work": "true"}]});
    workspace.write("v.json", &format!("\u{feff}{json}"));
    let marked = plan(&workspace, &["validate", "v.json"]);
    assert_eq!(marked.code, Some(0), "{marked:?}");
}

#[test]
fn a_healer_that_there_is_not_is_told_before_it_is_needed_and_when() {
    let workspace = Workspace::git();
    let own = workspace.home().join(".config/orchestra");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("orchestra.toml"), "[plans]\nhealer = \"nobody\"\n").unwrap();
    workspace.write(
        "fails.yaml",
        "name: Fails\njobs:\n- {producerId: one, task: One, work: exit 3}\n\
         - {producerId: two, task: Two, work: exit 4}\n",
    );
    let expected = "there is no agent `nobody`";
    let validated = plan(&workspace, &["validate", "fails.yaml"]);
    assert_eq!(validated.code, Some(0), "{validated:?}");
    assert!(
        validated.out.contains("plans.healer") && validated.out.contains(expected),
        "{validated:?}"
    );
    let ran = plan(&workspace, &["run", "fails.yaml"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.err.contains("warning: plans.healer"), "{ran:?}");
    // Once for both jobs.
    assert_eq!(ran.out.matches("not healed: ").count(), 1, "{ran:?}");
    assert!(ran.out.contains(expected), "{ran:?}");
    let told = workspace.run(["doctor"]);
    assert_eq!(told.code, Some(4), "{told:?}");
    assert!(told.out.contains(expected), "{told:?}");
}

#[test]
fn a_check_of_the_whole_that_is_wrong_is_put_right_by_a_retry() {
    let workspace = Workspace::git();
    let text = format!("name: Checked\ntargetBranch: checked\nverifyRi: test -e nothere\n{ONE}");
    workspace.write("checked.yaml", &text);
    let ran = plan(&workspace, &["run", "checked.yaml"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    for hint in [
        "and check it again: `orchestra plan retry ",
        "or check something else instead of verifyRi: `orchestra plan retry ",
        " __snapshot-validation__ --work '…'`",
    ] {
        assert!(ran.out.contains(hint), "{hint}: {ran:?}");
    }
    let check = [
        "retry",
        "checked",
        "__snapshot-validation__",
        "--work",
        "test -e one.txt",
    ];
    let retried = plan(&workspace, &check);
    assert_eq!(retried.code, Some(0), "{retried:?}");
    let watched = plan(&workspace, &["watch", "checked"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(git(&workspace, &["show", "checked:one.txt"]), "one\n");
    // It is the plan's from then on.
    let file = workspace.plans();
    let id = ok(&workspace, &["show", "checked"])["planId"].clone();
    let shown = fs::read_to_string(file.join(id.as_str().unwrap()).join("plan.json")).unwrap();
    assert!(!shown.contains("nothere"), "{shown}");
}

#[test]
fn the_command_that_is_told_to_raise_a_budget_raises_it() {
    let workspace = Workspace::git();
    let go = workspace.home().join("go");
    for (name, budget, tool) in [
        (
            "whole",
            "budget: {wallMs: 700}\njobs:",
            "update_copilot_plan ",
        ),
        (
            "part",
            "jobs:\n- {producerId: more, task: More, work: echo more > more.txt}",
            "update_copilot_plan_job ",
        ),
    ] {
        let mut text = waits_for(name, &go).replace("jobs:", budget);
        if name == "part" {
            text.push_str("  budget: {wallMs: 700, tokens: 9}\n");
        }
        workspace.write("bound.yaml", &text);
        let ran = plan(&workspace, &["run", "bound.yaml"]);
        assert_eq!(ran.code, Some(6), "{ran:?}");
        let refused = plan(&workspace, &["retry", name]);
        assert!(refused.err.contains("budget"), "{refused:?}");
        let told = ran.out.lines().find_map(|line| {
            let (_, told) = line.split_once("`orchestra tool ")?;
            Some(format!(
                "tool {}",
                told.split_once('`')?.0.replace('\'', "")
            ))
        });
        let told = told.unwrap_or_else(|| panic!("{ran:?}"));
        assert!(told.contains(tool), "{told}");
        let raised = workspace.run(told.split(' '));
        assert_eq!(raised.code, Some(0), "{told}: {raised:?}");
        let retried = plan(&workspace, &["retry", name]);
        assert_eq!(retried.code, Some(0), "{retried:?}");
        assert!(!retried.err.contains("budget"), "{retried:?}");
    }
}

#[test]
fn a_worktree_that_stays_after_its_plan_is_told_with_the_way_out() {
    let workspace = Workspace::git();
    workspace.write(
        "fails.yaml",
        "name: Fails\njobs:\n- {producerId: one, task: One, work: exit 3, autoHeal: false}\n",
    );
    let ran = plan(&workspace, &["run", "fails.yaml"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    let shown = ok(&workspace, &["show", "Fails", "one"]);
    let place = shown["state"]["worktreePath"]
        .as_str()
        .unwrap_or_else(|| panic!("{shown}"));
    fs::write(format!("{place}/notes.txt"), "mine\n").unwrap();
    let archived = plan(&workspace, &["archive", "Fails"]);
    assert_eq!(archived.code, Some(0), "{archived:?}");
    let way = format!("git worktree remove --force --force {place}");
    assert!(
        archived.err.contains("notes.txt") && archived.err.contains(&way),
        "{archived:?}"
    );
    let listed = plan(&workspace, &["list"]);
    assert!(!listed.err.contains("notes.txt"), "{listed:?}");
    let deleted = plan(&workspace, &["delete", "Fails"]);
    assert!(deleted.err.contains(&way), "{deleted:?}");
    let told = workspace.run(["doctor"]);
    assert_eq!(told.code, Some(4), "{told:?}");
    assert!(told.out.contains(&way), "{told:?}");
    git(
        &workspace,
        &["worktree", "remove", "--force", "--force", place],
    );
    let whole = workspace.run(["doctor"]);
    assert_eq!(whole.code, Some(0), "{whole:?}");
}
