//! Asking the user, through the client, for agents that a plan asks for and that may not start yet.
//!
//! A client that cannot ask its user is not asked: the plan is made, its warnings name the setting, and jobs that
//! need such an agent fail. The same holds for an agent whose question would be too long to be read to its end.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use orchestra_hub::{InputRequired, SessionName};
use orchestra_runner::agents::Offer;
use orchestra_wire::RawJson;
use serde::Deserialize;
use serde_json::{Map, json};

use crate::failure::Failure;
use crate::tool::PlanCx;

/// Prefix of the state of a call that waits for answers, and of the keys of its questions.
const ASKED: &str = "orchestra-agents:";

/// Maximum length of a question in characters. Some clients do not show the end of a longer one.
const MAX_QUESTION_CHARS: usize = 8_000;

/// Maximum number of declined questions that are remembered. Above it, users are asked again.
const MAX_DECLINED: usize = 1_000;

/// Agents that users declined, by session and digest of what was shown.
static DECLINED: Mutex<Option<HashSet<Declined>>> = Mutex::new(None);

type Declined = (Option<SessionName>, String);

/// As [`to`], without the agents that the user declined in this session: a plan that was created without them is
/// resumed without them.
pub(super) async fn to_undeclined(cx: &PlanCx, mut offers: Vec<Offer>) -> Result<(), Failure> {
    {
        let declined = DECLINED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(declined) = declined.as_ref() {
            offers.retain(|offer| !declined.contains(&declined_by(cx, offer)));
        }
    }
    to(cx, offers).await
}

fn declined_by(cx: &PlanCx, offer: &Offer) -> Declined {
    (cx.cx.along.session.clone(), offer.digest().to_owned())
}

/// Stores what the user agreed to, or asks for it. Without an answer, and where the user declined, nothing is
/// stored.
pub(super) async fn to(cx: &PlanCx, offers: Vec<Offer>) -> Result<(), Failure> {
    if !cx.cx.features.elicitation {
        return Ok(());
    }
    let is_short = |offer: &Offer| message(offer).chars().count() <= MAX_QUESTION_CHARS;
    let offers: Vec<Offer> = offers.into_iter().filter(is_short).collect();
    if offers.is_empty() {
        return Ok(());
    }
    // An answer is good for what was shown, and nothing else.
    let shown: Vec<&str> = offers.iter().map(Offer::digest).collect();
    let state = format!("{ASKED}{}", shown.join(","));
    let answers = cx.cx.answers.as_ref();
    let answers = answers.filter(|answers| answers.state.as_deref() == Some(state.as_str()));
    let Some(answers) = answers else {
        return Err(Failure::asking(question(&offers, state)));
    };
    for offer in offers {
        match action(&answers.responses, &key(&offer)).as_deref() {
            Some("accept") => cx.plans.agree(offer).await?,
            Some("decline") => decline(declined_by(cx, &offer)),
            // A question that was closed is asked again.
            _ => {}
        }
    }
    Ok(())
}

fn key(offer: &Offer) -> String {
    format!("{ASKED}{}", offer.name)
}

fn question(offers: &[Offer], state: String) -> InputRequired {
    let requests: Map<_, _> = offers
        .iter()
        .map(|offer| {
            let schema = json!({"type": "object", "properties": {}});
            let params = json!({"message": message(offer), "requestedSchema": schema});
            (
                key(offer),
                json!({"method": "elicitation/create", "params": params}),
            )
        })
        .collect();
    InputRequired {
        requests: RawJson::of(&requests).unwrap_or_else(|_| RawJson::empty_object()),
        state: Some(state),
        takes_errors: false,
    }
}

fn message(offer: &Offer) -> String {
    let mut message = format!(
        "May plans start agent {} in this workspace?\n{}",
        offer.name,
        offer.lines.join("\n")
    );
    if let Some(choice) = offer.choice() {
        message.push_str(&format!("\n{choice}"));
    }
    message
}

fn decline(declined: Declined) {
    let mut all = DECLINED.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if all.len() >= MAX_DECLINED {
        all.clear();
    }
    all.insert(declined);
}

fn action(responses: &RawJson, key: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        action: String,
    }
    let answer = responses.member(key);
    let answer = answer.and_then(|answer| answer.parse::<Answer>().ok());
    answer.map(|answer| answer.action)
}
