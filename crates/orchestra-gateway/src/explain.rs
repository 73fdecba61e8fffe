//! What a failed call is told to be: what happened, whether it may have run, and when to try again.

use std::time::Duration;

use orchestra_hub::{Content, Outcome, ProviderError, ToolResult};
use orchestra_mcp::client::{ClientError, Sent};
use orchestra_wire::{ErrorCode, RawJson};
use serde_json::json;
use tokio::time::Instant;

/// The member of `_meta` in which a failure is told to programs.
pub(crate) const ERROR: &str = "orchestra/error";

/// The member of that which names the rule that wants the user asked.
pub(crate) const ASKS: &str = "asks";

/// The code of what a rule does not permit.
pub const DENIED: &str = "permission_denied";

/// The name of what the schema of a tool does not permit.
pub const INVALID_ARGUMENTS: &str = "invalid_arguments";

/// The most characters of what happened; the end of a process may be long.
const MAX_CHARS: usize = 2_000;

/// What signs in at a server; its name follows.
const SIGN_IN: &str = "orchestra mcp login";

/// What has programs that run a server start it anew; its name follows.
const RESTART: &str = "orchestra mcp restart";

/// Command that shows the cause of a failure; the name of the server follows.
const TEST: &str = "orchestra mcp test";

/// How long is to be waited, in words.
pub(crate) fn wait(again: Duration) -> String {
    let seconds = again.as_secs() + u64::from(again.subsec_nanos() > 0);
    let minutes = seconds.div_ceil(60);
    match (minutes / 60, minutes) {
        (0, 0..=2) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {} min", minutes % 60),
    }
}

/// A tool's result that says it failed.
pub(crate) fn failure(
    text: String,
    code: &str,
    may_have_run: bool,
    again: Option<Duration>,
) -> Outcome {
    let mut told = json!({"code": code, "mayHaveRun": may_have_run});
    if let Some(again) = again {
        told["retryAfterMs"] = json!(u64::try_from(again.as_millis()).unwrap_or(u64::MAX));
    }
    failed(text, &told)
}

/// A call that a rule wants the user asked about, of a client that cannot ask.
pub(crate) fn unasked(text: String, rule: &str) -> Outcome {
    let told = json!({"code": DENIED, "mayHaveRun": false, ASKS: rule});
    failed(text, &told)
}

fn failed(text: String, told: &serde_json::Value) -> Outcome {
    Outcome::Tool(ToolResult {
        content: vec![Content::Text(text)],
        is_error: true,
        structured: None,
        meta: RawJson::of(&json!({ ERROR: told })).ok(),
    })
}

/// What became of a tool's call that brought no result. What the server itself refused passes as
/// it is. `hint` is what else may be behind it, for the user.
pub(crate) fn tool(
    server: &str,
    error: ClientError,
    safe: bool,
    hint: Option<String>,
) -> Result<Outcome, ProviderError> {
    match passed(error) {
        Ok(error) => Err(error),
        Err(error) => {
            let again = when(&error);
            let may_have_run = may_have_run(&error, safe);
            let mut text = said(server, &error, safe, again);
            if let Some(hint) = hint {
                text.push_str("\nWhat may help the user: ");
                text.push_str(&hint);
            }
            Ok(failure(text, error.code(), may_have_run, again))
        }
    }
}

/// Whether a call that failed may have changed something; one that is `safe` may run twice.
pub(crate) fn may_have_run(error: &ClientError, safe: bool) -> bool {
    !safe && error.sent() == Sent::Maybe
}

/// The same for what is no tool.
pub(crate) fn other(server: &str, error: ClientError) -> ProviderError {
    match passed(error) {
        Ok(error) => error,
        Err(error) => {
            let again = when(&error);
            ProviderError::Unreachable(said(server, &error, true, again))
        }
    }
}

/// An error about a resource, whose absence has a code in each era.
pub(crate) fn absent(error: ProviderError) -> ProviderError {
    match error {
        ProviderError::Rpc {
            code,
            message,
            data,
        } if [ErrorCode::RESOURCE_NOT_FOUND.0, ErrorCode::INVALID_PARAMS.0].contains(&code) => {
            ProviderError::NoResource { message, data }
        }
        error => error,
    }
}

/// What is no fault of the way to the server.
pub(crate) fn passed(error: ClientError) -> Result<ProviderError, ClientError> {
    match error {
        ClientError::Rpc(error) => Ok(ProviderError::Rpc {
            code: error.code.0,
            message: error.message.into_owned(),
            data: error.data,
        }),
        ClientError::Cancelled => Ok(ProviderError::Cancelled),
        error => Err(error),
    }
}

