//! How a run ended: well, by a failure that passes, by a crash, or not well.

use std::time::Duration;

use super::{Profile, Reading};

/// Failures that pass are looked for in runs that took no longer.
const EARLY: Duration = Duration::from_secs(30);

/// How long is waited before the first, second and third run after such a failure.
const WAITS: [Duration; 3] = [
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(120),
];

/// The longest line in which such a failure is looked for.
const MAX_LINE_BYTES: usize = 4_096;

/// Texts of failures that pass: too many requests, faults of a server (RFC 9110, 15.6; RFC 6585, 4),
/// connections that broke.
const TRANSIENT: [&str; 16] = [
    "rate limit",
    "rate_limit",
    "too many requests",
    "overloaded",
    "internal server error",
    "bad gateway",
    "service unavailable",
    "gateway timeout",
    "connection reset",
    "connection refused",
    "connection closed",
    "econnreset",
    "econnrefused",
    "etimedout",
    "socket hang up",
    "temporarily unavailable",
];

/// Texts of failures that no repetition cures, of any agent: no login, nothing left
/// to spend, the model is unknown. Each profile adds those of its program (`failures.permanent`).
const PERMANENT: [&str; 16] = [
    "not logged in",
    "invalid api key",
    "incorrect api key",
    "invalid_api_key",
    "api key not valid",
    "authentication_error",
    "authentication failed",
    "401 unauthorized",
    "insufficient_quota",
    "insufficient balance",
    "exceeded your current quota",
    "credit balance is too low",
    "credit balance too low",
    "quota_exceeded",
    "model_not_found",
    "does not exist or you do not have access to it",
];

/// Member of a JSON line that reports an error of the program rather than text of its model.
const ERROR_MARKS: [&str; 4] = [
    "\"type\":\"error\"",
    "\"is_error\":true",
    "\"turn.failed\"",
    "\"status\":\"error\"",
];

/// Words after which a number of such a failure is a status.
const STATUS_WORDS: [&str; 6] = ["http", "status", "code", "error", "failed", "api"];

/// A run that took longer and changed nothing did not do its work, whatever it says.
const LONG_RUN: Duration = Duration::from_secs(60);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exited {
    /// With a code.
    Code(i32),
    /// By a signal that we did not send.
    Signal(i32),
    /// By us, because its time after the final figures was over.
    AfterGrace,
    /// By us, for another reason: a limit, or because it was canceled.
    Ended,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It did its work.
    Success,
    /// It failed by something that passes: it is run again after this time.
    Again {
        /// How long is waited.
        after: Duration,
        /// What it was.
        why: String,
    },
    /// It crashed: the same work is run again, its session resumed.
    Crashed {
        /// The reason.
        why: String,
    },
    /// It failed.
    Failed {
        /// The reason.
        why: String,
    },
    /// It failed, and would fail again: no login, nothing left to spend, or an unknown model.
    Permanent {
        /// The reason.
        why: String,
    },
}

/// Whether a line tells of a failure that passes. `also` are texts in lower case.
#[must_use]
pub fn is_transient(line: &str, also: &[String]) -> bool {
    let line = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
    let line = line.to_ascii_lowercase();
    TRANSIENT.iter().any(|text| line.contains(text))
        || also.iter().any(|text| line.contains(text.as_str()))
        || has_status(&line)
}

/// Returns whether a line reports a failure that no repetition cures. `also` are texts in lower case.
#[must_use]
pub(crate) fn is_permanent(line: &str, also: &[String]) -> bool {
    let line = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
    let spaceless = line.replace("\": ", "\":");
    if line.trim_start().starts_with('{')
        && !ERROR_MARKS.iter().any(|mark| spaceless.contains(mark))
    {
        return false;
    }
    let line = line.to_ascii_lowercase();
    PERMANENT.iter().any(|text| line.contains(text))
        || also.iter().any(|text| line.contains(text.as_str()))
}

