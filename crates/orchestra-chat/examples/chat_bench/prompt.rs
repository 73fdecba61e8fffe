//! Time from the start of the program to its prompt, and from a hang-up of its terminal to its end; beside them, the time
//! to print its version.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags},
    pty::{self, OpenptFlags},
};

use crate::bars::{Bars, percentile};

const TIMES: usize = 20;

/// After this the program is ended: it does not end by itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a terminal is asked for the place of its cursor with, and what it answers.
const WHERE: &str = "\u{1b}[6n";
const THERE: &[u8] = b"\x1b[1;1R";

pub(crate) fn measure(program: &Path, bars: &mut Bars) {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    let work = directory.path().join("work");
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(work.join(".projects")).unwrap();
    let command = |words: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(&work)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("TERM", "xterm-256color");
        command
    };
    // The first one makes the database.
    asked(command(&["chat", "--model", "m"]));
    let (mut ours, mut ends): (Vec<f64>, Vec<f64>) = (0..TIMES)
        .map(|_| asked(command(&["chat", "--model", "m"])))
        .unzip();
    let mut peer: Vec<f64> = (0..TIMES)
        .map(|_| {
            let began = Instant::now();
            let mut version = command(&["--version"]);
            assert!(version.stdout(Stdio::null()).status().unwrap().success());
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    let (median, tail) = (percentile(&mut ours.clone(), 50), percentile(&mut ours, 95));
    println!(
        "the prompt is there: median {median:.1} ms, p95 {tail:.1} ms after the start; `--version` takes {:.1} ms",
        percentile(&mut peer, 50)
    );
    bars.at_most(
        "from the start to the prompt, with a board, p95",
        100.0,
        "ms",
        tail,
    );
    let (median, tail) = (percentile(&mut ends.clone(), 50), percentile(&mut ends, 95));
    println!(
        "the terminal hangs up: median {median:.1} ms, p95 {tail:.1} ms to the end of the program"
    );
    bars.at_most("from the hang-up to the exit, p95", 1_000.0, "ms", tail);
}

/// Time until something can be typed, and from the hang-up of the terminal to the end of the program, in milliseconds.
fn asked(mut command: Command) -> (f64, f64) {
    let master = pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    pty::grantpt(&master).unwrap();
    pty::unlockpt(&master).unwrap();
    let name = pty::ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    let copy = || terminal.try_clone().unwrap();
    command.stdin(copy()).stdout(copy()).stderr(copy());
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    drop((terminal, command));
    let mut master = fs::File::from(master);
    let (mut seen, mut told) = (String::new(), 0);
    let mut buffer = [0; 4096];
    while !seen.contains('❯') {
        let count = master.read(&mut buffer).unwrap();
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        while told < seen.matches(WHERE).count() {
            told += 1;
            master.write_all(THERE).unwrap();
        }
    }
    let took = began.elapsed().as_secs_f64() * 1e3;
    drop(master);
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(1));
    }
    (took, began.elapsed().as_secs_f64() * 1e3)
}
