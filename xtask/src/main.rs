//! `cargo xtask`: tests, checks, measurements and fuzzing of the workspace.
//!
//! Each command is a module; this file only reads the command line. What a command needs beyond
//! Rust and a C compiler is set up by `tools`, below the target directory and nowhere else.

mod agents;
mod bench;
mod book;
mod ci;
mod codegen;
mod conformance;
mod deny;
mod eval;
mod fuzz;
mod judges;
mod model;
mod nextest;
mod papers;
mod run;
mod secrets;
mod served;
mod soak;
mod test;
mod tools;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test              every test of the workspace, then the judges and the conformance suite
  judges [WORD]     only the judges whose name holds WORD
  conformance       the public conformance suite against the fixtures, over HTTP
  servers [NAME]... popular upstream servers directly and through the gateway: prints a table of tools, answers
                    and differences (default: all)
  ci [--fast]       what CI runs; --fast leaves out docs, judges, licences and most tests
  full              ci, then servers, soak flaky with three rounds, a soak, a soak of a board, every fuzz
                    target and all benches
  codegen           writes the code anew that is made from schemas
  book [--check]    writes the reference in docs/reference anew from the program and builds the book;
                    --check says whether the reference and all links are right, and writes nothing
  tidy [--limits]   check the rules that no compiler checks; --limits lowers the limits of hard words in
                    xtask/language-limits.txt to the present counts, and writes them all if the file is
                    missing
  deny              only the check of licences, sources and forbidden second versions
  bench [NAME]...   measure against the peers: echo, http, gateway, plugin, board, start,
                    writers, sync, tokens, day, memory, plans, chat, web (default: all)
  eval memory [RANKER]
                    how well memory search finds what eval/memory asks for; with a ranker also
                    what that one missed
  soak [ROUNDS] [WORD]...
                    the long variants of the fault tests, ROUNDS times over (default 1); with words
                    only those whose name holds one
  soak flaky [ROUNDS]
                    every test ROUNDS times (default 10) beside four busy loops, without retries;
                    prints each test that failed once
  soak board [--minutes N] [--seed N]
                    8 worktrees with 4 clients each on one board for N minutes (default 10, at most 25), while
                    git, kills and removals disturb them; counts what is lost, and prints when claims are
                    visible
  fuzz [SECONDS]    each fuzz target for SECONDS (default 60)
  secrets           plant a secret of every form at every entry of the program, and search for it in
                    everything that leaves the program; count the masked lines of this repository and of
                    three locked packages
  secrets lines DIRECTORY...
                    count and print the lines below directories that are masked
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            run::say(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words.iter().any(|word| ["--help", "-h"].contains(word)) {
        run::say(USAGE);
        return Ok(());
    }
    match words.as_slice() {
        ["test"] => test::run(),
        ["judges"] => judges::run(None),
        ["judges", word] if !is_option(word) => judges::run(Some(word)),
        ["conformance"] => conformance::run(),
        ["servers", names @ ..] => judges::upstream::run(names),
        ["ci"] => ci::run(),
        ["ci", "--fast"] => ci::fast(),
        ["full"] => ci::full(),
        ["codegen"] => codegen::run(),
        ["book"] => book::run(),
        ["book", "--check"] => book::check(),
        ["tidy"] => ci::tidy(),
        ["tidy", "--limits"] => ci::lower_limits(),
        ["deny"] => deny::run(),
        ["bench", names @ ..] => {
            bench::check(names)?;
            bench::run(names)
        }
        ["eval", "memory"] => eval::memory(None),
        ["eval", "memory", ranker] if !is_option(ranker) => eval::memory(Some(ranker)),
        ["soak"] => soak::run(1, &[]),
        ["soak", "board", options @ ..] => soak::Board::parse(options)?.run(),
        ["soak", "flaky"] => soak::flaky(10),
        ["soak", "flaky", rounds] => soak::flaky(number(rounds)?),
        ["soak", rounds, words @ ..] if !words.iter().any(|word| is_option(word)) => {
            soak::run(number(rounds)?, words)
        }
        ["fuzz"] => fuzz::run(fuzz::SECONDS),
        ["fuzz", seconds] => fuzz::run(number(seconds)?),
        ["secrets"] => secrets::run(),
        ["secrets", "lines", directories @ ..]
            if !directories.is_empty() && !directories.iter().any(|word| is_option(word)) =>
        {
            secrets::lines(directories)
        }
        [] | ["help"] => {
            run::say(USAGE);
            Ok(())
        }
        unknown => bail!("no such command: {}\n{USAGE}", unknown.join(" ")),
    }
}

fn is_option(word: &str) -> bool {
    word.starts_with('-')
}

fn number(text: &str) -> Result<u32> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => bail!("expected a positive number, got {text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_of_any_command_runs_nothing() {
        for words in ["bench --help", "soak -h", "ci --fast --help", "help"] {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            dispatch(&words).unwrap();
        }
    }

    #[test]
    fn unknown_arguments_are_an_error_that_lists_the_known_ones() {
        for (words, listed) in [
            ("bench nothing", "echo, http, gateway"),
            ("bench echo --quick", "echo, http, gateway"),
            ("judges --quick", "judges [WORD]"),
            ("servers nothing", "there are everything, filesystem"),
            ("ci --quick", "ci [--fast]"),
            ("tidy --quick", "tidy [--limits]"),
            ("test bench", "usage: cargo xtask COMMAND"),
            ("eval", "eval memory [RANKER]"),
            ("eval memory --quick", "eval memory [RANKER]"),
            ("soak 1 --quick", "soak [ROUNDS]"),
            ("soak board --quick 1", "no such option"),
            ("secrets lines", "secrets lines DIRECTORY"),
            ("nothing", "usage: cargo xtask COMMAND"),
        ] {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let error = dispatch(&words).unwrap_err().to_string();
            assert!(error.contains(listed), "{words:?}: {error}");
        }
    }
}
