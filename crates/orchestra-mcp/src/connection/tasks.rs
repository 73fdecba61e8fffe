//! Calls that become tasks, and what clients do with tasks (MCP extension
//! `io.modelcontextprotocol/tasks`).

use std::{sync::Arc, time::Instant};

use orchestra_hub::{Along, Caller, LogLevel, LongWork, Target};
use orchestra_wire::{Era, ErrorCode, Method, RawJson, Rope, RpcError, shown, write};
use serde::{Deserializer, de};
use serde_json::{json, value::RawValue};

use super::{
    Connection, Handled, Ticket,
    calls::{NewCall, busy},
    requests::Parsed,
    targets::{invalid, missing, text},
};
use crate::{
    http::Identity,
    results::TaskResult,
    tasks::{EXTENSION, LongReports, Responses, TaskId, TaskWatch, TaskWork, Terms},
};

/// Answers that one `tasks/update` may bring.
const MAX_RESPONSES: usize = 1_000;

/// What a call needs to become a task.
pub(super) struct Long {
    pub(super) caller: Caller,
    pub(super) reports: Arc<LongReports>,
    pub(super) log_level: Option<LogLevel>,
    pub(super) connection: u64,
    pub(super) roots_version: u64,
    pub(super) along: Along,
    pub(super) params: Option<RawJson>,
    /// What is kept for the call, in bytes.
    pub(super) bytes: usize,
}

impl Connection {
    /// Says who is at the other end: tasks of theirs are found by nobody else, nor those of others
    /// by them.
    pub(crate) fn owned_by(&mut self, owner: Identity) {
        self.owner = owner;
    }

    /// Whether a call may become a task.
    pub(super) fn may_last(
        &self,
        parsed: &Parsed<'_, '_>,
        call: &NewCall,
    ) -> Result<bool, RpcError> {
        // Clients of the session era know no such tasks, and so they wait.
        if parsed.revision.era() == Era::Session || !matches!(call.target, Target::Tool { .. }) {
            return Ok(false);
        }
        let knows_tasks = parsed.capabilities(self.session.capabilities).tasks;
        match (self.attachment.long_work(&call.target), knows_tasks) {
            (LongWork::Never, _) | (LongWork::May | LongWork::Later, false) => Ok(false),
            (LongWork::Must | LongWork::MustLater, false) => Err(lacking()),
            (long, true) => match self.server.0.tasks.has_room(parsed.bytes, parsed.now) {
                false if long == LongWork::Must => Err(busy()),
                has_room => Ok(has_room),
            },
        }
    }

    /// Makes a call that waits a task, and answers its request with it. The call's outcome goes to
    /// the task from here on. `None` when the call is to be waited for like any other.
    pub fn become_task(
        &mut self,
        ticket: &Ticket,
        now: Instant,
        out: &mut Rope,
    ) -> Option<TaskWork> {
        let open = self.open.get(&ticket.id);
        let open = open.filter(|open| open.serial == ticket.serial)?;
        let long = open.long.as_ref()?;
        let tasks = &self.server.0.tasks;
        let id = tasks.create(self.owner, open.cancel.clone(), long.bytes, now)?;
        let open = self.open.close(&ticket.id)?;
        self.running = self.running.saturating_sub(1);
        if let Some(reports) = &open.reports {
            reports.end();
        }
        self.results(open.revision)
            .task(out, &ticket.id, TaskResult::Begun, |out| {
                self.server.0.tasks.write_created(id, now, out);
            });
        out.push_byte(b'\n');
        let long = open.long?;
        let terms = Terms {
            target: open.again?,
            caller: long.caller,
            log_level: long.log_level,
            connection: long.connection,
            roots_version: long.roots_version,
            along: long.along,
            params: long.params,
            capabilities: open.capabilities,
            trace: open.trace,
            revision: open.revision,
            cancel: open.cancel,
            reports: long.reports,
        };
        Some(TaskWork::new(&self.server, id, terms))
    }

