//! Workspaces, configurations and client files of other users, and where the search for a workspace ends.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::support::{Said, Workspace, program, said};

/// A user without an account of its own in most systems' files.
const OTHER: u32 = 54_321;

/// The command in a directory, with nothing that names a workspace.
fn command_in(workspace: &Workspace, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = workspace.command(arguments);
    command
        .current_dir(directory)
        .env_remove("ORCHESTRATOR_WORKSPACE");
    command
}

/// The workspace that the program finds from a directory, or its refusal.
fn found_from(workspace: &Workspace, directory: &Path) -> Result<PathBuf, Said> {
    let shown = said(
        command_in(workspace, directory, &["config", "show", "--json"]),
        "",
    );
    if shown.code != Some(0) {
        return Err(shown);
    }
    let rows: Value = serde_json::from_str(&shown.out).unwrap();
    let mut rows = rows.as_array().unwrap().iter();
    let row = rows.find(|row| row["key"] == "workspace").unwrap();
    let value: Value = serde_json::from_str(row["value"].as_str().unwrap()).unwrap();
    Ok(value.as_str().unwrap().into())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives a path to another user; returns whether this user may do that.
fn give_away(path: &Path) -> bool {
    let given = chown(path, Some(OTHER), None);
    if let Err(error) = &given {
        crate::skip::skip(&format!("this user cannot give files away: {error}"));
    }
    given.is_ok()
}

/// Asserts that a command was refused in one sentence that names a path and a next step.
fn assert_refused(said: &Said, path: &Path, next_step: &str) {
    assert_eq!(said.code, Some(2), "{said:?}");
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    for part in [&*path.display().to_string(), "the owner is ", next_step] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
}

#[test]
fn workspace_of_another_user_is_refused_unless_listed_as_safe() {
    let workspace = Workspace::board();
    if !give_away(&workspace.path()) {
        return;
    }
    for arguments in [
        &["tool", "list"][..],
        &["stdio"],
        &["init"],
        &["config", "show"],
        &["mcp", "list", "--workspace", "."],
    ] {
        let refused = workspace.run(arguments);
        assert_refused(&refused, &workspace.path(), "safe_directories");
        assert!(refused.err.contains("54321"), "{}", refused.err);
    }
    let elsewhere = workspace.home().join("settings");
    let mut command = workspace.command(["config", "show"]);
    command.env("XDG_CONFIG_HOME", &elsewhere);
    let file = elsewhere.join("orchestra/orchestra.toml");
    let hint = format!("`safe_directories` of your own {}", file.display());
    assert_refused(&said(command, ""), &workspace.path(), &hint);
    let configuration = workspace.home().join(".config/orchestra/orchestra.toml");
    fs::create_dir_all(configuration.parent().unwrap()).unwrap();
    let path = workspace.path().display().to_string();
    for (listed, is_used) in [(path.as_str(), true), ("*", true), ("/elsewhere", false)] {
        fs::write(
            &configuration,
            format!("safe_directories = [\"{listed}\"]\n"),
        )
        .unwrap();
        let shown = workspace.run(["mcp", "list"]);
        assert_eq!(shown.code == Some(0), is_used, "{listed}: {shown:?}");
    }
}

#[test]
fn workspace_cannot_list_itself_as_safe() {
    let workspace = Workspace::board();
    workspace.write("orchestra.toml", "safe_directories = [\"*\"]\n");
    let refused = workspace.run(["config", "show"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.err.contains("safe_directories is only for"),
        "{}",
        refused.err
    );
}

#[test]
fn board_of_another_user_in_own_directory_is_refused() {
    let workspace = Workspace::board();
    let board = workspace.join(".projects");
    if give_away(&board) {
        assert_refused(&workspace.run(["tool", "list"]), &board, "safe_directories");
    }
}

#[test]
fn directory_that_other_users_can_write_is_refused_despite_sticky_bit() {
    let workspace = Workspace::new();
    let shared = workspace.path();
    fs::create_dir_all(shared.join("own")).unwrap();
    fs::create_dir(shared.join(".projects")).unwrap();
    let own = "; use a directory of your own, or name one with --workspace";
    for (mode, next_step) in [(0o1777, own), (0o777, "run `chmod go-w ")] {
        set_mode(&shared, mode);
        for directory in [shared.clone(), shared.join("own")] {
            let refused = found_from(&workspace, &directory).unwrap_err();
            assert_refused(&refused, &shared, next_step);
            assert_eq!(refused.err.contains("chmod"), mode == 0o777, "{refused:?}");
        }
    }
    set_mode(&shared, 0o755);
    let found = found_from(&workspace, &shared.join("own"));
    assert_eq!(found.unwrap(), shared);
}

#[test]
fn root_uses_workspaces_of_the_user_of_sudo() {
    let workspace = Workspace::board();
    if !give_away(&workspace.path()) {
        return;
    }
    for (uid, is_used) in [("54321", true), ("54322", false), ("", false)] {
        let mut command = workspace.command(["config", "show"]);
        command.env("SUDO_UID", uid);
        let shown = said(command, "");
        assert_eq!(shown.code == Some(0), is_used, "{uid}: {shown:?}");
    }
}

#[test]
fn search_ends_below_the_home_directory() {
    let workspace = Workspace::new();
    let home = workspace.home().canonicalize().unwrap();
    let below = home.join("some/project");
    fs::create_dir_all(&below).unwrap();
    fs::create_dir(home.join(".projects")).unwrap();
    fs::create_dir(home.join(".git")).unwrap();
    assert_eq!(found_from(&workspace, &below).unwrap(), below);
    assert_eq!(found_from(&workspace, &home).unwrap(), home);
}

#[test]
fn home_and_root_directory_get_no_board_and_no_client_files() {
    let workspace = Workspace::new();
    let home = workspace.home();
    let named = home.to_str().unwrap();
    let call = ["tool", "call", "create_project", "name=Orchestra"];
    for (arguments, directory) in [
        (&["init"][..], &home),
        (&["init", named], &workspace.path()),
        (&["init", "--dry-run", "/"], &workspace.path()),
        (&["stdio"], &home),
        (&call, &home),
    ] {
        let refused = said(command_in(&workspace, directory, arguments), "");
        assert_eq!(refused.code, Some(2), "{arguments:?}: {refused:?}");
        assert!(
            refused.err.contains("cannot create a board in ")
                || refused.err.contains("the owner is root"),
            "{}",
            refused.err
        );
    }
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    for arguments in [
        &["tool", "call", "list_projects"][..],
        &["doctor"],
        &["memory", "list"],
    ] {
        let refused = said(command_in(&workspace, &home, arguments), "");
        let hint = "Run `orchestra init` in the directory of a project";
        assert!(refused.err.contains(hint), "{arguments:?}: {refused:?}");
    }
    // What needs no board works there.
    assert_eq!(
        said(command_in(&workspace, &home, &["mcp", "list"]), "").code,
        Some(0)
    );
}

#[test]
fn search_ends_where_another_file_system_begins() {
    let workspace = Workspace::board();
    let inner = workspace.join("mounted");
    fs::create_dir(&inner).unwrap();
    let script = "mount -t tmpfs -o mode=755 none mounted && mkdir mounted/below && cd mounted/below \
                  && exec \"$0\" config show --json";
    let within = ["--user", "--map-root-user", "--mount", "sh", "-c"];
    let mut command = workspace.command_as(Path::new("unshare"), within);
    command.arg(script).arg(program());
    let shown = said(command, "");
    if shown.code == Some(1) || shown.code == Some(32) {
        crate::skip::skip(&format!("this system mounts nothing here: {}", shown.err));
        return;
    }
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let expected = inner.join("below").display().to_string();
    assert!(shown.out.contains(&expected), "{}", shown.out);
}

#[test]
fn configuration_that_other_users_can_write_is_refused() {
    let workspace = Workspace::board();
    workspace.write("orchestra.toml", "tools = \"lean\"\n");
    let path = workspace.join("orchestra.toml");
    set_mode(&path, 0o666);
    assert_refused(
        &workspace.run(["config", "show"]),
        &path,
        "run `chmod go-w ",
    );
    set_mode(&path, 0o644);
    assert_eq!(workspace.run(["config", "show"]).code, Some(0));
    if give_away(&path) {
        assert_refused(
            &workspace.run(["config", "show"]),
            &path,
            "safe_directories",
        );
    }
}

#[test]
fn client_files_that_other_users_can_write_name_no_server_and_are_not_changed() {
    let workspace = Workspace::board();
    let files = [
        (".mcp.json", "mcpServers"),
        (".vscode/mcp.json", "servers"),
        (".cursor/mcp.json", "mcpServers"),
        (".orchestra/mcp/more.json", "mcpServers"),
    ];
    for (path, key) in files {
        let text = format!("{{\"{key}\": {{\"planted\": {{\"command\": \"true\"}}}}}}");
        workspace.write(path, &text);
        set_mode(&workspace.join(path), 0o666);
    }
    let listed = workspace.run(["mcp", "list"]);
    assert!(!listed.out.contains("planted"), "{}", listed.out);
    for (path, _) in files {
        let path = workspace.join(path).display().to_string();
        let lines = listed.err.lines();
        let about = lines.filter(|line| line.contains(&path) && line.contains("chmod go-w"));
        assert_eq!(about.count(), 1, "{path}: {}", listed.err);
    }
    let set_up = workspace.run(["init"]);
    assert_eq!(set_up.code, Some(3), "{set_up:?}");
    for (path, _) in &files[..3] {
        assert!(
            set_up.out.contains(&format!("refused   {path}: ")),
            "{}",
            set_up.out
        );
        assert!(workspace.read(path).contains("planted"), "{path}");
    }
}
