//! `orchestra top` at a terminal: what is seen there as the workspace changes, and that the terminal is as it
//! was afterwards.

use std::time::{Duration, Instant};

use rustix::{process::Signal, termios::LocalModes};
use serde_json::json;

use crate::{
    pty::{Pty, size},
    support::{PATIENCE, Running, Workspace},
};

/// How the program says that it goes to another screen, and back.
const SCREEN: [&str; 2] = ["\u{1b}[?1049h", "\u{1b}[?1049l"];

/// The program at a terminal, and what stands on that.
struct Seen {
    pty: Pty,
    grid: Vec<Vec<char>>,
    at: (usize, usize),
    rest: String,
}

impl Seen {
    fn start(workspace: &Workspace, colour: bool, columns: u16, lines: u16) -> Self {
        let mut command = workspace.command(["top"]);
        command.env("TERM", "xterm-256color");
        if !colour {
            command.env("NO_COLOR", "1");
        }
        Self {
            pty: Pty::start(command, size(columns, lines)),
            grid: vec![vec![' '; usize::from(columns)]; usize::from(lines)],
            at: (0, 0),
            rest: String::new(),
        }
    }

    fn text(&self) -> String {
        let lines = self.grid.iter().map(|line| {
            let line: String = line.iter().collect();
            format!("{}\n", line.trim_end())
        });
        lines.collect()
    }

    /// Waits until it is seen as it is looked for.
    fn until(&mut self, looks: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if looks(&text) {
                return text;
            }
            assert!(Instant::now() < end, "it does not come to that:\n{text}");
            let more = self.pty.more();
            self.rest.push_str(&more.expect("it has ended"));
            self.take();
        }
    }

    fn until_holds(&mut self, words: &[&str]) -> String {
        self.until(|text| words.iter().all(|word| text.contains(word)))
    }

    /// Does what a terminal does with what came, as far as all of it is there.
    fn take(&mut self) {
        let text = std::mem::take(&mut self.rest);
        let mut chars = text.chars();
        loop {
            let from = chars.as_str();
            match chars.next() {
                None => return,
                Some('\u{1b}') => {
                    let Some(end) = chars.as_str().find(|c: char| c.is_ascii_alphabetic()) else {
                        from.clone_into(&mut self.rest);
                        return;
                    };
                    let (sequence, rest) = chars.as_str().split_at(end + 1);
                    self.obey(sequence);
                    chars = rest.chars();
                }
                Some(c) => {
                    assert!(!c.is_control(), "{:?}", self.pty.all);
                    let (line, column) = self.at;
                    let cell = self
                        .grid
                        .get_mut(line)
                        .and_then(|line| line.get_mut(column));
                    if let Some(cell) = cell {
                        *cell = c;
                    }
                    self.at.1 += 1;
                }
            }
        }
    }

    fn obey(&mut self, sequence: &str) {
        let numbers = sequence.trim_start_matches('[');
        let (numbers, kind) = numbers.split_at(numbers.len() - 1);
        match kind {
            "H" => {
                let mut numbers = numbers.split(';').map(|number| number.parse().unwrap_or(1));
                let mut next = || numbers.next().unwrap_or(1_usize).saturating_sub(1);
                self.at = (next(), next());
            }
            "J" => self.grid.iter_mut().for_each(|line| line.fill(' ')),
            // Colours, and whether a cursor is seen.
            "m" | "h" | "l" => {}
            _ => panic!("the terminal is told something else: {sequence:?}"),
        }
    }

    fn resize(&mut self, columns: u16, lines: u16) {
        self.grid = vec![vec![' '; usize::from(columns)]; usize::from(lines)];
        self.pty.resize(size(columns, lines));
        // The terminal is not one that the system tells it of.
        rustix::process::kill_process(self.pty.id(), Signal::WINCH).unwrap();
    }

    /// Waits for the end, after which the terminal is as it was.
    fn end(mut self) -> Option<i32> {
        while self.pty.more().is_some() {}
        let status = self.pty.ended();
        let all = &self.pty.all;
        let went = SCREEN.map(|sequence| all.rfind(sequence));
        assert!(went[0].is_some() && went[1] > went[0], "{all:?}");
        assert!(
            all.rfind("\u{1b}[?25h") > all.rfind("\u{1b}[?25l"),
            "{all:?}"
        );
        assert!(
            self.pty
                .modes()
                .contains(LocalModes::ICANON | LocalModes::ECHO)
        );
        status.code()
    }
}

