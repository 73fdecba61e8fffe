//! `orchestra plan watch` on a terminal: what is drawn there, frame by frame.
//!
//! The guide `docs/how-to/plans.md` shows the frames of its plan. They are recorded in `docs/plan-watch.txt`: the test
//! rewrites the recording if `ORCHESTRA_RECORD` is set, and otherwise compares it with the frames, except for the times.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use rustix::termios::Winsize;
use serde_json::json;

use crate::{
    pty::{Pty, size},
    support::Workspace,
};

/// A program at a terminal.
struct Seen {
    pty: Pty,
    text: String,
    last: Frame,
}

/// What is drawn at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Frame {
    /// How many lines the cursor went up before.
    up: usize,
    /// Without colours.
    lines: Vec<String>,
    is_coloured: bool,
}

impl Seen {
    fn start(command: Command, size: Winsize) -> Self {
        Self {
            pty: Pty::start(command, size),
            text: String::new(),
            last: Frame::default(),
        }
    }

    /// Takes in what comes next; false at the end.
    fn more(&mut self) -> bool {
        let more = self.pty.more();
        self.text.push_str(more.as_deref().unwrap_or_default());
        more.is_some()
    }

    /// The next frame; `None` when no more comes.
    fn frame(&mut self) -> Option<Frame> {
        let end = loop {
            match self.text.find("\u{1b}[J") {
                Some(end) => break end,
                None if self.more() => {}
                None => return None,
            }
        };
        let drawn: String = self.text.drain(..end + "\u{1b}[J".len()).collect();
        let frame = Frame::of(drawn.trim_end_matches("\u{1b}[J"));
        self.last = frame.clone();
        Some(frame)
    }

    /// The first frame from the last on that is as it is looked for.
    fn until(&mut self, looks: impl Fn(&Frame) -> bool) -> Frame {
        let mut frame = self.last.clone();
        while !looks(&frame) {
            let next = self.frame();
            frame = next.unwrap_or_else(|| panic!("it does not come to that: {}", self.pty.all));
        }
        frame
    }

    /// Waits for the end: how it exits, the last frame, and what was said behind it.
    fn end(mut self) -> (ExitStatus, Frame, String) {
        while self.frame().is_some() {}
        let status = self.pty.ended();
        (status, self.last.clone(), self.text.clone())
    }
}

impl Frame {
    /// Reads what was drawn. Nothing is sent to the terminal but what is known here: that the cursor
    /// goes to where the last frame began, colours, and that the rest of a line goes away.
    fn of(drawn: &str) -> Self {
        let begin = drawn.rfind("\u{1b}[K").map_or(0, |_| {
            // What was said before the frame ends with the return to where it begins.
            drawn.find('\r').unwrap_or_default()
        });
        let mut frame = Self::default();
        let mut line = String::new();
        let mut chars = drawn[begin..].chars();
        while let Some(c) = chars.next() {
            match c {
                '\r' => {}
                '\n' => frame.lines.push(std::mem::take(&mut line)),
                '\u{1b}' => {
                    assert_eq!(chars.next(), Some('['), "{drawn:?}");
                    let mut number = String::new();
                    let kind = loop {
                        match chars.next().unwrap() {
                            digit @ ('0'..='9' | ';') => number.push(digit),
                            kind => break kind,
                        }
                    };
                    match kind {
                        'A' => frame.up = number.parse().unwrap(),
                        'm' => frame.is_coloured = true,
                        'K' => {}
                        _ => panic!("the terminal is told something else: {drawn:?}"),
                    }
                }
                c => {
                    assert!(!c.is_control(), "{drawn:?}");
                    line.push(c);
                }
            }
        }
        assert_eq!(line, "", "{drawn:?}");
        frame
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            writeln!(text, "{line}").unwrap();
        }
        text
    }

    /// The line of a job.
    fn line(&self, job: &str) -> &str {
        let mut lines = self.lines.iter().skip(1);
        let found = lines.find(|line| line.split(' ').nth(1) == Some(job));
        found.map_or("", String::as_str)
    }

    /// How many of the cells of a job's bar are full, and how many there are.
    fn bar(&self, job: &str) -> (usize, usize) {
        let count = |c| self.line(job).matches(c).count();
        (count('█'), count('█') + count('░'))
    }

    fn widest(&self) -> usize {
        let widths = self.lines.iter().map(|line| line.chars().count());
        widths.max().unwrap_or_default()
    }
}

