//! Calls that a rule wants the user asked about: the question goes to the client as any question of
//! a server does, and the call is made when it comes again with a yes. One yes is good for one call.

mod line;

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use orchestra_hub::{Answers, Cx, InputRequired};
use orchestra_wire::RawJson;
use serde::Deserialize;
use serde_json::json;

use crate::names;

/// What the state says of a call that waits for the user's answer.
const ASKED: &str = "asked";

/// What stands before a server's own state: whether the user was asked before.
const APPROVED: &str = "approved:";
const FREE: &str = "free:";

/// The key of the question.
const KEY: &str = "orchestra-approval";

/// What is known of the user's mind about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mind {
    /// Nobody was asked.
    Unasked,
    Yes,
    No,
}

/// Maximum length of a question in characters. A longer one is not read to its end, and some clients do not show the
/// end.
pub(super) const MAX_QUESTION_CHARS: usize = 16_000;

/// Maximum number of questions and consents of a server that are open at once. Past it, the oldest are forgotten, and
/// their users are asked again.
const MAX_OPEN: usize = 1_000;

/// A question that is too long to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong {
    /// Number of characters that it has.
    pub(super) chars: usize,
}

/// Questions that were asked and consents that were given, each until it is used once.
#[derive(Debug, Default)]
pub(super) struct Open(Mutex<VecDeque<u64>>);

impl Open {
    fn begin(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MAX_OPEN {
            open.pop_front();
        }
        open.push_back(number);
        number
    }

    /// Uses one up; false if it was used before, or is forgotten.
    fn end(&self, number: &str) -> bool {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = number.parse::<u64>().ok();
        let place = number.and_then(|number| open.iter().position(|open| *open == number));
        place.and_then(|place| open.remove(place)).is_some()
    }
}

/// Takes our part out of the state of a call that is made again.
pub(super) fn unwrap(cx: &mut Cx, open: &Open) -> Mind {
    let Some(answers) = &mut cx.answers else {
        return Mind::Unasked;
    };
    let Some(state) = answers.state.take() else {
        return Mind::Unasked;
    };
    let asked = state.strip_prefix(ASKED);
    if let Some(number) = asked {
        let is_open = match number.strip_prefix(':') {
            Some(number) => open.end(number),
            // Asked by this program itself, which gives no state to clients.
            None => number.is_empty(),
        };
        let mind = match (is_open, says_yes(answers)) {
            (false, _) => Mind::Unasked,
            (true, true) => Mind::Yes,
            (true, false) => Mind::No,
        };
        cx.answers = None;
        return mind;
    }
    let (mind, theirs) = match (state.strip_prefix(APPROVED), state.strip_prefix(FREE)) {
        (Some(approved), _) => {
            let (number, theirs) = approved.split_once(':').unwrap_or(("", approved));
            match open.end(number) {
                true => (Mind::Yes, theirs),
                false => (Mind::Unasked, theirs),
            }
        }
        (None, Some(theirs)) => (Mind::Unasked, theirs),
        (None, None) => (Mind::Unasked, &*state),
    };
    // A sign tells an empty state from none.
    answers.state = theirs.strip_prefix('+').map(str::to_owned);
    mind
}

/// Puts our part into the state of a server that asks something itself.
pub(super) fn wrap(mind: Mind, input: &mut InputRequired, open: &Open) {
    let head = match mind {
        Mind::Yes => format!("{APPROVED}{}:", open.begin()),
        Mind::Unasked | Mind::No => FREE.to_owned(),
    };
    let theirs = input.state.take();
    let theirs = theirs.map_or_else(|| "-".to_owned(), |state| format!("+{state}"));
    input.state = Some(format!("{head}{theirs}"));
}

/// What goes with a call again that the user was asked about elsewhere, and agreed to.
pub(crate) fn agreed() -> Answers {
    let responses = json!({KEY: {"action": "accept"}});
    Answers {
        responses: RawJson::of(&responses).unwrap_or_else(|_| RawJson::empty_object()),
        state: Some(ASKED.to_owned()),
    }
}

/// The question whether a call may be made. It shows all of the call.
///
/// # Errors
/// If it would be too long: what is not shown is not agreed to.
pub(super) fn question(
    server: &str,
    tool: &str,
    arguments: &RawJson,
    open: &Open,
) -> Result<InputRequired, TooLong> {
    let tool = line::of_text(&names::in_question(tool));
    let arguments = line::of_json(arguments.as_str());
    let message = format!("May {tool} of server {server} be called with {arguments}?");
    let chars = message.chars().count();
    if chars > MAX_QUESTION_CHARS {
        return Err(TooLong { chars });
    }
    let schema = json!({"type": "object", "properties": {}});
    let params = json!({"message": message, "requestedSchema": schema});
    let requests = json!({KEY: {"method": "elicitation/create", "params": params}});
    Ok(InputRequired {
        requests: RawJson::of(&requests).unwrap_or_else(|_| RawJson::empty_object()),
        state: Some(format!("{ASKED}:{}", open.begin())),
        takes_errors: false,
    })
}

