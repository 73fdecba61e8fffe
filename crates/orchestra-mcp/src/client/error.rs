//! What can go wrong between a client and its server.

use std::{fmt, sync::Arc, time::Duration};

use orchestra_process::Exit;
use orchestra_wire::{ErrorCode, RpcError};
use tokio::time::Instant;

use super::ChildConfig;
use crate::attribution::{in_a_line, in_lines, quoted};

/// Why a call of a server did not bring a result.
///
/// The texts of the first five are those of the transport contract (seed 002, Error Handling);
/// [`explain`](Self::explain) says what happened in this case.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// Used after `close`, or the peer closed the connection.
    #[error("transport: connection closed")]
    Closed,
    /// The deadline passed.
    #[error("transport: invocation timeout")]
    Timeout {
        /// How long was waited.
        after: Duration,
    },
    /// The server was started and did not get ready in time.
    #[error("transport: invocation timeout")]
    SlowStart {
        /// How long was waited.
        after: Duration,
        /// The end of what it wrote to standard error meanwhile.
        stderr_tail: String,
    },
    /// The server's process ended.
    #[error("transport: {} process crashed", .0.whose())]
    Crashed(Arc<Crash>),
    /// What the server answered is no JSON-RPC message, or is larger than permitted.
    #[error("transport: invalid JSON-RPC response")]
    InvalidMessage {
        /// What is wrong, with a short excerpt of the message.
        what: String,
    },
    /// What the server answered is larger than the way from it takes.
    #[error("the answer is too large: {what}")]
    AnswerTooLarge {
        /// Which bound it is over.
        what: String,
    },
    /// The server ended the call, and not its connection, without an answer.
    #[error("{what}")]
    NoAnswer {
        /// Which call it was, with a likely cause.
        what: String,
    },
    /// HTTP refused or broke.
    #[error("transport: HTTP request failed")]
    Http(Arc<HttpFailure>),
    /// The server could not be started or reached; nothing was sent.
    #[error("cannot reach the server: {what}")]
    Unreachable {
        /// What was attempted and why it failed.
        what: String,
    },
    /// The last start did not help, and the next has not begun; nothing was sent.
    #[error("cannot reach the server")]
    NotYet {
        /// When it is tried again; `None` where nobody does so by itself.
        next_at: Option<Instant>,
        /// Why the last start did not help.
        last: Arc<Self>,
    },
    /// The server does not speak MCP in a form that is known here.
    #[error("the handshake failed: {what}")]
    Handshake {
        /// What it said instead.
        what: String,
    },
    /// It failed so often that it is left alone for a while; nothing was sent.
    #[error("the server failed too often; the next try is in {} s", .retry_in.as_secs_f64().ceil())]
    CircuitOpen {
        /// Time until the next try.
        retry_in: Duration,
        /// Why it failed the last time.
        last: Option<Arc<Self>>,
    },
    /// The server lets nobody in without a sign-in; nothing ran.
    #[error("the server requires a sign-in: {what}")]
    NeedsAuth {
        /// What to do.
        what: String,
    },
    /// The configuration of the server cannot be used; nothing was sent.
    #[error("invalid configuration: {what}")]
    InvalidConfig {
        /// Which setting, and what to do. Never a secret.
        what: String,
    },
    /// Too much waits for the server already; nothing was sent.
    #[error("busy: {what}")]
    Busy {
        /// Which bound was reached.
        what: String,
    },
    /// The request is larger than what the way to the server takes; nothing was sent.
    #[error("the request is too large: {what}")]
    TooLarge {
        /// Which bound it is over.
        what: String,
    },
    /// The server lists the tool with a definition for which it is not called ([`ToolCheck`](super::ToolCheck));
    /// nothing was sent.
    #[error("the definition of the tool has changed")]
    ToolChanged,
    /// The tools of the server cannot be listed, so that the tool of a call cannot be compared; nothing was sent.
    #[error("its tools cannot be listed")]
    Unlisted {
        /// Why they cannot be listed.
        last: Arc<Self>,
    },
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The server answered with a JSON-RPC error: an answer, and no fault of the connection.
    #[error("{}", .0.message)]
    Rpc(RpcError),
}

/// How a server's process ended.
#[derive(Debug, Clone, Default)]
pub struct Crash {
    /// Exit code.
    pub exit: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// The limit that it ran into, when that is known.
    pub limit: Option<String>,
    /// The end of what it wrote to standard error.
    pub stderr_tail: String,
    /// Whether it is a plugin, which is not spoken to over its standard input and output.
    pub is_plugin: bool,
}

