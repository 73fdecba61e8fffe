//! Calls that a rule wants the user asked about: the question goes to the client as any question of
//! a server does, and the call is made when it comes again with a yes.

use orchestra_hub::{Answers, Cx, InputRequired};
use orchestra_wire::RawJson;
use serde::Deserialize;
use serde_json::json;

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

/// Takes our part out of the state of a call that is made again.
pub(super) fn unwrap(cx: &mut Cx) -> Mind {
    let Some(answers) = &mut cx.answers else {
        return Mind::Unasked;
    };
    let Some(state) = answers.state.take() else {
        return Mind::Unasked;
    };
    if state == ASKED {
        let mind = if says_yes(answers) {
            Mind::Yes
        } else {
            Mind::No
        };
        cx.answers = None;
        return mind;
    }
    let (mind, theirs) = match (state.strip_prefix(APPROVED), state.strip_prefix(FREE)) {
        (Some(theirs), _) => (Mind::Yes, theirs),
        (None, Some(theirs)) => (Mind::Unasked, theirs),
        (None, None) => (Mind::Unasked, &*state),
    };
    // A sign tells an empty state from none.
    answers.state = theirs.strip_prefix('+').map(str::to_owned);
    mind
}

/// Puts our part into the state of a server that asks something itself.
pub(super) fn wrap(mind: Mind, input: &mut InputRequired) {
    let head = if mind == Mind::Yes { APPROVED } else { FREE };
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

/// The question whether a call may be made.
pub(super) fn question(server: &str, tool: &str, arguments: &RawJson) -> InputRequired {
    /// The most of the arguments that is shown.
    const SHOWN: usize = 500;
    let text = arguments.as_str();
    let end = text.char_indices().nth(SHOWN);
    let shown = end.map_or_else(|| text.to_owned(), |(end, _)| format!("{}…", &text[..end]));
    let message = format!("May {tool} of server {server} be called with {shown}?");
    let schema = json!({"type": "object", "properties": {}});
    let params = json!({"message": message, "requestedSchema": schema});
    let requests = json!({KEY: {"method": "elicitation/create", "params": params}});
    InputRequired {
        requests: RawJson::of(&requests).unwrap_or_else(|_| RawJson::empty_object()),
        state: Some(ASKED.to_owned()),
    }
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
        for (state, responses, mind) in [
            (Some(ASKED), yes.clone(), Mind::Yes),
            (Some(ASKED), json!({KEY: {"action": "decline"}}), Mind::No),
            (Some(ASKED), json!({}), Mind::No),
            (Some(ASKED), agreed_responses(), Mind::Yes),
            (None, yes.clone(), Mind::Unasked),
        ] {
            assert_eq!(unwrap(&mut again(state, &responses)), mind);
        }
    }

    #[test]
    fn the_state_of_a_server_goes_round_with_what_the_user_said() {
        for state in [
            None,
            Some(""),
            Some("free:+x"),
            Some("approved:-"),
            Some(ASKED),
        ] {
            for mind in [Mind::Unasked, Mind::Yes] {
                let mut input = InputRequired {
                    requests: RawJson::empty_object(),
                    state: state.map(str::to_owned),
                };
                wrap(mind, &mut input);
                let mut cx = again(input.state.as_deref(), &json!({}));
                assert_eq!(unwrap(&mut cx), mind);
                assert_eq!(cx.answers.unwrap().state.as_deref(), state);
            }
        }
    }
}
