//! Says a recording again, and compares what is answered.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use orchestra_secret::Masker;
use orchestra_wire::{ErrorCode, RawJson, RequestId, Revision, RpcError, shown};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};

use super::recording::{Recording, Step};
use crate::client::{Agreed, Answer, Connected, Incoming, Link, Outgoing, ServerMessage};

/// Of one answer, so many differences are told.
const MOST_CHANGES: usize = 20;

/// How a recording is said again.
#[derive(Debug, Clone)]
pub struct ReplayConfig {
    /// How long one answer may take.
    pub timeout: Duration,
    /// JSON pointers (RFC 6901) into the answer below which nothing is compared, such as
    /// `/result/serverInfo/version`.
    pub ignore: Vec<String>,
    /// What was masked in the recording.
    pub masker: Masker,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            ignore: Vec::new(),
            masker: Masker::default(),
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct ReplayReport {
    /// Requests that were sent again.
    pub requests: u64,
    /// Of these, those that were answered as they were before.
    pub same: u64,
    /// Those whose earlier answer is not known.
    pub unknown: u64,
    /// Those that were answered otherwise, or not at all.
    pub differences: Vec<Difference>,
}

/// A request that is answered otherwise.
#[derive(Debug)]
pub struct Difference {
    /// Its id.
    pub id: RequestId,
    /// Its method.
    pub method: String,
    /// Where the answers differ.
    pub changes: Vec<Change>,
}

/// One difference between two answers.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// Where, as a JSON pointer (RFC 6901); empty for the whole.
    pub at: String,
    /// What was recorded; `None` when there was nothing.
    pub recorded: Option<String>,
    /// What is there now.
    pub now: Option<String>,
}

/// Says a recording again over a connection, one request after the other, and closes it.
pub async fn replay(
    recording: Recording,
    connected: Connected,
    config: &ReplayConfig,
) -> ReplayReport {
    let Connected { link, incoming } = connected;
    let answering = {
        let link = std::sync::Arc::clone(&link);
        tokio::spawn(async move { answer(&*link, incoming, recording.answers).await })
    };
    let mut report = ReplayReport::default();
    for step in recording.steps {
        match step {
            Step::Notification { method, params } => {
                // Whether it can be told is seen by the next request.
                let _ = link.notify(&method, params).await;
            }
            Step::Request {
                id,
                method,
                params,
                answer,
            } => {
                agree_before(&*link, params.as_ref());
                let outgoing = Outgoing {
                    id: id.clone(),
                    name: named(params.as_ref()),
                    method: method.clone(),
                    params,
                    headers: Vec::new(),
                    along: Default::default(),
                    departure: None,
                };
                let now = timeout(config.timeout, link.request(outgoing)).await;
                report.requests += 1;
                let now = match now {
                    Ok(Ok(now)) => Ok(now),
                    Ok(Err(error)) => Err(error.explain()),
                    Err(_) => Err(format!("no answer within {:?}", config.timeout)),
                };
                if let ("initialize", Ok(Ok(result))) = (method.as_str(), &now) {
                    agree_after(&*link, result);
                }
                let Some(before) = answer else {
                    report.unknown += 1;
                    continue;
                };
                let changes = compare(&before, &now, config);
                if changes.is_empty() {
                    report.same += 1;
                } else {
                    report.differences.push(Difference {
                        id,
                        method,
                        changes,
                    });
                }
            }
        }
    }
    link.close().await;
    answering.abort();
    report
}

/// Answers what the server asks as it was answered before.
async fn answer(
    link: &dyn Link,
    mut incoming: mpsc::Receiver<Incoming>,
    mut answers: HashMap<String, VecDeque<Answer>>,
) {
    while let Some(said) = incoming.recv().await {
        let ServerMessage::Request { id, method, .. } = said.message else {
            continue;
        };
        let known = answers.get_mut(&method).and_then(VecDeque::pop_front);
        let answer = known.unwrap_or_else(|| match method.as_str() {
            "ping" => Ok(RawJson::empty_object()),
            _ => Err(RpcError::new(
                ErrorCode::METHOD_NOT_FOUND,
                "the recording holds no answer to this",
            )),
        });
        // A link that has ended is seen by the next request.
        let _ = link.respond(id, answer).await;
    }
}

/// What HTTP must know of parameters: a stateless revision says in each request what it is.
fn agree_before(link: &dyn Link, params: Option<&RawJson>) {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
        version: String,
    }
    let version = params.and_then(|params| params.parse::<Params>().ok());
    agree(link, version.map(|params| params.meta.version));
}

