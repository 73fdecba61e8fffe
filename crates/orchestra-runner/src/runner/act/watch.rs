//! Reading what an agent says while it goes on, and telling what becomes known by it.

use std::{path::PathBuf, time::Instant};

use orchestra_plan::{budget, command::Report, event::Failure};

use super::{Cx, pressure::Gauge, run, usage::usage_of};
use crate::{
    agents::{Chosen, Reader, Stream},
    logs::{self, Follower, Page, Query},
    supervise::{RunId, Supervised},
};

/// Reads what an agent says while it goes on.
pub(super) struct Watch {
    pub(super) reader: Reader,
    /// Up to which line of the log it was read.
    after: u64,
    /// What was told of its use.
    pub(super) told: budget::Usage,
    session: Option<String>,
    /// When its last figures were seen.
    last_at: Option<Instant>,
    /// It did not end after them.
    pub(super) is_over: bool,
    pub(super) gauge: Gauge,
    agent: Chosen,
    /// The directory where it starts.
    directory: PathBuf,
}

impl run::Watcher for Watch {
    async fn check_start(&mut self, cx: &Cx<'_>) -> Result<(), Failure> {
        super::commit::check_repositories(cx).await?;
        let checked = cx.host.check_start(&self.agent, &self.directory).await;
        checked.map_err(|denied| super::agent::denial(&denied))
    }

    async fn watch(&mut self, cx: &Cx<'_>, run: &Supervised) {
        let mut follower = Follower::new(&cx.directory, self.query(run.id()));
        loop {
            let grace = self.reader.so_far().grace;
            let end = self
                .last_at
                .map(|at| tokio::time::Instant::from_std(at + grace));
            let page = tokio::select! {
                page = follower.next() => page,
                () = until(end) => {
                    self.is_over = true;
                    return;
                }
            };
            match page {
                Ok(page) => self.take(&page),
                Err(error) => {
                    tracing::debug!(%error, "cannot read the output of a running agent");
                    return std::future::pending().await;
                }
            }
            self.tell(cx).await;
            let context = self.reader.so_far().context;
            self.gauge.look(cx, context).await;
        }
    }
}

async fn until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Watch {
    /// For an agent that is about to be called, or goes on.
    pub(super) fn new(
        cx: &Cx<'_>,
        agent: Chosen,
        directory: PathBuf,
        gauge: Gauge,
        reader: Reader,
    ) -> Self {
        Self {
            agent,
            directory,
            reader,
            after: 0,
            told: cx.told(),
            session: None,
            last_at: None,
            is_over: false,
            gauge,
        }
    }

    fn query(&self, run: &RunId) -> Query {
        Query {
            after: Some(self.after),
            phase: Some(run.phase().to_owned()),
            run: Some(run.run()),
            ..Query::default()
        }
    }

    /// Reads what is left when it has ended.
    pub(super) async fn rest(mut self, cx: &Cx<'_>, run: &RunId) -> Result<Self, Failure> {
        let (directory, run) = (cx.directory.clone(), run.clone());
        let read = move || {
            loop {
                match logs::read(&directory, &self.query(&run)) {
                    Ok(page) => {
                        self.take(&page);
                        if !page.more {
                            return self;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot read the output of an agent");
                        return self;
                    }
                }
            }
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.map_err(|error| super::internal(&error))
    }

    fn take(&mut self, page: &Page) {
        self.after = page.next;
        for line in &page.lines {
            let stream = match line.stream {
                logs::Stream::Out => Stream::Out,
                logs::Stream::Err => Stream::Error,
                logs::Stream::Runner => continue,
            };
            let mut noticed = self.reader.feed(stream, line.text.as_bytes());
            if !line.more {
                let end = self.reader.feed(stream, b"\n");
                noticed.last |= end.last;
            }
            if noticed.last {
                self.last_at.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Tells what has become known.
    pub(super) async fn tell(&mut self, cx: &Cx<'_>) {
        let reading = self.reader.so_far();
        if reading.session.is_some() && reading.session != self.session {
            self.session.clone_from(&reading.session);
            if let Some(session) = &self.session {
                let report = Report::SessionKnown(session.clone());
                cx.teller.progress(report).await;
            }
        }
        let used = usage_of(&self.reader.so_far().usage);
        let more = used.minus(&self.told);
        if !more.is_zero() {
            self.told = self.told.plus(&more);
            cx.teller.progress(Report::Used(more)).await;
        }
    }
}