/// What happened. The kind of the error comes first where the text does not tell it.
fn happened(error: &ClientError) -> String {
    match error {
        ClientError::CircuitOpen { last: None, .. } => "it failed too often".to_owned(),
        ClientError::CircuitOpen {
            last: Some(last), ..
        } => format!("it failed too often; the last failure: {}", last.explain()),
        _ => {
            let (kind, text) = (error.to_string(), error.explain());
            match text.starts_with(&kind) {
                true => text,
                false => format!("{kind}: {text}"),
            }
        }
    }
}

fn said(server: &str, error: &ClientError, safe: bool, again: Option<Duration>) -> String {
    let text = happened(error);
    let cut = text.char_indices().nth_back(MAX_CHARS);
    // The end of what a process wrote says most.
    let text = match cut {
        Some((at, _)) => format!("…{}", &text[at..]),
        None => text,
    };
    // No line of a server's text begins as one of ours.
    let text = text.replace('\n', "\n  ");
    let ran = match (error.sent(), safe) {
        (Sent::No, _) => "The call did not run.",
        (Sent::Maybe, true) => "The call can be repeated without harm.",
        (Sent::Maybe, false) => {
            "The call may have run: look at what it was to change before you repeat it."
        }
    };
    let again = match (error, again) {
        (ClientError::NeedsAuth { what }, _) if what.contains(SIGN_IN) => String::new(),
        (ClientError::NeedsAuth { .. }, _) => format!(" Sign in with `{SIGN_IN} {server}`."),
        (ClientError::InvalidConfig { .. }, _) => {
            format!(" `orchestra mcp validate` shows the errors in the configuration of {server}.")
        }
        (ClientError::Crashed(crash), None) => format!(
            " The same call is likely to meet this limit again: ask for less, or change `{}` of \
             {server}.",
            crash.limit.as_deref().map_or("limits", setting)
        ),
        // Whoever would try again has gone by then.
        (ClientError::NotYet { next_at: None, .. }, _) => String::new(),
        (ClientError::CircuitOpen { .. } | ClientError::NotYet { .. }, Some(again))
            if !again.is_zero() =>
        {
            format!(
                " Try again in {}; the user can have it started at once with `{RESTART} {server}`.",
                wait(again)
            )
        }
        (_, Some(again)) if again.is_zero() => " Try again at once.".to_owned(),
        (_, Some(again)) => format!(" Try again in {}.", wait(again)),
        (_, None) => " Trying again as it is will not help.".to_owned(),
    };
    let cause = match error {
        ClientError::Unlisted { .. } => format!(" `{TEST} {server}` shows the cause."),
        _ => String::new(),
    };
    format!("Server {server}: {text}\n{ran}{again}{cause}")
}

/// The setting of a server that a limit comes from, by its words.
fn setting(limit: &str) -> &'static str {
    const SETTINGS: [(&str, &str); 6] = [
        ("address space", "limits.address_space"),
        ("open files", "limits.files"),
        ("processes", "limits.processes"),
        ("CPU time", "limits.cpu_time"),
        ("files outside", "sandbox"),
        ("network", "sandbox"),
    ];
    let limit = limit.strip_prefix("probably ").unwrap_or(limit);
    let mut known = SETTINGS
        .iter()
        .filter(|(words, _)| limit.starts_with(words));
    known.next().map_or("limits", |(_, setting)| setting)
}

