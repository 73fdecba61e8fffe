//! Wrong configuration, wrong files and limits of the system: errors, bounded in length.

use std::fs;

use crate::support::{Workspace, said};

#[test]
fn configuration_that_no_command_could_use_is_not_shown() {
    let workspace = Workspace::new();
    for (text, said_of) in [
        ("tools = \"nope\"", "unknown tool group nope"),
        (
            "http = \"0.0.0.0:99\"",
            "are not allowed in the file of a workspace",
        ),
        ("log = \"a=b=c\"", "log filter `a=b=c`"),
        ("log = \"loud\"", "(off, error, warn, info, debug or trace)"),
    ] {
        workspace.write("orchestra.toml", text);
        let said = workspace.run(["config", "show"]);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
        assert!(
            said.err.contains(said_of) && said.err.contains("orchestra.toml"),
            "{said:?}"
        );
    }
}

#[test]
fn a_log_filter_that_would_be_taken_for_something_else_is_refused() {
    let workspace = Workspace::new();
    let flag = workspace.run(["config", "show", "--log", "inof"]);
    assert_eq!((flag.code, flag.out.as_str()), (Some(2), ""), "{flag:?}");
    assert!(
        flag.err.contains("command line") && flag.err.contains("nor PART=LEVEL"),
        "{flag:?}"
    );
    // Others read the variable as well, so it may say what is nothing to us.
    let mut variable = workspace.command(["config", "show"]);
    variable.env("RUST_LOG", "inof");
    let variable = said(variable, "");
    assert_eq!(variable.code, Some(0), "{variable:?}");
    assert!(
        variable.err.contains("RUST_LOG is not used") && variable.err.contains("nor PART=LEVEL"),
        "{variable:?}"
    );
    for filter in ["info", "warn,orchestra_store=debug"] {
        let said = workspace.run(["config", "show", "--log", filter]);
        assert_eq!(said.code, Some(0), "{said:?}");
    }
}

/// Files of which one line holds everything, each wrong in another way.
#[test]
fn wrong_file_of_one_long_line_is_quoted_in_part() {
    const BOUND: usize = 4 * 1024 + 1024;
    let workspace = Workspace::board();
    let long = "a".repeat(200_000);
    for text in [
        format!("tools = \"{long}\" lean"),
        format!("tools = \"{long}\""),
        format!("format = \"{long}\""),
        format!("{long} = 1"),
        format!("log = \"{long}=x=y\""),
        long.clone(),
    ] {
        workspace.write("orchestra.toml", &text);
        for arguments in [&["config", "show"][..], &["tool", "list"], &["mcp", "list"]] {
            let said = workspace.run(arguments);
            assert_eq!(said.code, Some(2), "{:.30}: {:.2000}", text, said.err);
            assert!(
                said.err.len() <= BOUND,
                "{text:.30}: {} bytes",
                said.err.len()
            );
            assert!(
                said.err.contains("orchestra.toml"),
                "{text:.30}: {}",
                said.err
            );
        }
    }
    fs::remove_file(workspace.join("orchestra.toml")).unwrap();
    for text in [
        format!("{{\"mcpServers\": {{\"{long}\": {{\"comand\": 1}}}}}}"),
        format!("{{\"mcpServers\": {{\"a\": {{\"command\": \"{long}\""),
        format!(
            "{{\"mcpServers\": {{\"a\": {{\"command\": \"x\", \"{long}\": 1, \"timeout\": \"{long}\"}}}}}}"
        ),
        format!("{{\"{long}\": {{\"a\": {{\"command\": \"x\"}}}}}}"),
    ] {
        workspace.write(".mcp.json", &text);
        for arguments in [
            &["mcp", "list"][..],
            &["mcp", "validate", ".mcp.json"],
            &["init"],
            &["doctor"],
        ] {
            let said = workspace.run(arguments);
            let printed = said.err.len() + said.out.len();
            assert!(
                printed <= BOUND,
                "{arguments:?} {text:.40}: {printed} bytes"
            );
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn write_beyond_the_file_size_limit_is_an_error() {
    let workspace = Workspace::git();
    let script = "ulimit -f 1 && exec \"$0\" tool call create_project name=Large";
    let mut command = workspace.command_as(std::path::Path::new("sh"), ["-c", script]);
    command.arg(crate::support::program());
    let said = said(command, "");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.starts_with("error: "), "{said:?}");
}
