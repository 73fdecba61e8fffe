//! The commands that the papers name exist.

use std::process::Command;

use crate::tree;

/// Lines of README and docs that call `cargo xtask`.
#[test]
fn each_xtask_command_of_the_papers_exists() {
    let help = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    for file in tree::files()
        .iter()
        .filter(|file| file.path.ends_with(".md"))
    {
        for part in file.text.split("cargo xtask ").skip(1) {
            let name: String = part
                .chars()
                .take_while(|c| c.is_ascii_lowercase())
                .collect();
            let known = name.is_empty() || commands.contains(&name.as_str());
            assert!(known, "{}: no command `cargo xtask {name}`", file.path);
        }
    }
}
