//! `get-alerts`: what is to be warned of in a state.

use std::{fmt::Write as _, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    area::Area,
    upstream::{Failure, Upstream},
};

pub(crate) const NAME: &str = "get-alerts";
pub(crate) const DESCRIPTION: &str = "Get weather alerts for a state";

/// So many alerts are told, and how many more there are.
const MOST: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    state: Area,
}

pub(crate) fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "state": {
                "type": "string",
                "pattern": "^[A-Za-z]{2}$",
                "description": "Two letters of a US state, territory or marine area, such as CA.",
            },
        },
        "required": ["state"],
        "additionalProperties": false,
    })
}

pub(crate) fn output_schema() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            "state": text,
            "alerts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "event": text, "areaDesc": text, "severity": text, "status": text,
                        "headline": text, "urgency": text, "effective": text, "expires": text,
                        "description": text, "instruction": text,
                    },
                    "additionalProperties": false,
                },
            },
            "total": {"type": "integer", "description": "How many are active, told or not."},
        },
        "required": ["state", "alerts", "total"],
        "additionalProperties": false,
    })
}

/// What the service answers, as far as it is of use here.
#[derive(Deserialize)]
struct Collection {
    features: Vec<Feature>,
}

#[derive(Deserialize)]
struct Feature {
    properties: Alert,
}

/// One alert; the service leaves out or nulls what it does not know.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Alert {
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    area_desc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    urgency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effective: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instruction: Option<String>,
}

/// The alerts of a state.
#[derive(Debug, Serialize)]
pub(crate) struct Alerts {
    state: String,
    alerts: Vec<Alert>,
    total: usize,
}

/// Asks for the alerts that are active now.
///
/// # Errors
/// When the service does not answer.
pub(crate) async fn get(upstream: &Upstream, arguments: Arguments) -> Result<Alerts, Failure> {
    let state = arguments.state.letters();
    let url = upstream.at("/alerts/active", Some(&format!("area={state}")));
    let asked = upstream.ask(&url, Duration::ZERO, upstream.deadline());
    let Collection { features } = asked.await?;
    let total = features.len();
    let alerts = features.into_iter().take(MOST);
    Ok(Alerts {
        state: state.to_owned(),
        alerts: alerts.map(|feature| feature.properties).collect(),
        total,
    })
}

impl Alerts {
    /// The alerts as they are read by people and models.
    pub(crate) fn text(&self) -> String {
        let state = &self.state;
        if self.alerts.is_empty() {
            return format!("No active alerts for {state}");
        }
        let alerts: Vec<String> = self.alerts.iter().map(Alert::text).collect();
        let mut text = format!("Active alerts for {state}:\n\n{}", alerts.join("\n"));
        if self.total > self.alerts.len() {
            let more = self.total - self.alerts.len();
            write!(text, "\n{more} more").expect("writing to a string does not fail");
        }
        text
    }
}

impl Alert {
    fn text(&self) -> String {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "Unknown".to_owned());
        [
            format!("Event: {}", known(&self.event)),
            format!("Area: {}", known(&self.area_desc)),
            format!("Severity: {}", known(&self.severity)),
            format!("Status: {}", known(&self.status)),
            format!(
                "Headline: {}",
                self.headline.as_deref().unwrap_or("No headline")
            ),
            "---".to_owned(),
        ]
        .join("\n")
    }
}
