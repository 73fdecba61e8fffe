//! The scripted agent, run as it is in a job.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use orchestra_runner::agents::{
    Asked, Exited, Invocation, Reader, Reading, Stream, Task, Verdict, read_evidence, verdict,
};
use serde_json::{Value, json};

use super::{Programs, work};

/// Runs it in a worktree and reads what it says.
async fn run(
    worktree: &Path,
    prompt: &str,
    more: Value,
    session: Option<&str>,
) -> (Output, Reading) {
    let chosen = Programs::new()
        .agents(&[])
        .choose("scripted")
        .await
        .unwrap();
    let asked = Asked::of(
        &chosen.name,
        &chosen.profile,
        &chosen.able,
        &work(more),
        prompt,
    )
    .unwrap();
    let task = Task {
        worktree,
        prompt,
        session,
        new_session: "n",
        label: "l",
    };
    let invocation = Invocation::new(&chosen, &asked, &task).unwrap();
    let mut child = Command::new(&invocation.program)
        .args(&invocation.arguments)
        .current_dir(worktree)
        .env_remove("ORCHESTRA_AGENT_SCRIPT")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = invocation.stdin.clone().unwrap();
    std::thread::spawn(move || std::io::Write::write_all(&mut input, text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let mut reader = Reader::new(&chosen.profile, invocation.session.as_deref());
    reader.feed(Stream::Out, &output.stdout);
    reader.feed(Stream::Error, &output.stderr);
    (output, reader.finish())
}

fn worktree(script: &Value) -> tempfile::TempDir {
    let worktree = tempfile::tempdir().unwrap();
    std::fs::write(
        worktree.path().join("agent-script.json"),
        script.to_string(),
    )
    .unwrap();
    worktree
}

#[tokio::test]
async fn it_fails_first_and_is_healed_by_what_it_is_told() {
    let script = json!({"steps": [
        {"when": {"prompt": "failed in its phase"}, "do": [
            {"replace": {"path": "a.txt", "from": "wrong", "to": "right"}}, "complete",
        ]},
        {"do": [
            {"print": "working"},
            {"write": {"path": "a.txt", "text": "wrong"}},
            {"append": {"path": "sub/b.txt", "text": "b"}},
            {"usage": {"input": 10, "output": 5, "cost_usd": 0.5, "premium": 1.5}},
            {"usage": {"input": 1}},
            "complete", "last",
        ]},
    ]});
    let worktree = worktree(&script);
    let read = |file: &str| std::fs::read_to_string(worktree.path().join(file)).unwrap();
    let (output, reading) = run(worktree.path(), "# Task", json!({}), None).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        (read("a.txt"), read("sub/b.txt")),
        ("wrong".to_owned(), "b".to_owned())
    );
    assert_eq!(reading.session.as_deref(), Some("scripted-1"));
    assert_eq!((reading.usage.tokens(), reading.usage.turns), (16, Some(2)));
    assert_eq!(
        (reading.usage.cost_micros, reading.usage.premium_milli),
        (Some(500_000), Some(1_500))
    );
    assert!(reading.complete && reading.last);
    let heal = "# A job failed\nIt failed in its phase `postchecks`.";
    let (_, reading) = run(worktree.path(), heal, json!({}), Some("scripted-1")).await;
    assert_eq!(read("a.txt"), "right");
    assert_eq!(reading.session.as_deref(), Some("scripted-1"));
}

#[tokio::test]
async fn all_that_it_is_asked_for_arrives() {
    let worktree = worktree(&json!({"steps": [{"do": []}]}));
    let more = json!({"model": "m", "effort": "high", "maxTurns": 4});
    let (output, _) = run(worktree.path(), "p", more, Some("s")).await;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        said,
        json!({
            "type": "session", "session": "s", "resumed": true, "run": 1,
            "model": "m", "effort": "high", "max_turns": "4",
        })
    );
}

#[tokio::test]
async fn it_ends_as_it_is_told_each_run_in_another_way() {
    let script = json!({"steps": [
        {"when": {"run": 1}, "do": [{"exit": 7}, {"print": "never"}]},
        {"when": {"run": 2}, "do": [{"signal": "kill"}]},
        {"when": {"run": 3}, "do": [{"fail": "HTTP 503"}, {"exit": 1}]},
        {"when": {"run": 4}, "do": [{"flood": 300_000}, {"print_error": "e"}]},
        {"when": {"run": 5}, "do": [{"evidence": {"job": "j", "summary": "All is well."}}, {"delete": "agent-script.json"}]},
    ]});
    let worktree = worktree(&script);
    let chosen = Programs::new()
        .agents(&[])
        .choose("scripted")
        .await
        .unwrap();
    let judged = |output: &Output, reading: &Reading| {
        use std::os::unix::process::ExitStatusExt;
        let exited = match output.status.signal() {
            Some(signal) => Exited::Signal(signal),
            None => Exited::Code(output.status.code().unwrap()),
        };
        verdict(
            &chosen.profile,
            exited,
            reading,
            std::time::Duration::ZERO,
            0,
        )
    };
    let mut verdicts = Vec::new();
    for _ in 0..6 {
        let (output, reading) = run(worktree.path(), "p", json!({}), None).await;
        assert!(!String::from_utf8_lossy(&output.stdout).contains("never"));
        verdicts.push((judged(&output, &reading), output.stdout.len()));
    }
    assert!(
        matches!(&verdicts[0].0, Verdict::Failed { why } if why == "the agent ended with code 7")
    );
    assert!(matches!(verdicts[1].0, Verdict::Crashed { .. }));
    assert!(matches!(verdicts[2].0, Verdict::Again { .. }));
    assert!(verdicts[3].0 == Verdict::Success && verdicts[3].1 > 300_000);
    assert_eq!(verdicts[4].0, Verdict::Success);
    let evidence = read_evidence(worktree.path(), "j").unwrap().unwrap();
    assert_eq!(evidence.summary, "All is well.");
    assert!(
        matches!(&verdicts[5].0, Verdict::Failed { why } if why.contains("no script was found"))
    );
}

#[tokio::test]
async fn a_script_may_stand_in_the_prompt_and_commit() {
    let worktree = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(worktree.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "--quiet"]);
    let script = json!({"steps": [{"do": [
        {"write": {"path": "a b/ü.txt", "text": "x"}}, {"commit": "made by a script"},
    ]}]});
    let prompt = format!("# Task\n\n```orchestra-script\n{script}\n```\n");
    let (output, _) = run(worktree.path(), &prompt, json!({}), None).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(git(&["log", "--format=%s"]), "made by a script\n");
    assert_eq!(
        git(&["ls-tree", "-r", "-z", "--name-only", "HEAD"]),
        "a b/ü.txt\0"
    );
}

#[tokio::test]
async fn it_does_not_leave_the_worktree() {
    let outside = tempfile::tempdir().unwrap();
    for path in [
        "../out.txt",
        "link/out.txt",
        ".git",
        "sub/.GIT/config",
        &outside.path().join("out.txt").display().to_string(),
    ] {
        let worktree =
            worktree(&json!({"steps": [{"do": [{"write": {"path": path, "text": "x"}}]}]}));
        std::os::unix::fs::symlink(outside.path(), worktree.path().join("link")).unwrap();
        let (output, reading) = run(worktree.path(), "p", json!({}), None).await;
        assert_eq!(output.status.code(), Some(64));
        assert!(reading.failed && reading.error.unwrap().starts_with("write failed"));
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}
