//! Tests of installing and taking out, on real directories.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

fn install(workspace: &TempDir) -> Vec<Step> {
    Installer::open(Root::new(workspace.path()), Effect::Apply)
        .unwrap()
        .install(&Client::ALL, Choices::default())
        .unwrap()
}

fn uninstall(workspace: &TempDir) -> Vec<Step> {
    Installer::open(Root::new(workspace.path()), Effect::Apply)
        .unwrap()
        .uninstall(&Client::ALL)
        .unwrap()
}

fn action(steps: &[Step], path: &str) -> Action {
    steps
        .iter()
        .find(|step| step.path == path)
        .unwrap_or_else(|| panic!("{path}: no step"))
        .action
}

fn snapshot(workspace: &TempDir) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![workspace.path().to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                files.insert(path.clone(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

fn put(workspace: &TempDir, path: &str, text: &str) {
    let path = workspace.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn get(workspace: &TempDir, path: &str) -> String {
    fs::read_to_string(workspace.path().join(path)).unwrap()
}

#[test]
fn twice_is_once_and_taking_out_leaves_nothing() {
    let workspace = tempfile::tempdir().unwrap();
    let first = install(&workspace);
    assert!(
        first.iter().all(|step| step.action == Action::Created),
        "{first:?}"
    );
    let files = snapshot(&workspace);
    let second = install(&workspace);
    assert!(
        second.iter().all(|step| step.action == Action::Unchanged),
        "{second:?}"
    );
    assert_eq!(snapshot(&workspace), files);
    assert_eq!(action(&first, manifest::PATH), Action::Created);
    let removed = uninstall(&workspace);
    assert_eq!(action(&removed, manifest::PATH), Action::Removed);
    assert_eq!(snapshot(&workspace), BTreeMap::new());
    assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 0);
}

#[test]
fn a_dry_run_tells_the_same_and_does_nothing() {
    let workspace = tempfile::tempdir().unwrap();
    let told = Installer::open(Root::new(workspace.path()), Effect::DryRun)
        .unwrap()
        .install(&Client::ALL, Choices::default());
    assert_eq!(snapshot(&workspace), BTreeMap::new());
    assert_eq!(told.unwrap(), install(&workspace));
}

#[test]
fn what_somebody_edited_stays_through_upgrade_and_removal() {
    let workspace = tempfile::tempdir().unwrap();
    put(&workspace, "CLAUDE.md", "mine\n");
    put(&workspace, ".claude/agents/planner.md", "my planner\n");
    let steps = install(&workspace);
    assert_eq!(action(&steps, "CLAUDE.md"), Action::Kept);
    assert_eq!(action(&steps, ".claude/agents/planner.md"), Action::Kept);
    put(
        &workspace,
        ".claude/skills/project-memory/SKILL.md",
        "edited\n",
    );
    let steps = install(&workspace);
    assert_eq!(
        action(&steps, ".claude/skills/project-memory/SKILL.md"),
        Action::Kept
    );
    uninstall(&workspace);
    assert_eq!(get(&workspace, "CLAUDE.md"), "mine\n");
    assert_eq!(get(&workspace, ".claude/agents/planner.md"), "my planner\n");
    assert_eq!(
        get(&workspace, ".claude/skills/project-memory/SKILL.md"),
        "edited\n"
    );
    assert!(!workspace.path().join("AGENTS.md").exists());
}

#[test]
fn an_older_version_that_nobody_edited_is_brought_up_to_date() {
    let workspace = tempfile::tempdir().unwrap();
    install(&workspace);
    let path = Path::new(".claude/agents/reviewer.md");
    let root = Root::new(workspace.path());
    let before = Manifest::read(&root).unwrap();
    let mut manifest = before.clone();
    manifest.add_file(path, "older\n");
    manifest.write(&root, &before).unwrap();
    root.write(path, "older\n", Access::Shared).unwrap();
    let steps = install(&workspace);
    assert_eq!(
        action(&steps, ".claude/agents/reviewer.md"),
        Action::Updated
    );
    assert!(get(&workspace, ".claude/agents/reviewer.md").contains("name: reviewer"));
}

#[test]
fn files_that_cannot_be_understood_are_left_alone_and_the_rest_is_done() {
    for text in [
        "{ not json",
        "null",
        "[]",
        "{\"mcpServers\": []}",
        "{\"mcpServers\": null}",
        "\"x\"",
    ] {
        let workspace = tempfile::tempdir().unwrap();
        put(&workspace, ".mcp.json", text);
        put(&workspace, ".claude/settings.json", "{\"hooks\": 3}");
        let steps = install(&workspace);
        assert_eq!(action(&steps, ".mcp.json"), Action::Refused, "{text}");
        assert_eq!(action(&steps, ".claude/settings.json"), Action::Refused);
        assert_eq!(action(&steps, ".cursor/mcp.json"), Action::Created);
        assert_eq!(get(&workspace, ".mcp.json"), text);
        assert!(
            steps
                .iter()
                .filter(|step| step.action == Action::Refused)
                .all(|step| step.reason.is_some())
        );
    }
}

#[test]
fn bytes_that_are_no_text_are_left_alone() {
    let workspace = tempfile::tempdir().unwrap();
    fs::write(workspace.path().join(".mcp.json"), [0xff, 0xfe, b'{', 0]).unwrap();
    assert_eq!(action(&install(&workspace), ".mcp.json"), Action::Refused);
    assert_eq!(
        fs::read(workspace.path().join(".mcp.json")).unwrap(),
        [0xff, 0xfe, b'{', 0]
    );
}

#[test]
fn http_entries_of_an_earlier_orchestrator_are_removed_with_a_backup() {
    let workspace = tempfile::tempdir().unwrap();
    let text = "{\n  \"mcpServers\": {\n    \"copilot-orchestrator\": {\n      \"type\": \"http\",\n      \
                \"url\": \"http://localhost:39219/mcp\"\n    }\n  }\n}\n";
    put(&workspace, ".vscode/mcp.json", text);
    put(
        &workspace,
        ".cursor/mcp.json",
        r#"{"mcpServers": {"mine": {"url": "http://127.0.0.1:39219/mcp"}, "other": {"url": "http://127.0.0.1:80/mcp"}}}"#,
    );
    let steps = install(&workspace);
    assert_eq!(action(&steps, ".vscode/mcp.json"), Action::Updated);
    assert_eq!(get(&workspace, ".vscode/mcp.json.bak"), text);
    let read = |path| serde_json::from_str::<Value>(&get(&workspace, path)).unwrap();
    let file = read(".vscode/mcp.json");
    assert!(file.get("mcpServers").is_none(), "{file}");
    assert_eq!(file["servers"].as_object().unwrap().len(), 1, "{file}");
    assert_eq!(file["servers"]["orchestra"]["type"], "stdio", "{file}");
    let servers = &read(".cursor/mcp.json")["mcpServers"];
    assert!(
        servers.get("mine").is_none() && servers["other"].is_object(),
        "{servers}"
    );
    let again = install(&workspace);
    assert_eq!(action(&again, ".vscode/mcp.json"), Action::Unchanged);
}

#[test]
fn the_earlier_entry_is_replaced_in_its_place_with_a_backup() {
    let workspace = tempfile::tempdir().unwrap();
    let text = "{\n  // servers\n  \"mcpServers\": {\n    \"orchestra-mcp\": {\"command\": \"orchestra-mcp\", \
                \"args\": [\"--workspace\", \"/old\"], \"env\": {\"NO_COLOR\": \"1\"}},\n    \"other\": {}\n  }\n}\n";
    put(&workspace, ".mcp.json", text);
    let steps = install(&workspace);
    assert_eq!(action(&steps, ".mcp.json"), Action::Updated);
    assert_eq!(get(&workspace, ".mcp.json.bak"), text);
    let after = get(&workspace, ".mcp.json");
    assert!(
        after.contains("// servers") && !after.contains("orchestra-mcp"),
        "{after}"
    );
    let value: Value =
        jsonc_parser::parse_to_serde_value(&after, &jsonc_parser::ParseOptions::default()).unwrap();
    let servers = value["mcpServers"].as_object().unwrap();
    assert_eq!(
        servers["orchestra"],
        json!({"command": "orchestra", "args": ["stdio"], "env": {"NO_COLOR": "1"}})
    );
    assert_eq!(servers.len(), 2);
    let again = install(&workspace);
    assert_eq!(get(&workspace, ".mcp.json"), after);
    assert!(
        !workspace.path().join(".mcp.json.bak.2").exists(),
        "{again:?}"
    );
}

#[test]
fn an_edited_entry_is_the_users() {
    let workspace = tempfile::tempdir().unwrap();
    install(&workspace);
    let edited = "{\"mcpServers\": {\"orchestra\": {\"command\": \"orchestra\", \"args\": [\"stdio\", \"--tools\", \"lean\"]}}}";
    put(&workspace, ".mcp.json", edited);
    assert_eq!(action(&install(&workspace), ".mcp.json"), Action::Kept);
    assert_eq!(action(&uninstall(&workspace), ".mcp.json"), Action::Kept);
    assert_eq!(get(&workspace, ".mcp.json"), edited);
}

#[test]
fn entries_hold_no_path_of_this_machine() {
    let workspace = tempfile::tempdir().unwrap();
    install(&workspace);
    let here = workspace.path().to_string_lossy().into_owned();
    for (path, text) in snapshot(&workspace) {
        assert!(!text.contains(&here), "{}", path.display());
    }
}

#[test]
fn one_client_goes_alone() {
    let workspace = tempfile::tempdir().unwrap();
    install(&workspace);
    Installer::open(Root::new(workspace.path()), Effect::Apply)
        .unwrap()
        .uninstall(&[Client::Cursor])
        .unwrap();
    assert!(!workspace.path().join(".cursor").exists());
    assert!(workspace.path().join(".mcp.json").exists());
    assert!(workspace.path().join("CLAUDE.md").exists());
}

#[test]
fn a_manifest_of_somebody_else_cannot_make_us_delete_files() {
    let workspace = tempfile::tempdir().unwrap();
    put(&workspace, "src/main.rs", "code\n");
    let root = Root::new(workspace.path());
    let mut manifest = Manifest::default();
    manifest.add_file(Path::new("src/main.rs"), "code\n");
    manifest.add_file(Path::new(".claude/skills/../../src/main.rs"), "code\n");
    manifest.write(&root, &Manifest::default()).unwrap();
    uninstall(&workspace);
    assert_eq!(get(&workspace, "src/main.rs"), "code\n");
}

#[cfg(unix)]
#[test]
fn the_hook_is_a_program_and_links_are_left_alone() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let outside = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    symlink(outside.path(), workspace.path().join(".cursor")).unwrap();
    put(&workspace, "AGENTS.md", "mine\n");
    symlink("AGENTS.md", workspace.path().join("CLAUDE.md")).unwrap();
    let steps = install(&workspace);
    assert_eq!(action(&steps, ".cursor/mcp.json"), Action::Refused);
    assert_eq!(action(&steps, "CLAUDE.md"), Action::Kept);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    let hook = workspace.path().join(".claude/hooks/orchestra-mcp-hook.sh");
    assert_eq!(
        fs::metadata(&hook).unwrap().permissions().mode() & 0o777,
        0o755
    );
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o644)).unwrap();
    install(&workspace);
    assert_eq!(
        fs::metadata(&hook).unwrap().permissions().mode() & 0o777,
        0o755
    );
}

