//! Prints what the store costs on a large board: `scale [TASKS] [DIRECTORY]`, 100 000 tasks in a
//! temporary directory unless told; a board that is there is taken as it is. At the end the readable
//! files are written, and the database is rebuilt from them.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

mod measure;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orchestra_board::{
    AgentName, Command, IssueId, IssuePatch, IssueRef, Kind, NewIssue, Slug, State,
};
use orchestra_store::{Action, IssueFilter, Options, PageRequest, Receipt, Store};

use measure::{Outcome, Times, database_alone, new_issue, new_project};

const ROUNDS: usize = 500;
/// Words of titles and descriptions; the first two stand in every task.
const WORDS: [&str; 24] = [
    "implement",
    "the",
    "login",
    "parser",
    "index",
    "writer",
    "cache",
    "queue",
    "timer",
    "socket",
    "button",
    "form",
    "table",
    "search",
    "ranking",
    "plugin",
    "frame",
    "codec",
    "router",
    "token",
    "ledger",
    "signal",
    "worker",
    "config",
];

struct Bench {
    store: Store,
    slug: Slug,
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let tasks: u64 = arguments
        .next()
        .map_or(Ok(100_000), |count| count.parse())?;
    let temporary = tempfile::tempdir()?;
    let directory = arguments
        .next()
        .map_or_else(|| temporary.path().to_path_buf(), PathBuf::from);
    let bench = fill(&directory, tasks)?;
    drop(bench.store);
    let began = Instant::now();
    let store = Store::open(&directory, database_alone())?;
    let opened = began.elapsed();
    let bench = Bench { store, ..bench };
    bench.next(1)?;
    println!(
        "open {opened:.2?}, first answer after {:.2?}",
        began.elapsed()
    );
    println!("resident after opening {} KiB", resident());
    bench.reads(tasks)?;
    bench.writes(tasks)?;
    println!(
        "resident at the end {} KiB, peak {} KiB",
        resident(),
        memory("VmHWM:")
    );
    println!(
        "database {} MiB",
        size(&directory.join(".projects/.store/board.db"))? / (1024 * 1024)
    );
    sync_time(&directory)?;
    drop(bench.store);
    rebuild(&directory)
}

/// How long all files take to be written, and the database to be rebuilt from them.
fn rebuild(directory: &Path) -> Outcome<()> {
    let began = Instant::now();
    let writing = Options {
        flush: true,
        ..database_alone()
    };
    let store = Store::open(directory, writing)?;
    store.settle(Duration::from_secs(600))?;
    println!("all files written in {:.2?}", began.elapsed());
    drop(store);
    std::fs::remove_dir_all(directory.join(".projects/.store"))?;
    let began = Instant::now();
    drop(Store::open(directory, database_alone())?);
    println!("rebuilt from the files in {:.2?}", began.elapsed());
    Ok(())
}

fn text(number: u64, words: u64) -> String {
    let word = |at: u64| {
        WORDS[usize::try_from((number * 31 + at * at * 7 + number / 17) % 24).unwrap_or(0)]
    };
    let rest: Vec<&str> = (0..words).map(word).collect();
    format!("implement the {} number{number}", rest.join(" "))
}

fn worded_issue(kind: Kind, parent: Option<IssueId>, number: u64) -> Outcome<NewIssue> {
    new_issue(kind, parent, &text(number, 4), &text(number, 20))
}

/// Makes a board with one epic, and a story for each 1 000 tasks; one task in five is in `todo`.
fn fill(directory: &Path, tasks: u64) -> Outcome<Bench> {
    let began = Instant::now();
    let store = Store::open(directory, database_alone())?;
    let slug = Slug::parse("scale")?;
    let bench = Bench {
        store,
        slug: slug.clone(),
    };
    if bench.store.read(|reader| reader.project(&slug))?.is_some() {
        return Ok(bench);
    }
    bench.run(Command::CreateProject(new_project("Scale")?))?;
    let epic = bench.create(Kind::Epic, None, 0)?;
    let mut answers = Vec::new();
    let mut story = epic.clone();
    for number in 0..tasks {
        if number % 1_000 == 0 {
            story = bench.create(Kind::Story, Some(epic.clone()), number)?;
        }
        let issue = worded_issue(Kind::Task, Some(story.clone()), number)?;
        let command = Command::CreateIssue {
            project: slug.clone(),
            issue,
        };
        answers.push(bench.store.submit(None, Action::Board(command)));
        if answers.len() == 1_000 || number + 1 == tasks {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            for (at, answer) in answers.drain(..).enumerate() {
                let id = runtime.block_on(answer)?.issues.swap_remove(0).issue.id;
                if at % 5 == 0 {
                    drop(
                        bench
                            .store
                            .submit(None, Action::Board(bench.to_state(&id, State::Todo))),
                    );
                }
            }
        }
    }
    let total = began.elapsed();
    println!(
        "{tasks} tasks made in {total:.2?}, {:.1} µs each",
        total.as_secs_f64() * 1e6 / tasks as f64
    );
    Ok(bench)
}