impl Crash {
    /// How a process ended that was started with this configuration, by what it wrote last.
    #[must_use]
    pub fn of(exit: Exit, stderr_tail: String, config: &ChildConfig) -> Self {
        let exit = exit.with_last_words(&stderr_tail, &config.limits, &config.sandbox);
        Self {
            exit: exit.code,
            signal: exit.signal,
            limit: exit.limit.map(|limit| limit.to_string()),
            stderr_tail,
            is_plugin: false,
        }
    }
}

/// How an HTTP exchange failed.
#[derive(Debug, Clone, Default)]
pub struct HttpFailure {
    /// Status; 0 when no response came or its body broke.
    pub status: u16,
    /// `Retry-After`, as a duration from the time of the response.
    pub retry_after: Option<Duration>,
    /// Time of the response; `None` if none came, or the time is unknown.
    pub received: Option<Instant>,
    /// The beginning of the body or what broke, at most 512 bytes. Never a secret.
    pub excerpt: String,
    /// Whether the server may have got the request.
    pub sent: bool,
    /// Whether the server answered the request as one of a session that it does not know.
    pub denied: bool,
}

/// Whether a call that failed may have run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It did not run: calling again is harmless.
    No,
    /// Nobody knows: it may have run.
    Maybe,
}

impl ClientError {
    /// A stable name for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Closed => "transport_closed",
            Self::Timeout { .. } | Self::SlowStart { .. } => "timeout",
            Self::Crashed(_) => "process_crashed",
            Self::InvalidMessage { .. } => "invalid_message",
            Self::Http(_) => "http",
            Self::Unreachable { .. } | Self::NotYet { .. } | Self::Unlisted { .. } => "unreachable",
            Self::Handshake { .. } => "handshake_failed",
            Self::CircuitOpen { .. } => "circuit_open",
            Self::NeedsAuth { .. } => "needs_auth",
            Self::InvalidConfig { .. } => "invalid_config",
            Self::Busy { .. } => "busy",
            Self::TooLarge { .. } => "request_too_large",
            Self::AnswerTooLarge { .. } => "answer_too_large",
            Self::NoAnswer { .. } => "no_answer",
            Self::ToolChanged => "needs_approval",
            Self::Cancelled => "cancelled",
            Self::Rpc(_) => "rpc",
        }
    }

    /// Whether the call may have run at the server.
    #[must_use]
    pub fn sent(&self) -> Sent {
        match self {
            Self::Unreachable { .. }
            | Self::NotYet { .. }
            | Self::SlowStart { .. }
            | Self::Handshake { .. }
            | Self::CircuitOpen { .. }
            | Self::NeedsAuth { .. }
            | Self::InvalidConfig { .. }
            | Self::Busy { .. }
            | Self::TooLarge { .. }
            | Self::ToolChanged
            | Self::Unlisted { .. } => Sent::No,
            Self::Http(failure) if !failure.sent || matches!(failure.status, 401 | 403) => Sent::No,
            _ => Sent::Maybe,
        }
    }

    /// Whether a call that is safe to repeat may be tried again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Closed
            | Self::Timeout { .. }
            | Self::SlowStart { .. }
            | Self::Crashed(_)
            | Self::Unreachable { .. }
            | Self::NotYet { .. } => true,
            Self::Http(failure) => {
                let passes = matches!(failure.status, 0 | 429 | 500 | 502 | 503 | 504);
                passes || self.is_session_gone()
            }
            Self::Unlisted { last } => last.is_retryable(),
            _ => false,
        }
    }

    /// Whether the server has forgotten the session, so that the call did not run and is to be made
    /// again in a new one. Its status is always 404, whatever the server answered.
    pub(super) fn is_session_gone(&self) -> bool {
        matches!(self, Self::Http(failure) if failure.status == 404 && !failure.sent)
    }

    /// Whether the server answered this request as one of a session that it has forgotten.
    pub(super) fn is_session_denied(&self) -> bool {
        matches!(self, Self::Http(failure) if failure.denied)
    }

    /// The error of a call that was not sent because the tools of the server cannot be listed, by the error of the list.
    /// An error that names another step, such as a sign-in, stays as it is.
    #[must_use]
    pub fn unlisted(self) -> Self {
        match self {
            Self::NeedsAuth { .. } | Self::CircuitOpen { .. } | Self::NotYet { .. } => self,
            error => Self::Unlisted {
                last: Arc::new(error),
            },
        }
    }

    /// Returns the error of the list for a call that was not sent because the list failed, or else the error itself.
    pub(super) fn cause(&self) -> &Self {
        match self {
            Self::Unlisted { last } => last,
            error => error,
        }
    }

    /// Returns whether the same list may succeed later, after a request for it failed with this error. JSON-RPC errors
    /// about the request itself are final.
    #[must_use]
    pub fn may_list_later(&self) -> bool {
        match self {
            Self::Rpc(error) => !matches!(
                error.code,
                ErrorCode::PARSE_ERROR
                    | ErrorCode::INVALID_REQUEST
                    | ErrorCode::METHOD_NOT_FOUND
                    | ErrorCode::INVALID_PARAMS
            ),
            error => error.is_retryable(),
        }
    }

    /// Remaining time until the server accepts another request (`Retry-After`), also if it refused the last start or
    /// list.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Http(failure) => {
                let passed = failure.received.map(|received| received.elapsed());
                let after = failure.retry_after?;
                Some(after.saturating_sub(passed.unwrap_or_default()))
            }
            Self::NotYet { last, .. }
            | Self::Unlisted { last }
            | Self::CircuitOpen {
                last: Some(last), ..
            } => last.retry_after(),
            _ => None,
        }
    }

    /// The same failure of a call that may have run.
    pub(super) fn maybe_run(self) -> Self {
        match self {
            Self::Http(failure) => Self::Http(Arc::new(HttpFailure {
                sent: true,
                denied: false,
                ..(*failure).clone()
            })),
            error => error,
        }
    }

    /// Whether it may mean that nobody is there: no connection, one that breaks, or somebody between
    /// who says so.
    pub(super) fn may_be_away(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NotYet { .. } => true,
            Self::Http(failure) => {
                matches!(failure.status, 0 | 502..=504) && failure.retry_after.is_none()
            }
            _ => false,
        }
    }

    /// Whether the server is at fault, rather than the caller, the configuration or a rule.
    #[must_use]
    pub fn is_server_fault(&self) -> bool {
        match self {
            Self::Closed
            | Self::Timeout { .. }
            | Self::SlowStart { .. }
            | Self::Crashed(_)
            | Self::InvalidMessage { .. }
            | Self::AnswerTooLarge { .. }
            | Self::NoAnswer { .. }
            | Self::Unreachable { .. }
            | Self::NotYet { .. }
            | Self::Unlisted { .. }
            | Self::Handshake { .. } => true,
            // That it is asked too often (429) is no fault of its own.
            Self::Http(failure) => !matches!(failure.status, 400..=499),
            Self::Rpc(error) => error.code.0 == -32603,
            _ => false,
        }
    }

    /// Whether it counts towards leaving the server alone for a while: exchanges that broke and calls
    /// that were not answered. The end of a process does not, because restarts have pauses of their own.
    /// An answer of the server does not either, even if it cannot be read.
    #[must_use]
    pub fn counts_for_circuit(&self) -> bool {
        match self {
            Self::Timeout { .. }
            | Self::SlowStart { .. }
            | Self::Unreachable { .. }
            | Self::NotYet { .. } => true,
            Self::Http(_) => self.is_server_fault(),
            _ => false,
        }
    }

    /// What happened in this case, in words for people and models, on one or a few lines.
    #[must_use]
    pub fn explain(&self) -> String {
        match self {
            Self::Timeout { after } => format!("no answer within {:.1} s", after.as_secs_f64()),
            Self::SlowStart { after, stderr_tail } => {
                let waited = after.as_secs_f64();
                let mut text = format!("it was not ready within {waited:.1} s");
                text.push_str(&last_words(stderr_tail).0);
                text
            }
            Self::Crashed(crash) => crash.to_string(),
            Self::InvalidMessage { what } => what.clone(),
            Self::Http(failure) => failure.to_string(),
            Self::CircuitOpen {
                last: Some(last), ..
            } => format!("{self}; the last failure: {}", last.explain()),
            Self::NotYet { last, .. } => self.because(last, last.explain()),
            Self::Unlisted { last } => format!("{self}: {}", last.explain()),
            _ => self.to_string(),
        }
    }

    /// The same on one line that is not long. Of the text of the server on standard error it has the last line. Text of
    /// the server is between quotation marks.
    #[must_use]
    pub fn in_short(&self) -> String {
        let (cause, stderr) = match self {
            Self::SlowStart { stderr_tail, .. } => (self.own_cause(), stderr_tail.as_str()),
            Self::Crashed(crash) => (self.own_cause(), crash.stderr_tail.as_str()),
            Self::Http(failure) if !failure.excerpt.is_empty() => {
                let excerpt = quoted(&failure.excerpt);
                (format!("{}: {excerpt}", failure.status_text()), "")
            }
            Self::Handshake { what } => (format!("the handshake failed: {}", quoted(what)), ""),
            Self::InvalidMessage { what } => (quoted(what), ""),
            Self::Rpc(error) => (quoted(&error.message), ""),
            Self::CircuitOpen {
                last: Some(last), ..
            } => (format!("{self}; the last failure: {}", last.in_short()), ""),
            Self::NotYet { last, .. } => (self.because(last, last.in_short()), ""),
            Self::Unlisted { last } => (format!("{self}: {}", last.in_short()), ""),
            _ => {
                let text = self.explain();
                let words: Vec<&str> = text.split_whitespace().collect();
                (in_a_line(&words.join(" ")), "")
            }
        };
        match stderr.lines().rfind(|line| !line.trim().is_empty()) {
            Some(last) => format!("{cause}; the end of its stderr: {}", quoted(last)),
            None => cause,
        }
    }

    /// Returns the cause on one line for messages that are not about the server. The server could mislead their readers, so
    /// its text is left out, or is between quotation marks where it cannot be separated.
    #[must_use]
    pub fn own_cause(&self) -> String {
        match self {
            Self::SlowStart { after, .. } => {
                format!("it was not ready within {:.1} s", after.as_secs_f64())
            }
            Self::Crashed(crash) => crash.ended(),
            Self::Http(failure) => failure.status_text(),
            Self::Handshake { .. } => "the handshake failed".to_owned(),
            Self::NeedsAuth { .. } => "the server requires a sign-in".to_owned(),
            Self::NoAnswer { .. } => "the server ended a call without an answer".to_owned(),
            Self::Rpc(error) => format!("JSON-RPC error {}", error.code.0),
            Self::Unreachable { what } => format!("cannot reach the server: {}", quoted(what)),
            Self::CircuitOpen {
                last: Some(last), ..
            } => format!("{self}; the last failure: {}", last.own_cause()),
            Self::NotYet { last, .. } => self.because(last, last.own_cause()),
            Self::Unlisted { last } => format!("{self}: {}", last.own_cause()),
            _ => self.to_string(),
        }
    }

    /// That it is so for that reason, unless the reason says so.
    fn because(&self, last: &Self, told: String) -> String {
        match last {
            Self::Unreachable { .. } | Self::NotYet { .. } => told,
            _ => format!("{self}: {told}"),
        }
    }

    /// Whether the server wrote more to standard error than [`explain`](Self::explain) tells.
    #[must_use]
    pub fn wrote_more(&self) -> bool {
        match self {
            Self::SlowStart { stderr_tail, .. } => last_words(stderr_tail).1,
            Self::Crashed(crash) => last_words(&crash.stderr_tail).1,
            Self::CircuitOpen {
                last: Some(last), ..
            } => last.wrote_more(),
            Self::NotYet { last, .. } | Self::Unlisted { last } => last.wrote_more(),
            _ => false,
        }
    }
}

