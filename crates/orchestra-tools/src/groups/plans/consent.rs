//! Asking the user, through the client, for agents that a plan asks for and that may not start yet.
//!
//! A client that cannot ask its user is not asked: the plan is made, its warnings name the setting, and jobs that
//! need such an agent fail.

use orchestra_hub::InputRequired;
use orchestra_runner::agents::Offer;
use orchestra_wire::RawJson;
use serde::Deserialize;
use serde_json::{Map, json};

use crate::failure::Failure;
use crate::tool::PlanCx;

/// Prefix of the state of a call that waits for answers, and of the keys of its questions.
const ASKED: &str = "orchestra-agents:";

/// Stores what the user agreed to, or asks for it. Without an answer, and where the user declined, nothing is
/// stored.
pub(super) async fn to(cx: &PlanCx, offers: Vec<Offer>) -> Result<(), Failure> {
    if offers.is_empty() || !cx.cx.features.elicitation {
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
        if accepts(&answers.responses, &key(&offer)) {
            cx.plans.agree(offer).await?;
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
            let message = format!(
                "May plans start agent {} in this workspace?\n{}",
                offer.name,
                offer.lines.join("\n")
            );
            let schema = json!({"type": "object", "properties": {}});
            let params = json!({"message": message, "requestedSchema": schema});
            (
                key(offer),
                json!({"method": "elicitation/create", "params": params}),
            )
        })
        .collect();
    InputRequired {
        requests: RawJson::of(&requests).unwrap_or_else(|_| RawJson::empty_object()),
        state: Some(state),
    }
}

fn accepts(responses: &RawJson, key: &str) -> bool {
    #[derive(Deserialize)]
    struct Answer {
        action: String,
    }
    let answer = responses.member(key);
    let answer = answer.and_then(|answer| answer.parse::<Answer>().ok());
    answer.is_some_and(|answer| answer.action == "accept")
}
