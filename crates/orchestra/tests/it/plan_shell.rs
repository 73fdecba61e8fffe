//! Plans from the shell: what is said of them, how they are left, and how their jobs are mended.

use std::{fs, os::unix::process::CommandExt as _, process::Command, time::SystemTime};

use serde_json::json;

use crate::{
    plans::{git, ok, plan, waits_for},
    support::{Running, Workspace, said, until},
};

/// Returns whether SIGTERM was sent to a process that has not taken it yet.
fn is_term_pending(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let pending = lines.find_map(|line| line.strip_prefix("ShdPnd:"));
    let pending = u64::from_str_radix(pending.unwrap_or("0").trim(), 16).unwrap();
    pending & 1 << (rustix::process::Signal::TERM.as_raw() - 1) != 0
}

/// GNU timeout signals a program and its group, a wrapper passes on what the terminal has sent as well.
#[test]
fn a_signal_that_comes_twice_at_once_is_one_and_the_plan_goes_on() {
    for is_taken in [false, true] {
        for at_work in [false, true] {
            let name = format!("twice-{is_taken}-{at_work}");
            let workspace = Workspace::git();
            let go = workspace.home().join("go");
            workspace.write("plan.yaml", &waits_for(&name, &go));
            let mut run = workspace.command(["plan", "run", "plan.yaml", "--json"]);
            run.process_group(0);
            let mut run = Running::start(run);
            let made = run.json();
            assert_eq!(
                (&made["event"], &made["name"]),
                (&json!("made"), &json!(name))
            );
            let first = run.json();
            assert_eq!(first["event"], "plan", "{first}");
            while at_work && run.json()["phase"] != "work" {}
            let group = rustix::process::Pid::from_raw(run.id().cast_signed()).unwrap();
            run.signal(rustix::process::Signal::TERM);
            while is_taken && is_term_pending(run.id()) {
                std::thread::yield_now();
            }
            // It may have ended by then.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
            let left = until(|| {
                let line = run.json();
                (line["event"] == "left").then_some(line)
            });
            assert_eq!(left["goesOn"], true, "{name}: {left}");
            assert_eq!(run.wait().code(), Some(8), "{name}");
            // Nobody of ours looks at it: whoever runs it is there already.
            fs::write(&go, "").unwrap();
            let merged = format!("{name}:here.txt");
            until(|| {
                let mut show = Command::new("git");
                show.args(["show", &merged]).current_dir(workspace.path());
                let output = show.output().unwrap();
                (output.stdout == b"here\n").then_some(())
            });
        }
    }
}