/// Whether a line names a status of 429 or 500 to 599, near to a word that says it is one.
fn has_status(line: &str) -> bool {
    let words: Vec<&str> = line
        .split(|char: char| !char.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let is_status = |word: &str| {
        word.len() == 3
            && word
                .parse()
                .is_ok_and(|code: u16| code == 429 || (500..600).contains(&code))
    };
    let is_near = |at: usize| {
        let near = &words[at.saturating_sub(3)..at];
        near.iter().any(|word| STATUS_WORDS.contains(word))
    };
    words
        .iter()
        .enumerate()
        .any(|(at, word)| is_status(word) && is_near(at))
}

/// How long is waited before another run, when the run took `ran` and so many failed like that
/// before.
#[must_use]
pub fn retry_after(ran: Duration, failures_before: u32) -> Option<Duration> {
    let wait = WAITS.get(usize::try_from(failures_before).ok()?);
    wait.copied().filter(|_| ran <= EARLY)
}

/// Whether a run was one without effect: it took more than a minute and changed nothing.
#[must_use]
pub fn is_no_op(ran: Duration, changed: bool) -> bool {
    ran > LONG_RUN && !changed
}

/// What a run came to. A failure that passes is one only early in a run, and only three times.
#[must_use]
pub fn verdict(
    profile: &Profile,
    exited: Exited,
    reading: &Reading,
    ran: Duration,
    failures_before: u32,
) -> Verdict {
    let said = reading.error.as_deref();
    let why = |what: String| match said {
        Some(said) => format!("{what}: {said}"),
        None => what,
    };
    match exited {
        Exited::Code(0) if !reading.failed => return Verdict::Success,
        Exited::AfterGrace if reading.last && !reading.failed => return Verdict::Success,
        _ => {}
    }
    if let Some(said) = reading.permanent.as_deref()
        && let Exited::Code(_) | Exited::AfterGrace = exited
    {
        return Verdict::Permanent {
            why: format!("the agent cannot work, and would fail again: {said}"),
        };
    }
    let wait = retry_after(ran, failures_before).filter(|_| reading.transient);
    if let Some(after) = wait
        && exited != Exited::Ended
    {
        return Verdict::Again {
            after,
            why: why("the agent met a failure that passes".to_owned()),
        };
    }
    match exited {
        Exited::Signal(signal) => Verdict::Crashed {
            why: why(format!("the agent was ended by signal {signal}")),
        },
        Exited::Code(code) if profile.text().failures.crash_codes.contains(&code) => {
            Verdict::Crashed {
                why: why(format!("the agent crashed with code {code}")),
            }
        }
        Exited::Code(0) | Exited::AfterGrace => Verdict::Failed {
            why: why("the agent reported a failure".to_owned()),
        },
        Exited::Code(code) => Verdict::Failed {
            why: why(format!("the agent ended with code {code}")),
        },
        Exited::Ended => Verdict::Failed {
            why: why("the agent was ended".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SHORT: Duration = Duration::from_secs(5);
    const LONG: Duration = Duration::from_secs(31);

    fn profile() -> Profile {
        let text = json!({
            "program": "x",
            "arguments": [["{prompt}"]],
            "failures": {"crash_codes": [134]},
        });
        serde_json::from_value(text).unwrap()
    }

    fn reading(change: impl Fn(&mut Reading)) -> Reading {
        let mut reading = Reading::default();
        change(&mut reading);
        reading
    }

    #[test]
    fn failures_that_pass_are_told_from_others() {
        for line in [
            "Error: 429 Too Many Requests",
            "API error (status 503): try later",
            "request failed with HTTP 529",
            "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}",
            "read ECONNRESET",
        ] {
            assert!(is_transient(line, &[]), "{line}");
        }
        for line in [
            "wrote 500 lines",
            "error in line 404",
            "port 5432",
            "429 tests passed",
            "",
        ] {
            assert!(!is_transient(line, &[]), "{line}");
        }
        assert!(is_transient(
            "Quota Exhausted",
            &["quota exhausted".to_owned()]
        ));
    }

    #[test]
    fn errors_that_repetition_cannot_cure_are_recognised_for_each_agent() {
        let also = |agent: &str| -> Vec<String> {
            let text: crate::agents::ProfileText =
                toml::from_str(crate::agents::ready::text(agent).unwrap()).unwrap();
            let permanent = text.failures.permanent.iter();
            permanent.map(|text| text.to_ascii_lowercase()).collect()
        };
        for (agent, line) in [
            ("claude", "Not logged in · Please run /login"),
            (
                "claude",
                r#"{"type":"result","is_error":true,"result":"Credit balance is too low"}"#,
            ),
            (
                "claude",
                r#"{"type": "result", "is_error": true, "result": "Invalid API key · Please run /login"}"#,
            ),
            (
                "claude",
                "There's an issue with the selected model (opus-9). It may not exist",
            ),
            ("claude", "Claude AI usage limit reached|1764331200"),
            ("codex", "Not logged in"),
            (
                "codex",
                r#"{"type":"error","message":"Quota exceeded. Check your plan and billing details."}"#,
            ),
            (
                "codex",
                r#"{"type":"turn.failed","error":{"message":"You've hit your usage limit."}}"#,
            ),
            (
                "codex",
                r#"{"type":"error","message":"The 'gpt-9' model is not supported when using Codex"}"#,
            ),
            ("copilot", "Error: No authentication information found."),
            ("copilot", "402 You have no quota (Request ID: 1)"),
            (
                "copilot",
                "Error: Model \"gpt-9\" from --model flag is not available.",
            ),
            ("gemini", "Please set an Auth method in your settings.json"),
            (
                "gemini",
                "You have exhausted your daily quota on this model.",
            ),
            (
                "gemini",
                "models/gemini-9 is not found for API version v1beta",
            ),
            (
                "opencode",
                r#"{"type":"error","error":{"name":"ProviderAuthError"}}"#,
            ),
            (
                "opencode",
                r#"{"type":"error","error":{"data":{"message":"Insufficient balance"}}}"#,
            ),
            (
                "opencode",
                "ProviderModelNotFoundError: ProviderModelNotFoundError",
            ),
        ] {
            assert!(is_permanent(line, &also(agent)), "{agent}: {line}");
        }
        for line in [
            // Words of a model, in the output of its program.
            r#"{"type":"assistant","message":"the page says: not logged in"}"#,
            "Error: 429 Too Many Requests",
            "wrote login.rs",
        ] {
            assert!(!is_permanent(line, &also("claude")), "{line}");
        }
        let login = reading(|reading| reading.permanent = Some("Not logged in".to_owned()));
        assert!(matches!(
            verdict(&profile(), Exited::Code(1), &login, SHORT, 0),
            Verdict::Permanent { why } if why.contains("Not logged in")
        ));
        let done = verdict(&profile(), Exited::Code(0), &login, SHORT, 0);
        assert_eq!(done, Verdict::Success);
    }

    #[test]
    fn waits_grow_three_times_and_only_early() {
        let waits: Vec<_> = (0..5).map(|before| retry_after(SHORT, before)).collect();
        let seconds = |wait| Some(Duration::from_secs(wait));
        assert_eq!(waits, [seconds(30), seconds(60), seconds(120), None, None]);
        assert_eq!(retry_after(LONG, 0), None);
    }

    #[test]
    fn a_long_run_without_changes_is_without_effect() {
        assert!(is_no_op(Duration::from_secs(61), false));
        assert!(!is_no_op(Duration::from_secs(61), true));
        assert!(!is_no_op(Duration::from_secs(60), false));
    }

    #[test]
    fn an_end_is_judged_by_what_was_said_as_well() {
        let judged = |exited, reading: &Reading, ran| verdict(&profile(), exited, reading, ran, 0);
        let plain = Reading::default();
        assert_eq!(judged(Exited::Code(0), &plain, LONG), Verdict::Success);
        let failed = reading(|reading| {
            reading.failed = true;
            reading.error = Some("no login".to_owned());
        });
        let why = "the agent reported a failure: no login".to_owned();
        assert_eq!(
            judged(Exited::Code(0), &failed, SHORT),
            Verdict::Failed { why }
        );
        let last = reading(|reading| reading.last = true);
        assert_eq!(judged(Exited::AfterGrace, &last, LONG), Verdict::Success);
        let transient = reading(|reading| reading.transient = true);
        assert!(matches!(
            judged(Exited::Code(1), &transient, SHORT),
            Verdict::Again { .. }
        ));
        assert!(matches!(
            judged(Exited::Code(1), &transient, LONG),
            Verdict::Failed { .. }
        ));
        assert!(matches!(
            judged(Exited::Ended, &transient, SHORT),
            Verdict::Failed { .. }
        ));
        assert!(matches!(
            judged(Exited::Signal(9), &plain, SHORT),
            Verdict::Crashed { .. }
        ));
        assert!(matches!(
            judged(Exited::Code(134), &plain, SHORT),
            Verdict::Crashed { .. }
        ));
        assert!(matches!(
            judged(Exited::Code(1), &plain, SHORT),
            Verdict::Failed { .. }
        ));
    }
}
