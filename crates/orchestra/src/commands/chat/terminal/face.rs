//! One turn on a terminal: the words of the model as they come, its calls with their time, and the question whether
//! one may be made.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use orchestra_chat::{Due, Face, Note, Outcome, Piece, Request, Stopper, Verdict};
use orchestra_gateway::rules;
use orchestra_plan::draw::Paint;
use ratatui::crossterm::terminal;
use serde_json::{Map, Value};

use super::{
    super::tally::Tally,
    editor::{Editor, Typed},
    images::Shows,
    markdown::Markdown,
    notes,
};
use crate::output;

/// How often what turns is turned.
const TICK: Duration = Duration::from_millis(100);

/// The size of a terminal that does not tell it.
const USUAL: (u16, u16) = (80, 24);

/// How what is beside the words is begun and ended to be shown.
const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Shows one turn.
pub(super) struct Screen<'s> {
    paint: Paint,
    shows: Shows,
    stopper: &'s Stopper,
    /// What is counted.
    pub(super) tally: Tally,
    bars: MultiProgress,
    /// Turns while the model is waited for.
    waiting: Option<ProgressBar>,
    /// Turn while calls run.
    running: HashMap<usize, ProgressBar>,
    markdown: Option<Markdown>,
    /// Whether thoughts stand on the line.
    thinks: bool,
}

impl<'s> Screen<'s> {
    pub(super) fn new(paint: Paint, stopper: &'s Stopper) -> Self {
        Self {
            paint,
            shows: Shows::here(),
            stopper,
            tally: Tally::default(),
            bars: MultiProgress::new(),
            waiting: None,
            running: HashMap::new(),
            markdown: None,
            thinks: false,
        }
    }

    /// Shows that something is waited for.
    pub(super) fn wait(&mut self, what: &str) {
        if self.waiting.is_none() {
            self.waiting = Some(self.bar(what));
        }
    }

    /// Shows it no more.
    pub(super) fn wait_no_more(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.finish_and_clear();
        }
    }

    fn bar(&self, what: &str) -> ProgressBar {
        let bar = self.bars.add(ProgressBar::new_spinner());
        let form = match self.paint {
            Paint::Colour => "{spinner:.cyan} {wide_msg} {elapsed:.dim}",
            Paint::Plain => "{spinner} {wide_msg} {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        bar.set_message(output::printable(what).into_owned());
        bar.enable_steady_tick(TICK);
        bar
    }

    /// Writes a line beside the words, above what turns.
    pub(super) fn line(&mut self, text: &str) {
        self.end_words();
        let text = output::printable(text).into_owned();
        let text = match self.paint {
            Paint::Colour => format!("{DIM}{text}{PLAIN}"),
            Paint::Plain => text,
        };
        self.bars.suspend(|| output::complain(&text));
    }

    /// Writes to the screen as it is. That it cannot be written is no fault of a turn.
    fn write(&self, text: &str) {
        if !text.is_empty() {
            self.bars.suspend(|| drop(output::raw(text.as_bytes())));
        }
    }

    fn end_thoughts(&mut self) {
        if std::mem::take(&mut self.thinks) {
            let end = if self.paint == Paint::Colour {
                PLAIN
            } else {
                ""
            };
            self.write(&format!("{end}\n\n"));
        }
    }

    fn end_words(&mut self) {
        self.end_thoughts();
        if let Some(mut markdown) = self.markdown.take() {
            let end = markdown.end();
            self.write(&end);
        }
    }

    /// Asks whether a call may be made.
    async fn ask(&mut self, due: &Due) -> Verdict {
        self.wait_no_more();
        self.end_words();
        // Nothing turns while something is typed.
        self.bars.set_draw_target(ProgressDrawTarget::hidden());
        let verdict = self.verdict(due).await;
        self.bars.set_draw_target(ProgressDrawTarget::stderr());
        verdict
    }

    async fn verdict(&self, due: &Due) -> Verdict {
        output::complain(&question(due));
        let given_up = GivenUp::default();
        let mut editor = Editor::bare(self.paint, Arc::clone(&given_up.0));
        loop {
            let typed = editor
                .read("[y] once  [a] always  [n] no  [e] edit ", None)
                .await;
            let Typed::Text(text) = typed else {
                self.stopper.stop();
                // Whoever waits for this is stopped.
                return std::future::pending().await;
            };
            match text.trim().to_lowercase().as_str() {
                "y" | "yes" => return Verdict::Once,
                "a" | "always" => return Verdict::Always,
                "n" | "no" | "" => return Verdict::No,
                "e" | "edit" => {
                    if let Some(arguments) = edited(&mut editor, &due.call.arguments).await {
                        return Verdict::Edit(arguments);
                    }
                }
                _ => output::complain("y, a, n or e?"),
            }
        }
    }
}

