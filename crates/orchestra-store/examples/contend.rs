//! Prints what many processes on one board cost each other: `contend [PROCESSES] [CHANGES]`, 32 and
//! 200 unless told. Each process makes its changes one after the other and waits for each.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Instant;

use orchestra_board::{Body, Command, IssueId, Kind, NewIssue, NewProject, Slug, Title};
use orchestra_store::{Action, Options, Store};

type Outcome<T> = Result<T, Box<dyn Error>>;

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
    let mut times: Vec<u64> = Vec::new();
    for child in children {
        let output = child.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        times.extend(
            text.split_whitespace()
                .map(str::parse)
                .collect::<Result<Vec<u64>, _>>()?,
        );
    }
    let total = began.elapsed();
    if times.len() != processes * changes {
        return Err(format!(
            "{} of {} changes were made",
            times.len(),
            processes * changes
        )
        .into());
    }
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!(
        "{processes} processes: {:.0} changes/s, p50 {} µs, p99 {} µs, max {} µs",
        times.len() as f64 / total.as_secs_f64(),
        at(50),
        at(99),
        at(100)
    );
    Ok(())
}

fn options() -> Options {
    Options {
        watch: false,
        sweep: false,
        flush: false,
        ..Options::default()
    }
}

fn create(kind: Kind, parent: Option<&str>) -> Outcome<Action> {
    let issue = NewIssue {
        kind,
        parent: parent.map(IssueId::parse).transpose()?,
        epic: None,
        title: Title::parse("a task of an ordinary length")?,
        description: Body::default(),
        priority: None,
        assignees: Vec::new(),
        labels: Vec::new(),
        depends_on: Vec::new(),
    };
    Ok(Action::Board(Command::CreateIssue {
        project: Slug::parse("busy")?,
        issue,
    }))
}

fn fill(directory: &Path) -> Outcome<()> {
    let store = Store::open(directory, options())?;
    let project = NewProject {
        name: Title::parse("Busy")?,
        description: Body::default(),
    };
    store.submit_blocking(None, Action::Board(Command::CreateProject(project)))?;
    store.submit_blocking(None, create(Kind::Epic, None)?)?;
    store.submit_blocking(None, create(Kind::Story, Some("B-1"))?)?;
    for _ in 0..TASKS {
        drop(store.submit(None, create(Kind::Task, Some("B-2"))?));
    }
    Ok(())
}

fn work(directory: &Path, changes: usize) -> Outcome<()> {
    let store = Store::open(directory, options())?;
    for _ in 0..changes {
        let began = Instant::now();
        store.submit_blocking(None, create(Kind::Task, Some("B-2"))?)?;
        println!("{}", began.elapsed().as_micros());
    }
    Ok(())
}
