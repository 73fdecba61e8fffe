//! A program for the tests: supervises jobs as the program itself does, is a runner that can be killed,
//! and does as its first argument says.

#![expect(clippy::print_stdout, reason = "what it prints is what tests read")]
#![expect(clippy::unwrap_used, reason = "a fixture fails by panicking")]

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use orchestra_process::{CHILD_COMMAND, Sandbox, child_main};
use orchestra_runner::supervise::{
    JOB_COMMAND, JobLimits, LogBounds, Order, Program, RunId, SOCKET_VARIABLE, Shell, Supervised,
    job_main,
};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == CHILD_COMMAND {
        return child_main(arguments);
    }
    if first == JOB_COMMAND {
        return job_main();
    }
    let rest: Vec<String> = arguments.map(|word| word.into_string().unwrap()).collect();
    match first.to_str().unwrap() {
        "flood" => flood(rest[0].parse().unwrap()),
        "memory" => memory(rest[0].parse().unwrap()),
        "fork" => fork(&rest[0]),
        "board" => board(&rest),
        "hold" => {
            let descriptor = std::env::var(SOCKET_VARIABLE).unwrap().parse().unwrap();
            let _connection = orchestra_process::connect(descriptor).unwrap();
            wait();
        }
        "wait" => wait(),
        "alone" => {
            rustix::process::setsid().unwrap();
            wait();
        }
        "runner" => runner(Path::new(&rest[0]), &rest[1], &rest[2]),
        "adopter" => adopter(&rest),
        "many" => many(
            Path::new(&rest[0]),
            rest[1].parse().unwrap(),
            rest[2].parse().unwrap(),
        ),
        other => panic!("{other}?"),
    }
    ExitCode::SUCCESS
}

fn wait() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3_600));
    }
}

/// Prints so many MiB, as lines of numbers.
fn flood(mebibytes: u64) {
    let mut out = std::io::stdout().lock();
    let mut bytes = 0;
    let mut number = 0_u64;
    let mut piece = Vec::new();
    while bytes < mebibytes * 1024 * 1024 {
        piece.clear();
        while piece.len() < 60_000 {
            writeln!(piece, "line {number} of a flood that does not want to end").unwrap();
            number += 1;
        }
        if out.write_all(&piece).is_err() {
            return;
        }
        bytes += piece.len() as u64;
    }
}

/// Sends each word to the board over a connection of its own, and prints the answers. All connections are open at once.
fn board(words: &[String]) {
    let descriptor = std::env::var(SOCKET_VARIABLE).unwrap().parse().unwrap();
    let connections: Vec<_> = words
        .iter()
        .map(|_| orchestra_process::connect(descriptor).unwrap())
        .collect();
    for (word, mut connection) in words.iter().zip(connections) {
        writeln!(connection, "{word}").unwrap();
        let mut answer = String::new();
        BufReader::new(connection).read_line(&mut answer).unwrap();
        print!("{answer}");
    }
}

fn memory(mebibytes: usize) {
    let mut taken = Vec::new();
    for _ in 0..mebibytes {
        taken.push(vec![1_u8; 1024 * 1024]);
        std::thread::sleep(Duration::from_micros(200));
    }
    println!("taken");
    wait();
}

/// Has a child, one in a session of its own, and one there without any environment; tells their ids.
fn fork(then: &str) {
    let this = std::env::current_exe().unwrap();
    let begin = |what: &str, bare: bool| {
        let mut command = Command::new(&this);
        command.arg(what).stdin(Stdio::null());
        if bare {
            command.env_clear();
        }
        let child = command.spawn().unwrap();
        let id = child.id();
        // It goes on without us.
        drop(child);
        id
    };
    let ids = [
        begin("wait", true),
        begin("alone", false),
        begin("alone", true),
    ];
    println!(
        "ids {} {} {} {}",
        std::process::id(),
        ids[0],
        ids[1],
        ids[2]
    );
    if then == "stay" {
        wait();
    }
}

fn order(attempt: &Path, job: &str, program: Program) -> Order {
    let environment: BTreeMap<OsString, OsString> = std::env::vars_os()
        .filter(|(name, _)| name == "PATH")
        .collect();
    Order {
        attempt: attempt.to_owned(),
        id: RunId::new(job, 1, "work", 1).unwrap(),
        program,
        directory: PathBuf::from("/"),
        environment,
        limits: JobLimits::default(),
        sandbox: Sandbox::None,
        board: None,
        input: None,
        secrets: Vec::new(),
        slot: None,
        logs: LogBounds::default(),
        launcher: None,
    }
}

fn shell(line: &str) -> Program {
    Program::Shell {
        shell: Shell::Sh,
        line: line.to_owned(),
        error_action: None,
    }
}

/// A runner: starts one job, says which processes there are, and waits.
fn runner(attempt: &Path, job: &str, line: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let order = order(attempt, job, shell(line));
        let run = Supervised::start(&order).await.unwrap();
        println!("supervisor {}", run.supervisor().id());
        let ending = run.wait().await.unwrap();
        println!("{ending}");
    });
}

/// A program of ours above a runner, which gets what is left when the runner is killed; it has a child
/// of its own.
fn adopter(rest: &[String]) {
    orchestra_process::adopt_orphans().unwrap();
    let this = std::env::current_exe().unwrap();
    let mut runner = Command::new(&this)
        .arg("runner")
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(runner.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let child = orchestra_process::Command::new(&this).args(["wait"]);
        let child = child.spawn().await.unwrap();
        let guard = child.handle.guard().unwrap().id();
        let supervisor = line.trim().strip_prefix("supervisor ").unwrap();
        println!("ids {} {supervisor} {guard}", runner.id());
        child.handle.exited().await;
        println!("ended");
        runner.wait().unwrap();
    });
}

/// Runs `true` so often, so many at once, and tells how long each took on the average.
fn many(directory: &Path, count: usize, width: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let begin = std::time::Instant::now();
        let places = std::sync::Arc::new(tokio::sync::Semaphore::new(width));
        let mut jobs = tokio::task::JoinSet::new();
        for number in 0..count {
            let place = places.clone().acquire_owned().await.unwrap();
            let attempt = directory.join(format!("{number}/attempts/1"));
            std::fs::create_dir_all(attempt.parent().unwrap()).unwrap();
            jobs.spawn(async move {
                let order = order(&attempt, &format!("job-{number}"), shell("true"));
                let run = Supervised::start(&order).await.unwrap();
                let ending = run.wait().await.unwrap();
                assert!(ending.is_success(), "{ending}");
                drop(place);
            });
        }
        while let Some(ended) = jobs.join_next().await {
            ended.unwrap();
        }
        let each = begin.elapsed() / u32::try_from(count).unwrap();
        println!("{count} jobs, {width} at once: {each:?} each");
    });
}
