//! Leaving: what is live is handed over to a background runner.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{Plans, PlansError};
use crate::holder::{CallError, HandOver, HandOverError, Role, Served};

/// How often a background runner is started that a signal ends before it has left our group.
const STARTS: u32 = 5;

/// How a process left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// It took no part.
    Apart,
    /// Another process runs the plans.
    Left,
    /// It ran them, and none has anything to do.
    Idle,
    /// It ran them, and a background runner does now.
    HandedOver,
    /// It ran them, and nobody does now: they go on when a process of the workspace takes part.
    Stopped,
}

impl Plans {
    /// Ends this process's part. Plans that have something to do are handed over to a background runner
    /// where [`Options::background`](super::Options::background) names one; jobs go on in any case. Nothing
    /// is lost when this takes longer than the deadline and is cut off.
    ///
    /// # Errors
    /// When the plans could not be handed over in time, or this process could not run them and nobody else does:
    /// they go on when a process takes part. When git failed for good, so that something of plans that are over
    /// is left undone. When what they are kept in was removed meanwhile: they are gone.
    pub async fn close(&self, deadline: Duration) -> Result<Closed, PlansError> {
        let Some(seat) = self.lock().clone() else {
            return Ok(Closed::Apart);
        };
        let end = Instant::now() + deadline;
        // Who has just begun to take part may be about to hold.
        let settled = seat.until(|role| !matches!(role, Role::Settling(_)));
        let role = timeout(deadline / 2, settled).await;
        let role = role.unwrap_or(Role::Settling(None));
        let is_gone = matches!(role, Role::Gone) || !self.options().storage.is_dir();
        let mut failed = None;
        let closed = match &role {
            _ if is_gone => Closed::Left,
            Role::Holds(service) if self.is_idle(service, deadline / 2).await => {
                let what = service.given_up();
                failed = what.map(|what| PlansError::LeftUndone { what });
                Closed::Idle
            }
            Role::Holds(_) => match self.hand_over(&seat, end).await {
                Ok(closed) => closed,
                Err(error) => {
                    failed = Some(error);
                    Closed::Stopped
                }
            },
            Role::Failed(why) => {
                let why = why.clone();
                failed = Some(PlansError::Holder(CallError::Nobody { why }));
                Closed::Stopped
            }
            Role::Ended => Closed::Apart,
            _ => Closed::Left,
        };
        let left = end.saturating_duration_since(Instant::now());
        if timeout(left, seat.end()).await.is_err() {
            tracing::warn!("the plans did not close in time; their jobs continue");
        }
        let closed_reader = self.folded(|folded| {
            folded.reader().close();
            Ok(())
        });
        // One who still reads closes it.
        let _ = closed_reader.await;
        if is_gone {
            return Err(self.gone().await);
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(closed),
        }
    }

    /// Whether no plan has anything to do. What is only being put away is waited for, not for ever.
    async fn is_idle(&self, service: &Served, patience: Duration) -> bool {
        let mut live = service.is_live();
        if !*live.borrow() {
            return true;
        }
        match self.list().await {
            Ok(plans) if !plans.iter().any(|plan| plan.is_live()) => {
                let idle = live.wait_for(|live| !live);
                matches!(timeout(patience, idle).await, Ok(Ok(_)))
            }
            _ => false,
        }
    }

    async fn hand_over(
        &self,
        seat: &crate::holder::Seat,
        end: Instant,
    ) -> Result<Closed, PlansError> {
        let Some(background) = &self.options().background else {
            return Ok(Closed::Stopped);
        };
        let to = HandOver {
            program: background.program.clone(),
            arguments: background.arguments.clone(),
            directory: self.options().workspace.clone(),
        };
        let mut starts = 0;
        loop {
            starts += 1;
            let left = end.saturating_duration_since(Instant::now());
            return match timeout(left, seat.hand_over(to.clone())).await {
                Ok(Ok(true)) => Ok(Closed::HandedOver),
                Ok(Ok(false)) => Ok(Closed::Left),
                // A signal to our group has met it before it had left that.
                Ok(Err(HandOverError::Ended { status, .. }))
                    if status.code().is_none() && starts < STARTS =>
                {
                    continue;
                }
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(HandOverError::Late.into()),
            };
        }
    }
}
