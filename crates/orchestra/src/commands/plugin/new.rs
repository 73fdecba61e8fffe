//! `orchestra plugin new`: a small project that works at once, and its place in `orchestra.toml`.
//!
//! Everything that can be refused is refused before a file is written.

mod entry;
mod kit;
mod name;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use orchestra_fs::{Access, quoted};
use orchestra_gateway::discovery::ServerState;
use serde::Serialize;

use crate::{
    cli::examples,
    commands::mcp::Here,
    exit::{Exit, Failure},
    files::Root,
    output::{self, Format},
};
use entry::Entry;
use kit::Kit;
use name::Name;

/// Create a small working plugin
///
/// `orchestra plugin new hello` creates the directory hello with a plugin of one tool and one prompt, and adds
/// it to orchestra.toml of the workspace as tools.hello.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "plugin new hello",
    "plugin new hello --language python --dir plugins/hello",
]))]
pub(super) struct Arguments {
    /// Name of the plugin: 1 to 50 of a-z, 0-9, _ and -, starting with a letter
    name: String,
    /// Programming language of the plugin
    #[arg(long, value_enum, default_value_t)]
    language: Language,
    /// Directory to create, which must be absent or empty [default: the name of the plugin]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Directory of the crate orchestra-plugin that a Rust plugin depends on [default: the source tree from which
    /// this program was built, if it exists, else the published crate]
    #[arg(long, value_name = "DIR")]
    kit: Option<PathBuf>,
    /// Do not change orchestra.toml
    #[arg(long)]
    no_config: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Language {
    /// Rust, with the crate orchestra-plugin
    #[default]
    Rust,
    /// Python, with the packages aioquic and protobuf
    Python,
}

/// What was made, as JSON tells it.
#[derive(Serialize)]
struct Made {
    id: String,
    directory: PathBuf,
    files: Vec<PathBuf>,
    /// The configuration file that it was added to.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<PathBuf>,
    /// What makes it run, line by line.
    next: Vec<String>,
}

/// What is written, and how it becomes a program.
struct Project {
    pieces: Vec<Piece>,
    /// The lines of the shell that build it.
    build: Vec<String>,
    /// The program as the configuration names it.
    program: String,
    args: Vec<String>,
    /// The line of the shell that runs it without being configured.
    run: String,
    /// A call of one of its tools.
    call: String,
}

/// A file of the project.
struct Piece {
    path: &'static str,
    text: String,
}

pub(super) fn run(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let name: Name = arguments.name.parse().map_err(Failure::usage)?;
    let workspace = &here.places().workspace;
    let directory = arguments.dir.clone();
    let directory = directory.unwrap_or_else(|| PathBuf::from(name.as_str()));
    let directory = vacant(&directory, workspace)?;
    let shown = Shown {
        workspace: shown(&directory, workspace)?,
        shell: shown(&directory, &std::env::current_dir()?)?,
    };
    let project = match arguments.language {
        Language::Rust => rust(&name, &shown, &Kit::find(arguments.kit.as_deref())?)?,
        Language::Python => python(&name, &shown),
    };
    let entry = match arguments.no_config {
        true => None,
        false => Some(Entry::plan(here, &name, &project.program, &project.args)?),
    };
    let root = Root::new(&directory);
    for piece in &project.pieces {
        root.write(Path::new(piece.path), &piece.text, Access::Shared)?;
    }
    if let Some(entry) = &entry {
        entry.write()?;
        approve(here, &name)?;
    }
    let made = Made {
        id: name.id(),
        files: project
            .pieces
            .iter()
            .map(|piece| directory.join(piece.path))
            .collect(),
        config: entry.as_ref().map(Entry::path),
        next: project.next(entry.is_some().then(|| name.id()).as_deref()),
        directory,
    };
    Format::of_flag(arguments.json).print(&made, text)?;
    Ok(Exit::Ok)
}

/// The directory of a project, absolute, in which nothing is lost. Links of the workspace lead to none.
fn vacant(directory: &Path, workspace: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(directory)?;
    let taken = |why: &str| {
        Failure::refused(format!(
            "{} {why}; --dir names another directory",
            absolute.display()
        ))
    };
    let inside = absolute
        .ancestors()
        .take_while(|path| *path != workspace && path.starts_with(workspace));
    if let Some(link) = inside.into_iter().find(|path| path.is_symlink()) {
        let link = link.display();
        return Err(taken(&format!("leads through the symbolic link {link}")));
    }
    match fs::read_dir(&absolute) {
        Ok(mut entries) => match entries.next() {
            None => Ok(absolute),
            Some(_) => Err(taken("is not empty")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(absolute),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(taken("is no directory")),
        Err(error) => Err(anyhow::Error::new(error)
            .context(format!("cannot look into {}", absolute.display()))
            .into()),
    }
}

/// The directory of a project, as it is named from elsewhere.
struct Shown {
    /// From the workspace, for its configuration.
    workspace: String,
    /// From where the user is, for the shell.
    shell: String,
}

/// The directory as commands below another one name it.
fn shown(directory: &Path, from: &Path) -> Result<String, Failure> {
    // Where it is named from is known without links; the parent of what is not there yet may be one.
    let parent = directory
        .parent()
        .and_then(|parent| parent.canonicalize().ok());
    let resolved = match (parent, directory.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => directory.to_owned(),
    };
    let within = resolved.strip_prefix(from).unwrap_or(&resolved);
    match within.to_str() {
        Some("") => Ok(".".to_owned()),
        Some(text) if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(Failure::usage_text(
            "the path of the directory contains unsupported characters; --dir names another one",
        )),
    }
}

/// A text with the names of a plugin in their places.
fn filled(template: &str, name: &Name, shown: &str) -> String {
    template
        .replace("{{name}}", name.as_str())
        .replace("{{tool}}", &name.tool())
        .replace("{{id}}", &name.id())
        .replace("{{directory}}", shown)
}

/// A project in Rust.
fn rust(name: &Name, shown: &Shown, kit: &Kit) -> Result<Project, Failure> {
    let Shown { workspace, shell } = shown;
    let fill =
        |template: &str| filled(template, name, workspace).replace("{{kit}}", &kit.dependency());
    let piece = |path, text| Piece { path, text };
    let mut pieces = vec![
        piece("Cargo.toml", fill(include_str!("new/rust/Cargo.toml.in"))),
        piece("src/main.rs", fill(include_str!("new/rust/main.rs.in"))),
        piece("README.md", fill(include_str!("new/rust/README.md.in"))),
        piece(".gitignore", "/target\n".to_owned()),
    ];
    // With the versions that the kit was tested with, and the compiler.
    for path in ["Cargo.lock", "rust-toolchain.toml"] {
        pieces.extend(kit.beside(path)?.map(|text| piece(path, text)));
    }
    let manifest = quoted(format!("{shell}/Cargo.toml"));
    let program = |directory: &str| format!("{directory}/target/debug/{name}");
    Ok(Project {
        pieces,
        build: vec![format!("cargo build --manifest-path {manifest}")],
        program: program(workspace),
        args: Vec::new(),
        run: run_line(&program(shell), None),
        call: format!("orchestra tool call {} name=World", name.tool()),
    })
}

/// A project in Python: the example, under another name.
fn python(name: &Name, shown: &Shown) -> Project {
    let Shown { workspace, shell } = shown;
    let example = include_str!("../../../../../examples/plugins/python/plugin.py");
    let messages = include_str!("../../../../../examples/plugins/python/plugin_pb2.py");
    let needs = include_str!("../../../../../examples/plugins/python/requirements.txt");
    let readme = filled(include_str!("new/python/README.md.in"), name, workspace);
    let piece = |path, text| Piece { path, text };
    let inner = |path: &str| quoted(format!("{shell}/{path}"));
    Project {
        pieces: vec![
            piece("plugin.py", example.replace("tools.python", &name.id())),
            piece("plugin_pb2.py", messages.to_owned()),
            piece("requirements.txt", needs.to_owned()),
            piece("README.md", readme),
            piece(".gitignore", "/.venv\n/__pycache__\n".to_owned()),
        ],
        build: vec![
            format!("python3 -m venv {}", inner(".venv")),
            format!(
                "{} install -r {}",
                inner(".venv/bin/pip"),
                inner("requirements.txt")
            ),
        ],
        program: format!("{workspace}/.venv/bin/python"),
        args: vec![format!("{workspace}/plugin.py")],
        run: run_line(
            &format!("{shell}/.venv/bin/python"),
            Some(&format!("{shell}/plugin.py")),
        ),
        call: "orchestra tool call word_count text=\"one two\"".to_owned(),
    }
}

impl Project {
    /// The lines of the shell that make it run, with its id where it is configured.
    fn next(&self, id: Option<&str>) -> Vec<String> {
        let mut lines = self.build.clone();
        match id {
            // An approval covers the program.
            Some(id) => lines.extend([
                format!("orchestra mcp approve --yes {id}"),
                self.call.clone(),
            ]),
            None => lines.push(self.run.clone()),
        }
        lines
    }
}

/// The line of the shell that runs a plugin that is configured nowhere.
fn run_line(program: &str, argument: Option<&str>) -> String {
    let argument = argument.map(|argument| format!(" -- {}", quoted(argument)));
    let argument = argument.unwrap_or_default();
    format!(
        "orchestra plugin run --binary {}{argument}",
        quoted(program)
    )
}

/// Whoever makes a plugin approves it with that.
fn approve(here: &Here, name: &Name) -> Result<(), Failure> {
    let again = here.again()?;
    let added = again.found().server(&name.id());
    match added.map(|server| (&server.name, &server.state)) {
        Some((name, ServerState::NeedsApproval { fingerprint, .. })) => {
            let workspace = &again.places().workspace;
            again.decide(|decisions| decisions.approve(workspace, name, fingerprint))
        }
        Some((_, ServerState::Usable(_))) => Ok(()),
        _ => {
            output::complain("it cannot be used yet; `orchestra plugin list` shows the reason");
            Ok(())
        }
    }
}

fn text(made: &Made) -> String {
    let mut text = format!("{}: written to {}\n", made.id, made.directory.display());
    if let Some(config) = &made.config {
        text.push_str(&format!("added to {}\n", config.display()));
    }
    text.push_str(match made.config {
        Some(_) => "\nBuild it, approve it, and call it:\n",
        None => "\nBuild it, and run it:\n",
    });
    for line in &made.next {
        text.push_str(&format!("  {line}\n"));
    }
    if made.config.is_some() {
        let id = &made.id;
        text.push_str(&format!(
            "\nAfter a change, build it, and approve it with `orchestra mcp approve {id}`, which also takes tools \
             whose description or schema changed. `trusted_directories` of your own configuration saves that.\n"
        ));
    }
    output::printable(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kit's examples are compiled, so that what is written is known to compile.
    #[test]
    fn the_plugin_is_the_example_of_the_kit() {
        let name: Name = "hello".parse().unwrap();
        let shown = Shown {
            workspace: "hello".to_owned(),
            shell: "../hello".to_owned(),
        };
        let pieces = rust(&name, &shown, &Kit::Registry).unwrap().pieces;
        let text = |path: &str| {
            let piece = pieces.iter().find(|piece| piece.path == path);
            piece.map(|piece| piece.text.as_str()).unwrap()
        };
        let example = include_str!("../../../../orchestra-plugin/examples/begun.rs");
        assert_eq!(text("src/main.rs"), example);
        let manifest: toml::Table = text("Cargo.toml").parse().unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some("hello"));
        for piece in pieces.iter().chain(&python(&name, &shown).pieces) {
            assert!(!piece.text.contains("{{"), "{}", piece.path);
            assert!(!piece.text.contains("tools.python"), "{}", piece.path);
        }
    }
}
