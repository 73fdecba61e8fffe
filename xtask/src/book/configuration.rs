//! The page of all settings, from `orchestra config show`.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{
    GENERATED, closed,
    markdown::{block, cell, code},
    program::Program,
};

const INTRODUCTION: &str = "\
```sh
orchestra config show --origin
```

This command shows the settings in effect and their origin. Settings are read from `orchestra.toml` in
the workspace, then from `orchestra/orchestra.toml` in `$XDG_CONFIG_HOME` or `~/.config`. The
workspace's file has precedence, except for settings that it may not decide, because other people may
have written it; the meanings below name them. Flags, and the variables [below](#environment), have
precedence over both. An unknown key is an error that names its line.

Upstream servers, agents of plans and plugins are tables with names of their own:
[servers](../servers.md#keys), [agents](../plans.md#agentsname), [plugins](../servers.md#plugins).
";

/// Defaults that follow from the machine, and how.
const OF_THE_MACHINE: [(&str, &str); 4] = [
    (
        "plans.storage",
        "`.orchestra/KEY/plans` in the git directory of the checkout",
    ),
    ("plans.max_jobs", "twice the cores, 4 to 64"),
    ("plans.machine_jobs", "twice the cores, 4 to 64"),
    (
        "plans.memory_bytes",
        "three quarters of the memory of the machine or the container (Linux)",
    ),
];

/// Writes the page.
///
/// # Errors
/// When the program does not show its configuration.
pub(super) fn page(program: &Program) -> Result<String> {
    let shown = program.said(&["config", "show", "--json"])?;
    let rows: Vec<Value> = serde_json::from_str(&shown).context("the configuration")?;
    let workspace = program.workspace().to_string_lossy().into_owned();
    let mut page = format!("# Configuration\n\n{GENERATED}\n\n{INTRODUCTION}");
    let mut section = None;
    for row in &rows {
        let field = |name: &str| row[name].as_str().context("a field of a setting");
        let (whole, value) = (field("key")?, field("value")?);
        let (table, key) = whole.rsplit_once('.').unwrap_or(("", whole));
        if section != Some(table) {
            let title = match table {
                "" => "Top level".to_owned(),
                table => code(&format!("[{table}]")),
            };
            write!(
                page,
                "\n## {title}\n\n| key | default | meaning |\n|---|---|---|\n"
            )?;
            section = Some(table);
        }
        let known = OF_THE_MACHINE.iter().find(|(key, _)| *key == whole);
        let value = match known {
            Some((_, value)) => (*value).to_owned(),
            None => code(&value.replace(&workspace, "WORKSPACE")),
        };
        writeln!(
            page,
            "| {} | {value} | {} |",
            code(key),
            cell(field("meaning")?)
        )?;
    }
    let help = program.said(&["--help"])?;
    let variables = environment(&help).context("the environment in the program's help")?;
    write!(page, "\n## Environment\n\n{}", block("text", &variables))?;
    Ok(closed(&page))
}

/// The variables that the help of the program lists.
fn environment(help: &str) -> Option<String> {
    let (_, rest) = help.split_once("\nEnvironment:\n")?;
    let lines = rest.lines().take_while(|line| line.starts_with("  "));
    let lines: Vec<&str> = lines
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .collect();
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_ends_where_its_section_does() {
        let help =
            "Usage\n\nEnvironment:\n  HOME  where\n  PATH  what\n        else\n\nMore:\n  x\n";
        let expected = "HOME  where\nPATH  what\n      else";
        assert_eq!(environment(help).unwrap(), expected);
    }
}