pub(crate) fn up(workspace: &Workspace) -> Running {
    let up = Running::start(workspace.command(["up", "--http", "127.0.0.1:0", "--json"]));
    up.json();
    up
}

/// A workspace with a task that nobody has begun.
pub(crate) fn planned() -> Workspace {
    let workspace = Workspace::board();
    workspace.call("create_project", &json!({"name": "Weather"}));
    let call = |tool: &str, rest: serde_json::Value| {
        let mut arguments = json!({"project": "weather"});
        let all = arguments.as_object_mut().unwrap();
        all.extend(rest.as_object().unwrap().clone());
        workspace.call(tool, &arguments)
    };
    let epic = call("create_epic", json!({"title": "Sensors"}));
    let story = call(
        "create_story",
        json!({"epic_id": epic["id"], "title": "Barometer", "user_story": "I see the pressure."}),
    );
    let task = json!({"story_id": story["id"], "title": "Driver", "type": "task"});
    let task = call("create_task", task);
    assert!(task["id"].is_string(), "{task}");
    workspace
}

fn set(workspace: &Workspace, status: &str) {
    let listed = workspace.call("list_tasks", &json!({"project": "weather"}));
    let text = listed.to_string();
    let at = text.find("-3").unwrap_or_else(|| panic!("{text}"));
    let key: String = text[..at]
        .chars()
        .rev()
        .take_while(char::is_ascii_uppercase)
        .collect();
    let key: String = key.chars().rev().collect();
    let arguments = json!({"project": "weather", "task_id": format!("{key}-3"), "status": status});
    workspace.call("update_task", &arguments);
}

#[test]
fn a_card_is_seen_as_it_moves_and_so_it_is_after_the_server_was_started_anew() {
    let workspace = planned();
    let first = up(&workspace);
    let mut seen = Seen::start(&workspace, true, 100, 30);
    let text = seen.until_holds(&["● live", "Weather 0/1 done", "backlog 3", "Driver"]);
    assert!(!text.contains("todo"), "{text}");
    set(&workspace, "todo");
    seen.until_holds(&["todo 1", "backlog 2"]);
    // What holds the task follows it.
    set(&workspace, "in-progress");
    seen.until_holds(&["in-progress"]);
    first.signal(Signal::TERM);
    assert!(first.end().success());
    let away = seen.until_holds(&["away", "the last state is shown until it is back"]);
    assert!(away.contains("Driver"), "{away}");
    let second = up(&workspace);
    seen.until(|text| text.contains("● live") && !text.contains("away"));
    set(&workspace, "todo");
    seen.until_holds(&["todo 1"]);
    for (key, said) in [
        ("2", "no plans yet"),
        ("3", "no upstream servers"),
        ("?", "ctrl-c"),
    ] {
        seen.pty.write(key);
        seen.until_holds(&[said]);
    }
    seen.pty.write("1/");
    seen.until_holds(&["/▏"]);
    seen.pty.write("driver\r");
    seen.until(|text| text.contains("Driver") && !text.contains("Barometer"));
    seen.pty.write("q");
    assert_eq!(seen.end(), Some(0));
    second.signal(Signal::TERM);
    assert!(second.end().success());
}

#[test]
fn the_terminal_is_as_it_was_however_it_ends() {
    let workspace = planned();
    let _up = up(&workspace);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut seen = Seen::start(&workspace, true, 80, 24);
        seen.until_holds(&["● live", "Driver"]);
        assert!(!seen.pty.modes().contains(LocalModes::ICANON));
        rustix::process::kill_process(seen.pty.id(), signal).unwrap();
        assert_eq!(seen.end(), Some(0), "{signal:?}");
    }
    for keys in ["q", "\u{3}", "\u{1b}"] {
        let mut seen = Seen::start(&workspace, true, 80, 24);
        seen.until_holds(&["● live", "Driver"]);
        seen.pty.write(keys);
        assert_eq!(seen.end(), Some(0), "{keys:?}");
    }
}

