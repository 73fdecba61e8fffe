//! The line that is typed: over several lines, with what was typed before, and completion of commands.

use std::{
    borrow::Cow,
    path::Path,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use orchestra_plan::draw::Paint;
use ratatui::crossterm::event;
use reedline::{
    ColumnarMenu, Completer, CompletionResult, EditCommand, Emacs, ExampleHighlighter,
    FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder as _, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, Span, Suggestion,
    ValidationResult, Validator, default_emacs_keybindings,
};
use tokio::{task::spawn_blocking, time::timeout};

use super::commands::Command;

/// Lines that are remembered.
const HISTORY: usize = 2_000;

/// The name of the menu of completions.
const MENU: &str = "completions";

/// How often it is looked whether the program is to end.
const LOOKED: Duration = Duration::from_millis(100);

/// Maximum time for a read to end once the program is to end. A read that waits for a terminal to answer where its
/// cursor is takes longer, and is not waited for.
pub(super) const LETS_GO: Duration = Duration::from_millis(400);

/// Held while something is read from the terminal.
static TERMINAL: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What begins and ends a text of several lines.
const QUOTES: &str = "\"\"\"";

/// What may stand behind commands.
#[derive(Debug, Clone, Default)]
pub(super) struct Words(Arc<Mutex<Known>>);

/// What is known of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// Servers and tools.
    pub(super) offered: Vec<String>,
    /// Models.
    pub(super) models: Vec<String>,
    /// Conversations.
    pub(super) sessions: Vec<String>,
}

