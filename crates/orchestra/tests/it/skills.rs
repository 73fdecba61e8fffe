//! The skills that the program serves over stdio: its own and those of the workspace.

use std::fs;

use orchestra_hub::Sha256Digest;
use serde_json::{Value, json};

use crate::support::{Session, Workspace};

fn skills(session: &mut Session) -> Vec<Value> {
    let reply = session.request("skills/list", &json!({}));
    reply["result"]["skills"]
        .as_array()
        .unwrap_or_else(|| panic!("{reply}"))
        .clone()
}

fn names(skills: &[Value]) -> Vec<&str> {
    skills
        .iter()
        .map(|skill| skill["frontmatter"]["name"].as_str().unwrap())
        .collect()
}

/// Reads every file of a skill and compares it with what its entry says.
fn verify(session: &mut Session, skill: &Value) {
    for file in skill["resources"].as_array().unwrap() {
        let read = session.request("resources/read", &json!({"uri": file["uri"]}));
        let text = read["result"]["contents"][0]["text"].as_str();
        let bytes = text.unwrap_or_else(|| panic!("{read}")).as_bytes();
        assert_eq!(file["size"], bytes.len(), "{file}");
        assert_eq!(
            file["digest"],
            Sha256Digest::of(bytes).to_string(),
            "{file}"
        );
    }
}

const BUNDLED: [&str; 21] = [
    "backlog-structure",
    "board-import",
    "board-workflow",
    "bug-triage",
    "plan-changes",
    "plan-recovery",
    "plugin-setup",
    "prd-interview",
    "project-memory",
    "project-setup",
    "release-management",
    "retrospective",
    "running-plans",
    "sprint-planning",
    "task-claims",
    "task-documentation",
    "task-review",
    "task-testing",
    "upstream-servers",
    "usage-tracking",
    "writing-evidence",
];

/// Position of a skill that the tests edit.
const BOARD_WORKFLOW: usize = 2;

#[test]
fn bundled_skills_are_served_also_where_nothing_is_installed() {
    let workspace = Workspace::git();
    let mut session = Session::start(workspace.command(["stdio"]));
    let served = skills(&mut session);
    assert_eq!(names(&served), BUNDLED);
    for skill in &served {
        verify(&mut session, skill);
        let got = session.request("skills/get", &json!({"uri": skill["uri"]}));
        assert_eq!(got["result"]["skill"], *skill);
    }
    let listed = session.request("resources/list", &json!({}));
    let listed = listed["result"]["resources"].as_array().unwrap();
    let entry = listed
        .iter()
        .find(|resource| resource["uri"] == "skill://board-workflow/SKILL.md")
        .unwrap();
    assert_eq!(entry["name"], "board-workflow");
    assert_eq!(entry["mimeType"], "text/markdown");
    assert_eq!(
        entry["description"],
        served[BOARD_WORKFLOW]["frontmatter"]["description"]
    );
}

#[test]
fn what_is_installed_is_the_same_skill_until_it_is_edited() {
    let workspace = Workspace::git();
    let mut session = Session::start(workspace.command(["stdio"]));
    let bundled = skills(&mut session);
    session.ok("install_skills", &json!({}));
    assert_eq!(skills(&mut session), bundled);
    let path = ".claude/skills/board-workflow/SKILL.md";
    workspace.write(path, &format!("{}\nOurs.\n", workspace.read(path)));
    let edited = skills(&mut session);
    assert_eq!(names(&edited), BUNDLED);
    for (place, (edited, bundled)) in edited.iter().zip(&bundled).enumerate() {
        assert_eq!(edited == bundled, place != BOARD_WORKFLOW, "{edited}");
    }
    verify(&mut session, &edited[BOARD_WORKFLOW]);
}

#[test]
fn skills_of_the_workspace_are_served_as_they_are_now() {
    let workspace = Workspace::git();
    let mut session = Session::start(workspace.command(["stdio"]));
    let front = "---\nname: release\ndescription: Make a release.\nmetadata:\n  owner: us\n---\n";
    workspace.write(".claude/skills/release/SKILL.md", front);
    workspace.write(".claude/skills/release/scripts/tag.sh", "git tag");
    workspace.write(".claude/skills/broken/SKILL.md", "no front matter");
    let uri = json!({"uri": "skill://release/SKILL.md"});
    // A URI is enough: the skill is new and was never listed.
    let read = session.request("resources/read", &uri);
    assert_eq!(read["result"]["contents"][0]["text"], front);
    let get =
        |session: &mut Session| session.request("skills/get", &uri)["result"]["skill"].clone();
    let skill = get(&mut session);
    assert_eq!(skill["frontmatter"]["metadata"], json!({"owner": "us"}));
    assert_eq!(skill["resources"].as_array().unwrap().len(), 2);
    verify(&mut session, &skill);
    assert!(!names(&skills(&mut session)).contains(&"broken"));
    let broken = json!({"uri": "skill://broken/SKILL.md"});
    let refused = session.request("skills/get", &broken);
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(
        why.starts_with("no skill is served at skill://broken/SKILL.md: "),
        "{why}"
    );
    assert!(why.contains("front matter"), "{why}");

    // Of the same length, in the same moment.
    workspace.write(".claude/skills/release/scripts/tag.sh", "git log");
    let changed = get(&mut session);
    assert_ne!(changed, skill);
    verify(&mut session, &changed);
    workspace.write(".claude/skills/release/notes.md", "new");
    let grown = get(&mut session);
    assert_eq!(grown["resources"].as_array().unwrap().len(), 3);
    let directory = json!({"uri": "skill://release"});
    let children = session.request("resources/directory/read", &directory);
    let children = children["result"]["resources"].as_array().unwrap().clone();
    let children: Vec<&Value> = children.iter().map(|child| &child["name"]).collect();
    assert_eq!(children, ["release", "notes.md", "scripts"]);

    fs::remove_dir_all(workspace.join(".claude/skills/release")).unwrap();
    let gone = session.request("skills/get", &uri);
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    assert_eq!(names(&skills(&mut session)), BUNDLED);
}

/// The client does not ask anything meanwhile.
#[test]
fn a_new_skill_is_told_by_itself() {
    let workspace = Workspace::git();
    let mut session = Session::start(workspace.command(["stdio"]));
    // Who has not said yet that it is there is told nothing, and has seen no list.
    session.request("ping", &json!({}));
    let front = "---\nname: release\ndescription: Make a release.\n---\n";
    workspace.write(".claude/skills/release/SKILL.md", front);
    while session.process.json()["method"] != "notifications/resources/list_changed" {}
    let listed = session.request("resources/list", &json!({}));
    let listed = listed["result"]["resources"].as_array().unwrap();
    let uri = "skill://release/SKILL.md";
    assert!(listed.iter().any(|resource| resource["uri"] == uri));

    session.request("resources/subscribe", &json!({"uri": uri}));
    workspace.write(
        ".claude/skills/release/SKILL.md",
        &format!("{front}More.\n"),
    );
    let updated = loop {
        let message = session.process.json();
        if message["method"] == "notifications/resources/updated" {
            break message;
        }
    };
    assert_eq!(updated["params"]["uri"], uri);
}
