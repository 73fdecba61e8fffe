//! Requests that are not answered yet.

use std::sync::Arc;

use orchestra_hub::{CancelSource, LogLevel, Target};
use orchestra_wire::{Era, RawJson, Revision};

use super::{input::Asking, requests::Parsed, tasks::Long};
use crate::{report::CallReports, told::ClientCapabilities};

/// A request that is not answered yet.
pub(super) struct Open {
    pub(super) serial: u64,
    pub(super) stage: Stage,
    pub(super) revision: Revision,
    /// Whether it was cancelled does not matter to others: it is closed then.
    pub(super) cancel: CancelSource,
    pub(super) reports: Option<Arc<CallReports>>,
    pub(super) batch: Option<u64>,
    pub(super) kind: Kind,
    pub(super) capabilities: ClientCapabilities,
    /// What was asked for, where the call may need answers of the client: to make it again, or to
    /// tell that the client does so.
    pub(super) again: Option<Box<Target>>,
    /// Set when the call may become a task.
    pub(super) long: Option<Box<Long>>,
    /// The trace of a call that may be made again.
    pub(super) trace: Option<String>,
    /// All of its parameters, where some are unknown; as above.
    pub(super) params: Option<RawJson>,
    pub(super) log_level: Option<LogLevel>,
    pub(super) rounds: u32,
}

/// What a call is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tool,
    /// A prompt or a resource.
    Content,
    Other,
}

pub(super) enum Stage {
    Queued,
    Running,
    /// Waits for the client.
    Asking(Box<Asking>),
}

impl Open {
    /// A call that nobody has cancelled yet. What it asks for is kept where it may have to be asked
    /// for again, or the call may become a task.
    pub(super) fn new(
        parsed: &Parsed<'_, '_>,
        target: &Target,
        serial: u64,
        stage: Stage,
        capabilities: ClientCapabilities,
        reports: Option<Arc<CallReports>>,
        long: Option<Box<Long>>,
    ) -> Self {
        let is_kept = capabilities.any() || long.is_some();
        Self {
            serial,
            stage,
            revision: parsed.revision,
            reports,
            batch: parsed.batch,
            kind: Kind::of(target),
            trace: is_kept.then(|| parsed.meta.trace.clone()).flatten(),
            params: is_kept.then(|| parsed.params.clone()).flatten(),
            log_level: None,
            again: is_kept.then(|| Box::new(target.clone())),
            long,
            rounds: 0,
            capabilities,
            cancel: CancelSource::new(),
        }
    }

    /// Stops the call and everything it might still say.
    pub(super) fn stop(&self) {
        if let Some(reports) = &self.reports {
            reports.end();
        }
        self.cancel.cancel();
    }

    pub(super) fn era(&self) -> Era {
        self.revision.era()
    }
}

impl Kind {
    const fn of(target: &Target) -> Self {
        match target {
            Target::Tool { .. } => Self::Tool,
            Target::Prompt { .. } | Target::Resource { .. } => Self::Content,
            _ => Self::Other,
        }
    }
}
