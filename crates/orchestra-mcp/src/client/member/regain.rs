//! A server on the network that was well and is away: asked again soon and often, until it is there.

use std::sync::Arc;

use tokio::time::{Instant, sleep, sleep_until};

use super::{Course, Member, Phase, Shared};
use crate::client::{
    ClientError, Reconnect,
    session::{Left, Session},
};

impl Course {
    /// A connection that was good is lost: an outage begins.
    pub(super) fn begin_outage(&mut self) {
        self.away = Some(Instant::now());
        self.failures = 0;
    }

    /// It is there again. Whether it was away.
    pub(super) fn end_outage(&mut self) -> bool {
        self.away.take().is_some()
    }

    /// Nobody asked for it since it went away: from now on it is asked.
    pub(super) fn resume_outage(&mut self) {
        self.away = self.away.map(|_| Instant::now());
    }

    /// Whether the outage is so young that the server is asked often.
    pub(super) fn is_just_away(&self, reconnect: &Reconnect) -> bool {
        self.away
            .is_some_and(|since| since.elapsed() < reconnect.window)
    }
}

impl Member {
    /// Asks a server that is away until it answers. The session goes on with `None`: whoever was
    /// away without having ended still knows it.
    pub(super) async fn regain(
        &self,
        shared: &Arc<Shared>,
        course: &mut Course,
        session: &Arc<Session>,
        lost: ClientError,
    ) -> Option<Left> {
        let name = &shared.config.name;
        let reconnect = shared.config.reconnect;
        tracing::warn!(server = %name, reason = %lost.explain(), "server is unavailable; retrying until it answers");
        self.enter(Phase::Starting);
        course.begin_outage();
        shared.meter.failed(lost.explain());
        let mut ended = session.link.ended();
        loop {
            course.attempted = Instant::now();
            let asked = tokio::select! {
                biased;
                error = &mut ended => return Some(Left::Ended(error)),
                asked = session.check_health() => asked,
                () = self.restart.notified() => return Some(Left::Recycled),
                () = self.closed() => return Some(Left::Recycled),
            };
            let reason = match asked {
                Err(error) if error.may_be_away() => error,
                Err(error @ ClientError::Timeout { .. }) => error,
                Err(error) if error.is_session_gone() => return Some(Left::Ended(error)),
                // It is there; what is wrong with it, if anything, calls are told.
                _ => return None,
            };
            course.failures += 1;
            if !course.is_just_away(&reconnect) {
                return Some(Left::GivenUp(reason));
            }
            tracing::debug!(server = %name, attempt = course.failures, reason = %reason.explain(), "server is still unavailable");
            let pause = reconnect.backoff.next(course.failures - 1);
            self.enter(Phase::Waiting {
                attempt: course.failures,
                next_at: Instant::now() + pause,
                reason: Arc::new(reason),
            });
            tokio::select! {
                () = sleep(pause) => {}
                () = self.hurried(course, &reconnect) => {}
                error = &mut ended => return Some(Left::Ended(error)),
                () = self.restart.notified() => return Some(Left::Recycled),
                () = self.closed() => return Some(Left::Recycled),
            }
        }
    }

    /// Resolves when a call wants the server to be asked now, and that was not done just before.
    pub(super) async fn hurried(&self, course: &Course, reconnect: &Reconnect) {
        self.hurry.notified().await;
        sleep_until(course.attempted + reconnect.at_most).await;
    }

    /// Resolves when a server on the network can be called that cannot be now.
    pub(in crate::client) async fn back(&self) {
        if !self.remote || self.ready().is_some() {
            std::future::pending::<()>().await;
        }
        let mut phase = self.phase.subscribe();
        // The sender is this member's own.
        let _ = phase
            .wait_for(|phase| matches!(phase, Phase::Ready(session) if !session.is_over()))
            .await;
    }
}
