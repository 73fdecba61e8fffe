//! Plans as their logs tell them, read in any process, also while another one writes.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use orchestra_plan::{event::Event, ids::PlanId, plan::Plan};

use super::PlansError;
use crate::journal::{Kept, PlanKey, Reader};

/// How many events are read at a time.
const PAGE: u32 = 1_000;

/// An event with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Its place among all events of the workspace.
    pub seq: u64,
    /// Of which plan.
    pub plan: PlanId,
    /// Its place among the events of its plan; the first has 1.
    pub number: u64,
    /// What happened; `None` where it has a form that is not known, as one of a newer program's.
    pub event: Option<Event>,
}

/// A plan that this program cannot read: nothing of it runs here, and nothing of it is touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Which.
    pub plan: PlanId,
    /// Why, with what to do.
    pub what: String,
}

/// What there is of plans.
#[derive(Debug, Default)]
pub(crate) struct All {
    pub(crate) plans: Vec<Arc<Plan>>,
    pub(crate) unreadable: Vec<Unreadable>,
}

/// Folds logs and keeps what they came to, so that only what is new is read again. Its calls block while
/// the disk works.
#[derive(Debug, Clone)]
pub(crate) struct Folded {
    reader: Reader,
    plans: Arc<Mutex<HashMap<PlanId, Arc<Plan>>>>,
    /// One at a time folds, so that a plan is folded on where it is instead of copied.
    folding: Arc<Mutex<()>>,
}

impl Folded {
    pub(crate) fn new(root: &Path) -> Self {
        Self::of(Reader::new(root))
    }

    /// As [`Self::new`], and leaves the files as they are.
    pub(crate) fn untouched(root: &Path) -> Self {
        Self::of(Reader::untouched(root))
    }

    fn of(reader: Reader) -> Self {
        Self {
            reader,
            plans: Arc::default(),
            folding: Arc::default(),
        }
    }

    pub(crate) const fn reader(&self) -> &Reader {
        &self.reader
    }

    /// All plans that are not deleted and can be read, in the order in which they were created.
    pub(crate) fn all(&self) -> Result<Vec<Arc<Plan>>, PlansError> {
        let mut plans = self.all_kept()?.plans;
        plans.retain(|plan| !plan.is_deleted());
        orchestra_sort::sort_by_key(&mut plans, |plan| (plan.created_at(), *plan.id()));
        Ok(plans)
    }