/// What is said, with each time in it as if it were the same.
fn timeless(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n']).map(|word| {
        let (bare, end) = word.split_at(word.trim_end_matches([':', ' ', '\n']).len());
        let is_time = bare.ends_with('s') && bare.starts_with(|c: char| c.is_ascii_digit());
        if is_time {
            format!("0.0s{end}")
        } else {
            word.to_owned()
        }
    });
    words.collect()
}

fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plan");
    root.join(name)
}

/// A workspace with the plan of the guide, whose jobs wait for files beside it that are called as they are,
/// and whose agent takes its time.
pub(crate) fn slow() -> Workspace {
    let workspace = Workspace::git();
    workspace.write("orchestra.toml", "[plans]\nhealer = \"scripted\"\n");
    let script = json!({"steps": [{"do": [
        {"wait": 1_000},
        {"write": {"path": "shout.txt", "text": "HELLO\nWORLD\n"}},
        "complete",
    ]}]});
    workspace.write("mend.json", &script.to_string());
    let mut text = fs::read_to_string(example("diamond.yaml")).unwrap();
    for job in ["words", "count", "shout"] {
        let gate = workspace.home().join(job);
        let wait = format!(
            "while ! test -e '{}'; do sleep 0.02; done; ",
            gate.display()
        );
        let job = text.find(&format!("producerId: {job}")).unwrap();
        let at = job + text[job..].find("work: ").unwrap() + "work: ".len();
        text.insert_str(at, &wait);
    }
    workspace.write("diamond.yaml", &text);
    workspace
}

pub(crate) fn open(workspace: &Workspace, job: &str) {
    fs::write(workspace.home().join(job), "").unwrap();
}

pub(crate) fn command(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = workspace.command(arguments);
    let script = workspace.join("mend.json");
    command
        .env("ORCHESTRA_AGENT_SCRIPT", script)
        .env("TERM", "xterm-256color");
    command
}

