//! `cargo xtask book`: the book in docs/, whose reference the program itself dictates.
//!
//! The pages below docs/reference are made of what the program says of itself: its tools, settings,
//! commands and routes. They are committed, so that they are read without building anything, and
//! `--check` fails where they and the program disagree, or where a link leads nowhere.

mod commands;
mod configuration;
mod links;
mod markdown;
mod program;
mod rest;
mod schema;
mod tools;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use self::program::Program;
use crate::{run, tools::Tool};

/// The version whose output was reviewed, without the parts that serve and watch, which take longest
/// to build. PyPI has it too, but not from its authors.
const MDBOOK: Tool = Tool {
    package: "mdbook",
    program: "mdbook",
    version: "0.5.4",
    wheel: None,
    features: &["--no-default-features", "--features", "search"],
};

/// What every generated page begins with, after its title.
const GENERATED: &str =
    "<!-- Written by `cargo xtask book` from what the program says of itself. -->";

/// A page of the reference.
struct Page {
    /// Its file, below docs/reference.
    file: &'static str,
    text: String,
}

/// Writes the reference anew, checks the links and builds the book.
///
/// # Errors
/// When the program cannot be asked, a link leads nowhere or the book cannot be built.
pub(crate) fn run() -> Result<()> {
    let directory = reference();
    fs::create_dir_all(&directory).context("creating docs/reference")?;
    for page in pages()? {
        let path = directory.join(page.file);
        fs::write(&path, page.text).with_context(|| format!("writing {}", path.display()))?;
    }
    links::check(&docs())?;
    build()
}

/// Says whether the reference is what the program says, and every link leads somewhere.
///
/// # Errors
/// When one of them is not so.
pub(crate) fn check() -> Result<()> {
    for page in pages()? {
        let path = reference().join(page.file);
        let committed = fs::read_to_string(&path).unwrap_or_default();
        if let Some(line) = first_difference(&committed, &page.text) {
            bail!(
                "docs/reference/{} is not what the program says, from line {line} on: \
                 run `cargo xtask book` and commit what it wrote",
                page.file
            );
        }
    }
    let count = links::check(&docs())?;
    run::say(&format!("the reference is right, and so are {count} links"));
    Ok(())
}

/// Builds the book into `book/` of the target directory.
///
/// # Errors
/// When mdBook cannot be installed, or finds something wrong.
pub(crate) fn build() -> Result<()> {
    let place = run::target().join("book");
    let mut mdbook = Command::new(MDBOOK.path()?);
    run::run(
        mdbook
            .arg("build")
            .arg(docs())
            .arg("--dest-dir")
            .arg(&place),
    )?;
    run::say(&format!("the book is in {}", place.display()));
    Ok(())
}

fn docs() -> PathBuf {
    run::root().join("docs")
}

fn reference() -> PathBuf {
    docs().join("reference")
}

fn pages() -> Result<[Page; 4]> {
    let program = Program::built()?;
    Ok([
        page("tools.md", tools::page(&program)?),
        page("configuration.md", configuration::page(&program)?),
        page("commands.md", commands::page(&program)?),
        page("rest.md", rest::page(&program)?),
    ])
}

fn page(file: &'static str, text: String) -> Page {
    Page { file, text }
}

/// The first line, counted from 1, in which two texts differ.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    if one == other {
        return None;
    }
    let same = one.lines().zip(other.lines());
    Some(same.take_while(|(one, other)| one == other).count() + 1)
}

/// A text that has one line break at its end.
fn closed(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

/// The path of a file below a directory, with slashes.
fn below(directory: &Path, path: &Path) -> String {
    let path = path.strip_prefix(directory).unwrap_or(path);
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("", "a\n"), Some(1));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
    }
}
