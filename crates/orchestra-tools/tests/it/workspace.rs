//! Weaknesses around the workspace of a coding agent.

use std::fs;
use std::sync::Arc;

use orchestra_tools::Options;
use serde_json::json;

use crate::bench::Bench;
use crate::tour::TwoSkills;

#[tokio::test]
async fn w15_hook_payloads_are_masked_and_capped() {
    let bench = Bench::new();
    let data = json!({
        "tool_response": {"stdout": "what it printed"},
        "tool_input": {"new_string": "a line", "command": "DB_PASS=LEAK run https://x/cb?code=LEAK -d '{\"password\":\"LEAK\"}'", "headers": {"Authorization": "Bearer abcdef"}, "api_key": "sk-123", "content": "y".repeat(1_000_000)},
    });
    bench
        .ok(
            "receive_hook_event",
            json!({"event_type": "PreToolUse", "data": data}),
        )
        .await;
    let kept = bench.ok("get_hook_events", json!({})).await.to_string();
    for absent in ["abcdef", "sk-123", "LEAK", "a line", "what it printed"] {
        assert!(!kept.contains(absent), "{absent}: {kept:.600}");
    }
    assert!(kept.contains("(6 bytes of text)"), "{kept:.600}");
    assert!(kept.len() < 10_000, "{}", kept.len());
}

#[tokio::test]
async fn w44_an_empty_directory_does_not_block_a_project() {
    let bench = Bench::new();
    fs::create_dir_all(bench.directory.path().join(".projects/my-app")).unwrap();
    assert_eq!(
        bench.ok("create_project", json!({"name": "My App"})).await["slug"],
        "my-app"
    );
    bench
        .ok(
            "create_epic",
            json!({"project": "my-app", "title": "Works"}),
        )
        .await;
}

#[tokio::test]
async fn w45_skills_and_agents_are_described_by_their_front_matter() {
    let bench = Bench::new();
    let claude = bench.directory.path().join(".claude");
    for (name, text) in [
        (
            "board",
            "---\nname: board\ndescription: Works the board.\n---\n# Board\n",
        ),
        ("plain", "# Plain\n\nJust prose.\n"),
    ] {
        fs::create_dir_all(claude.join("skills").join(name)).unwrap();
        fs::write(claude.join("skills").join(name).join("SKILL.md"), text).unwrap();
    }
    fs::create_dir_all(claude.join("skills/empty")).unwrap();
    fs::create_dir_all(claude.join("agents")).unwrap();
    fs::write(
        claude.join("agents/planner.md"),
        "---\nname: planner\ndescription: >-\n  Plans\n  sprints\n---\n",
    )
    .unwrap();
    fs::write(claude.join("agents/notes.txt"), "not an agent").unwrap();
    let secret = bench.directory.path().join("secret");
    fs::write(&secret, "---\ndescription: top secret\n---\n").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&secret, claude.join("agents/link.md")).unwrap();
    let skills = bench.ok("list_skills", json!({})).await;
    assert_eq!(
        skills["items"],
        json!([{"name": "board", "description": "Works the board."}, {"name": "plain", "description": "Just prose."}])
    );
    let agents = bench.ok("list_agents", json!({})).await;
    assert_eq!(
        agents["items"],
        json!([{"name": "planner", "description": "Plans sprints"}])
    );
}

#[tokio::test]
async fn w46_only_what_is_named_is_installed_and_edits_are_kept() {
    let bench = Bench::with(Options {
        bundle: Arc::new(TwoSkills),
        ..Options::default()
    });
    let named = bench
        .ok("install_skills", json!({"names": ["board"]}))
        .await;
    assert_eq!(
        named,
        json!({"installed": 1, "files": ["board"], "available": ["board", "review"]})
    );
    let all = bench.ok("install_skills", json!({})).await;
    assert_eq!(
        (&all["installed"], &all["kept"]),
        (&json!(1), &json!(["review"]))
    );
    assert_eq!(
        bench
            .refused("install_agents", json!({"names": ["../../evil"]}))
            .await,
        "argument `names`: `../../evil` is not one of planner"
    );
}