#[test]
fn bars_go_from_empty_to_full_as_the_recording_in_the_documentation_shows() {
    let workspace = slow();
    let run = command(&workspace, &["plan", "run", "diamond.yaml"]);
    let mut seen = Seen::start(run, size(80, 24));
    let works = |frame: &Frame, job: &str| frame.line(job).contains("  work ");
    let first = seen.until(|frame| works(frame, "words"));
    assert_eq!(first.bar("shout"), (0, 15), "{first:?}");
    assert!(first.is_coloured);
    open(&workspace, "words");
    let second = seen.until(|frame| works(frame, "count") && works(frame, "shout"));
    assert_eq!(second.bar("words"), (15, 15), "{second:?}");
    open(&workspace, "shout");
    let third = seen.until(|frame| frame.line("shout").contains("is healed"));
    let (full, of) = third.bar("shout");
    assert!(full > 0 && full < of, "{third:?}");
    open(&workspace, "count");
    let (status, last, said) = seen.end();
    assert_eq!(status.code(), Some(0), "{said}");
    for job in ["words", "count", "shout", "__snapshot-validation__"] {
        assert_eq!(last.bar(job), (15, 15), "{last:?}");
    }
    assert!(said.contains("plan Diamond succeeded"), "{said}");
    assert!(said.contains("merged into diamond"), "{said}");

    let frames = [first, second, third, last].map(|frame| frame.text());
    let said: String = said
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    let recorded = format!("{}{said}", frames.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan-watch.txt");
    if std::env::var_os("ORCHESTRA_RECORD").is_some() {
        fs::write(&path, &recorded).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(timeless(&recorded), timeless(&kept), "{recorded}");
    for page in ["how-to/plans.md", "how-to/terminal.md"] {
        let text = fs::read_to_string(path.with_file_name(page)).unwrap();
        assert!(text.contains(&kept), "{page} shows {}", path.display());
    }
}

#[test]
fn a_frame_takes_the_place_of_the_last_in_a_terminal_of_another_size_as_well() {
    let workspace = slow();
    let run = command(&workspace, &["plan", "run", "diamond.yaml"]);
    let mut seen = Seen::start(run, size(120, 24));
    let wide = seen.until(|frame| frame.line("words").contains("  work "));
    assert!(wide.widest() < 120, "{wide:?}");
    let again = seen.frame().unwrap();
    assert_eq!(again.up, wide.lines.len(), "{again:?}");
    seen.pty.resize(size(40, 24));
    let mut before = again;
    let narrow = loop {
        let frame = seen.frame().unwrap();
        if frame.widest() < 40 {
            break frame;
        }
        before = frame;
    };
    // Most terminals have broken the lines that were there.
    let rows = before
        .lines
        .iter()
        .map(|line| line.chars().count().div_ceil(40).max(1));
    assert_eq!(narrow.up, rows.sum::<usize>(), "{before:?} {narrow:?}");
    assert_eq!(narrow.bar("shout"), (0, 8), "{narrow:?}");
    let next = seen.frame().unwrap();
    assert_eq!(next.up, narrow.lines.len(), "{next:?}");

    // Whoever has enough of it leaves all as it is.
    rustix::process::kill_process(seen.pty.id(), rustix::process::Signal::INT).unwrap();
    let (status, _, said) = seen.end();
    assert_eq!(status.code(), Some(8), "{said}");
    assert!(said.contains("continues in the background"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    for job in ["words", "count", "shout"] {
        open(&workspace, job);
    }
    let watch = command(&workspace, &["plan", "watch", "diamond"]);
    let (status, last, said) = Seen::start(watch, size(80, 24)).end();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(last.bar("shout"), (15, 15), "{last:?}");
}

#[test]
fn a_plan_larger_than_the_screen_is_cut_to_it_and_colours_can_be_had_without() {
    let workspace = Workspace::git();
    let jobs: Vec<_> = (0..40)
        .map(|number| {
            json!({
                "producerId": format!("a-job-with-a-long-name-{number}"),
                "task": "Work", "work": "true", "expectsNoChanges": true,
            })
        })
        .collect();
    let plan = json!({"name": "Very many jobs that do very little, 日本語 included", "jobs": jobs});
    workspace.write("many.json", &plan.to_string());
    let made = workspace.run(["plan", "create", "many.json"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let watch = || {
        command(
            &workspace,
            &[
                "plan",
                "watch",
                "Very many jobs that do very little, 日本語 included",
            ],
        )
    };
    for (columns, lines) in [(20, 5), (40, 10), (80, 24), (120, 60), (1, 1)] {
        let seen = Seen::start(watch(), size(columns, lines));
        let (status, frame, said) = seen.end();
        assert_eq!(status.code(), Some(8), "{said}");
        assert!(
            frame.widest() < usize::from(columns.max(12)),
            "{columns}: {frame:?}"
        );
        if lines > 3 {
            assert!(frame.lines.len() < usize::from(lines), "{frame:?}");
        }
        let hides = lines < 43;
        let told = frame.lines.last().unwrap().starts_with('…');
        assert_eq!(told, hides, "{frame:?}");
    }
    let mut plain = watch();
    plain.env("NO_COLOR", "1");
    let (_, frame, _) = Seen::start(plain, size(80, 24)).end();
    assert!(!frame.is_coloured && !frame.lines.is_empty(), "{frame:?}");
    let mut dumb = watch();
    dumb.env("TERM", "dumb");
    let (_, frame, said) = Seen::start(dumb, size(80, 24)).end();
    assert_eq!(frame, Frame::default());
    assert!(
        said.contains("plan") && !said.contains('\u{1b}'),
        "{said:?}"
    );
}

#[test]
fn ended_jobs_are_counted_however_they_ended() {
    let workspace = Workspace::git();
    let text = "name: Fails\njobs:\n- {producerId: one, task: One, autoHeal: false, work: exit 3}\n\
                - {producerId: two, task: Two, dependencies: [one], work: 'true'}\n";
    workspace.write("fails.yaml", text);
    let run = command(&workspace, &["plan", "run", "fails.yaml"]);
    let (status, last, _) = Seen::start(run, size(120, 24)).end();
    assert_eq!(status.code(), Some(6), "{last:?}");
    let head = &last.lines[0];
    for part in ["failed  3 of 3  ", "1 failed", "2 blocked"] {
        assert!(head.contains(part), "{part}: {head}");
    }
}