fn says_yes(answers: &Answers) -> bool {
    #[derive(Deserialize)]
    struct Answer {
        action: String,
    }
    let answer = answers.responses.member(KEY);
    let answer = answer.and_then(|answer| answer.parse::<Answer>().ok());
    answer.is_some_and(|answer| answer.action == "accept")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(state: Option<&str>, responses: &serde_json::Value) -> Cx {
        Cx {
            answers: Some(Answers {
                responses: RawJson::of(responses).unwrap(),
                state: state.map(str::to_owned),
            }),
            ..Cx::default()
        }
    }

    fn agreed_responses() -> serde_json::Value {
        agreed().responses.parse().unwrap()
    }

    #[test]
    fn a_yes_is_one_that_was_asked_for() {
        let yes = json!({KEY: {"action": "accept", "content": {}}});
        let open = Open::default();
        let asked = || question("s", "t", &RawJson::empty_object(), &open).unwrap();
        for (state, responses, mind) in [
            (asked().state, yes.clone(), Mind::Yes),
            (asked().state, json!({KEY: {"action": "decline"}}), Mind::No),
            (asked().state, json!({}), Mind::No),
            (agreed().state, agreed_responses(), Mind::Yes),
            (None, yes.clone(), Mind::Unasked),
        ] {
            assert_eq!(
                unwrap(&mut again(state.as_deref(), &responses), &open),
                mind
            );
        }
    }

    #[test]
    fn a_yes_is_used_up_by_one_call() {
        let yes = json!({KEY: {"action": "accept"}});
        let (open, other) = (Open::default(), Open::default());
        let asked = question("s", "t", &RawJson::empty_object(), &open).unwrap();
        let state = asked.state.as_deref();
        assert_eq!(unwrap(&mut again(state, &yes), &other), Mind::Unasked);
        assert_eq!(unwrap(&mut again(state, &yes), &open), Mind::Yes);
        assert_eq!(unwrap(&mut again(state, &yes), &open), Mind::Unasked);
        // A call whose server asks a question also continues only once.
        let mut input = InputRequired {
            requests: RawJson::empty_object(),
            state: Some("theirs".to_owned()),
            takes_errors: false,
        };
        wrap(Mind::Yes, &mut input, &open);
        for mind in [Mind::Yes, Mind::Unasked] {
            let mut cx = again(input.state.as_deref(), &json!({}));
            assert_eq!(unwrap(&mut cx, &open), mind);
            assert_eq!(cx.answers.unwrap().state.as_deref(), Some("theirs"));
        }
    }

    #[test]
    fn a_question_shows_all_of_a_call_or_is_not_asked() {
        let open = Open::default();
        let asked = |tool: &str, arguments: &str| {
            let arguments = RawJson::checked(arguments.to_owned().into_bytes().into()).unwrap();
            question("s", tool, &arguments, &open)
        };
        let padded = format!(r#"{{"path":"{}","cmd":"rm"}}"#, "x".repeat(600));
        let input = asked("t", &padded).unwrap();
        assert!(input.requests.as_str().contains("cmd"));
        let (long, long_name) = (
            "x".repeat(MAX_QUESTION_CHARS),
            "t".repeat(MAX_QUESTION_CHARS),
        );
        for (tool, arguments) in [
            ("t", format!(r#"{{"path":"{long}","cmd":"rm"}}"#)),
            (&*long_name, "{}".to_owned()),
        ] {
            let error = asked(tool, &arguments).unwrap_err();
            assert!(error.chars > MAX_QUESTION_CHARS, "{error:?}");
        }
    }

    #[test]
    fn name_of_a_tool_forges_no_question() {
        let open = Open::default();
        let asked = |tool: &str| {
            let input = question("s", tool, &RawJson::empty_object(), &open).unwrap();
            let requests: serde_json::Value = input.requests.parse().unwrap();
            let message = &requests[KEY]["params"]["message"];
            message.as_str().unwrap().to_owned()
        };
        assert_eq!(
            asked("fs/read.v2"),
            "May fs/read.v2 of server s be called with {}?"
        );
        let forged = r#"read of server files be called with {"a":1}? It is "safe""#;
        assert_eq!(
            asked(forged),
            r#"May "read of server files be called with {\"a\":1}? It is \"safe\"" of server s be called with {}?"#
        );
    }

    #[test]
    fn the_state_of_a_server_goes_round_with_what_the_user_said() {
        let open = Open::default();
        for state in [
            None,
            Some(""),
            Some("free:+x"),
            Some("approved:-"),
            Some("approved:0:-"),
            Some(ASKED),
        ] {
            for mind in [Mind::Unasked, Mind::Yes] {
                let mut input = InputRequired {
                    requests: RawJson::empty_object(),
                    state: state.map(str::to_owned),
                    takes_errors: false,
                };
                wrap(mind, &mut input, &open);
                let mut cx = again(input.state.as_deref(), &json!({}));
                assert_eq!(unwrap(&mut cx, &open), mind);
                assert_eq!(cx.answers.unwrap().state.as_deref(), state);
            }
        }
    }
}
