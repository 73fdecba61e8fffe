//! Files that decide what may run are on the disk when a command that writes them has ended: each is synced, and after
//! its rename its directory.

use std::{fs, path::Path};

use serde_json::json;

use crate::{
    mcp_call,
    support::{Workspace, program, said},
};

/// Runs a command below `strace`, and asserts that a file was synced, then renamed to its name, and then its directory
/// synced.
fn is_synced(workspace: &Workspace, words: &[&str], file: &Path) {
    let log = workspace.home().join("calls");
    let mut command = workspace.command_as(Path::new("sh"), ["-c", "exec strace \"$@\"", "sh"]);
    let calls = "trace=fsync,?rename,renameat,renameat2";
    command
        .args(["-f", "-y", "-s", "4096", "-e", calls, "-o"])
        .arg(&log);
    command.arg(program()).args(words);
    let ran = said(command, "");
    let calls = fs::read_to_string(&log).unwrap_or_default();
    if !calls.contains("exited with") {
        crate::skip::skip(&format!("this system traces no calls: {}", ran.err));
        return;
    }
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (directory, name) = (file.parent().unwrap(), file.file_name().unwrap());
    let name = name.to_str().unwrap();
    let lines: Vec<&str> = calls.lines().collect();
    // The quoted texts of a call are the source and the target.
    let source_of = |line: &&str| {
        let paths: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        let [source, target] = paths.as_slice() else {
            return None;
        };
        let is_target = line.contains("rename") && target.rsplit('/').next() == Some(name);
        is_target.then(|| source.rsplit('/').next().unwrap_or_default().to_owned())
    };
    let renamed = lines.iter().position(|line| source_of(line).is_some());
    let renamed = renamed.unwrap_or_else(|| panic!("{name} was not renamed: {calls}"));
    let source = source_of(&lines[renamed]).unwrap_or_default();
    let is_synced = |lines: &[&str], end: &str| {
        let mut syncs = lines.iter().filter(|line| line.contains("fsync("));
        syncs.any(|line| line.contains(end))
    };
    let temporary = format!("/{source}>");
    assert!(is_synced(&lines[..renamed], &temporary), "{name}: {calls}");
    let directory = format!("<{}>", directory.display());
    assert!(is_synced(&lines[renamed..], &directory), "{name}: {calls}");
}

#[test]
fn decisions_and_client_files_are_synced_with_their_directory() {
    let workspace = Workspace::board();
    let server = json!({"mcpServers": {"theirs": {"command": "true"}}});
    workspace.write(".mcp.json", &server.to_string());
    let home = workspace.home().canonicalize().unwrap();
    let approve = ["mcp", "approve", "theirs", "--yes"];
    is_synced(
        &workspace,
        &approve,
        &home.join(".local/state/orchestra/mcp.json"),
    );
    let add = ["mcp", "add", "mine", "--", "true"];
    is_synced(&workspace, &add, &home.join(".config/orchestra/mcp.json"));
    is_synced(
        &workspace,
        &["init", "--client", "claude"],
        &workspace.join(".mcp.json"),
    );
}

#[test]
fn pins_of_a_server_are_synced_with_their_directory() {
    let workspace = mcp_call::workspace(json!({}));
    let list = ["tool", "list"];
    let listed = workspace.run(list);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let home = workspace.home().canonicalize().unwrap();
    let mut pins = fs::read_dir(home.join(".local/state/orchestra/mcp/known")).unwrap();
    let is_file = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "json");
    let file = pins.find_map(|entry| Some(entry.unwrap().path()).filter(is_file));
    let file = file.unwrap();
    fs::remove_file(&file).unwrap();
    is_synced(&workspace, &list, &file);
}
