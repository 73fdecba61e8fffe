//! A program of many faults, for the tests: it guards its own children, and does as its first
//! argument says.

#![expect(clippy::print_stdout, reason = "what it prints is what tests read")]
#![expect(clippy::unwrap_used, reason = "a fixture fails by panicking")]

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use orchestra_process::{CHILD_COMMAND, Sandbox, child_main};
use rustix::process::{Signal, getpid, kill_process, setsid};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == CHILD_COMMAND {
        return child_main(arguments);
    }
    let rest: Vec<String> = arguments.map(|word| word.into_string().unwrap()).collect();
    let word = |at: usize| rest.get(at).map_or("", String::as_str);
    match first.to_str().unwrap() {
        "exit" => return ExitCode::from(word(0).parse::<u8>().unwrap()),
        "signal" => {
            let signal = Signal::from_named_raw(word(0).parse().unwrap()).unwrap();
            kill_process(getpid(), signal).unwrap();
            sleep();
        }
        "say" => say(&rest.join(" ")),
        "environment" => {
            for (name, value) in std::env::vars() {
                say(&format!("{name}={value}"));
            }
        }
        "directory" => say(std::env::current_dir().unwrap().to_str().unwrap()),
        "echo" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).unwrap();
            print!("{text}");
        }
        "sleep" => {
            say("ready");
            sleep();
        }
        "wait" => sleep(),
        "stubborn" => stubborn(),
        "family" => family(word(0)),
        "alone" => {
            setsid().unwrap();
            sleep();
        }
        "parent" => parent(rest),
        "adopter" => {
            orchestra_process::adopt_orphans().unwrap();
            parent(rest);
        }
        "sharer" => {
            orchestra_process::adopt_orphans().unwrap();
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .unwrap();
            let _inside = runtime.enter();
            let shared = share();
            say(&format!("ids {}", shared.process().id()));
            parent(rest);
        }
        "owner" => owner(rest),
        "confined" => confined(word(0)),
        "terminal" => match std::fs::File::open("/dev/tty") {
            Ok(_) => say("opened"),
            Err(error) => return fail(&error),
        },
        "memory" => {
            let mut taken = Vec::new();
            loop {
                taken.push(vec![1_u8; 1024 * 1024]);
            }
        }
        "files" => {
            let mut open = Vec::new();
            loop {
                match std::fs::File::open("/dev/null") {
                    Ok(file) => open.push(file),
                    Err(error) => return fail(&error),
                }
            }
        }
        "forks" => loop {
            spawn(word(0)).wait_with_nobody();
        },
        "compute" => {
            if word(0) == "stubborn" {
                // A group of threads computes faster than one.
                thread::spawn(|| {
                    loop {
                        std::hint::black_box(0);
                    }
                });
            }
            loop {
                std::hint::black_box(0);
            }
        }
        "read" => match std::fs::read_to_string(word(0)) {
            Ok(text) => print!("{text}"),
            Err(error) => return fail(&error),
        },
        "write" => match std::fs::write(word(0), "written") {
            Ok(()) => say("written"),
            Err(error) => return fail(&error),
        },
        "connect" => match TcpStream::connect(word(0)) {
            Ok(_) => say("connected"),
            Err(error) => return fail(&error),
        },
        "local" => match std::os::unix::net::UnixStream::connect(word(0)) {
            Ok(_) => say("connected"),
            Err(error) => return fail(&error),
        },
        "datagram" => {
            let (pair, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
            pair.send_to(b"datagram", word(0)).unwrap();
            say("sent");
        }
        "pair" => {
            let (mut pair, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
            pair.write_all(b"!").unwrap();
            other.read_exact(&mut [0]).unwrap();
            say("paired");
        }
        other => return fail(&format!("unknown: {other}")),
    }
    ExitCode::SUCCESS
}

