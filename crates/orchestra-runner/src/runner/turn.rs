//! What was decided in one turn of the engine, until it is durable and is acted upon.

use std::collections::{BTreeSet, HashMap};

use orchestra_plan::{
    event::Event as PlanEvent,
    ids::{AttemptNumber, JobId, PlanId},
    plan::Changes,
};
use serde_json::Value;
use tokio::sync::oneshot;

use super::teller::{Next, Wants};
use crate::{
    holder::{Refused, Slot},
    journal::{Append, AppendError, Fault, Fresh, Journal, MAX_EVENT_BYTES, Once, OnceKey},
    plans::{key_of, refused},
};

/// The most events of a plan that are handed to the journal in one piece; a turn may have many.
const TOGETHER: usize = 10_000;

/// A command's answer, on its way to who asked.
pub(crate) type AnswerTo = oneshot::Sender<Result<Value, Refused>>;

/// A job that is to be started, or taken up.
pub(crate) struct Starting {
    pub(crate) plan: PlanId,
    pub(crate) job: JobId,
    pub(crate) slot: Option<Slot>,
    pub(crate) found: bool,
}

/// A task that waits to hear what is next.
pub(crate) struct Asking {
    pub(crate) plan: PlanId,
    pub(crate) job: JobId,
    pub(crate) attempt: AttemptNumber,
    pub(crate) wants: Wants,
    pub(crate) answer: oneshot::Sender<Next>,
}

/// One turn.
#[derive(Default)]
pub(crate) struct Turn {
    appends: Vec<Append>,
    /// What is answered to requests that may be asked again.
    pub(crate) once: HashMap<OnceKey, Value>,
    pub(crate) answers: Vec<(AnswerTo, Result<Value, Refused>)>,
    pub(crate) asking: Vec<Asking>,
    pub(crate) starting: Vec<Starting>,
    /// Plans of which something was changed.
    pub(crate) touched: BTreeSet<PlanId>,
    /// Plans whose status has changed.
    pub(crate) moved: BTreeSet<PlanId>,
    /// Jobs that are not at work any more.
    pub(crate) halted: BTreeSet<(PlanId, JobId)>,
    pub(crate) removable: Vec<(PlanId, JobId)>,
    /// Deleted plans of which nothing is left in the repository, and their versions.
    pub(crate) erased: Vec<(PlanId, u64)>,
}

/// Why nothing of a turn was kept.
pub(crate) struct Failed {
    pub(crate) error: AppendError,
    /// This process does not hold any more.
    pub(crate) lost: bool,
}

impl Turn {
    /// Notes what an event has moved.
    pub(crate) fn note(&mut self, plan: PlanId, changes: &Changes) {
        self.touched.insert(plan);
        if changes.status.is_some() || changes.ended {
            self.moved.insert(plan);
        }
        for moved in &changes.moves {
            if moved.from.is_active() && !moved.to.is_active() {
                self.halted.insert((plan, moved.job));
            }
        }
        let removable = changes.removable.iter().map(|job| (plan, *job));
        self.removable.extend(removable);
    }

    /// Notes events that are to be kept.
    ///
    /// # Errors
    /// When one cannot be written.
    pub(crate) fn keep(
        &mut self,
        plan: PlanId,
        expected: u64,
        events: &[PlanEvent],
        once: Option<Once>,
    ) -> Result<(), Refused> {
        let fresh = |event: &PlanEvent| match Fresh::new(event.at.get(), event) {
            Ok(fresh) if fresh.body.get().len() > MAX_EVENT_BYTES => {
                let what = format!(
                    "the request has more than {MAX_EVENT_BYTES} bytes; split it into several requests"
                );
                Err(refused("too-long", &what))
            }
            Ok(fresh) => Ok(fresh),
            Err(error) => Err(refused("internal", &error.to_string())),
        };
        let mut events: Vec<Fresh> = events.iter().map(fresh).collect::<Result<_, _>>()?;
        let key = key_of(plan).map_err(|error| refused("internal", &error.to_string()))?;
        if let (Some(last), None) = (self.appends.last_mut(), &once)
            && last.plan == key
            && last.once.is_none()
            && last.events.len() + events.len() <= TOGETHER
        {
            last.events.append(&mut events);
            return Ok(());
        }
        let (mut expected, mut once) = (expected, once);
        loop {
            let rest = events.split_off(events.len().min(TOGETHER));
            let more = u64::try_from(events.len()).unwrap_or(u64::MAX);
            self.appends.push(Append {
                plan: key.clone(),
                expected,
                events,
                once: once.take(),
            });
            if rest.is_empty() {
                return Ok(());
            }
            expected = expected.saturating_add(more);
            events = rest;
        }
    }

    /// Whether there is nothing to be kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.appends.is_empty()
    }

    /// Makes durable what was decided: all of it, or nothing.
    pub(crate) async fn commit(&mut self, journal: &Journal) -> Result<(), Failed> {
        let appends = std::mem::take(&mut self.appends);
        match journal.append_all(appends).await {
            Ok(receipt) if receipt.before.is_none() => Ok(()),
            // It was done since we began to hold, and not by us.
            Ok(_) => Err(Failed {
                error: Fault::Fenced.into(),
                lost: true,
            }),
            Err(error) => {
                // Where nobody knows whether it was kept, whoever holds next finds it out.
                let lost = matches!(
                    error,
                    AppendError::Fault(
                        Fault::Fenced | Fault::Gone | Fault::Closed | Fault::Unsure(_)
                    )
                );
                Err(Failed { error, lost })
            }
        }
    }
}
