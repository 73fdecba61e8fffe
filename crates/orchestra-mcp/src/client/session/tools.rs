//! Tools as one connection lists them, and their comparison with the definition for which a call is made.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use orchestra_hub::ListKind;
use orchestra_wire::RawJson;

use super::Session;
use crate::client::{ClientError, ServerCall, ToolCheck, lists};

/// Tools of a connection as its server lists them.
#[derive(Debug, Default)]
pub(super) struct ListedTools {
    state: Mutex<State>,
    /// Held while the tools are listed for calls.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of changes that the server has reported.
    changes: u64,
    /// The newest list.
    list: Option<List>,
    /// Number of lists that were fetched for calls, or failed.
    requests: u64,
    /// Number of changes before the last of them.
    requested_at: u64,
    /// Error of the last of them.
    failure: Option<ClientError>,
}

/// A list of tools.
#[derive(Debug)]
struct List {
    /// Number of changes before the list was requested.
    changes: u64,
    /// Definitions by name.
    tools: HashMap<String, RawJson>,
}

impl ListedTools {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the list may differ from now on.
    pub(super) fn note_change(&self) {
        self.state().changes += 1;
    }
}

impl State {
    /// Returns whether a call may be sent, by a list that is newer than so many changes; `None` without such a list. A
    /// tool that is not listed has nothing to compare.
    fn allows(&self, changes: u64, name: &str, check: &ToolCheck) -> Option<bool> {
        let list = self.list.as_ref().filter(|list| list.changes >= changes)?;
        let definition = list.tools.get(name);
        Some(definition.is_none_or(|definition| check.allows(definition)))
    }
}

impl Session {
    /// Number of changes of its tools that the server has reported.
    pub(in crate::client) fn tool_changes(&self) -> u64 {
        self.tools.state().changes
    }

    /// Retains a list of the tools that was requested after so many changes. The first definition of a name counts.
    pub(in crate::client) fn note_tools(&self, changes: u64, items: &[RawJson]) {
        let mut tools = HashMap::new();
        for item in items {
            let name: Option<String> = item.member("name").and_then(|name| name.parse().ok());
            if let Some(name) = name {
                tools.entry(name).or_insert_with(|| item.clone());
            }
        }
        let mut state = self.tools.state();
        if state
            .list
            .as_ref()
            .is_none_or(|list| list.changes <= changes)
        {
            state.list = Some(List { changes, tools });
        }
    }

    /// Checks the tool of a call as this connection lists it. The tools are listed once for each connection and for each
    /// change that the server reports, and once more if the definition differs. Calls that wait share the list or its
    /// error; the next call after an error lists them again.
    ///
    /// # Errors
    /// If the tools cannot be listed, or the tool must not be called as it is listed.
    pub(in crate::client) async fn check_tool(
        self: &Arc<Self>,
        call: &ServerCall,
    ) -> Result<(), ClientError> {
        let (Some(check), Some(name)) = (&call.check, &call.name) else {
            return Ok(());
        };
        let (changes, requests) = {
            let state = self.tools.state();
            if state.allows(state.changes, name, check) == Some(true) {
                return Ok(());
            }
            (state.changes, state.requests)
        };
        // single-flight: the calls that wait share what the first of them gets.
        let _turn = self.tools.turn.lock().await;
        let is_answered = {
            let state = self.tools.state();
            if state.allows(changes, name, check) == Some(true) {
                return Ok(());
            }
            state.requests != requests && state.requested_at >= changes
        };
        if !is_answered {
            self.list_for_calls().await;
        }
        let state = self.tools.state();
        if let Some(error) = &state.failure {
            return Err(error.clone().unlisted());
        }
        match state.allows(changes, name, check) {
            Some(true) => Ok(()),
            Some(false) | None => Err(ClientError::ToolChanged),
        }
    }

    /// Lists the tools. An error that ends the session, or a timeout, is recorded as for a call. Each call that waits
    /// reports the error to the circuit breaker.
    async fn list_for_calls(self: &Arc<Self>) {
        let changes = self.tool_changes();
        let listed = lists::fetch(self, ListKind::Tools).await;
        if let Err(error) = &listed {
            self.note_end(error);
            if matches!(error, ClientError::Timeout { .. }) {
                self.note_timeout();
            }
        }
        let mut state = self.tools.state();
        state.requests += 1;
        state.requested_at = changes;
        state.failure = listed.err();
    }
}
