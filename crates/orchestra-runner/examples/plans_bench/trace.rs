//! What git itself says of when its processes began and ended.

use std::{collections::HashMap, ffi::OsString, path::Path};

use serde_json::Value;

/// A process of git.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    /// When it began and ended, in milliseconds of the day.
    pub(crate) began: f64,
    pub(crate) ended: f64,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// The variables that name what it works in.
    pub(crate) variables: Vec<(String, String)>,
    /// How it ended.
    pub(crate) code: i64,
    /// All of that, and its working tree, for looking for names.
    pub(crate) words: String,
}

/// Which variables it is asked for.
const VARIABLES: &str = "GIT_DIR,GIT_WORK_TREE";

/// What makes git say it, into a file.
pub(crate) fn variables(file: &Path) -> Vec<(OsString, OsString)> {
    vec![
        ("GIT_TRACE2_EVENT".into(), file.into()),
        ("GIT_TRACE2_ENV_VARS".into(), VARIABLES.into()),
    ]
}

/// Milliseconds of the day of a time like `2026-01-31T12:30:15.123456Z`.
fn time(text: &str) -> f64 {
    let clock = text.split('T').nth(1).unwrap().trim_end_matches('Z');
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
    (parts[0] * 3600.0 + parts[1] * 60.0 + parts[2]) * 1000.0
}

/// All processes that a file tells of, by their beginnings. What a git was started by a git for counts as
/// the one that started it.
pub(crate) fn processes(file: &Path) -> Vec<Process> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut open: HashMap<String, Process> = HashMap::new();
    let mut all = Vec::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let sid = event["sid"].as_str().unwrap();
        if sid.contains('/') {
            continue;
        }
        let at = || time(event["time"].as_str().unwrap());
        match event["event"].as_str().unwrap() {
            "start" => {
                // The process is a little older than its first word.
                let age = event["t_abs"].as_f64().unwrap() * 1000.0;
                let words = event["argv"].as_array().unwrap();
                let words = words.iter().filter_map(Value::as_str);
                let words: Vec<String> = words.map(str::to_owned).collect();
                let began = at() - age;
                let process = Process {
                    began,
                    ended: began,
                    words: words.join(" "),
                    arguments: words.into_iter().skip(1).collect(),
                    variables: Vec::new(),
                    code: 0,
                };
                open.insert(sid.to_owned(), process);
            }
            "def_param" => {
                let name = event["param"].as_str().unwrap_or_default();
                if let Some(process) = open.get_mut(sid)
                    && VARIABLES.split(',').any(|variable| variable == name)
                {
                    let value = event["value"].as_str().unwrap_or_default();
                    process.words.push(' ');
                    process.words.push_str(value);
                    let variable = (name.to_owned(), value.to_owned());
                    process.variables.push(variable);
                }
            }
            "def_repo" => {
                if let Some(process) = open.get_mut(sid) {
                    process.words.push(' ');
                    process
                        .words
                        .push_str(event["worktree"].as_str().unwrap_or_default());
                }
            }
            "atexit" => {
                if let Some(mut process) = open.remove(sid) {
                    process.ended = at();
                    process.code = event["code"].as_i64().unwrap_or_default();
                    all.push(process);
                }
            }
            _ => {}
        }
    }
    all.sort_by(|left, right| left.began.total_cmp(&right.began));
    all
}

/// The command of git, by its arguments.
pub(crate) fn command(arguments: &[String]) -> &str {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-c" | "-C" | "--git-dir" | "--work-tree" => drop(words.next()),
            word if word.starts_with('-') => {}
            word => return word,
        }
    }
    ""
}

/// What of them lies between two times of the day.
pub(crate) fn between(processes: Vec<Process>, began: f64, ended: f64) -> Vec<Process> {
    let clip = |process: Process| Process {
        began: process.began.max(began),
        ended: process.ended.min(ended),
        ..process
    };
    let mut all: Vec<Process> = processes.into_iter().map(clip).collect();
    all.retain(|process| process.began < process.ended);
    all
}

/// For how long at least one of them ran, in milliseconds.
pub(crate) fn union(processes: &[Process]) -> f64 {
    let mut covered = 0.0;
    let mut until = f64::MIN;
    for process in processes {
        covered += (process.ended - process.began.max(until)).max(0.0);
        until = until.max(process.ended);
    }
    covered
}