/// Lines that are told of what a server wrote to standard error.
const MAX_LINES: usize = 10;

/// How much of each of them, in characters.
const MAX_LINE_CHARS: usize = 300;

/// The end of what a server wrote to standard error, as it is told, and whether that is not all.
fn last_words(stderr: &str) -> (String, bool) {
    let lines: Vec<&str> = stderr.trim().lines().collect();
    if lines.is_empty() {
        return (String::new(), false);
    }
    let from = lines.len().saturating_sub(MAX_LINES);
    let (mut text, mut has_more) = (String::from("; the end of its stderr:"), from > 0);
    for line in &lines[from..] {
        text.push('\n');
        match line.char_indices().nth(MAX_LINE_CHARS) {
            Some((end, _)) => {
                text.push_str(&in_lines(&line[..end]));
                text.push('…');
                has_more = true;
            }
            None => text.push_str(&in_lines(line)),
        }
    }
    (text, has_more)
}

impl Crash {
    fn whose(&self) -> &'static str {
        match self.is_plugin {
            true => "plugin",
            false => "stdio",
        }
    }

    /// How it ended, without what it said.
    fn ended(&self) -> String {
        let mut text = match (self.exit, self.signal) {
            (_, Some(signal)) => format!("the process was ended by signal {signal}"),
            (Some(code), None) => format!("the process ended with exit code {code}"),
            (None, None) => "the process ended".to_owned(),
        };
        if let Some(limit) = &self.limit {
            text.push_str("; it ran into its limit: ");
            text.push_str(limit);
        }
        text
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.ended())?;
        f.write_str(&last_words(&self.stderr_tail).0)
    }
}

