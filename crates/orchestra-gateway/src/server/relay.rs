//! The server of a program that is nothing but a way to it: what is asked goes there as it came, and
//! what stands in the way is told as bridges to an orchestrator have always told it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use orchestra_hub::{Cx, ListKind, ProviderError, Request, ResultKind, Target};
use orchestra_mcp::client::{ClientError, ClientStatus, Sent};
use orchestra_wire::{ErrorCode, RawJson, shown};
use serde_json::json;
use tokio::time::Instant;

use super::{Server, ask, calls::Answer, offered::Tool, params::text};
use crate::{
    definitions, explain,
    pins::{Facts, Lists},
};

/// How long a call waits for a connection that was lost under it, where it may be made again: long
/// enough for a restart, and not so long that nobody knows what it waits for.
pub(super) const PATIENCE: Duration = Duration::from_millis(1_250);

/// How long a request waits for the first connection: longer than an attempt takes that nobody
/// answers, so that it is told why there is none.
const FIRST: Duration = Duration::from_secs(6);

/// How long it waits where the last attempt has failed: long enough for one that is back.
const AGAIN: Duration = Duration::from_secs(2);

/// How much of a cause is told, in characters.
const MAX_CAUSE: usize = 1_000;

/// What is known of the way to the server.
#[derive(Debug, Default)]
pub(super) struct Relay {
    /// Last answer about each list, in the order of [`ListKind::ALL`].
    told: Mutex<[Told; 4]>,
    /// Each list is asked for once at a time, so that none takes the place of a newer one.
    listing: [tokio::sync::Mutex<()>; 4],
    /// Held while what was learnt is taken in.
    taking: Mutex<()>,
    /// Why the last attempt failed; nothing while there is a connection.
    failure: Mutex<Option<ClientError>>,
}

/// Answer to the last request for a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Told {
    /// Nobody wanted it.
    #[default]
    Nothing,
    /// None yet: the request runs.
    Asked,
    /// How it is.
    Listed,
    /// That it cannot be had.
    Failed,
}

impl Relay {
    fn told(&self) -> MutexGuard<'_, [Told; 4]> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<ClientError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Whether the program is nothing but a way to this server.
    pub(crate) const fn is_relay(&self) -> bool {
        self.relay.is_some()
    }

    /// Remembers how the server stands.
    pub(super) fn stands(&self, status: &ClientStatus) {
        let Some(relay) = &self.relay else { return };
        match status {
            ClientStatus::Restarting { reason, .. } | ClientStatus::Offline { reason, .. } => {
                *relay.failure() = Some(ClientError::clone(reason));
            }
            ClientStatus::Ready | ClientStatus::Degraded(_) => *relay.failure() = None,
            _ => {}
        }
    }

    /// Waits for a connection; not for long, and no longer than until an attempt has failed.
    async fn reached(
        &self,
        method: &str,
        deadline: Option<std::time::Instant>,
    ) -> Result<(), ProviderError> {
        let last = || {
            self.relay
                .as_ref()
                .and_then(|relay| relay.failure().clone())
        };
        let wait = if last().is_some() { AGAIN } else { FIRST };
        let until = Instant::now() + wait;
        let until = deadline.map_or(until, |deadline| until.min(Instant::from_std(deadline)));
        let reached = self.client.reach(until).await;
        reached.map_err(|error| match (&error, last()) {
            // That an attempt goes on says less than why the last one failed.
            (ClientError::Unreachable { .. }, Some(last)) => failure(method, last),
            _ => failure(method, error),
        })
    }

    /// Passes a request on.
    pub(super) async fn relay(self: Arc<Self>, request: Request) -> Answer {
        let Request { target, cx } = request;
        self.reached(&method(&target), cx.deadline).await?;
        self.pass_by_name(target, cx).await
    }

    async fn pass_by_name(self: Arc<Self>, target: Target, mut cx: Cx) -> Answer {
        match target {
            Target::Tool { name, arguments } => {
                let offered = self.offered();
                let known = offered.tool(&name).map(Arc::clone);
                let tool = known.unwrap_or_else(|| Arc::new(Tool::unlisted(&name)));
                let mind = ask::unwrap(&mut cx, &self.consents);
                self.call_tool(&tool, arguments, mind, cx).await.answer
            }
            Target::Prompt { name, arguments } => {
                let given = RawJson::of(&arguments).unwrap_or_else(|_| RawJson::empty_object());
                let own = [("name", text(&name)), ("arguments", given)];
                self.pass("prompts/get", &own, name, cx, ResultKind::Prompt)
                    .await
            }
            other => self.pass_on(other, cx).await,
        }
    }

