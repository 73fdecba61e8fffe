//! Symbolic links in the places where files are created and locked: refused with a message that names the place, and
//! nothing is created or changed where they lead.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use serde_json::json;

use crate::{
    mcp_call,
    support::{Said, Workspace},
};

/// Content of the file that links lead to.
const CONTENT: &str = "content of another file";

/// A workspace with a link in one place, and the directory outside of it that the link leads into.
struct Planted {
    workspace: Workspace,
    outside: tempfile::TempDir,
    target: PathBuf,
}

impl Planted {
    /// Puts a link at a path below the workspace, or below the home where it begins with `~/`.
    fn at(workspace: Workspace, place: &str, leads_to_a_file: bool) -> Self {
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().join("target");
        if leads_to_a_file {
            fs::write(&target, CONTENT).unwrap();
        }
        let path = match place.strip_prefix("~/") {
            Some(place) => workspace.home().join(place),
            None => workspace.join(place),
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(fs::remove_file(&path));
        symlink(&target, path).unwrap();
        Self {
            workspace,
            outside,
            target,
        }
    }

    fn run(&self, command: &[&str]) -> Said {
        self.workspace.run(command.iter().copied())
    }

    /// Checks that what the link leads to is as it was.
    fn check(self, case: &str) {
        let entries = fs::read_dir(self.outside.path()).unwrap();
        let found: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        match fs::read_to_string(&self.target) {
            Ok(content) => assert_eq!((found.len(), &*content), (1, CONTENT), "{case}"),
            Err(_) => assert!(found.is_empty(), "{case}: {found:?}"),
        }
    }
}

/// Runs a command where a link is in its way, and checks that the refusal names the place.
fn refused(workspace: impl Fn() -> Workspace, place: &str, command: &[&str]) {
    for leads_to_a_file in [false, true] {
        let planted = Planted::at(workspace(), place, leads_to_a_file);
        let said = planted.run(command);
        let text = format!("{}{}", said.out, said.err);
        let name = place.rsplit('/').next().unwrap();
        assert_ne!(said.code, Some(0), "{place}: {said:?}");
        assert!(text.contains(name), "{place}: {said:?}");
        assert!(text.contains("symbolic link"), "{place}: {said:?}");
        planted.check(place);
    }
}

/// Runs a command that does without the file where a link is in its way.
fn unused(workspace: impl Fn() -> Workspace, place: &str, command: &[&str]) {
    for leads_to_a_file in [false, true] {
        let planted = Planted::at(workspace(), place, leads_to_a_file);
        planted.run(command);
        planted.check(place);
    }
}

fn with_server() -> Workspace {
    mcp_call::workspace(json!({"limits": {"dailyQuota": 2}}))
}

#[test]
fn links_in_the_place_of_locks_of_the_store_are_refused() {
    let command = ["tool", "call", "create_project", "name=A"];
    // Place of the board of earlier versions, which no file configures.
    for name in ["writer.lock", "files.lock", "keeper.lock"] {
        unused(
            Workspace::board,
            &format!(".projects/.store/{name}"),
            &command,
        );
    }
    let in_checkout = || Workspace::board().with_board_in_checkout();
    let modes: [(&str, &dyn Fn() -> Workspace); 2] = [
        (".git/.orchestra/_/board", &Workspace::board),
        (".projects/.store", &in_checkout),
    ];
    for (directory, workspace) in modes {
        refused(workspace, &format!("{directory}/writer.lock"), &command);
        for name in ["files.lock", "keeper.lock", "board.db", "board.db.new"] {
            unused(workspace, &format!("{directory}/{name}"), &command);
        }
    }
}

#[test]
fn links_in_the_run_directory_are_refused() {
    let run = ".git/.orchestra/_/run";
    let init_lock = format!("{run}/init.lock");
    for place in [&*init_lock, run, ".git/.orchestra/_", ".git/.orchestra"] {
        refused(Workspace::board, place, &["init"]);
    }
    for place in [
        ".git/.orchestra/_/plans",
        ".git/.orchestra/_",
        ".git/.orchestra",
    ] {
        for looks in [&["doctor"][..], &["plan", "list"]] {
            refused(Workspace::board, place, looks);
        }
    }
    let up = ["up", "--http", "127.0.0.1:0"];
    for name in ["up.lock", "endpoint.json"] {
        refused(Workspace::board, &format!("{run}/{name}"), &up);
    }
    unused(
        Workspace::board,
        &format!("{run}/audit.jsonl"),
        &["tool", "call", "list_projects"],
    );
}

#[test]
fn links_in_the_state_of_the_user_are_refused() {
    let decide = ["mcp", "disable", "shell"];
    refused(with_server, "~/.local/state/orchestra/mcp.lock", &decide);
    refused(with_server, "~/.local/state/orchestra/mcp.json", &decide);
    let remove = ["memory", "model", "remove", "none-such"];
    refused(
        Workspace::board,
        "~/.local/share/orchestra/models/.lock",
        &remove,
    );
}

#[test]
fn links_in_the_place_of_plans_are_refused() {
    let with_plan = || {
        let workspace = Workspace::git();
        let text = "name: One\njobs:\n- {producerId: one, task: One, work: 'true'}\n";
        workspace.write("plan.yaml", text);
        workspace
    };
    let create = ["plan", "create", "plan.yaml"];
    for place in [
        ".git/.orchestra",
        ".git/.orchestra/_",
        ".git/.orchestra/_/plans",
        ".git/.orchestra/_/plans/.lock",
    ] {
        refused(with_plan, place, &create);
    }
}

/// The names of these files are known only once they exist.
#[test]
fn links_in_the_place_of_files_of_a_server_change_nothing_elsewhere() {
    let workspace = with_server();
    let call = ["mcp", "call", "shell", "add.up", "a=1"];
    let said = workspace.run(call);
    assert_eq!(said.code, Some(0), "{said:?}");
    let state = workspace.home().join(".local/state/orchestra");
    let mut places = Vec::new();
    let mut directories = vec![state.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => directories.push(path),
                false => places.extend([
                    path.with_extension("new"),
                    path.with_extension("lock"),
                    path,
                ]),
            }
        }
    }
    assert!(
        places
            .iter()
            .any(|place| place.to_string_lossy().contains("/quota/")),
        "{places:?}"
    );
    for place in places {
        let place = place.strip_prefix(workspace.home()).unwrap();
        // The same paths: the names follow from them.
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().join("target");
        fs::write(&target, CONTENT).unwrap();
        for target in [&target, &outside.path().join("missing")] {
            let path = workspace.home().join(place);
            drop(fs::remove_file(&path));
            symlink(target, &path).unwrap();
            workspace.run(call);
            drop(fs::remove_file(path));
        }
        let found = fs::read_dir(outside.path()).unwrap().count();
        assert_eq!(found, 1, "{}", place.display());
        assert_eq!(
            fs::read_to_string(&target).unwrap(),
            CONTENT,
            "{}",
            place.display()
        );
    }
}

