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
        /// How.
        why: String,
    },
    /// It failed.
    Failed {
        /// How.
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
            why: why("the agent says that it failed".to_owned()),
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
        let why = "the agent says that it failed: no login".to_owned();
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