impl Bench {
    fn run(&self, command: Command) -> Outcome<Receipt> {
        Ok(self.store.submit_blocking(None, Action::Board(command))?)
    }

    fn create(&self, kind: Kind, parent: Option<IssueId>, number: u64) -> Outcome<IssueId> {
        let issue = worded_issue(kind, parent, number)?;
        let receipt = self.run(Command::CreateIssue {
            project: self.slug.clone(),
            issue,
        })?;
        Ok(receipt
            .issues
            .into_iter()
            .next()
            .ok_or("nothing was made")?
            .issue
            .id)
    }

    fn target(&self, id: &IssueId) -> IssueRef {
        IssueRef::new(self.slug.clone(), id.clone())
    }

    fn to_state(&self, id: &IssueId, state: State) -> Command {
        let patch = IssuePatch {
            state: Some(state),
            ..IssuePatch::default()
        };
        Command::UpdateIssue {
            target: self.target(id),
            patch,
            evidence: None,
            version: None,
        }
    }

    fn next(&self, rounds: usize) -> Outcome<Times> {
        let agent = AgentName::parse("ada")?;
        timed(rounds, |_| {
            self.store
                .read(|reader| reader.next(&self.slug, Some(&agent), self.store.now()))?;
            Ok(())
        })
    }

    fn reads(&self, tasks: u64) -> Outcome<()> {
        let id = |round: usize| {
            let number = (u64::try_from(round)? * 7_919) % tasks + 3;
            Ok::<_, Box<dyn Error>>(IssueId::parse(&format!("S-{number}"))?)
        };
        report(
            "get",
            timed(ROUNDS, |round| {
                let id = id(round)?;
                self.store.read(|reader| reader.issue(&self.slug, &id))?;
                Ok(())
            })?,
        );
        let list = |name: &str, filter: &IssueFilter| -> Outcome<()> {
            report(
                name,
                timed(ROUNDS, |_| {
                    self.store.read(|reader| {
                        reader.issues(&self.slug, filter, &PageRequest::default())
                    })?;
                    Ok(())
                })?,
            );
            Ok(())
        };
        let tasks_only = IssueFilter {
            kinds: vec![Kind::Task, Kind::Bug, Kind::Hotfix],
            ..IssueFilter::default()
        };
        list("list 50 of all", &IssueFilter::default())?;
        list("list 50 tasks", &tasks_only)?;
        list(
            "list 50 in todo",
            &IssueFilter {
                states: vec![State::Todo],
                ..tasks_only
            },
        )?;
        list(
            "list 50 of a story",
            &IssueFilter {
                parent: Some(IssueId::parse("S-2")?),
                ..IssueFilter::default()
            },
        )?;
        report("next", self.next(ROUNDS)?);
        for query in [
            "implement",
            "implement the",
            "implement parser",
            "implement number77",
            "number777",
            "impl",
            "num",
            "the login number99999",
            "absent",
        ] {
            report(
                &format!("search `{query}`"),
                timed(100, |_| {
                    self.store.read(|reader| {
                        reader.search(&self.slug, query, &[], &PageRequest::default())
                    })?;
                    Ok(())
                })?,
            );
        }
        Ok(())
    }

    fn writes(&self, tasks: u64) -> Outcome<()> {
        let story = IssueId::parse("S-2")?;
        let mut made = Vec::new();
        report(
            "create (durable)",
            timed(ROUNDS, |round| {
                made.push(self.create(
                    Kind::Task,
                    Some(story.clone()),
                    tasks + u64::try_from(round)?,
                )?);
                Ok(())
            })?,
        );
        report(
            "change of state (durable)",
            timed(ROUNDS, |round| {
                self.run(self.to_state(&made[round], State::Todo))?;
                Ok(())
            })?,
        );
        Ok(())
    }
}

fn timed(rounds: usize, mut work: impl FnMut(usize) -> Outcome<()>) -> Outcome<Times> {
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let began = Instant::now();
        work(round)?;
        times.push(began.elapsed());
    }
    Times::of(times).ok_or_else(|| "nothing was timed".into())
}

fn report(name: &str, times: Times) {
    println!("{name:28} {times}");
}

/// What the disk itself takes to make 16 KiB at the end of a file durable.
fn sync_time(directory: &Path) -> Outcome<()> {
    use std::io::Write;

    let path = directory.join("sync-probe");
    let mut file = std::fs::File::create(&path)?;
    let block = vec![7_u8; 16 * 1024];
    report(
        "the disk's own sync",
        timed(200, |_| {
            file.write_all(&block)?;
            Ok(file.sync_data()?)
        })?,
    );
    Ok(std::fs::remove_file(path)?)
}

fn size(path: &Path) -> Outcome<u64> {
    Ok(std::fs::metadata(path)?.len())
}

fn resident() -> u64 {
    memory("VmRSS:")
}

/// A line of what Linux says of this process, in KiB; 0 elsewhere.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