fn choose(workspace: &TempDir, skills: Selection, agents: Selection) -> Vec<Step> {
    let choices = Choices {
        skills: Some(skills),
        agents: Some(agents),
    };
    Installer::open(Root::new(workspace.path()), Effect::Apply)
        .unwrap()
        .install(&Client::ALL, choices)
        .unwrap()
}

#[test]
fn every_choice_leads_to_the_same_files_from_every_other() {
    const ALL: [Selection; 3] = [Selection::None, Selection::Default, Selection::All];
    let fresh = |skills, agents| {
        let workspace = tempfile::tempdir().unwrap();
        choose(&workspace, skills, agents);
        let files = snapshot(&workspace).into_iter();
        let below = |path: PathBuf| path.strip_prefix(workspace.path()).unwrap().to_owned();
        files
            .map(|(path, text)| (below(path), text))
            .collect::<BTreeMap<_, _>>()
    };
    let workspace = tempfile::tempdir().unwrap();
    // Each follows each, its own repetition included.
    for (before, after) in ALL.iter().flat_map(|one| ALL.map(|other| (*one, other))) {
        choose(&workspace, before, after);
        choose(&workspace, after, before);
        let files = snapshot(&workspace).into_iter();
        let below = |path: PathBuf| path.strip_prefix(workspace.path()).unwrap().to_owned();
        let files: BTreeMap<_, _> = files.map(|(path, text)| (below(path), text)).collect();
        assert_eq!(files, fresh(after, before), "{before:?} {after:?}");
    }
    uninstall(&workspace);
    assert_eq!(snapshot(&workspace), BTreeMap::new());
}

#[test]
fn choice_is_recorded_only_where_it_is_not_the_default() {
    let workspace = tempfile::tempdir().unwrap();
    choose(&workspace, Selection::Default, Selection::Default);
    let recorded = || -> Value { serde_json::from_str(&get(&workspace, manifest::PATH)).unwrap() };
    assert_eq!(recorded().get("skills"), None);
    choose(&workspace, Selection::All, Selection::None);
    let manifest = recorded();
    assert_eq!(
        (&manifest["skills"], &manifest["agents"]),
        (&json!("all"), &json!("none"))
    );
    install(&workspace);
    assert_eq!(recorded(), manifest);
    uninstall(&workspace);
    install(&workspace);
    assert_eq!(recorded().get("skills"), None);
}