impl Words {
    /// Changes what is known.
    pub(super) fn know(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn known(&self) -> Known {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Mode of the terminal, restored at the end: a read that is not waited for leaves it raw.
pub(super) struct Mode(Option<rustix::termios::Termios>);

impl Mode {
    /// The mode as it is.
    pub(super) fn current() -> Self {
        Self(rustix::termios::tcgetattr(std::io::stdin()).ok())
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        if let Some(mode) = &self.0 {
            // A terminal that is gone has no mode.
            let _ = rustix::termios::tcsetattr(
                std::io::stdin(),
                rustix::termios::OptionalActions::Now,
                mode,
            );
        }
    }
}

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A text.
    Text(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// Reads what is typed.
pub(super) struct Editor {
    /// Taken while something is typed.
    line: Option<Reedline>,
    is_plain: bool,
    /// Whether input that arrived before the next prompt is dropped.
    drops_earlier: bool,
}

impl Editor {
    /// With what was typed before in a file; `ends` makes it return when the program is to end.
    pub(super) fn new(
        history: Option<&Path>,
        words: Words,
        paint: Paint,
        ends: Arc<AtomicBool>,
    ) -> Self {
        let mut keys = default_emacs_keybindings();
        let complete = [
            ReedlineEvent::Menu(MENU.to_owned()),
            ReedlineEvent::MenuNext,
        ];
        keys.add_binding(
            KeyModifiers::NONE,
            KeyCode::Tab,
            ReedlineEvent::UntilFound(complete.to_vec()),
        );
        let menu = ReedlineMenu::EngineCompleter(Box::new(ColumnarMenu::default().with_name(MENU)));
        let mut line = plain_line(paint, ends)
            .with_completer(Box::new(Commands(words)))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_menu(menu)
            .with_validator(Box::new(SeveralLines))
            .with_edit_mode(Box::new(Emacs::new(keys)));
        let history = history.map(|path| FileBackedHistory::with_file(HISTORY, path.to_owned()));
        if let Some(Ok(history)) = history {
            line = line.with_history(Box::new(history));
        }
        Self {
            line: Some(line),
            is_plain: paint == Paint::Plain,
            drops_earlier: false,
        }
    }

    /// Without history, for the answers to a question that is on the screen. The first prompt drops all input that
    /// arrived before it.
    pub(super) fn bare(paint: Paint, ends: Arc<AtomicBool>) -> Self {
        Self {
            line: Some(plain_line(paint, ends)),
            is_plain: paint == Paint::Plain,
            drops_earlier: true,
        }
    }

    /// Reads what is typed behind a prompt, of which something stands there already. Whoever waits for it no more
    /// ends it: the next one reads after it, not beside it.
    pub(super) async fn read(&mut self, prompt: &str, already: Option<String>) -> Typed {
        let Some(mut line) = self.line.take() else {
            return Typed::End;
        };
        // single-flight: one reads from the terminal at a time
        let alone = TERMINAL.lock().await;
        let prompt = Sign {
            text: prompt.to_owned(),
            is_plain: self.is_plain,
        };
        let drops_earlier = std::mem::take(&mut self.drops_earlier);
        let read = spawn_blocking(move || {
            if drops_earlier {
                drop_input();
            }
            if let Some(text) = already {
                line.run_edit_commands(&[EditCommand::InsertString(text)]);
            }
            let signal = line.read_line(&prompt);
            drop(alone);
            (line, signal)
        });
        let Ok((line, signal)) = read.await else {
            return Typed::End;
        };
        self.line = Some(line);
        match signal {
            Ok(Signal::Success(text)) => Typed::Text(unquoted(&text)),
            Ok(Signal::CtrlC) => Typed::Interrupt,
            Ok(_) => Typed::End,
            Err(error) => {
                tracing::debug!(%error, "cannot read the terminal");
                Typed::End
            }
        }
    }
}

/// Drops the input that has arrived. The terminal must not be read by another thread.
fn drop_input() {
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
    // Keys that were read together with an earlier line are in the queue of this process.
    while event::poll(Duration::ZERO).unwrap_or(false) {
        if event::read().is_err() {
            break;
        }
    }
}

/// Waits until nothing is read from the terminal any more, which then is as it was.
pub(super) async fn let_go() {
    // One that does not answer is left as it is.
    let _ = timeout(LETS_GO, TERMINAL.lock()).await;
}

fn plain_line(paint: Paint, ends: Arc<AtomicBool>) -> Reedline {
    let mut highlighter = ExampleHighlighter::new(Vec::new());
    let usual = reedline::Color::Default;
    highlighter.change_colors(usual, usual, usual);
    Reedline::create()
        .with_highlighter(Box::new(highlighter))
        .with_ansi_colors(paint == Paint::Colour)
        .with_break_signal(ends)
        .with_poll_interval(LOOKED)
        .use_bracketed_paste(true)
}

/// A text without what makes it one of several lines.
fn unquoted(text: &str) -> String {
    let trimmed = text.trim();
    let inner = trimmed
        .strip_prefix(QUOTES)
        .and_then(|text| text.strip_suffix(QUOTES));
    match inner {
        Some(inner) => inner.trim_matches('\n').to_owned(),
        None => text.replace("\\\n", "\n"),
    }
}

/// A line goes on in the next where it ends with a backslash, or stands in three quotes.
struct SeveralLines;

impl Validator for SeveralLines {
    fn validate(&self, line: &str) -> ValidationResult {
        let trimmed = line.trim();
        let is_open = trimmed.starts_with(QUOTES)
            && !(trimmed.len() >= 2 * QUOTES.len() && trimmed.ends_with(QUOTES));
        match is_open || line.ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Complete,
        }
    }
}

/// Completes commands, and what stands behind them.
struct Commands(Words);

impl Completer for Commands {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let typed = line.get(..position).unwrap_or(line);
        let known = self.0.known();
        let found: Vec<Suggestion> = completions(typed, &known)
            .into_iter()
            .map(|(value, description)| Suggestion {
                span: Span::new(typed.rfind(' ').map_or(0, |at| at + 1), position),
                append_whitespace: true,
                value,
                description,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(found)
    }
}

/// What may stand in place of the last word of what was typed, and what it is.
fn completions(typed: &str, known: &Known) -> Vec<(String, Option<String>)> {
    if !typed.starts_with('/') {
        return Vec::new();
    }
    let Some((command, rest)) = typed.split_once(' ') else {
        let all = Command::ALL.iter();
        let begun = all.filter(|(name, ..)| format!("/{name}").starts_with(typed));
        return begun
            .map(|(name, _, meaning)| (format!("/{name}"), Some((*meaning).to_owned())))
            .collect();
    };
    let last = rest.rsplit(' ').next().unwrap_or_default();
    let words = match command {
        "/enable" | "/disable" => &known.offered,
        "/model" => &known.models,
        "/load" => &known.sessions,
        _ => return Vec::new(),
    };
    let begun = words.iter().filter(|word| word.starts_with(last));
    begun.map(|word| (word.clone(), None)).collect()
}

/// What stands before what is typed.
struct Sign {
    text: String,
    is_plain: bool,
}

impl Prompt for Sign {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.text)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(if self.is_plain { "> " } else { "❯ " })
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_words_are_completed() {
        let known = Known {
            offered: vec!["weather".to_owned(), "web".to_owned()],
            models: vec!["llama3.2".to_owned()],
            sessions: Vec::new(),
        };
        let found = |typed: &str| {
            let all = completions(typed, &known).into_iter();
            all.map(|(value, _)| value).collect::<Vec<_>>()
        };
        assert_eq!(found("/to"), ["/tools"]);
        assert!(found("/").len() >= 12);
        assert_eq!(found("/disable we"), ["weather", "web"]);
        assert_eq!(found("/model l"), ["llama3.2"]);
        assert!(found("hello").is_empty() && found("/quit x").is_empty());
    }

    #[test]
    fn a_text_may_have_several_lines() {
        let is_open =
            |text: &str| matches!(SeveralLines.validate(text), ValidationResult::Incomplete);
        for (text, open, read) in [
            ("hello", false, "hello"),
            ("one\\", true, "one\\"),
            ("one\\\ntwo", false, "one\ntwo"),
            ("\"\"\"", true, "\"\"\""),
            ("\"\"\"\none", true, "\"\"\"\none"),
            ("\"\"\"\none\ntwo\n\"\"\"", false, "one\ntwo"),
            ("\"\"\"\"\"\"", false, ""),
        ] {
            assert_eq!(
                (is_open(text), unquoted(text).as_str()),
                (open, read),
                "{text}"
            );
        }
    }
}