impl HttpFailure {
    /// How it failed, without the excerpt.
    fn status_text(&self) -> String {
        let mut text = match self.status {
            0 => "the HTTP exchange broke".to_owned(),
            status => format!("HTTP status {status}"),
        };
        if let Some(after) = self.retry_after {
            text.push_str(&format!("; Retry-After: {} s", after.as_secs_f64().ceil()));
        }
        text
    }
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status_text())?;
        if !self.excerpt.is_empty() {
            write!(f, ": {}", self.excerpt)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_server_wrote_the_last_lines_are_told_and_that_there_are_more() {
        let slow = |stderr: String| ClientError::SlowStart {
            after: Duration::from_secs(2),
            stderr_tail: stderr,
        };
        let nothing = slow(String::new());
        assert_eq!(nothing.explain(), "it was not ready within 2.0 s");
        assert!(!nothing.wrote_more());
        let lines = |count: usize| (1..=count).map(|n| format!("line {n}\n")).collect();
        let ten = slow(lines(10));
        assert!(ten.explain().contains("stderr:\nline 1\n") && !ten.wrote_more());
        let many = slow(lines(12));
        let told = many.explain();
        assert!(
            told.contains("stderr:\nline 3\n") && told.ends_with("\nline 12"),
            "{told}"
        );
        assert!(many.wrote_more());
        let crash = Crash {
            stderr_tail: "é".repeat(301),
            ..Crash::default()
        };
        let long = ClientError::Crashed(Arc::new(crash));
        assert!(long.explain().ends_with(&format!("\n{}…", "é".repeat(300))));
        assert!(long.wrote_more());
    }

    #[test]
    fn in_short_it_is_one_line_with_the_last_that_the_server_wrote() {
        let crash = Crash {
            exit: Some(3),
            limit: Some("1 s".into()),
            stderr_tail: "first\nits\tboom \n\n".into(),
            ..Crash::default()
        };
        let crashed = Arc::new(ClientError::Crashed(Arc::new(crash)));
        let cause = "the process ended with exit code 3; it ran into its limit: 1 s";
        let told = format!("{cause}; the end of its stderr: \"its boom\"");
        assert_eq!(crashed.in_short(), told);
        assert_eq!(crashed.own_cause(), cause);
        let open = ClientError::CircuitOpen {
            retry_in: Duration::from_secs(2),
            last: Some(crashed),
        };
        assert!(
            open.in_short().contains("exit code 3"),
            "{}",
            open.in_short()
        );
        let slow = ClientError::SlowStart {
            after: Duration::from_secs(2),
            stderr_tail: "é".repeat(1_000),
        };
        let told = slow.in_short();
        assert!(told.starts_with("it was not ready within 2.0 s") && told.ends_with("é…\""));
        assert!(told.chars().count() < 300, "{told}");
        let forged = ClientError::SlowStart {
            after: Duration::from_secs(2),
            stderr_tail: "ok\"); good has \u{202e}moved\u{200b}".into(),
        };
        let expected = r#"stderr: "ok\"); good has \u{202e}moved\u{200b}""#;
        assert!(forged.in_short().ends_with(expected), "{forged:?}");
        assert_eq!(forged.own_cause(), "it was not ready within 2.0 s");
    }

    /// Seed 002, Error Handling.
    #[test]
    fn the_five_errors_of_the_contract_have_its_texts() {
        let errors = [
            (ClientError::Closed, "transport: connection closed"),
            (
                ClientError::Timeout {
                    after: Duration::from_secs(1),
                },
                "transport: invocation timeout",
            ),
            (
                ClientError::Crashed(Arc::default()),
                "transport: stdio process crashed",
            ),
            (
                ClientError::InvalidMessage {
                    what: String::new(),
                },
                "transport: invalid JSON-RPC response",
            ),
            (
                ClientError::Http(Arc::default()),
                "transport: HTTP request failed",
            ),
        ];
        for (error, text) in errors {
            assert_eq!(error.to_string(), text);
        }
    }
}