/// Ends the reading of an answer that nobody waits for any more.
#[derive(Default)]
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What is asked: all of the call, for what is not shown is not agreed to.
fn question(due: &Due) -> String {
    let whose = due
        .server
        .as_ref()
        .map_or_else(String::new, |server| format!(" of {server}"));
    let tool = output::in_a_line(&rules::in_question(&due.call.tool));
    let why = match &due.rule {
        Some(rule) => format!("{} requires your consent", output::in_a_line(rule)),
        None => "it may change something".to_owned(),
    };
    let arguments = serde_json::to_string_pretty(&due.call.arguments).unwrap_or_default();
    let arguments: Vec<String> = arguments
        .lines()
        .map(|line| {
            let text = line.trim_start_matches(' ');
            let indent = &line[..line.len() - text.len()];
            format!("{indent}{}", output::in_a_line(text))
        })
        .collect();
    let arguments = arguments.join("\n");
    output::printable(&format!(
        "Call {tool}{}? ({why})\n{arguments}",
        output::in_a_line(&whose)
    ))
    .into_owned()
}

/// Other arguments; `None` where it stays with those that there are.
async fn edited(editor: &mut Editor, arguments: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut text = serde_json::to_string(arguments).unwrap_or_default();
    loop {
        let Typed::Text(typed) = editor.read("arguments ", Some(text)).await else {
            return None;
        };
        match serde_json::from_str(&typed) {
            Ok(arguments) => return Some(arguments),
            Err(error) => {
                output::complain(&format!("not a JSON object: {error}"));
                text = typed;
            }
        }
    }
}

impl Face for Screen<'_> {
    fn asked(&mut self, _request: &Request) {
        self.tally.ask();
        self.wait("thinking");
    }

    fn says(&mut self, piece: &Piece) {
        self.wait_no_more();
        match piece {
            Piece::Thinking(text) => {
                if !std::mem::replace(&mut self.thinks, true) && self.paint == Paint::Colour {
                    self.write(DIM);
                }
                self.write(&output::printable(text));
            }
            Piece::Text(text) => {
                self.end_thoughts();
                let size = || {
                    terminal::size()
                        .ok()
                        .filter(|(columns, rows)| *columns > 0 && *rows > 0)
                };
                let paint = self.paint;
                let markdown = self
                    .markdown
                    .get_or_insert_with(|| Markdown::new(paint, size().unwrap_or(USUAL)));
                let text = markdown.push(&output::printable(text));
                self.write(&text);
            }
        }
    }

    fn said(&mut self) {
        self.wait_no_more();
        self.end_words();
    }

    fn notes(&mut self, note: &Note) {
        if let Some(text) = notes::words(note) {
            self.wait_no_more();
            self.line(&text);
        }
    }

    fn calls(&mut self, due: &Due) {
        let bar = self.bar(&notes::call(due));
        self.running.insert(due.number, bar);
    }

    fn called(&mut self, due: &Due, outcome: &Outcome, took: Duration) {
        self.tally.call(due, outcome, took);
        if let Some(bar) = self.running.remove(&due.number) {
            bar.finish_and_clear();
        }
        self.line(&notes::called(due, outcome, took));
        if let Outcome::Answered { images, .. } = outcome {
            for image in images {
                if let Some(sequence) = self.shows.sequence(image) {
                    self.write(&sequence);
                }
            }
        }
    }

    fn decides<'f>(
        &'f mut self,
        due: &'f Due,
    ) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'f>> {
        Box::pin(self.ask(due))
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.wait_no_more();
        for (_, bar) in self.running.drain() {
            bar.finish_and_clear();
        }
        self.end_words();
    }
}