#[test]
fn text_of_the_target_of_a_linked_configuration_is_not_shown() {
    for text in [
        "correct-horse\n",
        "tools = \"correct-horse\n",
        "correct-horse = 1\n",
    ] {
        let planted = Planted::at(Workspace::board(), "orchestra.toml", true);
        fs::write(&planted.target, text).unwrap();
        for command in [&["doctor"][..], &["tool", "list"], &["stdio"]] {
            let said = planted.run(command);
            let all = format!("{}{}", said.out, said.err);
            assert!(!all.contains("correct-horse"), "{command:?}: {all}");
            assert!(
                all.contains("the target of this symbolic link"),
                "{command:?}: {all}"
            );
        }
    }
}

#[test]
fn client_file_of_the_workspace_that_is_a_link_is_refused() {
    let add = ["mcp", "add", "--scope", "workspace", "x", "--", "true"];
    refused(Workspace::board, ".mcp.json", &add);
    for place in [".mcp.json", ".vscode/mcp.json", ".claude"] {
        refused(Workspace::board, place, &["init"]);
    }
}

#[test]
fn client_file_of_the_home_that_is_a_link_is_replaced_behind_the_link() {
    let workspace = Workspace::board();
    let dotfiles = workspace.home().join("dotfiles");
    let link = workspace.home().join(".config/orchestra/mcp.json");
    fs::create_dir_all(&dotfiles).unwrap();
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    fs::write(dotfiles.join("mcp.json"), "{\"mcpServers\": {}}").unwrap();
    symlink("../../dotfiles/mcp.json", &link).unwrap();
    let said = workspace.run(["mcp", "add", "x", "--", "true"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(link.is_symlink());
    let text = fs::read_to_string(dotfiles.join("mcp.json")).unwrap();
    assert!(text.contains("\"x\""), "{text}");
    // Into the workspace, which others fill.
    fs::write(workspace.join("mcp.json"), "{}").unwrap();
    fs::remove_file(&link).unwrap();
    symlink(workspace.join("mcp.json"), &link).unwrap();
    let said = workspace.run(["mcp", "add", "y", "--", "true"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(
        said.err.contains("is a symbolic link into the workspace"),
        "{said:?}"
    );
    assert_eq!(workspace.read("mcp.json"), "{}");
}
