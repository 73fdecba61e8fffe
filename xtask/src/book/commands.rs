//! The page of all commands: the help of each.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::{
    GENERATED, closed,
    markdown::{block, code},
    program::Program,
};

const INTRODUCTION: &str = "\
```sh
orchestra COMMAND --help
```

The output of `--help` for each command. `orchestra man` prints the same as manual pages, and
`orchestra completions SHELL` prints a completion script.
";

/// How deep commands in commands go.
const DEPTH: usize = 4;

/// Writes the page.
///
/// # Errors
/// When the program does not say its help.
pub(super) fn page(program: &Program) -> Result<String> {
    let mut page = format!("# Commands\n\n{GENERATED}\n\n{INTRODUCTION}");
    add(program, &[], &mut page)?;
    Ok(closed(&page))
}

fn add(program: &Program, words: &[&str], page: &mut String) -> Result<()> {
    ensure!(words.len() <= DEPTH, "commands in commands: {words:?}");
    let help = program.said(&[words, &["--help"]].concat())?;
    let name = [&["orchestra"], words].concat().join(" ");
    let mark = if words.len() < 2 { "##" } else { "###" };
    write!(page, "\n{mark} {}\n\n{}", code(&name), block("text", &help))?;
    for command in subcommands(&help) {
        add(program, &[words, &[command]].concat(), page)?;
    }
    Ok(())
}

/// The commands that a help lists, but for `help` itself.
fn subcommands(help: &str) -> Vec<&str> {
    let Some((_, rest)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let lines = rest.lines().take_while(|line| !line.is_empty());
    let named = lines.filter_map(|line| line.strip_prefix("  "));
    let named = named.filter(|line| !line.starts_with(' '));
    let names = named.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_a_help_are_found() {
        let help = "About\n\nUsage: x\n\nCommands:\n  one   First\n        goes on\n  two-b Second\n  \
                    help  This\n\nOptions:\n  -h  Help\n";
        assert_eq!(subcommands(help), ["one", "two-b"]);
        assert!(subcommands("About\n\nOptions:\n  -h  Help\n").is_empty());
    }
}
