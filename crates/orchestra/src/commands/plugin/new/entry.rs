//! The place of a plugin in `orchestra.toml`: added at its end, so that every line stays as it was.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use orchestra_fs::Access;
use orchestra_gateway::config::{File, FileKind, ServerName, Source};

use super::name::Name;
use crate::{commands::mcp::Here, config::FILE, exit::Failure, files::Root, output};

/// A change of the configuration of a workspace that was found to be sound.
pub(super) struct Entry {
    root: Root,
    text: String,
}

impl Entry {
    /// What the configuration is with the plugin in it.
    ///
    /// # Errors
    /// When there is a server of that name, or the file is not understood; it is left alone then.
    pub(super) fn plan(
        here: &Here,
        name: &Name,
        program: &str,
        args: &[String],
    ) -> Result<Self, Failure> {
        let id = name.id();
        let by_name = ServerName::of_text(&id);
        let found = here.found();
        let there = found.server(&id).or_else(|| found.server(by_name.as_str()));
        if let Some(there) = there {
            let text = format!(
                "there is a plugin or server {id} already ({}); choose another name, or \
                 --no-config",
                there.origin
            );
            return Err(Failure::refused(output::printable(&text)));
        }
        let workspace = &here.places().workspace;
        let root = Root::new(workspace);
        let before = root.read(Path::new(FILE)).map_err(alone(workspace))?;
        let before = before.unwrap_or_default();
        let text = with(&before, &id, program, args);
        check(workspace, &before, &text, &id).map_err(alone(workspace))?;
        Ok(Self { root, text })
    }

    /// Where it is written.
    pub(super) fn path(&self) -> PathBuf {
        self.root.path().join(FILE)
    }

    pub(super) fn write(&self) -> Result<(), Failure> {
        let written = self.root.write(Path::new(FILE), &self.text, Access::Shared);
        written.map_err(alone(self.root.path()))
    }
}

fn alone<E: Into<anyhow::Error>>(workspace: &Path) -> impl Fn(E) -> Failure {
    let path = workspace.join(FILE);
    move |error| {
        let error: anyhow::Error = error.into();
        Failure::Refused(error.context(format!("{} was not changed", path.display())))
    }
}

/// The text with a plugin behind everything else.
fn with(before: &str, id: &str, program: &str, args: &[String]) -> String {
    let gap = match before {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let key = toml::Value::from(id);
    // A dollar that refers to nothing is written twice.
    let literal = |text: &str| toml::Value::from(text.replace('$', "$$"));
    let program = literal(program);
    let args = match args {
        [] => String::new(),
        args => {
            let args: Vec<toml::Value> = args.iter().map(|arg| literal(arg)).collect();
            format!("args = {}\n", toml::Value::from(args))
        }
    };
    format!("{before}{gap}[plugins.{key}]\nbinary = {program}\n{args}")
}

/// Whether nothing but the plugin differs, and it is one.
fn check(workspace: &Path, before: &str, after: &str, id: &str) -> anyhow::Result<()> {
    let mut old: toml::Table = before.parse().context("it is no TOML")?;
    let read: Result<toml::Table, _> = after.parse();
    let mut new = read.context("the plugin cannot be added after the existing content")?;
    let plugins = |table: &mut toml::Table| {
        let plugins = table.remove("plugins");
        plugins
            .and_then(|plugins| plugins.as_table().cloned())
            .unwrap_or_default()
    };
    let (old_plugins, mut new_plugins) = (plugins(&mut old), plugins(&mut new));
    anyhow::ensure!(
        new_plugins.remove(id).is_some() && new_plugins == old_plugins && new == old,
        "the plugin cannot be added without changing something else"
    );
    let path = workspace.join(FILE);
    let file = File {
        path: path.as_path().into(),
        source: Source::Workspace,
        trust: Source::Workspace.trust(),
        directory: workspace.to_owned(),
        kind: FileKind::Servers,
        owners: None,
    };
    let mut written = file.understand(after).servers.into_iter();
    let added = written.find(|server| server.shown_name == id);
    match added.map(|server| server.config) {
        Some(Ok(_)) => Ok(()),
        Some(Err(why)) => anyhow::bail!(why),
        None => anyhow::bail!("the plugin cannot be read back"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(before: &str) -> anyhow::Result<String> {
        let after = with(before, "tools.hello", "hello/target/debug/hello", &[]);
        check(Path::new("/w"), before, &after, "tools.hello").map(|()| after)
    }

    #[test]
    fn every_line_stays_as_it_was() {
        let entry = "[plugins.\"tools.hello\"]\nbinary = \"hello/target/debug/hello\"\n";
        for before in [
            "",
            "# mine\ntools = \"lean\" # few\n",
            "[servers.a]\ncommand = \"x\"",
            "[plugins.\"tools.other\"]\nbinary = \"o\"\n",
        ] {
            let after = added(before).unwrap();
            assert!(after.starts_with(before), "{after}");
            assert!(after.ends_with(entry), "{after}");
        }
    }

    #[test]
    fn what_cannot_be_added_to_is_left_alone() {
        for before in [
            "tools = ",
            "plugins = {}\n",
            "plugins = 1\n",
            "[plugins.\"tools.hello\"]\nbinary = \"other\"\n",
        ] {
            assert!(added(before).is_err(), "{before}");
        }
    }

    #[test]
    fn a_dollar_stays_one() {
        let text = with("", "tools.a", "a$b/x", &["$c".to_owned()]);
        assert!(
            text.contains("a$$b/x") && text.contains("[\"$$c\"]"),
            "{text}"
        );
    }
}