    /// `tasks/get`, `tasks/update` and `tasks/cancel`.
    pub(super) fn on_task(
        &self,
        method: Method,
        parsed: &Parsed<'_, '_>,
        out: &mut Rope,
    ) -> Result<Handled, RpcError> {
        if !parsed.capabilities(self.session.capabilities).tasks {
            return Err(lacking());
        }
        let text = text(parsed.fields.task_id, "taskId")?;
        let unknown = || {
            let text = format!("unknown task: {}; it may have expired", shown(&text));
            RpcError::invalid_params(text)
        };
        let id = TaskId::parse(&text).ok_or_else(unknown)?;
        let (tasks, owner, now) = (&self.server.0.tasks, self.owner, parsed.now);
        if method == Method::TasksGet {
            let mut members = Rope::new();
            if !tasks.write_now(id, owner, now, &mut members) {
                return Err(unknown());
            }
            let results = self.results(parsed.revision);
            results.task(out, parsed.id, TaskResult::Now, |out| out.append(members));
            return Ok(Handled::Written);
        }
        let is_there = match method {
            Method::TasksUpdate => {
                let responses = parsed.fields.input_responses;
                let responses = responses.ok_or_else(|| missing("inputResponses"))?;
                tasks.answer(id, owner, responses_of(responses)?, now)
            }
            _ => tasks.cancel(id, owner, now),
        };
        if !is_there {
            return Err(unknown());
        }
        Ok(self.empty(parsed, out))
    }

    /// Where it is told which tasks have changed, if this connection can tell its client.
    pub(crate) fn task_watch(&self) -> Option<Arc<TaskWatch>> {
        self.task_watch.clone()
    }

    /// Appends the notices of a task that has changed, as it is now.
    pub fn on_task_changed(&mut self, now: Instant, out: &mut Rope) {
        let Some(id) = self.task_watch.as_ref().and_then(|watch| watch.take()) else {
            return;
        };
        for stream in self.subscriptions.watching(id) {
            let mark = out.mark();
            write::notification_head(out, Method::TaskChanged.name());
            out.push_byte(b'{');
            super::subscriptions::stream_meta(out, stream);
            out.push_byte(b',');
            if self.server.0.tasks.write_now(id, self.owner, now, out) {
                out.push(b"}}\n");
            } else {
                out.cut_back(mark);
            }
        }
    }

    /// The tasks among `texts` that the client may hear of.
    ///
    /// # Errors
    /// When it names any and does not know tasks.
    pub(super) fn watchable(
        &self,
        texts: &[String],
        parsed: &Parsed<'_, '_>,
    ) -> Result<Vec<TaskId>, RpcError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        if !parsed.capabilities(self.session.capabilities).tasks {
            return Err(lacking());
        }
        let tasks = &self.server.0.tasks;
        let ids = texts.iter().filter_map(|text| TaskId::parse(text));
        let mut ids: Vec<TaskId> = ids
            .filter(|id| tasks.is_there(*id, self.owner, parsed.now))
            .filter(|_| self.task_watch.is_some())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    pub(super) fn watch_tasks(&self, ids: &[TaskId]) {
        if let Some(watch) = &self.task_watch {
            ids.iter()
                .for_each(|id| self.server.0.tasks.watch(*id, watch));
        }
    }

    /// Stops watching those of `ids` that no stream is about any more.
    pub(super) fn unwatch_tasks(&self, ids: &[TaskId]) {
        let Some(watch) = &self.task_watch else {
            return;
        };
        for id in ids {
            if self.subscriptions.watching(*id).next().is_none() {
                self.server.0.tasks.unwatch(*id, watch);
            }
        }
    }
}

/// The error for a client that does not know tasks.
fn lacking() -> RpcError {
    let text = format!("the client lacks a capability this needs: extension {EXTENSION}");
    let data = json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
    RpcError {
        data: RawJson::of(&data).ok(),
        ..RpcError::new(ErrorCode::MISSING_CLIENT_CAPABILITY, text)
    }
}

/// Reads at most [`MAX_RESPONSES`] answers.
fn responses_of(value: &RawValue) -> Result<Responses, RpcError> {
    struct Entries;
    impl<'de> de::Visitor<'de> for Entries {
        type Value = Responses;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object of answers")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Responses, A::Error> {
            let mut responses = Responses::new();
            while let Some((key, answer)) = map.next_entry::<String, &RawValue>()? {
                if responses.len() == MAX_RESPONSES {
                    let text = format!("an update may bring at most {MAX_RESPONSES} answers");
                    return Err(de::Error::custom(text));
                }
                responses.push((key, RawJson::from_raw(answer)));
            }
            Ok(responses)
        }
    }
    let mut text = serde_json::Deserializer::from_str(value.get());
    text.deserialize_map(Entries)
        .map_err(|error| invalid("inputResponses", &error))
}
