//! What a call leaves behind: its counters and its record.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    CallEnd, Content, Outcome, Remark, Request, Target, ToolMetrics, audit::Record, hub::Inner,
};

/// What is needed to count and record the call at its end.
pub(super) struct Bill {
    pub(super) hub: Arc<Inner>,
    pub(super) tool: Option<Arc<ToolMetrics>>,
    pub(super) began: Instant,
    pub(super) waits: bool,
    /// What the provider says of the call.
    pub(super) remark: Remark,
    pub(super) record: Option<Record>,
}

impl Bill {
    pub(super) fn settle(self, end: CallEnd, result_bytes: impl FnOnce() -> usize) -> Instant {
        let now = Instant::now();
        let remark = self.remark.said();
        let end = remark.and_then(|(end, _)| *end).unwrap_or(end);
        let elapsed = now - self.began;
        self.hub.metrics.end(end, elapsed);
        if self.waits {
            self.hub.metrics.end_waiting();
        }
        if let Some(tool) = &self.tool {
            tool.end(end, elapsed);
        }
        if let (Some(mut record), Some(audit)) = (self.record, &self.hub.config.audit) {
            record.ended = SystemTime::now();
            record.result_bytes = result_bytes();
            record.end = end;
            record.remark = remark.map(|(_, text)| text.clone());
            record.elapsed = elapsed;
            audit.record(record);
        }
        now
    }
}

pub(super) fn record_of(request: &Request) -> Record {
    let (kind, name, argument_bytes) = match &request.target {
        Target::Tool { name, arguments } => ("tool", name.clone(), arguments.as_bytes().len()),
        Target::Prompt { name, arguments } => (
            "prompt",
            name.clone(),
            arguments
                .iter()
                .map(|(key, value)| key.len() + value.len())
                .sum(),
        ),
        Target::Resource { uri } => ("resource", uri.clone(), 0),
        Target::Complete {
            argument, value, ..
        } => ("completion", argument.clone(), value.len()),
        Target::List { kind, .. } => ("list", kind.name().to_owned(), 0),
        Target::Skills(query) => ("skill", query.uri().to_owned(), 0),
        Target::Raw { method, params } => (
            "method",
            method.clone(),
            params.as_ref().map_or(0, |params| params.as_bytes().len()),
        ),
    };
    Record {
        ended: SystemTime::UNIX_EPOCH,
        face: request.cx.caller.face,
        client: request.cx.caller.client.clone(),
        provider: None,
        kind,
        name,
        argument_bytes,
        result_bytes: 0,
        end: CallEnd::Cancelled,
        remark: None,
        elapsed: Duration::ZERO,
        trace: request.cx.trace.clone(),
    }
}

pub(super) fn result_bytes(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Tool(result) => {
            let content = result.content.iter().map(|content| match content {
                Content::Text(text) => text.len(),
                Content::Raw(raw) => raw.as_bytes().len(),
            });
            content.sum::<usize>()
                + result
                    .structured
                    .as_ref()
                    .map_or(0, |structured| structured.as_bytes().len())
        }
        Outcome::Prompt(result) => result.messages.as_bytes().len(),
        Outcome::Resource(result) => result
            .contents
            .iter()
            .map(|content| content.data.len())
            .sum(),
        Outcome::Completion(completion) => completion.values.iter().map(String::len).sum(),
        Outcome::Skills(answer) => answer.text().len(),
        Outcome::List { items, .. } => items.len(),
        Outcome::Raw(raw) | Outcome::Verbatim { result: raw, .. } => raw.as_bytes().len(),
        Outcome::InputRequired(input) => input.requests.as_bytes().len(),
    }
}