#[test]
fn whoever_stops_reading_of_a_plan_is_not_told_that_it_succeeded() {
    let workspace = Workspace::git();
    let go = workspace.home().join("go");
    workspace.write("plan.yaml", &waits_for("unread", &go));
    let mut run = workspace.command(["plan", "run", "plan.yaml"]);
    let mut run = run
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // As `head -c 1` does.
    let mut byte = [0];
    let mut stdout = run.stdout.take().unwrap();
    std::io::Read::read_exact(&mut stdout, &mut byte).unwrap();
    drop(stdout);
    let status = until(|| run.try_wait().unwrap());
    assert_eq!(status.code(), Some(8));
    fs::write(&go, "").unwrap();
    let watched = plan(&workspace, &["watch", "unread"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
}

#[test]
fn a_name_of_several_plans_is_the_open_one_or_the_newest_and_what_was_done_before_is_told() {
    let workspace = Workspace::git();
    workspace.write(
        "same.yaml",
        "name: Same\ntargetBranch: same\njobs:\n\
         - {producerId: one, task: One, work: echo one > one.txt, autoHeal: false}\n",
    );
    let run = |code| {
        let ran = plan(&workspace, &["run", "same.yaml"]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        ran
    };
    let first = run(0);
    assert!(!first.err.contains("starts from it"), "{first:?}");
    assert!(first.err.contains(" at once: "), "{first:?}");
    let second = run(6);
    assert!(
        second.err.contains("same has the result of plan Same"),
        "{second:?}"
    );
    assert!(second.err.contains("expectsNoChanges"), "{second:?}");
    assert!(second.out.contains("plan retry"), "{second:?}");
    // The job that validates and merges the result counts for the share of those that succeeded.
    let listed = plan(&workspace, &["list"]).out;
    let rows = listed.lines().skip(1).map(|row| {
        let cells: Vec<&str> = row.split_whitespace().collect();
        cells[1..4].join(" ")
    });
    let rows: Vec<String> = rows.collect();
    assert_eq!(rows, ["succeeded 100% 1", "failed 0% 1"], "{listed}");
    let newest = |words: &[&str]| {
        let said = plan(&workspace, words);
        assert_eq!(said.code, Some(0), "{said:?}");
        said
    };
    let shown = newest(&["show", "same"]);
    assert!(shown.err.contains("using the newest one"), "{shown:?}");
    assert!(shown.out.contains("failed"), "{shown:?}");
    assert!(
        shown.out.contains("base     same, which was there"),
        "{shown:?}"
    );
    // A branch that was deleted has no result.
    git(&workspace, &["branch", "-D", "same"]);
    let third = run(0);
    assert!(!third.err.contains("starts from it"), "{third:?}");
    // Another that is open is meant before those that have ended.
    ok(&workspace, &["create", "same.yaml"]);
    let shown = newest(&["show", "Same"]);
    assert!(shown.err.contains("using the open one"), "{shown:?}");
    assert!(shown.out.contains("pending-start"), "{shown:?}");
    let by_default = "4 at once: maxParallel of the plan, 4 by default";
    assert!(shown.out.contains(by_default), "{shown:?}");
    // What cannot be undone is asked for by an id, and of two that are open none is taken.
    let deleted = plan(&workspace, &["delete", "same"]);
    assert_eq!(deleted.code, Some(3), "{deleted:?}");
    ok(&workspace, &["create", "same.yaml"]);
    let shown = plan(&workspace, &["show", "same"]);
    assert_eq!(shown.code, Some(3), "{shown:?}");
    assert!(shown.err.contains("several plans"), "{shown:?}");
}

#[test]
fn how_many_jobs_run_at_once_is_said_with_what_bounds_it() {
    let workspace = Workspace::git();
    let write = |own: u32| {
        let text = format!(
            "name: Many\nmaxParallel: {own}\njobs:\n- {{producerId: one, task: One, work: make}}\n"
        );
        workspace.write("many.yaml", &text);
    };
    let bound = || ok(&workspace, &["validate", "many.yaml"])["bound"].clone();
    workspace.write("orchestra.toml", "[plans]\nmax_jobs = 3\n");
    write(2);
    assert_eq!(bound(), "2 at once: maxParallel of the plan");
    write(20);
    let all = "3 at once: plans.max_jobs of orchestra.toml, for all plans of the workspace";
    assert_eq!(bound(), all);
    let said = plan(&workspace, &["validate", "many.yaml"]);
    assert!(said.out.contains(all), "{said:?}");
}

#[test]
fn what_agents_used_is_shown_where_it_is_known() {
    let workspace = Workspace::git();
    let script = json!({"steps": [{"do": [
        {"usage": {"input": 100, "output": 50, "cost_usd": 0.12}},
        {"write": {"path": "one.txt", "text": "1\n"}},
        "complete",
    ]}]});
    workspace.write("script.json", &script.to_string());
    workspace.write(
        "agent.yaml",
        "name: Agent\ntargetBranch: agent\njobs:\n- producerId: one\n  task: One\n  work:\n    \
         type: agent\n    agent: scripted\n    instructions: Do it\n",
    );
    let with_script = |words: &[&str]| {
        let mut command = workspace.command([&["plan"], words].concat());
        command.env("ORCHESTRA_AGENT_SCRIPT", workspace.join("script.json"));
        said(command, "")
    };
    let used = "150 tokens (100 in, 50 out), $0.12";
    let ran = with_script(&["run", "agent.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for said in [
        ran,
        plan(&workspace, &["show", "agent"]),
        plan(&workspace, &["show", "agent", "one"]),
    ] {
        assert!(said.out.contains(used), "{said:?}");
    }
    let listed = ok(&workspace, &["list"]);
    let usage = &listed["items"][0]["usage"];
    assert_eq!(
        (&usage["inputTokens"], &usage["costMicros"]),
        (&json!(100), &json!(120_000)),
        "{listed}"
    );
}

/// Milliseconds since the epoch.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(now.unwrap().as_millis()).unwrap()
}

#[test]
fn times_count_the_watching_and_the_work_without_the_rest_between_two_runs() {
    /// Shows in times that are rounded to a tenth of a second.
    const REST: u64 = 500;
    let workspace = Workspace::git();
    let there = workspace.home().join("there");
    let text = format!(
        "name: Again\ntargetBranch: again\njobs:\n- producerId: look\n  task: Look\n  \
         autoHeal: false\n  work: test -e '{}' && echo ok > ok.txt\n",
        there.display()
    );
    workspace.write("again.yaml", &text);
    let ran = plan(&workspace, &["run", "again.yaml"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    let ended = ok(&workspace, &["show", "again"])["endedAt"]
        .as_u64()
        .unwrap();
    until(|| (now() > ended + REST).then_some(()));
    let again = now();
    fs::write(&there, "").unwrap();
    let retried = plan(&workspace, &["retry", "again"]);
    assert_eq!(retried.code, Some(0), "{retried:?}");
    let watched = plan(&workspace, &["watch", "again"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    let result = ok(&workspace, &["show", "again"]);
    let time = |name: &str| result[name].as_u64().unwrap();
    let most = |millis: u64| millis as f64 / 1_000.0 + 0.1;
    let at_work = time("endedAt") - time("startedAt") - (again - ended);
    let seconds = |text: &str| text.trim_end_matches('s').parse::<f64>().unwrap();
    let (lines, last) = watched.out.trim_end().rsplit_once('\n').unwrap();
    for line in lines.lines() {
        let time = line.split_whitespace().next().unwrap();
        assert!(
            seconds(time) < most(result["endedAt"].as_u64().unwrap() - again),
            "{watched:?}"
        );
    }
    let (_, after) = last.split_once(" after ").unwrap();
    let (after, _) = after.split_once(':').unwrap();
    assert!(seconds(after) < most(at_work), "{watched:?}");
    // Whatever shows it says the same.
    let shown = plan(&workspace, &["show", "again"]);
    assert!(
        shown.out.contains(&format!("time     {after}\n")),
        "{shown:?} {after}"
    );
    let listed = plan(&workspace, &["list"]);
    assert!(
        listed.out.contains(&format!(" {after} ")),
        "{listed:?} {after}"
    );
}

#[test]
fn a_job_that_cannot_succeed_is_mended_from_the_shell() {
    let workspace = Workspace::git();
    workspace.write(
        "typo.yaml",
        "name: Typo\ntargetBranch: typo\njobs:\n- producerId: one\n  task: One\n  autoHeal: false\n  \
         work: ehco one > one.txt\n  postchecks: grep -q two one.txt\n",
    );
    let ran = plan(&workspace, &["run", "typo.yaml"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.out.contains("--work"), "{ran:?}");
    let unsaid = plan(&workspace, &["retry", "typo", "--work", "true"]);
    assert_eq!(unsaid.code, Some(2), "{unsaid:?}");
    let wrong = plan(
        &workspace,
        &["retry", "typo", "one", "--work", "{\"type\": \"magic\"}"],
    );
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("--work"), "{wrong:?}");
    let work = [
        "retry",
        "typo",
        "one",
        "--work",
        "echo one > one.txt",
        "--postchecks",
        "",
    ];
    let retried = plan(&workspace, &work);
    assert_eq!(retried.code, Some(0), "{retried:?}");
    let watched = plan(&workspace, &["watch", "typo"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(git(&workspace, &["show", "typo:one.txt"]), "one\n");
}

#[test]
fn a_circle_is_told_of_when_it_is_drawn() {
    let workspace = Workspace::git();
    workspace.write(
        "circle.yaml",
        "name: Circle\njobs:\n\
         - {producerId: one, task: One, work: make, dependencies: [two]}\n\
         - {producerId: two, task: Two, work: make, dependencies: [one]}\n",
    );
    let drawn = plan(&workspace, &["graph", "--file", "circle.yaml"]);
    assert_eq!(drawn.code, Some(2), "{drawn:?}");
    assert!(drawn.out.contains("one"), "{drawn:?}");
    assert!(drawn.err.contains("circle.yaml: "), "{drawn:?}");
    assert!(
        drawn.err.contains("one") && drawn.err.contains("two"),
        "{drawn:?}"
    );
}

#[test]
fn a_plan_is_copied_completed_and_run() {
    let workspace = Workspace::git();
    workspace.write(
        "first.yaml",
        "name: First\ntargetBranch: first\njobs:\n\
         - {producerId: one, task: One, work: echo one > one.txt}\n",
    );
    let ran = plan(&workspace, &["run", "first.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let made = plan(&workspace, &["clone", "first"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.out.contains("plan First (clone) ("), "{made:?}");
    assert!(made.out.contains("orchestra plan finalize"), "{made:?}");
    let words = [
        "clone", "first", "--name", "Second", "--target", "second", "--key", "k",
    ];
    let copy = ok(&workspace, &words);
    assert_eq!(copy["status"], "scaffolding", "{copy}");
    let again = ok(&workspace, &words);
    assert_eq!(
        (&again["planId"], &again["repeated"]),
        (&copy["planId"], &json!(true))
    );
    ok(&workspace, &["finalize", "second", "--start"]);
    let watched = plan(&workspace, &["watch", "second"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(git(&workspace, &["show", "second:one.txt"]), "one\n");
    let unknown = plan(&workspace, &["clone", "third"]);
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
    let wrong = plan(&workspace, &["clone", "first", "--target", "a..b"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("--target"), "{wrong:?}");
}

#[test]
fn a_job_that_rightly_changes_nothing_is_retried_as_such() {
    let workspace = Workspace::git();
    workspace.write(
        "idle.yaml",
        "name: Idle\ntargetBranch: idle\njobs:\n\
         - {producerId: one, task: One, work: 'true', autoHeal: false}\n",
    );
    let ran = plan(&workspace, &["run", "idle.yaml"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.out.contains("--expects-no-changes"), "{ran:?}");
    let unsaid = plan(&workspace, &["retry", "idle", "--expects-no-changes"]);
    assert_eq!(unsaid.code, Some(2), "{unsaid:?}");
    let words = ["retry", "idle", "one", "--expects-no-changes"];
    let retried = plan(&workspace, &words);
    assert_eq!(retried.code, Some(0), "{retried:?}");
    let watched = plan(&workspace, &["watch", "idle"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
}

#[test]
fn the_last_line_of_a_watched_plan_is_how_it_stands() {
    let workspace = Workspace::git();
    workspace.write(
        "two.yaml",
        "name: Two\ntargetBranch: two\njobs:\n\
         - {producerId: one, task: One, work: echo one > one.txt}\n\
         - {producerId: two, task: Two, work: echo two > two.txt, dependencies: [one]}\n",
    );
    ok(&workspace, &["create", "two.yaml"]);
    let last = |words: &[&str], code| {
        let said = plan(&workspace, words);
        assert_eq!(said.code, Some(code), "{said:?}");
        let last = said.out.lines().last().unwrap();
        serde_json::from_str::<serde_json::Value>(last).unwrap()
    };
    let rests = last(&["watch", "two", "--json"], 8);
    assert_eq!(
        (&rests["event"], &rests["plan"]["status"]),
        (&json!("rests"), &json!("pending-start"))
    );
    // What its jobs wait for is told as `show` tells it.
    assert_eq!(rests["plan"], ok(&workspace, &["show", "two"]));
    ok(&workspace, &["resume", "two"]);
    let ended = last(&["watch", "two", "--json"], 0);
    assert_eq!(
        (&ended["event"], &ended["plan"]["status"]),
        (&json!("ended"), &json!("succeeded"))
    );
}

#[test]
fn a_plan_is_read_from_stdin_in_any_language() {
    let workspace = Workspace::git();
    let yaml = "name: Piped\njobs:\n- {producerId: one, task: One, work: make}\n";
    let toml = "name = 'Piped'\n[[jobs]]\nproducerId = 'one'\ntask = 'One'\nwork = 'make'\n";
    let toon = "name: Piped\njobs[1]{producerId,task,work}:\n  one,One,make\n";
    let json = "\n{\"name\": \"Piped\", \"jobs\": [{\"producerId\": \"one\", \"task\": \"One\", \
                \"work\": \"make\"}]}";
    let validate = |text: &str, more: &[&str]| {
        let words = [&["plan", "validate", "-", "--json"], more].concat();
        workspace.run_with_input(words, text)
    };
    for (text, more) in [
        (yaml, &[][..]),
        (toml, &[]),
        (json, &[]),
        (toon, &["--format", "toon"]),
        (yaml, &["--format", "yaml"]),
    ] {
        let said = validate(text, more);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.contains("\"Piped\""), "{said:?}");
    }
    let said = validate(yaml, &["--format", "json"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("stdin: "), "{said:?}");
    // A file may be called as it likes where its language is said.
    workspace.write("plan.txt", yaml);
    let words = ["validate", "plan.txt", "--format", "yaml"];
    assert_eq!(plan(&workspace, &words).code, Some(0));
    // And there is an end to what is read.
    let long = format!("{yaml}#{}", "x".repeat(16 * 1024 * 1024 - yaml.len()));
    let said = validate(&long, &[]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("larger than"), "{said:?}");
}

#[test]
fn invisible_characters_of_names_are_escaped_in_each_drawing() {
    let workspace = Workspace::git();
    workspace.write(
        "plan.yaml",
        "name: \"pay\\u200bload\\u3164\"\njobs:\n\
         - {producerId: one, name: \"bu\\u200bild\\u2800\", group: \"g\\u3164\", task: One, work: make}\n",
    );
    let is_seen = |text: &str| !text.contains(['\u{200b}', '\u{2800}', '\u{3164}']);
    for format in ["terminal", "mermaid", "dot", "svg"] {
        let words = ["graph", "--file", "plan.yaml", "--format", format];
        let drawn = plan(&workspace, &words);
        assert_eq!(drawn.code, Some(0), "{drawn:?}");
        assert!(is_seen(&drawn.out), "{drawn:?}");
    }
    let created = ok(&workspace, &["create", "plan.yaml"]);
    let id = created["planId"].as_str().unwrap();
    let drawn = plan(&workspace, &["graph", id]);
    assert_eq!(drawn.code, Some(0), "{drawn:?}");
    assert!(is_seen(&drawn.out), "{drawn:?}");
    let escaped = r"pay\u{200b}load\u{3164}";
    assert!(drawn.out.contains(escaped), "{drawn:?}");
}
