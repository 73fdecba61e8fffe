//! Prints what many processes on one board cost each other: `contend [PROCESSES] [CHANGES]`, 32 and
//! 200 unless told. Each process makes its changes one after the other and waits for each.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

mod measure;

use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use orchestra_board::{Command, IssueId, Kind, Slug};
use orchestra_store::{Action, Store};

use measure::{Outcome, Times, database_alone, new_issue, new_project};

const TASKS: usize = 1_000;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [directory, changes] = arguments.as_slice()
        && directory.contains('/')
    {
        return work(Path::new(directory), changes.parse()?);
    }
    let processes: usize = arguments.first().map_or(Ok(32), |count| count.parse())?;
    let changes: usize = arguments.get(1).map_or(Ok(200), |count| count.parse())?;
    let directory = tempfile::tempdir()?;
    fill(directory.path())?;
    let began = Instant::now();
    let start = |_| {
        Process::new(std::env::current_exe()?)
            .arg(PathBuf::from(directory.path()).join(""))
            .arg(changes.to_string())
            .stdout(Stdio::piped())
            .spawn()
    };
    let children = (0..processes).map(start).collect::<Result<Vec<_>, _>>()?;
    let mut times = Vec::new();
    for child in children {
        let output = child.wait_with_output()?;
        for line in String::from_utf8(output.stdout)?.lines() {
            times.push(Duration::from_micros(line.parse()?));
        }
    }
    let total = began.elapsed();
    let (made, due) = (times.len(), processes * changes);
    if made != due {
        return Err(format!("{made} of {due} changes were made").into());
    }
    let times = Times::of(times).ok_or("nothing was to be done")?;
    let rate = made as f64 / total.as_secs_f64();
    println!("{processes} processes: {rate:.0} changes/s, {times}");
    Ok(())
}

fn create(kind: Kind, parent: Option<&str>) -> Outcome<Action> {
    let parent = parent.map(IssueId::parse).transpose()?;
    Ok(Action::Board(Command::CreateIssue {
        project: Slug::parse("busy")?,
        issue: new_issue(kind, parent, "a task of an ordinary length", "")?,
    }))
}

fn fill(directory: &Path) -> Outcome<()> {
    let store = Store::open(directory, database_alone())?;
    let project = new_project("Busy")?;
    store.submit_blocking(None, Action::Board(Command::CreateProject(project)))?;
    store.submit_blocking(None, create(Kind::Epic, None)?)?;
    store.submit_blocking(None, create(Kind::Story, Some("B-1"))?)?;
    for _ in 0..TASKS {
        drop(store.submit(None, create(Kind::Task, Some("B-2"))?));
    }
    Ok(())
}

fn work(directory: &Path, changes: usize) -> Outcome<()> {
    let store = Store::open(directory, database_alone())?;
    for _ in 0..changes {
        let began = Instant::now();
        store.submit_blocking(None, create(Kind::Task, Some("B-2"))?)?;
        println!("{}", began.elapsed().as_micros());
    }
    Ok(())
}
