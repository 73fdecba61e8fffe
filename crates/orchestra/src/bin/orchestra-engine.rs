//! The memory engine under a name of its own, by which programs of the past find it: it becomes
//! `orchestra engine`, of the program beside it or on the search path.

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let this = env::current_exe();
    let beside = this.ok().map(|this| this.with_file_name("orchestra"));
    let program = beside.filter(|path| path.is_file());
    let program = program.unwrap_or_else(|| PathBuf::from("orchestra"));
    // direct: it takes the place of this process.
    let mut command = Command::new(&program);
    command.arg("engine").args(env::args_os().skip(1));
    let failed = become_it(&mut command);
    let text = format!("error: {}: {failed}", program.display());
    // Nobody is left to be told that it cannot be told.
    let _ = writeln!(io::stderr(), "{text}");
    ExitCode::FAILURE
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
