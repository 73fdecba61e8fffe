//! What happens in the workspace, from the `orchestra up` that serves it, whichever that is: when it ends,
//! the next one is looked for.

use std::{collections::VecDeque, time::Duration};

use tokio::{
    sync::mpsc::{Receiver, Sender},
    time::timeout,
};

use super::{
    frames::{Event, Frames},
    model::Want,
    source::{Answer, Refused, Source},
};
use crate::config::Config;

const PATH: &str = "/api/events";

/// A connection on which nothing came for so long is broken: a sign of life comes every 15 seconds.
const SILENCE: Duration = Duration::from_secs(50);

/// How long is waited before it is tried again, first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// How many things are to be asked for at most; each is asked for once.
const MOST_WANTS: usize = 64;

/// What there is to know.
#[derive(Debug)]
pub(super) enum News {
    /// Something happened. The first of a connection is `hello`.
    Event(Event),
    /// What was wanted.
    Answer(Want, String),
    /// What was wanted is not to be had.
    Refused(Want, String),
    /// The connection is gone, and is made anew.
    Lost(String),
}

/// Nobody listens any more.
struct Left;

/// Tells what happens, and what is wanted, until nobody listens any more.
pub(super) async fn follow(config: Config, mut wants: Receiver<Want>, news: Sender<News>) {
    let mut feed = Feed {
        config,
        seen: None,
        wanted: VecDeque::new(),
        news,
    };
    let mut pause = PAUSE.0;
    loop {
        let lost = match feed.connected(&mut wants, &mut pause).await {
            Ok(never) => match never {},
            Err(Ended::Left) => return,
            Err(Ended::Lost(error)) => error,
        };
        let lost = News::Lost(format!("{lost:#}"));
        if feed.news.send(lost).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = feed.news.closed() => return,
        }
        pause = (pause * 2).min(PAUSE.1);
    }
}

struct Feed {
    config: Config,
    /// The id of the last event.
    seen: Option<String>,
    wanted: VecDeque<Want>,
    news: Sender<News>,
}

enum Ended {
    Left,
    Lost(anyhow::Error),
}

impl From<Left> for Ended {
    fn from(_: Left) -> Self {
        Self::Left
    }
}

impl From<anyhow::Error> for Ended {
    fn from(error: anyhow::Error) -> Self {
        Self::Lost(error)
    }
}

impl Feed {
    /// Follows one connection to its end. Where something is asked for, what happens meanwhile is told
    /// after the answer: it may hold it already, and so to be told again brings nothing else.
    async fn connected(
        &mut self,
        wants: &mut Receiver<Want>,
        pause: &mut Duration,
    ) -> Result<std::convert::Infallible, Ended> {
        let config = self.config.clone();
        let reached = tokio::task::spawn_blocking(move || Source::reach(&config)).await;
        let source = reached
            .map_err(anyhow::Error::from)?
            .map_err(anyhow::Error::from)?;
        let mut stream = source.open(PATH, self.seen.as_deref()).await?;
        let mut frames = Frames::default();
        loop {
            while let Some(want) = self.wanted.front().cloned() {
                let told = match source.get(&want.path()).await {
                    Ok(text) => News::Answer(want, text),
                    Err(error) => match error.downcast::<Refused>() {
                        Ok(refused) => News::Refused(want, refused.0),
                        Err(error) => return Err(error.into()),
                    },
                };
                self.tell(told).await?;
                self.wanted.pop_front();
            }
            tokio::select! {
                want = wants.recv() => self.want(want.ok_or(Left)?),
                bytes = next(&mut stream) => {
                    let events = frames.take(&bytes?).map_err(anyhow::Error::from)?;
                    for event in events {
                        *pause = PAUSE.0;
                        if event.id.is_some() {
                            self.seen.clone_from(&event.id);
                        }
                        self.tell(News::Event(event)).await?;
                    }
                }
            }
        }
    }

    fn want(&mut self, want: Want) {
        if !self.wanted.contains(&want) && self.wanted.len() < MOST_WANTS {
            self.wanted.push_back(want);
        }
    }

    async fn tell(&self, news: News) -> Result<(), Left> {
        self.news.send(news).await.map_err(|_| Left)
    }
}

async fn next(stream: &mut Answer) -> anyhow::Result<hyper::body::Bytes> {
    match timeout(SILENCE, stream.more()).await {
        Ok(bytes) => bytes?.ok_or_else(|| anyhow::anyhow!("it has stopped")),
        Err(_) => anyhow::bail!("it does not answer"),
    }
}
