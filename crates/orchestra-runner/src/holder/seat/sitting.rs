//! The task of a seat: holds while it has the lock, follows while another has it, and moves between.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{Inside, Order, Role, Settings};
use crate::cause::chain;
use crate::holder::{
    HandOverError, Leadership, Place, Served, client::Connection, handing, place::Home,
    server::Server,
};

/// How often a holder is looked for that cannot be reached yet, at first and at last.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_LAST: Duration = Duration::from_millis(200);
/// How often a holder looks whether its place is still its own.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// How long a process that could not begin to hold leaves the place to others.
const FAILED: Duration = Duration::from_secs(1);
/// How long somebody may take who removes what the plans are kept in.
const REMOVAL: Duration = Duration::from_secs(1);
/// How long a process that has handed over leaves the lock to others.
const SUCCESSION: Duration = Duration::from_secs(30);
/// How long a background runner follows at least: whoever started it is about to leave.
const COMES_NEXT: Duration = Duration::from_secs(40);

/// What comes after a spell of holding or following.
enum Next {
    Again,
    End,
    /// What the plans are kept in was removed, and is not made again.
    Gone,
}

pub(super) struct Sitting {
    pub(super) settings: Settings,
    pub(super) place: Place,
    pub(super) home: Home,
    pub(super) inside: watch::Sender<Inside>,
    pub(super) orders: mpsc::Receiver<Order>,
    /// How long it is to be quiet before the end, and who hears of it.
    pub(super) quiet: Option<(Duration, oneshot::Sender<()>)>,
}

impl Sitting {
    pub(super) async fn run(mut self, mut leadership: Option<Leadership>) {
        let mut look = LOOK_FIRST;
        let last = loop {
            let led = match leadership.take() {
                Some(leadership) => Ok(Some(leadership)),
                None if !self.home.is_there() => break Role::Gone,
                None => self.place.lead_again(),
            };
            let next = match led {
                Ok(Some(leadership)) => {
                    look = LOOK_FIRST;
                    self.hold(leadership).await
                }
                Ok(None) => match Connection::open(&self.place, &self.settings.name).await {
                    Ok(connection) => {
                        look = LOOK_FIRST;
                        self.follow(connection).await
                    }
                    Err(error) => self.wait(&mut look, chain(&error)).await,
                },
                Err(error) => self.wait(&mut look, chain(&error)).await,
            };
            match next {
                Next::Again => self.settle(None),
                Next::End => break Role::Ended,
                Next::Gone => break Role::Gone,
            }
        };
        if matches!(last, Role::Gone) {
            tracing::warn!(
                "the directory of this workspace's plans was removed; this process no longer runs them"
            );
        }
        self.inside.send_replace(Inside::Role(last));
    }

    fn settle(&self, why: Option<String>) {
        self.inside.send_replace(Inside::Role(Role::Settling(why)));
    }

    /// Waits a while where nobody can be a holder yet, or the one that there is cannot be reached.
    async fn wait(&mut self, look: &mut Duration, why: String) -> Next {
        self.settle(Some(why));
        let pause = *look;
        *look = (*look * 2).min(LOOK_LAST);
        self.rest(pause).await
    }

    async fn rest(&mut self, pause: Duration) -> Next {
        tokio::select! {
            () = sleep(pause) => Next::Again,
            order = self.orders.recv() => match order {
                Some(Order::HandOver(_, answer)) => {
                    // Nobody waits for it where this fails.
                    let _ = answer.send(Ok(false));
                    Next::Again
                }
                Some(Order::EndWhenIdle(quiet, answer)) => {
                    self.quiet = Some((quiet, answer));
                    Next::Again
                }
                Some(Order::End(answer)) => {
                    let _ = answer.send(());
                    Next::End
                }
                None => Next::End,
            },
        }
    }

    async fn follow(&mut self, connection: Connection) -> Next {
        let connection = Arc::new(connection);
        self.inside
            .send_replace(Inside::Follows(Arc::clone(&connection)));
        let since = Instant::now();
        loop {
            let quiet = self.quiet.as_ref();
            let quiet = quiet.map(|(quiet, _)| since + (*quiet).max(COMES_NEXT));
            tokio::select! {
                () = connection.ended() => return Next::Again,
                () = until(quiet) => return Next::End,
                next = self.rest(LOOK_AFTER) => if matches!(next, Next::End) {
                    return Next::End;
                },
            }
        }
    }