fn say(text: &str) {
    println!("{text}");
    std::io::stdout().flush().unwrap();
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    std::io::stderr()
        .write_all(format!("{error}\n").as_bytes())
        .unwrap();
    ExitCode::FAILURE
}

fn sleep() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3_600));
    }
}

/// Starts a shell in a sandbox of a directory, and says what it can write there.
fn confined(directory: &str) {
    let script = "echo $(id -u); for file in .git/config own/new; do \
                  if echo x >> $file; then echo $file: written; else echo $file: refused; fi; done";
    let command = orchestra_process::Command::new("sh")
        .args(["-c", script])
        .directory(directory)
        .sandbox(Sandbox::Workspace {
            paths: Vec::new(),
            read_only: Vec::new(),
            protected: vec![Path::new(directory).join(".git")],
        });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut child = command.spawn().await.unwrap();
        say(&format!(
            "without mounts: {:?}",
            child.handle.without_mounts()
        ));
        let mut said = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut child.stdout, &mut said)
            .await
            .unwrap();
        print!("{said}");
        child.handle.exited().await;
    });
}

/// Does not mind SIGTERM.
fn stubborn() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let kind = tokio::signal::unix::SignalKind::terminate();
        let mut terminated = tokio::signal::unix::signal(kind).unwrap();
        say("ready");
        loop {
            terminated.recv().await;
            say("no");
        }
    });
}

struct Started(std::process::Child);

impl Started {
    fn wait_with_nobody(self) {
        // It goes on without us.
        drop(self.0);
    }
}

fn spawn(what: &str) -> Started {
    let this = std::env::current_exe().unwrap();
    let child = Command::new(this)
        .arg(what)
        .stdin(Stdio::null())
        .stdout(Stdio::inherit())
        .spawn();
    match child {
        Ok(child) => Started(child),
        Err(error) => {
            fail(&error);
            std::process::exit(1);
        }
    }
}

/// Has a child, and one that left its group and session; tells their ids, then stays, ends, or
/// crashes.
fn family(then: &str) {
    let near = spawn("wait");
    let far = spawn("alone");
    say(&format!(
        "ids {} {} {}",
        std::process::id(),
        near.0.id(),
        far.0.id()
    ));
    near.wait_with_nobody();
    far.wait_with_nobody();
    if then == "stay" {
        sleep();
    }
}

/// Starts a child of its own as programs do that use the library, passes on what it says, and
/// waits.
fn parent(rest: Vec<String>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let command = orchestra_process::Command::new(std::env::current_exe().unwrap()).args(rest);
        let mut child = command.spawn().await.unwrap();
        let mut stdout = tokio::io::stdout();
        let mut stderr = tokio::io::stderr();
        let (said, told) = tokio::join!(
            tokio::io::copy(&mut child.stdout, &mut stdout),
            tokio::io::copy(&mut child.stderr, &mut stderr)
        );
        said.unwrap();
        told.unwrap();
        child.handle.exited().await;
        say("ended");
    });
}

/// Starts this program, to outlive it.
fn share() -> orchestra_process::Detached {
    let this = std::env::current_exe().unwrap();
    let nowhere = std::fs::File::options().write(true).open("/dev/null");
    let root = std::path::Path::new("/");
    orchestra_process::Detached::start(&this, ["alone"], root, nowhere.unwrap()).unwrap()
}

/// As [`parent`], with a terminal of its own, as a program has that somebody started in a shell.
fn owner(rest: Vec<String>) {
    setsid().unwrap();
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let terminal = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&terminal).unwrap();
    rustix::pty::unlockpt(&terminal).unwrap();
    let name = rustix::pty::ptsname(&terminal, Vec::new()).unwrap();
    // Who leads a session and has no terminal gets the one that it opens.
    let mut options = std::fs::File::options();
    options.read(true).write(true);
    let _ours = options.open(name.to_str().unwrap()).unwrap();
    std::fs::File::open("/dev/tty").unwrap();
    say("owned");
    parent(rest);
}