#[test]
fn it_fits_a_small_terminal_and_is_plain_where_no_colour_is_wanted() {
    let workspace = planned();
    let _up = up(&workspace);
    let mut seen = Seen::start(&workspace, false, 100, 30);
    seen.until_holds(&["● live", "Driver"]);
    seen.resize(40, 10);
    let small = seen.until_holds(&["● live", "Driver", "q quit"]);
    assert!(
        small.lines().all(|line| line.chars().count() <= 40),
        "{small}"
    );
    for colour in 31..38 {
        assert!(
            !seen.pty.all.contains(&format!("\u{1b}[{colour}m")),
            "{colour}"
        );
        assert!(
            !seen
                .pty
                .all
                .contains(&format!("\u{1b}[38;5;{}m", colour - 30)),
            "{colour}"
        );
    }
    seen.pty.write("q");
    assert_eq!(seen.end(), Some(0));
    let mut coloured = Seen::start(&workspace, true, 100, 30);
    coloured.until_holds(&["● live", "Driver"]);
    assert!(
        coloured.pty.all.contains("\u{1b}[38;5;"),
        "{:?}",
        coloured.pty.all
    );
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_written_while_nothing_happens() {
    let workspace = planned();
    let _up = up(&workspace);
    let mut seen = Seen::start(&workspace, true, 80, 24);
    seen.until_holds(&["● live", "Driver"]);
    let ticks = |seen: &Seen| {
        let id = seen.pty.id().as_raw_nonzero();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
        let used = rest.split_whitespace().skip(11).take(2);
        used.filter_map(|ticks| ticks.parse::<u64>().ok())
            .sum::<u64>()
    };
    // Work in progress ends first, however long a busy machine takes. A program that keeps drawing or
    // polling never rests for this long.
    let end = Instant::now() + PATIENCE;
    loop {
        let before = ticks(&seen);
        let came = seen.pty.more_within(Duration::from_secs(3));
        let used = ticks(&seen) - before;
        if came.is_err() && used == 0 {
            break;
        }
        assert!(Instant::now() < end, "{used} ticks, {came:?}");
    }
}

#[test]
fn where_there_is_no_terminal_it_is_printed_once() {
    let workspace = planned();
    let none = workspace.run(["top"]);
    assert_eq!(none.code, Some(4), "{none:?}");
    assert!(none.err.contains("run `orchestra up`"), "{none:?}");
    let _up = up(&workspace);
    let said = workspace.run(["top"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    assert!(
        said.out.starts_with("Weather: 0 of 1 tasks done\nSTATE"),
        "{said:?}"
    );
    assert!(said.out.contains("Driver"), "{said:?}");
    assert!(!said.out.contains('\u{1b}'), "{said:?}");
    let json = workspace.run(["top", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        json["board"]["cards"].as_array().unwrap().len(),
        3,
        "{json}"
    );
    assert_eq!(json["plans"]["plans"], json!([]));
    let unknown = workspace.run(["top", "--once", "--project", "nope"]);
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
    assert!(unknown.err.contains("nope"), "{unknown:?}");
}

#[test]
fn a_token_is_shown_where_one_is_asked_for() {
    let workspace = planned();
    let token = "0123456789abcdef0123";
    let mut command = workspace.command(["up", "--http", "127.0.0.1:0", "--json"]);
    command.env("ORCHESTRA_TOKEN", token);
    let up = Running::start(command);
    up.json();
    let without = workspace.run(["top", "--once"]);
    assert!(without.err.contains("ORCHESTRA_TOKEN"), "{without:?}");
    assert_ne!(without.code, Some(0));
    let mut command = workspace.command(["top", "--once"]);
    command.env("ORCHESTRA_TOKEN", token);
    let with = crate::support::said(command, "");
    assert_eq!(with.code, Some(0), "{with:?}");
    assert!(with.out.contains("Driver"), "{with:?}");
}