    /// All plans that have data, those too that are being deleted. One that cannot be read stands in no
    /// other's way.
    pub(crate) fn all_kept(&self) -> Result<All, PlansError> {
        let mut all = All::default();
        let mut after: Option<PlanKey> = None;
        loop {
            let rows = self.reader.plans(after.as_ref())?;
            let Some(last) = rows.last() else { break };
            after = Some(last.plan.clone());
            for row in rows {
                let Some(id) = PlanId::parse(row.plan.as_str()).ok() else {
                    continue;
                };
                if row.is_deleted {
                    self.forget(&id);
                    continue;
                }
                match self.at(id, Some(row.number)) {
                    Ok(plan) => all.plans.extend(plan),
                    Err(error @ PlansError::Unreadable { .. }) => all.unreadable.push(Unreadable {
                        plan: id,
                        what: error.to_string(),
                    }),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(all)
    }

    /// A plan that has data, also one that is being deleted.
    pub(crate) fn kept(&self, id: PlanId) -> Result<Option<Arc<Plan>>, PlansError> {
        self.at(id, None)
    }

    /// The ids of all plans that ever were.
    pub(crate) fn known(&self) -> Result<HashSet<PlanId>, PlansError> {
        let mut known = HashSet::new();
        let mut after: Option<PlanKey> = None;
        loop {
            let rows = self.reader.plans(after.as_ref())?;
            let Some(last) = rows.last() else {
                return Ok(known);
            };
            after = Some(last.plan.clone());
            known.extend(
                rows.iter()
                    .filter_map(|row| PlanId::parse(row.plan.as_str()).ok()),
            );
        }
    }

    /// A plan, unless there is none or it was deleted.
    pub(crate) fn one(&self, id: PlanId) -> Result<Option<Arc<Plan>>, PlansError> {
        let plan = self.at(id, None)?;
        Ok(plan.filter(|plan| !plan.is_deleted()))
    }

    /// The plan after at least so many events, as far as they are known.
    fn at(&self, id: PlanId, number: Option<u64>) -> Result<Option<Arc<Plan>>, PlansError> {
        let is_new = |known: &Arc<Plan>| number.is_some_and(|number| known.version() >= number);
        if let Some(known) = self.lock().get(&id).filter(|known| is_new(known)) {
            return Ok(Some(Arc::clone(known)));
        }
        let _folding = self.folding.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.lock().remove(&id);
        let plan = self.follow(id, known)?;
        if let Some(plan) = &plan {
            self.lock().insert(id, Arc::clone(plan));
        }
        Ok(plan)
    }

    fn follow(
        &self,
        id: PlanId,
        known: Option<Arc<Plan>>,
    ) -> Result<Option<Arc<Plan>>, PlansError> {
        let key = key_of(id)?;
        let mut plan = known;
        loop {
            let after = plan.as_ref().map_or(0, |plan| plan.version());
            let page = self.reader.events(&key, after, PAGE)?;
            if let Some(damage) = page.damage {
                return Err(damage.into());
            }
            // Of a deleted plan the last event alone is left.
            if page
                .events
                .first()
                .is_some_and(|event| event.number != after + 1)
            {
                return Ok(None);
            }
            let (is_more, is_empty) = (page.is_more, page.events.is_empty());
            for kept in &page.events {
                plan = Some(folded_on(plan.take(), kept)?);
            }
            if !is_more || is_empty {
                return Ok(plan);
            }
        }
    }

    /// Keeps nothing of a plan in memory.
    pub(crate) fn forget(&self, id: &PlanId) {
        self.lock().remove(id);
    }

    /// Keeps nothing in memory.
    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PlanId, Arc<Plan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A plan after one more event; the first makes it.
pub(super) fn folded_on(plan: Option<Arc<Plan>>, kept: &Kept) -> Result<Arc<Plan>, PlansError> {
    let event = event_of(kept)?;
    let unreadable = |what: String| PlansError::Unreadable {
        plan: kept.plan.to_string(),
        what,
    };
    let Some(mut plan) = plan else {
        let plan = Plan::start(&event).map_err(|error| unreadable(error.to_string()))?;
        return Ok(Arc::new(plan));
    };
    let changes = Arc::make_mut(&mut plan).apply(&event);
    match changes.refused {
        Some(misfit) => {
            let what = format!("event {} does not fit: {misfit}", kept.number);
            Err(unreadable(what))
        }
        None => Ok(plan),
    }
}

/// The id of a plan as the journal knows it.
pub(crate) fn key_of(id: PlanId) -> Result<PlanKey, PlansError> {
    PlanKey::parse(&id.to_string()).map_err(|error| PlansError::Internal(error.to_string()))
}

/// An event of the journal.
pub(crate) fn event_of(kept: &Kept) -> Result<Event, PlansError> {
    serde_json::from_str(kept.body.get()).map_err(|error| PlansError::Unreadable {
        plan: kept.plan.to_string(),
        what: format!(
            "event {} has a form that is not known ({error})",
            kept.number
        ),
    })
}

/// An event of the journal with its place; `None` for what is no plan's.
pub(crate) fn placed(kept: &Kept) -> Option<Placed> {
    Some(Placed {
        seq: kept.seq,
        plan: PlanId::parse(kept.plan.as_str()).ok()?,
        number: kept.number,
        event: event_of(kept).ok(),
    })
}
