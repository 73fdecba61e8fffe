//! Plans that do not run until the user accepts them.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
};

use orchestra_plan::{ids::PlanId, plan::Plan};

use super::{Plans, PlansError, former};
use crate::journal::Identity;

/// Plans that this user's programs did not create, as far as is known.
#[derive(Debug)]
pub struct Doubt {
    /// Where they are.
    pub place: DoubtedPlace,
    /// Why they do not run, and what to do.
    pub reason: PlansError,
    /// Those that can be read.
    pub plans: Vec<Arc<Plan>>,
}

/// Place of plans that wait for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoubtedPlace {
    /// The storage root: no other plan is created there.
    Storage,
    /// The working tree, where earlier versions kept plans.
    WorkingTree,
    /// Files of the earlier system, whose plans are only copied.
    EarlierSystem,
}

impl Plans {
    /// Plans that wait for `orchestra plan trust`. Starts and changes nothing.
    ///
    /// # Errors
    /// When the plans of the storage root cannot be read.
    pub async fn doubts(&self) -> Result<Vec<Doubt>, PlansError> {
        let (former, earlier) = (self.0.former.clone(), Arc::clone(&self.0.earlier));
        let options = Arc::clone(&self.0.host.options);
        self.folded(move |folded| {
            let known = folded.known()?;
            let mut doubts = Vec::new();
            let is_absent = matches!(folded.reader().identity(), Ok(Identity::Absent));
            if !is_absent
                && let Err(reason) = options.trust.check(&options.storage, folded.reader())
            {
                doubts.push(Doubt {
                    place: DoubtedPlace::Storage,
                    reason,
                    plans: folded.all()?,
                });
            }
            if let Some(former) = &former
                && let Err(reason) = former::check(&options, former)
            {
                let mut plans = former.all().unwrap_or_default();
                plans.retain(|plan| !known.contains(plan.id()));
                doubts.push(Doubt {
                    place: DoubtedPlace::WorkingTree,
                    reason,
                    plans,
                });
            }
            if let Err(reason) = earlier.check(&options) {
                doubts.push(Doubt {
                    place: DoubtedPlace::EarlierSystem,
                    reason,
                    plans: earlier.all(&known),
                });
            }
            Ok(doubts)
        })
        .await
    }

    /// Plans that would run if the user accepted them.
    ///
    /// # Errors
    /// As [`Self::doubts`].
    pub async fn blocked(&self) -> Result<Vec<Doubt>, PlansError> {
        let mut doubts = self.doubts().await?;
        doubts.retain(|doubt| doubt.place != DoubtedPlace::EarlierSystem);
        self.0
            .is_blocked
            .store(!doubts.is_empty(), Ordering::Relaxed);
        Ok(doubts)
    }

    /// Returns whether plans waited for the user when [`Self::blocked`] was last called.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.0.is_blocked.load(Ordering::Relaxed)
    }

    /// The ids of the plans that would run if the user accepted them.
    ///
    /// # Errors
    /// As [`Self::doubts`].
    pub async fn waiting_for_trust(&self) -> Result<HashSet<PlanId>, PlansError> {
        let doubts = self.blocked().await?;
        let plans = doubts.iter().flat_map(|doubt| &doubt.plans);
        Ok(plans.map(|plan| *plan.id()).collect())
    }
}