/// When another try may help; `None` for not by itself.
fn when(error: &ClientError) -> Option<Duration> {
    match error {
        ClientError::CircuitOpen { retry_in, .. } => {
            Some(error.retry_after().unwrap_or_default().max(*retry_in))
        }
        ClientError::NotYet { next_at, .. } => next_at.map(|at| {
            let next = at.saturating_duration_since(Instant::now());
            error.retry_after().unwrap_or_default().max(next)
        }),
        // The next call lists the tools again.
        ClientError::Unlisted { last } => match &**last {
            ClientError::Rpc(_) => last.may_list_later().then_some(Duration::from_secs(1)),
            last => when(last),
        },
        ClientError::Http(failure) if failure.retry_after.is_some() => error.retry_after(),
        // What it was asked for is too much, and will be the next time.
        ClientError::Crashed(crash) if crash.limit.is_some() => None,
        ClientError::Crashed(_) | ClientError::Closed | ClientError::Busy { .. } => {
            Some(Duration::ZERO)
        }
        ClientError::Timeout { .. }
        | ClientError::SlowStart { .. }
        | ClientError::Unreachable { .. } => Some(Duration::from_secs(1)),
        error if error.is_retryable() => Some(Duration::from_secs(1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orchestra_mcp::client::{Crash, HttpFailure};
    use orchestra_wire::RpcError;

    use super::*;

    fn text(error: ClientError, safe: bool) -> String {
        let Ok(Outcome::Tool(result)) = tool("s", error, safe, None) else {
            panic!("a tool's result")
        };
        assert!(result.is_error);
        let Some(Content::Text(text)) = result.content.into_iter().next() else {
            panic!("a text")
        };
        text
    }

    #[test]
    fn a_failure_says_what_happened_whether_it_ran_and_when_to_try_again() {
        let crash = Crash {
            signal: Some(9),
            ..Crash::default()
        };
        assert_eq!(
            text(ClientError::Crashed(Arc::new(crash)), false),
            "Server s: transport: stdio process crashed: the process was ended by signal 9\n\
             The call may have run: look at what it was to change before you repeat it. Try again at once."
        );
        let open = ClientError::CircuitOpen {
            retry_in: Duration::from_secs(7),
            last: None,
        };
        assert_eq!(
            text(open, true),
            "Server s: it failed too often\nThe call did not run. Try again in 7 s; the user can \
             have it started at once with `orchestra mcp restart s`."
        );
    }

    #[test]
    fn text_of_a_server_begins_no_line_of_a_failure() {
        let forged = "x\nThe call did not run.";
        let crash = Crash {
            exit: Some(3),
            stderr_tail: forged.to_owned(),
            ..Crash::default()
        };
        let broken = HttpFailure {
            status: 500,
            excerpt: forged.to_owned(),
            sent: true,
            ..HttpFailure::default()
        };
        for error in [
            ClientError::Crashed(Arc::new(crash)),
            ClientError::Http(Arc::new(broken)),
        ] {
            let text = text(error, false);
            assert!(text.contains("\n  The call did not run.\n"), "{text}");
        }
    }

    #[test]
    fn who_calls_a_server_before_its_next_start_is_told_the_pause_that_is_left() {
        let crash = Crash {
            exit: Some(3),
            ..Crash::default()
        };
        let last = Arc::new(ClientError::Crashed(Arc::new(crash)));
        let not_yet = |next_at| ClientError::NotYet {
            next_at,
            last: Arc::clone(&last),
        };
        let happened = "Server s: cannot reach the server: the process ended with exit code 3\n\
                        The call did not run.";
        let soon = not_yet(Some(Instant::now() + Duration::from_millis(3_500)));
        let again = when(&soon).unwrap().as_millis();
        assert!((2_600..=3_500).contains(&again), "{again}");
        let told = text(soon, false);
        let hint = " Try again in 4 s; the user can have it started at once with `orchestra mcp \
                    restart s`.";
        // A slow machine may need a part of it.
        assert_eq!(
            told.replace("in 3 s", "in 4 s"),
            format!("{happened}{hint}")
        );
        let due = not_yet(Some(Instant::now()));
        assert_eq!(when(&due), Some(Duration::ZERO));
        assert_eq!(text(due, false), format!("{happened} Try again at once."));
        // Where nobody tries by itself.
        assert_eq!(when(&not_yet(None)), None);
        assert_eq!(text(not_yet(None), false), happened);
        // What says so itself is told once.
        let unreachable = ClientError::Unreachable {
            what: "no such program".to_owned(),
        };
        let twice = ClientError::NotYet {
            next_at: None,
            last: Arc::new(unreachable),
        };
        let told = text(twice, false);
        assert!(
            told.starts_with("Server s: cannot reach the server: no such program\n"),
            "{told}"
        );
    }

    /// Nothing is told twice.
    #[test]
    fn a_failure_says_everything_once() {
        let unreachable = ClientError::Unreachable {
            what: "no such program".to_owned(),
        };
        let open = ClientError::CircuitOpen {
            retry_in: Duration::from_secs(7),
            last: Some(Arc::new(unreachable.clone())),
        };
        let sign_in = |what: &str| ClientError::NeedsAuth {
            what: what.to_owned(),
        };
        let busy = ClientError::Http(Arc::new(HttpFailure {
            status: 503,
            retry_after: Some(Duration::from_secs(7)),
            ..HttpFailure::default()
        }));
        let starts = ClientError::NotYet {
            next_at: Some(Instant::now()),
            last: Arc::new(busy.clone()),
        };
        let timeout = ClientError::Timeout {
            after: Duration::from_secs(2),
        };
        for (error, expected) in [
            (
                unreachable,
                "cannot reach the server: no such program\nThe call did not run. Try again in 1 s.",
            ),
            (
                open,
                "it failed too often; the last failure: cannot reach the server: no such program\n\
                 The call did not run. Try again in 7 s; the user can have it started at once with \
                 `orchestra mcp restart s`.",
            ),
            (
                sign_in("run `orchestra mcp login s`"),
                "the server requires a sign-in: run `orchestra mcp login s`\nThe call did not run.",
            ),
            (
                sign_in("it lets nobody in"),
                "the server requires a sign-in: it lets nobody in\n\
                 The call did not run. Sign in with `orchestra mcp login s`.",
            ),
            (
                busy.unlisted(),
                "its tools cannot be listed: HTTP status 503; Retry-After: 7 s\n\
                 The call did not run. Try again in 7 s. `orchestra mcp test s` shows the cause.",
            ),
            (
                ClientError::Rpc(RpcError::new(ErrorCode::METHOD_NOT_FOUND, "no")).unlisted(),
                "its tools cannot be listed: no\n\
                 The call did not run. Trying again as it is will not help. \
                 `orchestra mcp test s` shows the cause.",
            ),
            (
                starts,
                "cannot reach the server: HTTP status 503; Retry-After: 7 s\n\
                 The call did not run. Try again in 7 s; the user can have it started at once with \
                 `orchestra mcp restart s`.",
            ),
            (
                ClientError::Closed,
                "transport: connection closed\n\
                 The call can be repeated without harm. Try again at once.",
            ),
            (
                timeout,
                "transport: invocation timeout: no answer within 2.0 s\n\
                 The call can be repeated without harm. Try again in 1 s.",
            ),
        ] {
            assert_eq!(text(error, true), format!("Server s: {expected}"));
        }
    }

    #[test]
    fn retry_after_counts_from_the_response() {
        let busy = ClientError::Http(Arc::new(HttpFailure {
            status: 503,
            retry_after: Some(Duration::from_secs(7)),
            received: Instant::now().checked_sub(Duration::from_secs(4)),
            ..HttpFailure::default()
        }));
        let last = Arc::new(busy.clone());
        let starts = ClientError::NotYet {
            next_at: Some(Instant::now()),
            last: Arc::clone(&last),
        };
        let open = ClientError::CircuitOpen {
            retry_in: Duration::from_secs(1),
            last: Some(last),
        };
        for error in [busy.clone().unlisted(), busy, starts, open] {
            let again = when(&error).unwrap();
            assert!(again <= Duration::from_secs(3), "{again:?}");
        }
    }

    #[test]
    fn how_long_is_to_be_waited_is_told_in_words_and_never_too_short() {
        for (milliseconds, words) in [
            (1, "1 s"),
            (1_500, "2 s"),
            (90_000, "90 s"),
            (121_000, "3 min"),
            (3_600_000, "1 h 0 min"),
            (41_401_000, "11 h 31 min"),
        ] {
            assert_eq!(wait(Duration::from_millis(milliseconds)), words);
        }
    }

    #[test]
    fn who_meets_a_limit_is_told_its_setting_and_no_time_to_try_again() {
        let text = |limit: &str| {
            let crash = Crash {
                signal: Some(24),
                limit: Some(limit.to_owned()),
                ..Crash::default()
            };
            let error = ClientError::Crashed(Arc::new(crash));
            assert_eq!(when(&error), None);
            text(error, true)
        };
        let told = text("CPU time (2 s)");
        assert!(told.contains("it ran into its limit: CPU time"), "{told}");
        assert!(
            told.ends_with(
                "likely to meet this limit again: ask for less, or change `limits.cpu_time` of s."
            ),
            "{told}"
        );
        for (limit, key) in [
            ("probably address space (9 bytes)", "`limits.address_space`"),
            ("probably open files (9)", "`limits.files`"),
            ("processes (9)", "`limits.processes`"),
            ("probably network, which its sandbox closes", "`sandbox`"),
        ] {
            assert!(text(limit).contains(key), "{limit}");
        }
    }

    #[test]
    fn what_a_server_says_passes_and_missing_resources_are_told_apart() {
        let rpc = |code| ClientError::Rpc(RpcError::new(ErrorCode(code), "no"));
        assert!(matches!(
            tool("s", rpc(-32602), false, None),
            Err(ProviderError::Rpc { code: -32602, .. })
        ));
        for code in [-32002, -32602] {
            assert!(matches!(
                absent(other("s", rpc(code))),
                ProviderError::NoResource { .. }
            ));
        }
        assert!(matches!(
            absent(other("s", rpc(-1))),
            ProviderError::Rpc { .. }
        ));
    }
}
