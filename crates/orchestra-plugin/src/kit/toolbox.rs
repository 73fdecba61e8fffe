//! The tools that a plugin offers now: those that it was written with, and those that it has added
//! since.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::watch;

use super::{
    answer::ToolError,
    serve,
    tool::{Function, Tool},
};
use crate::{
    generated::{ListToolsResponse, ToolDefinition},
    structs::StructError,
};

/// The tools of a plugin while it runs. Clones are the same.
///
/// An orchestrator of ours learns of every change by that the plugin registers again, as soon as it
/// is connected to it; an older one lists the tools when it does so anyway. A call that runs goes on
/// when its tool is removed.
#[derive(Clone)]
pub struct Tools(Arc<Inner>);

struct Inner {
    offered: Mutex<Offered>,
    /// Rises with each change.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Offered {
    /// In the order in which they were added.
    definitions: Vec<ToolDefinition>,
    functions: HashMap<String, Function>,
    /// The answer to the list request, encoded once for each change.
    listed: Option<Bytes>,
}

impl Tools {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            offered: Mutex::default(),
            changes: watch::Sender::new(0),
        }))
    }

    /// Offers a tool from now on. It takes the place of one of the same name.
    ///
    /// # Errors
    /// The schema of its arguments cannot be sent.
    pub fn add(&self, tool: Tool) -> Result<(), ToolError> {
        self.put(tool)?;
        self.changed();
        Ok(())
    }

    /// Offers a tool no more; false when there was none of that name.
    pub fn remove(&self, name: &str) -> bool {
        let was_there = {
            let mut offered = self.offered();
            let was_there = offered.functions.remove(name).is_some();
            offered.definitions.retain(|tool| tool.name != name);
            offered.listed = None;
            was_there
        };
        if was_there {
            self.changed();
        }
        was_there
    }

    /// The names of the tools that are offered.
    pub fn names(&self) -> Vec<String> {
        let offered = self.offered();
        let names = offered.definitions.iter().map(|tool| tool.name.clone());
        names.collect()
    }

    /// Puts in a tool that was there from the start.
    pub(super) fn put(&self, tool: Tool) -> Result<(), StructError> {
        let definition = tool.definition()?;
        let mut offered = self.offered();
        let name = tool.name;
        let had = offered.functions.insert(name.clone(), tool.function);
        let place = had.and_then(|_| offered.definitions.iter().position(|one| one.name == name));
        match place {
            Some(place) => offered.definitions[place] = definition,
            None => offered.definitions.push(definition),
        }
        offered.listed = None;
        Ok(())
    }

    pub(super) fn function(&self, name: &str) -> Option<Function> {
        self.offered().functions.get(name).cloned()
    }

    pub(super) fn listed(&self) -> Bytes {
        self.offered().list()
    }

    /// Tells when they change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn changed(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    fn offered(&self) -> MutexGuard<'_, Offered> {
        let offered = &self.0.offered;
        offered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Offered {
    fn list(&mut self) -> Bytes {
        if let Some(listed) = &self.listed {
            return listed.clone();
        }
        // The definitions are lent to the message, which wants to have them.
        let tools = std::mem::take(&mut self.definitions);
        let message = ListToolsResponse { tools };
        let listed = serve::payload(&message);
        self.definitions = message.tools;
        self.listed = Some(listed.clone());
        listed
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tools").field(&self.names()).finish()
    }
}
