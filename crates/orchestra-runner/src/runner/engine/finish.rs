//! The end of a turn: it is made durable and acted upon, or undone.

use std::time::Duration;

use orchestra_plan::{ids::PlanId, plan::Plan};
use tokio::time::Instant;

use super::Engine;
use crate::{
    holder::Refused,
    plans::{refused, refused_by},
    runner::{
        teller::Next,
        turn::{Failed, Turn},
    },
};

/// How long after a turn that could not be kept another is tried.
const AGAIN: Duration = Duration::from_millis(500);

impl Engine {
    /// Makes a turn durable and acts upon it.
    pub(super) async fn finish(&mut self, mut turn: Turn) {
        if self.is_lost {
            // Something of it cannot be kept, and the rest may follow from that: whoever holds next begins
            // from what is kept.
            let words = "cannot store the changes of plans; repeat the request";
            withdraw(turn, &refused("internal", words));
            return;
        }
        if !turn.is_empty()
            && let Err(failed) = turn.commit(&self.journal).await
        {
            self.undo(turn, &failed).await;
            return;
        }
        self.answered.extend(turn.once.drain());
        self.act(turn);
    }

    /// Nothing of a turn is acted upon that could not be kept: what is on the disk is what counts.
    async fn undo(&mut self, turn: Turn, failed: &Failed) {
        tracing::warn!(error = %failed.error, "cannot store the changes of the plans");
        self.is_lost = failed.lost;
        let touched: Vec<PlanId> = turn.touched.iter().copied().collect();
        withdraw(turn, &refused_by(&failed.error));
        if self.is_lost {
            return;
        }
        let folded = self.folded.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = |id: PlanId| folded.kept(id).map(|plan| (id, plan));
            touched.into_iter().map(read).collect::<Result<Vec<_>, _>>()
        });
        match read.await {
            Ok(Ok(plans)) => {
                for (id, plan) in plans {
                    self.scheduler.remove(&id);
                    self.plans.remove(&id);
                    self.shelf.remove(&id);
                    // What was told of it may not be known any more.
                    self.cleaned.remove(&id);
                    self.unsettled.insert(id);
                    if let Some(plan) = plan {
                        self.scheduler.load(&plan);
                        self.plans.insert(id, Plan::clone(&plan));
                    }
                }
                self.again_at = Some(Instant::now() + AGAIN);
            }
            // Without knowing what is kept nothing can be decided: the next holder finds it out.
            Ok(Err(error)) => {
                tracing::error!(%error, "cannot read the plans again");
                self.is_lost = true;
            }
            Err(_) => self.is_lost = true,
        }
    }
}

/// Tells whoever waits for a turn that nothing comes of it.
fn withdraw(turn: Turn, refused: &Refused) {
    for (answer, _) in turn.answers {
        // Who has gone is told nothing.
        let _ = answer.send(Err(refused.clone()));
    }
    for asking in turn.asking {
        let _ = asking.answer.send(Next::Later);
    }
}
