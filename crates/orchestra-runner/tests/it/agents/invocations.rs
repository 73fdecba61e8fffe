//! How each agent is called: its arguments word for word.

use std::path::Path;

use orchestra_runner::agents::{AgentError, Asked, Chosen, Invocation, Task, ready};
use serde_json::{Value, json};

use super::{Programs, work};

/// A program whose help names every option of every profile.
const ALL: &str = "echo '--model --resume --session --effort --reasoning-effort --config --add-dir --allow-url \
                   --include-directories --max-turns --no-ask-user --no-auto-update --stream --no-color --trust \
                   --skip-trust --auto resume'";

async fn chosen(agent: &str, help: &str) -> Chosen {
    let program = match agent {
        "cursor" => "cursor-agent",
        other => other,
    };
    let programs = Programs::new().with(program, help);
    programs.agents(&[]).choose(agent).await.unwrap()
}

fn task<'a>(session: Option<&'a str>, prompt: &'a str) -> Task<'a> {
    Task {
        worktree: Path::new("/w t"),
        prompt,
        session,
        new_session: "11111111-2222-4333-8444-555555555555",
        label: "job-1",
    }
}

async fn called(agent: &str, more: Value, session: Option<&str>) -> Vec<String> {
    let chosen = chosen(agent, ALL).await;
    let asked = Asked::of(
        &chosen.name,
        &chosen.profile,
        &chosen.able,
        &work(more),
        "Do it.",
    )
    .unwrap();
    let invocation = Invocation::new(&chosen, &asked, &task(session, "# Do; it $x")).unwrap();
    let arguments = invocation.arguments.iter();
    arguments
        .map(|argument| argument.to_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn each_agent_is_called_with_its_least() {
    let expected: [(&str, &[&str]); 8] = [
        (
            "copilot",
            &[
                "--prompt=# Do; it $x",
                "--allow-all-tools",
                "--no-ask-user",
                "--no-auto-update",
                "--stream=off",
                "--no-color",
                "--add-dir=/w t",
            ],
        ),
        (
            "claude",
            &[
                "--print",
                "--output-format",
                "stream-json",
                "--verbose",
                "--permission-mode",
                "acceptEdits",
                "--allowedTools",
                "Bash",
                "Edit",
                "Write",
                "Read",
                "Glob",
                "Grep",
            ],
        ),
        (
            "codex",
            &["exec", "--json", "--sandbox", "workspace-write", "-"],
        ),
        (
            "gemini",
            &[
                "--prompt=# Do; it $x",
                "--output-format",
                "stream-json",
                "--approval-mode",
                "yolo",
                "--skip-trust",
            ],
        ),
        (
            "cursor",
            &[
                "--print",
                "--force",
                "--trust",
                "--output-format",
                "stream-json",
                "# Do; it $x",
            ],
        ),
        ("opencode", &["run", "--format", "json", "--auto"]),
        (
            "goose",
            &[
                "run",
                "--instructions",
                "-",
                "--output-format",
                "stream-json",
                "--name",
                "11111111-2222-4333-8444-555555555555",
            ],
        ),
        (
            "aider",
            &[
                "--message-file",
                "/w t/.orchestrator/agent/job-1.md",
                "--yes-always",
                "--no-auto-commits",
                "--no-dirty-commits",
                "--no-gitignore",
                "--no-check-update",
                "--no-show-release-notes",
                "--no-suggest-shell-commands",
                "--no-pretty",
                "--no-stream",
                "--no-fancy-input",
                "--input-history-file=/w t/.orchestrator/agent/aider.input.history",
                "--chat-history-file=/w t/.orchestrator/agent/aider.chat.history.md",
            ],
        ),
    ];
    assert_eq!(expected.map(|(agent, _)| agent).len(), ready::ORDER.len());
    for (agent, arguments) in expected {
        assert_eq!(called(agent, json!({}), None).await, arguments, "{agent}");
    }
}

#[tokio::test]
async fn what_work_asks_for_is_passed_on() {
    let copilot = json!({
        "model": "a/b", "effort": "xhigh", "resumeSession": true,
        "allowedFolders": ["/usr", "/tmp"],
        "allowedUrls": ["example.com", "https://a.org/x"],
    });
    let told = called("copilot", copilot, Some("s-1")).await;
    assert_eq!(
        told[6..],
        [
            "--add-dir=/w t",
            "--add-dir=/usr",
            "--add-dir=/tmp",
            "--allow-url=example.com,https://a.org/x",
            "--model=a/b",
            "--effort=xhigh",
            "--resume=s-1"
        ]
    );
    let claude = json!({
        "model": "a/b", "effort": "low", "maxTurns": 7,
        "allowedFolders": ["/usr"],
        "allowedUrls": ["example.com", "https://a.org/"],
    });
    let told = called("claude", claude, Some("s-1")).await.join(" ");
    let first = "--model a/b --effort low --max-turns 7 --resume s-1 --add-dir /usr";
    assert!(told.contains(first), "{told}");
    let last = "--allowedTools WebFetch(domain:example.com) --allowedTools WebFetch(domain:a.org)";
    assert!(told.ends_with(last), "{told}");
    assert_eq!(
        called("codex", json!({"effort": "high"}), Some("s-1")).await[4..],
        [
            "--config",
            "model_reasoning_effort=high",
            "resume",
            "s-1",
            "-"
        ]
    );
    assert_eq!(
        called("goose", json!({}), Some("n")).await[5..],
        ["--resume", "--name", "n"]
    );
    assert_eq!(
        called("cursor", json!({}), Some("c")).await[5..],
        ["--resume=c", "# Do; it $x"]
    );
}

#[tokio::test]
async fn a_session_that_work_does_not_want_is_not_resumed() {
    let none = called("cursor", json!({"resumeSession": false}), Some("c")).await;
    assert!(
        !none.iter().any(|word| word.starts_with("--resume")),
        "{none:?}"
    );
}

#[tokio::test]
async fn options_that_the_installed_program_does_not_know_are_not_given() {
    let old = chosen("copilot", "echo --model --add-dir").await;
    let asked = Asked::default();
    let invocation = Invocation::new(&old, &asked, &task(Some("s"), "p")).unwrap();
    assert_eq!(
        invocation.shown()[1..],
        ["--prompt=p", "--allow-all-tools", "--add-dir=/w t"]
    );
    assert_eq!((invocation.session, invocation.resumes), (None, false));
    let low = work(json!({"effort": "low"}));
    let error = Asked::of(&old.name, &old.profile, &old.able, &low, "x").unwrap_err();
    assert_eq!(error.code(), "agent_effort_unsupported");
    assert!(error.to_string().contains("(--model --add-dir)"), "{error}");
}

#[tokio::test]
async fn long_prompts_go_through_a_file_and_stdin_takes_them_whole() {
    let worktree = tempfile::tempdir().unwrap();
    let prompt = "# Long\n".repeat(20_000);
    let mut task = task(None, &prompt);
    task.worktree = worktree.path();
    let copilot = chosen("copilot", ALL).await;
    let invocation = Invocation::new(&copilot, &Asked::default(), &task).unwrap();
    assert_eq!(
        invocation.arguments[0],
        "--prompt=Read the file .orchestrator/agent/job-1.md of this directory and do what it says, all of it."
    );
    invocation.write_files(worktree.path()).unwrap();
    let written =
        std::fs::read_to_string(worktree.path().join(".orchestrator/agent/job-1.md")).unwrap();
    assert_eq!(written, prompt);
    let claude = chosen("claude", ALL).await;
    let invocation = Invocation::new(&claude, &Asked::default(), &task).unwrap();
    assert_eq!(invocation.stdin.as_deref(), Some(prompt.as_str()));
    assert!(invocation.files.is_empty());
}

#[tokio::test]
async fn a_link_in_the_worktree_leads_no_prompt_out() {
    let (worktree, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), worktree.path().join(".orchestrator")).unwrap();
    let aider = chosen("aider", ALL).await;
    let mut task = task(None, "p");
    task.worktree = worktree.path();
    let invocation = Invocation::new(&aider, &Asked::default(), &task).unwrap();
    let error = invocation.write_files(worktree.path()).unwrap_err();
    assert_eq!(error.code(), "agent_write");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn secrets_are_named_and_masked_never_held() {
    let claude = chosen("claude", ALL).await;
    let invocation = Invocation::new(&claude, &Asked::default(), &task(None, "p")).unwrap();
    assert!(
        invocation
            .inherits
            .contains(&"ANTHROPIC_API_KEY".to_owned())
    );
    let mask = invocation.mask([
        ("ANTHROPIC_API_KEY", "secret-value"),
        ("ANTHROPIC_BASE_URL", "https://proxy"),
        ("OTHER_TOKEN", "other-value"),
        ("HOME", "/home/me"),
    ]);
    assert_eq!(
        mask.text("secret-value https://proxy other-value /home/me"),
        "*** https://proxy *** /home/me"
    );
    assert!(!format!("{invocation:?}").contains("secret-value"));
}

#[tokio::test]
async fn values_that_do_not_fit_are_refused() {
    let claude = chosen("claude", ALL).await;
    let call = |prompt: &str, session: Option<&str>, label: &str| {
        let mut task = task(session, prompt);
        task.label = label;
        let asked = Asked {
            resume: true,
            ..Asked::default()
        };
        Invocation::new(&claude, &asked, &task).map(|_| ())
    };
    for refused in [
        call("", None, "l"),
        call("p", Some("--dangerous"), "l"),
        call("p", None, "../l"),
        call("p", None, ""),
    ] {
        assert!(
            matches!(refused, Err(AgentError::Arguments { .. })),
            "{refused:?}"
        );
    }
    let urls = json!({
        "program": "claude",
        "arguments": [["--url={urls,}"], ["--", "{prompt}"]],
    });
    let programs = Programs::new().with("claude", ALL);
    let own = programs
        .agents(&[("own", urls)])
        .choose("own")
        .await
        .unwrap();
    let comma = work(json!({"allowedUrls": ["https://a.com/b,c"]}));
    let asked = Asked::of(&own.name, &own.profile, &own.able, &comma, "x").unwrap();
    let error = Invocation::new(&own, &asked, &task(None, "p")).unwrap_err();
    assert!(error.to_string().contains("contains a comma"), "{error}");
}
