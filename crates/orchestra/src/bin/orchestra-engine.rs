//! The memory engine under a name of its own, by which programs of the past find it: it becomes
//! `orchestra engine`, of the program beside it or on the search path.

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, ExitCode},
};

const PROGRAM: &str = "orchestra";

fn main() -> ExitCode {
    let failed = match program() {
        Some(program) => {
            // direct: it takes the place of this process.
            let mut command = Command::new(&program);
            command.arg("engine").args(env::args_os().skip(1));
            format!("{}: {}", program.display(), become_it(&mut command))
        }
        None => format!("`{PROGRAM}` is neither beside this program nor on the search path"),
    };
    // Nobody is left to be told that it cannot be told.
    let _ = writeln!(io::stderr(), "error: {failed}");
    ExitCode::FAILURE
}

/// The program that this one stands for.
fn program() -> Option<PathBuf> {
    let this = env::current_exe().ok();
    let beside = this.map(|this| this.with_file_name(PROGRAM));
    let path = env::var_os("PATH").unwrap_or_default();
    // What a path that is not absolute leads to depends on where we stand: perhaps a checkout.
    let on_path = env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(PROGRAM));
    beside
        .into_iter()
        .chain(on_path)
        .find(|path| path.is_file())
}

#[cfg(unix)]
fn become_it(command: &mut Command) -> io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

#[cfg(not(unix))]
fn become_it(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}