    /// Asks for a list that somebody wants, so that it is known as it is now.
    ///
    /// # Errors
    /// When it cannot be had; what was known before stays.
    pub(crate) async fn list_now(&self, kind: ListKind) -> Result<(), ProviderError> {
        // Before the request: the list may change while its answer is on the way.
        self.note_answer(kind, Told::Asked);
        let listed = self.look(kind).await;
        let answer = match listed {
            Ok(_) => Told::Listed,
            Err(_) => Told::Failed,
        };
        self.note_answer(kind, answer);
        listed.map(drop)
    }

    fn last_answer(&self, kind: ListKind) -> Told {
        let told = self.relay.as_ref().map(|relay| relay.told()[kind as usize]);
        told.unwrap_or_default()
    }

    fn note_answer(&self, kind: ListKind, answer: Told) {
        if let Some(relay) = &self.relay {
            relay.told()[kind as usize] = answer;
        }
    }

    /// Looks at a list that may have changed. Returns whether a caller has another one, or `None` where
    /// that is to be looked at again: the connection is there, and the request failed.
    pub(super) async fn is_other(&self, kind: ListKind) -> Option<bool> {
        let before = self.last_answer(kind);
        if before == Told::Nothing {
            return Some(false);
        }
        match self.look(kind).await {
            Ok(differs) => {
                // A request that runs now may still fail.
                let is_sure = before != Told::Failed && self.last_answer(kind) == Told::Listed;
                Some(differs || !is_sure)
            }
            Err(error) => {
                tracing::debug!(server = self.name(), ?kind, %error, "cannot list the server's definitions");
                let relay = self.relay.as_ref()?;
                // After the next start, all lists are looked at.
                let is_away = relay.failure().is_some();
                (is_away || before == Told::Failed).then_some(false)
            }
        }
    }

    /// Takes in what the server has said of itself, and what else was learnt.
    pub(super) fn take_in(&self, change: impl FnOnce(&mut Lists)) {
        let Some(relay) = &self.relay else { return };
        let _one = relay.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.offered().known.clone().unwrap_or_default();
        if let Some(facts) = self.client.server() {
            known.lists.facts = Facts::of(&facts);
        }
        change(&mut known.lists);
        self.offer(Some(known));
    }

    /// Asks for a list; whether it is another than before.
    async fn look(&self, kind: ListKind) -> Result<bool, ProviderError> {
        let Some(relay) = &self.relay else {
            return Ok(false);
        };
        let method = list_method(kind);
        self.reached(method, None).await?;
        // single-flight: an older answer must not take the place of a newer one.
        let _turn = relay.listing[kind as usize].lock().await;
        let listed = self.client.list(kind).await;
        let items = listed.map_err(|error| failure(method, error))?;
        let items = match kind {
            ListKind::Tools => definitions::once_each(items),
            _ => items,
        };
        let mut differs = false;
        self.take_in(|lists| {
            let before = std::mem::replace(lists.of_mut(kind), items);
            differs = before != *lists.of_mut(kind);
        });
        Ok(differs)
    }
}

/// Whether a tool is called without any arguments.
pub(super) fn is_bare(cx: &Cx) -> bool {
    cx.params.as_ref().is_some_and(|params| {
        let given = params.member("arguments");
        given.is_none_or(|given| given.as_str() == "null")
    })
}

/// The error of a request that brought no answer.
pub(super) fn failure(method: &str, error: ClientError) -> ProviderError {
    let error = match explain::passed(error) {
        Ok(answer) => return answer,
        Err(error) => error,
    };
    let operation = operation(method);
    let may_have_run = error.sent() == Sent::Maybe;
    let cause = cause(&error);
    // The link says it where it knows more than we do.
    let cause = cause
        .strip_prefix(&format!("orchestrator {operation} failed: "))
        .or_else(|| cause.strip_prefix("orchestrator "))
        .unwrap_or(&cause);
    let cause = shown_part(cause);
    let ran = if may_have_run {
        "; it may have run"
    } else {
        ""
    };
    let data = json!({"code": error.code(), "mayHaveRun": may_have_run});
    ProviderError::Rpc {
        code: ErrorCode::INTERNAL_ERROR.0,
        message: format!("orchestrator {operation} failed: {cause}{ran}"),
        data: RawJson::of(&json!({ explain::ERROR: data })).ok(),
    }
}

