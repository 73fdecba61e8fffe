//! The task of a job at work: one act after the other, until the engine says that the attempt is over.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use orchestra_plan::command::Report;
use tokio::sync::watch;

use super::{
    act::{self, Cx},
    assignment::Assignment,
    host::Host,
    teller::{Next, Teller, Wants},
};
use crate::{git::Owner, holder::Slots};

/// Does the acts of an attempt. `stop` ends it: its processes are ended first. One that was found at work has
/// no slot of the machine but the one that its run has: with `slots` it waits for one before the next run.
pub(super) async fn work(
    host: Arc<Host>,
    mut teller: Teller,
    first: Assignment,
    mut stop: watch::Receiver<bool>,
    mut slots: Option<Slots>,
) {
    let mut assignment = first;
    // It is had to the end of the task.
    let mut held = Vec::new();
    let seal = loop {
        let cx = Cx::new(&host, &teller, &assignment);
        let next = tokio::select! {
            // Who has told the end of its attempt is answered, and is to stop for it at the same moment.
            biased;
            next = async {
                let performed = caught(act::perform(&cx)).await;
                let reports = performed.unwrap_or_else(panicked);
                // What follows may begin in the same worktree at once.
                cx.end_left().await;
                cx.restore_link().await;
                teller.tell(reports, Wants::Next).await
            } => Some(next),
            stopped = stop.wait_for(|stop| *stop) => match stopped {
                Ok(_) => None,
                // Nobody runs the plans here any more; who comes next takes up what goes on.
                Err(_) => return,
            },
        };
        match next {
            Some(Next::Do(next)) => {
                assignment = *next;
                if let Some(slots) = slots.take_if(|_| assignment.runs()) {
                    let found = tokio::select! {
                        stopped = stop.wait_for(|stop| *stop) => match stopped {
                            Ok(_) => break true,
                            Err(_) => return,
                        },
                        found = slots.acquire() => found,
                    };
                    // A machine whose slots cannot be counted is not stopped by that.
                    held.extend(found.ok());
                    let file = held.last().map(|slot| slot.file().try_clone());
                    teller.slot = file.and_then(Result::ok).map(Arc::new);
                }
            }
            Some(Next::Over { seal }) => break seal,
            Some(Next::Go | Next::Later | Next::Gone) => return,
            None => {
                cx.halt().await;
                break true;
            }
        }
    };
    if seal {
        self::seal(&host, assignment.owner()).await;
    }
}

/// What comes of something; `None` where it panics.
async fn caught<T>(something: impl Future<Output = T>) -> Option<T> {
    let mut something = pin!(something);
    let poll = |cx: &mut std::task::Context<'_>| {
        let polled = catch_unwind(AssertUnwindSafe(|| something.as_mut().poll(cx)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    };
    poll_fn(poll).await
}

/// What is told where an act ends by a fault of ours.
fn panicked() -> Vec<Report> {
    tracing::error!("a step of a job panicked");
    let message = "a fault of the runner ended the attempt".to_owned();
    vec![Report::Lost { message }]
}

/// Notes what is uncommitted in a worktree as its job's, so that it may be removed with it. What was noted and
/// not forgotten since stays as it was: no attempt came so far as to work there, and what has changed may be
/// somebody's.
pub(super) async fn seal(host: &Host, owner: Owner) {
    let sealed = async {
        let repository = host.repository().await?;
        match repository.worktree(owner)? {
            Some(worktree) if worktree.is_sealed()? => Ok(()),
            Some(worktree) => worktree.seal().await,
            None => Ok(()),
        }
    };
    if let Err(error) = sealed.await {
        tracing::debug!(?owner, %error, "cannot record the remains of a job; its worktree stays");
    }
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[tokio::test]
    async fn a_panic_is_no_end_of_who_waits() {
        assert_eq!(caught(async { 1 }).await, Some(1));
        let panics = async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        };
        assert_eq!(caught::<()>(panics).await, None);
    }
}