fn agree_after(link: &dyn Link, result: &RawJson) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized {
        protocol_version: String,
    }
    let version = result.parse::<Initialized>().ok();
    agree(link, version.map(|result| result.protocol_version));
}

fn agree(link: &dyn Link, version: Option<String>) {
    if let Some(revision) = version.as_deref().and_then(Revision::parse) {
        drop(link.agreed(Agreed { revision }));
    }
}

/// The tool, prompt or resource that is meant, for the header of HTTP.
fn named(params: Option<&RawJson>) -> Option<String> {
    #[derive(Deserialize)]
    struct Params {
        name: Option<String>,
        uri: Option<String>,
    }
    let params = params?.parse::<Params>().ok()?;
    params.name.or(params.uri)
}

fn compare(before: &Answer, now: &Result<Answer, String>, config: &ReplayConfig) -> Vec<Change> {
    let mut changes = Vec::new();
    let now = match now {
        Ok(now) => now,
        Err(reason) => {
            changes.push(Change {
                at: String::new(),
                recorded: Some(text(&plain(before, &config.masker))),
                now: Some(reason.clone()),
            });
            return changes;
        }
    };
    let (before, now) = (plain(before, &config.masker), plain(now, &config.masker));
    differ(
        &mut String::new(),
        &before,
        &now,
        &config.ignore,
        &mut changes,
    );
    changes
}

/// An answer as it is recorded.
fn plain(answer: &Answer, masker: &Masker) -> Value {
    let parsed = |raw: &RawJson| raw.parse::<Value>().unwrap_or_default();
    let mut value = match answer {
        Ok(result) => json!({"result": parsed(result)}),
        Err(error) => {
            let data = error.data.as_ref().map(parsed);
            json!({"error": {"code": error.code.0, "message": error.message, "data": data}})
        }
    };
    masker.json(&mut value);
    value
}

fn differ(
    at: &mut String,
    before: &Value,
    now: &Value,
    ignore: &[String],
    changes: &mut Vec<Change>,
) {
    if before == now || changes.len() >= MOST_CHANGES || ignore.contains(at) {
        return;
    }
    let length = at.len();
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            let new = now.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(new) {
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                one(at, before.get(name), now.get(name), ignore, changes);
                at.truncate(length);
            }
        }
        (Value::Array(before), Value::Array(now)) => {
            for place in 0..before.len().max(now.len()) {
                at.push_str(&format!("/{place}"));
                one(at, before.get(place), now.get(place), ignore, changes);
                at.truncate(length);
            }
        }
        _ => changes.push(Change {
            at: at.clone(),
            recorded: Some(text(before)),
            now: Some(text(now)),
        }),
    }
}

fn one(
    at: &mut String,
    before: Option<&Value>,
    now: Option<&Value>,
    ignore: &[String],
    changes: &mut Vec<Change>,
) {
    match (before, now) {
        (Some(before), Some(now)) => differ(at, before, now, ignore, changes),
        _ if changes.len() >= MOST_CHANGES || ignore.contains(at) => {}
        _ => changes.push(Change {
            at: at.clone(),
            recorded: before.map(text),
            now: now.map(text),
        }),
    }
}

fn text(value: &Value) -> String {
    shown(&value.to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_with_their_places() {
        let config = ReplayConfig {
            ignore: vec!["/result/b/1".to_owned()],
            ..ReplayConfig::default()
        };
        let answer = |value: Value| Ok(RawJson::of(&value).unwrap());
        let before = answer(json!({"a/b": 1, "b": [1, 2, 3], "gone": null, "t": "x"}));
        let now = answer(json!({"a/b": 2, "b": [1, 9], "new": true, "t": "x"}));
        let changes = compare(&before, &Ok(now), &config);
        let told: Vec<String> = changes
            .iter()
            .map(|change| format!("{} {:?} {:?}", change.at, change.recorded, change.now))
            .collect();
        assert_eq!(
            told,
            [
                "/result/a~1b Some(\"1\") Some(\"2\")",
                "/result/b/2 Some(\"3\") None",
                "/result/gone Some(\"null\") None",
                "/result/new None Some(\"true\")",
            ]
        );
        assert!(compare(&before, &Ok(before.clone()), &config).is_empty());
        let silent = compare(&before, &Err("no answer within 1s".to_owned()), &config);
        assert_eq!(silent[0].now.as_deref(), Some("no answer within 1s"));
    }
}