/// What happened, without what the error begins with anyway.
fn cause(error: &ClientError) -> String {
    match error {
        ClientError::Unreachable { what }
        | ClientError::Busy { what }
        | ClientError::TooLarge { what }
        | ClientError::AnswerTooLarge { what }
        | ClientError::NoAnswer { what } => what.clone(),
        ClientError::NotYet { last, .. }
        | ClientError::CircuitOpen {
            last: Some(last), ..
        } => cause(last),
        ClientError::Closed => "the connection was lost".to_owned(),
        error => error.explain(),
    }
}

fn shown_part(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_CAUSE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The method by which something is asked for.
fn method(target: &Target) -> String {
    match target {
        Target::Tool { .. } => "tools/call",
        Target::Prompt { .. } => "prompts/get",
        Target::Resource { .. } => "resources/read",
        Target::Complete { .. } => "completion/complete",
        Target::List { kind, .. } => list_method(*kind),
        Target::Skills(_) => "skills/list",
        Target::Raw { method, .. } => return shown(method).into_owned(),
    }
    .to_owned()
}

const fn list_method(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => "tools/list",
        ListKind::Prompts => "prompts/list",
        ListKind::Resources => "resources/list",
        ListKind::Templates => "resources/templates/list",
    }
}

/// What a method is called in errors, as the messages of the plugin protocol are.
fn operation(method: &str) -> &str {
    match method {
        "tools/list" => "list_tools",
        "tools/call" => "tool_call",
        "prompts/list" => "list_prompts",
        "prompts/get" => "prompt_get",
        "resources/list" => "list_resources",
        "resources/templates/list" => "list_templates",
        "resources/read" => "resource_read",
        "completion/complete" => "complete",
        method => method,
    }
}

#[cfg(test)]
mod tests {
    use orchestra_wire::RpcError;

    use super::*;

    fn told(method: &str, error: ClientError) -> (i64, String) {
        match failure(method, error) {
            ProviderError::Rpc { code, message, .. } => (code, message),
            other => panic!("{other:?}"),
        }
    }

    /// Document 000: -32603 for what is wrong with the way; spec 5.5: its words.
    #[test]
    fn a_failure_names_the_operation_and_its_cause_once() {
        let unreachable = |what: &str| ClientError::Unreachable {
            what: what.to_owned(),
        };
        let dial = unreachable("orchestrator dial failed: 127.0.0.1:1: timed out");
        for (method, error, expected) in [
            (
                "tools/list",
                ClientError::NotYet {
                    next_at: None,
                    last: Arc::new(dial.clone()),
                },
                "orchestrator list_tools failed: dial failed: 127.0.0.1:1: timed out",
            ),
            (
                "tools/call",
                unreachable("orchestrator tool_call failed: there is no connection"),
                "orchestrator tool_call failed: there is no connection",
            ),
            (
                "tools/call",
                ClientError::Closed,
                "orchestrator tool_call failed: the connection was lost; it may have run",
            ),
            (
                "prompts/get",
                ClientError::InvalidMessage {
                    what: "orchestrator prompt_get failed: no frame".to_owned(),
                },
                "orchestrator prompt_get failed: no frame; it may have run",
            ),
            (
                "some/method",
                unreachable("gone\naway"),
                "orchestrator some/method failed: gone away",
            ),
        ] {
            assert_eq!(told(method, error), (-32603, expected.to_owned()));
        }
        let refused = ClientError::Rpc(RpcError::invalid_params("no such tool"));
        assert_eq!(
            told("tools/call", refused),
            (-32602, "no such tool".to_owned())
        );
    }

    #[test]
    fn no_arguments_are_told_from_empty_ones() {
        let cx = |params: serde_json::Value| Cx {
            params: RawJson::of(&params).ok(),
            ..Cx::default()
        };
        assert!(is_bare(&cx(json!({"name": "t"}))));
        assert!(is_bare(&cx(json!({"name": "t", "arguments": null}))));
        assert!(!is_bare(&cx(json!({"name": "t", "arguments": {}}))));
        assert!(!is_bare(&Cx::default()));
    }
}
