//! The end of a connection, and of what still goes on with one that has ended.

use std::sync::{Arc, MutexGuard, PoisonError, Weak, atomic::Ordering};

use futures_util::future::{FutureExt as _, join_all};
use tokio::time::{Instant, timeout};

use super::{Course, Member, Phase, Shared};
use crate::client::{
    ClientError, Link,
    session::{Left, Session},
};

impl Member {
    /// Ends it in good order, by a deadline if there is one.
    pub(in crate::client) async fn close(&self, deadline: Option<Instant>) {
        self.closing.store(true, Ordering::Release);
        let before = self.phase.send_replace(Phase::Closed);
        let mut links: Vec<_> = self
            .left()
            .drain(..)
            .filter_map(|link| link.upgrade())
            .collect();
        if let Phase::Ready(session) = before {
            links.push(Arc::clone(&session.link));
        }
        join_all(links.iter().map(|link| match deadline {
            None => link.close(),
            Some(deadline) => link.close_by(deadline),
        }))
        .await;
    }

    fn left(&self) -> MutexGuard<'_, Vec<Weak<dyn Link>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets calls go on with a connection that has ended; the last of them takes it along.
    fn let_go(&self, link: &Arc<dyn Link>) {
        let mut left = self.left();
        left.retain(|link| link.strong_count() > 0);
        left.push(Arc::downgrade(link));
    }

    /// Ends a connection that is left. `Ok` when it may be started again at once.
    pub(super) async fn leave(
        &self,
        shared: &Arc<Shared>,
        course: &mut Course,
        session: &Arc<Session>,
        left: Left,
    ) -> Result<(), ClientError> {
        match left {
            Left::Ended(error) => {
                if self.remote {
                    self.let_go(&session.link);
                }
                self.enter(Phase::Starting);
                tracing::info!(server = %shared.config.name, reason = %error.explain(), "connection closed");
                shared.meter.failed(error.explain());
                if self.is_closing() {
                    return Ok(());
                }
                // What is still left of it, for instance a process that closed its output.
                if !self.remote {
                    session.link.close().await;
                }
                // A run that was good is followed by the next at once.
                if session.has_answered() || self.remote && session.was_good() {
                    if self.remote {
                        course.begin_outage();
                    }
                    course.eager = !shared.config.lazy;
                    return Ok(());
                }
                Err(error)
            }
            Left::Away(error) | Left::GivenUp(error) => {
                self.enter(Phase::Starting);
                session.link.close().await;
                Err(error)
            }
            Left::Recycled => {
                self.enter(Phase::Starting);
                session.link.close().await;
                course.eager = true;
                Ok(())
            }
            Left::Unwanted => {
                // Whoever closes this member from now on ends it in good order.
                self.let_go(&session.link);
                self.enter(Phase::Starting);
                self.drain(shared, session).await;
                if !self.is_closing() {
                    session.link.close().await;
                }
                course.eager = true;
                Ok(())
            }
            Left::Idle => {
                self.enter(Phase::Idle);
                session.link.close().await;
                Ok(())
            }
        }
    }

    /// Lets the calls that run go on to their end, for a while; those that come now wait for the next
    /// start. One that waits for an answer of its caller is not waited for.
    async fn drain(&self, shared: &Shared, session: &Session) {
        let places = u32::try_from(shared.config.outstanding.max(1)).unwrap_or(u32::MAX);
        let drained = async {
            tokio::select! {
                // Each call has one until its end, and those that wait for one come before this.
                _ = self.outstanding.acquire_many(places) => {}
                _ = session.link.ended() => {}
                () = self.closed() => {}
            }
        };
        if timeout(shared.config.drain, drained).await.is_err() {
            let server = &shared.config.name;
            tracing::warn!(%server, "server restarted while calls were running; those calls fail");
        }
        // Who has asked for it once more meanwhile wanted the same.
        let _ = self.restart.notified().now_or_never();
    }
}