    async fn hold(&mut self, leadership: Leadership) -> Next {
        let service = match (self.settings.start)().await {
            Ok(service) => service,
            Err(why) => return self.failed(leadership, why).await,
        };
        let server = match Server::start(&leadership, Arc::clone(&service)) {
            Ok(server) => server,
            Err(error) => {
                service.end().await;
                return self.failed(leadership, chain(&error)).await;
            }
        };
        self.inside
            .send_replace(Inside::Role(Role::Holds(Arc::clone(&service))));
        let mut next = self.serve(&leadership, &server, &service).await;
        if matches!(next, Ended::Gone | Ended::Lost) {
            // As long as this one holds no other makes anything where somebody is removing all of it: that may be
            // why a service ends by itself, before the lock is missed.
            if matches!(next, Ended::Gone) || !leadership.is_current() {
                self.removal().await;
            }
            if !self.is_kept(&leadership, &service) {
                next = Ended::Removed;
            }
        }
        // What is asked of this process itself from now on waits for the next holder.
        self.settle(None);
        server.finish(&leadership).await;
        service.end().await;
        if matches!(next, Ended::Told) {
            handing::forget_empty_log(leadership.root());
        }
        // Followers hear of it when the lock is free.
        drop(leadership);
        drop(server);
        if let Ended::HandedOver(answer) = next {
            let successor = self.successor().await;
            let handed = match &successor {
                Some(_) => Ok(true),
                None => Err(handing::unheld(self.place.root())),
            };
            // Whoever asked for it may have gone.
            let _ = answer.send(handed);
            return match successor {
                Some(connection) => self.follow(connection).await,
                None => Next::Again,
            };
        }
        match next {
            // Others come first, and what cannot be used is not tried again at once.
            Ended::Gone => self.rest(FAILED).await,
            Ended::Lost => Next::Again,
            Ended::Removed => Next::Gone,
            _ => Next::End,
        }
    }

    /// Gives whoever removes what the plans are kept in a moment for all of it.
    async fn removal(&self) {
        let end = Instant::now() + REMOVAL;
        while self.home.is_there() && Instant::now() < end {
            sleep(LOOK_FIRST).await;
        }
    }

    /// Whether what the plans are kept in is where it was: who removes it all at once may leave a directory
    /// in which something was just being made, and what is taken away alone may be put back.
    fn is_kept(&self, leadership: &Leadership, service: &Served) -> bool {
        self.home.is_there() && (leadership.is_current() || service.is_kept())
    }

    /// Leaves the race for the lock to the others, and waits for who wins it.
    async fn successor(&self) -> Option<Connection> {
        let end = Instant::now() + SUCCESSION;
        while Instant::now() < end {
            match Connection::open(&self.place, &self.settings.name).await {
                Ok(connection) => return Some(connection),
                Err(_) => sleep(LOOK_FIRST).await,
            }
        }
        None
    }

    async fn failed(&mut self, leadership: Leadership, why: String) -> Next {
        // It was taken while somebody was removing all of it.
        if !self.home.is_there() {
            return Next::Gone;
        }
        tracing::error!("cannot run the plans of this workspace: {why}");
        drop(leadership);
        self.inside.send_replace(Inside::Role(Role::Failed(why)));
        self.rest(FAILED).await
    }

    /// Holds until told otherwise, or the place is lost.
    async fn serve(&mut self, leadership: &Leadership, server: &Server, service: &Served) -> Ended {
        let (mut clients, mut live) = (server.clients(), service.is_live());
        let mut looks = interval(LOOK_AFTER);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut idle_since = None;
        loop {
            let is_idle = *clients.borrow_and_update() == 0 && !*live.borrow_and_update();
            if !is_idle {
                idle_since = None;
            }
            let quiet = self.quiet.as_ref().filter(|_| is_idle);
            let end = quiet.map(|(quiet, _)| *idle_since.get_or_insert_with(Instant::now) + *quiet);
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(Order::HandOver(to, answer)) => {
                        match handing::start(&to, server, leadership.root()).await {
                            Ok(()) => return Ended::HandedOver(answer),
                            Err(error) => { let _ = answer.send(Err(error)); }
                        }
                    }
                    Some(Order::EndWhenIdle(quiet, answer)) => self.quiet = Some((quiet, answer)),
                    Some(Order::End(answer)) => {
                        drop(answer);
                        return Ended::Told;
                    }
                    None => return Ended::Told,
                },
                _ = clients.changed() => {}
                changed = live.changed() => if changed.is_err() {
                    tracing::error!("this process no longer runs the plans of this workspace: their runner has ended");
                    return Ended::Gone;
                },
                _ = looks.tick() => if !self.is_kept(leadership, service) {
                    return Ended::Removed;
                } else if !leadership.is_current() {
                    tracing::warn!("the lock file of the plans was removed or replaced; this process no longer runs them");
                    return Ended::Lost;
                },
                () = until(end) => {
                    server.close_door(leadership).await;
                    // Whoever came at the last moment is served.
                    if *clients.borrow() == 0 && !*live.borrow() {
                        return Ended::Told;
                    }
                    return Ended::Lost;
                }
            }
        }
    }
}

/// Why a process does not hold any more.
enum Ended {
    HandedOver(oneshot::Sender<Result<bool, HandOverError>>),
    /// The service has ended by itself.
    Gone,
    Lost,
    /// What the plans are kept in was removed.
    Removed,
    Told,
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
