//! Queries that are answered one after the other, or several at once, without a person.

use std::{
    io::Read as _,
    thread,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use orchestra_chat::{Ending, Stopper};
use tokio::sync::oneshot;

use super::{
    Talk,
    events::Events,
    files::Keep,
    model::Source,
    plain::Plain,
    queries::{self, Query},
    remember,
    room::Room,
    talk::{Conversation, Manner},
    tally::{Answered, Tally},
};
use crate::{
    exit::{Exit, Failure},
    output,
    stopping::Signals,
};

/// Time after which waiting for standard input is reported.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most that is put below a question.
const MAX_BELOW_BYTES: u64 = 16 * 1024 * 1024;

/// Answers what standard input asks, a line of JSON each, in order.
///
/// # Errors
/// When standard output cannot be written.
pub(super) async fn run(
    room: &Room,
    source: Source,
    manner: Manner,
    keep: Keep,
    arguments: &Talk,
) -> Result<Exit, Failure> {
    let signals = Signals::at_terminal(std::io::stdout())?;
    tokio::select! {
        ready = room.ready() => ready?,
        () = signals.first() => return Ok(Exit::Failed),
    }
    let queries = queries::read();
    let queries = stream::unfold(queries, |mut queries| async {
        let query = queries.recv().await?;
        Some((query, queries))
    });
    // After a signal no more of them are taken up.
    let queries = queries.take_until(Box::pin(signals.first())).enumerate();
    let mut summary = Summary::default();
    match keep.is_kept() {
        // The turns of one conversation come one after the other.
        true => {
            let mut conversation = Conversation::new(room, source, manner, keep)?;
            let mut queries = std::pin::pin!(queries);
            while let Some((number, query)) = queries.next().await {
                let asked = Asked {
                    number,
                    query,
                    arguments,
                    signals: &signals,
                };
                let answered = asked.answered(&mut conversation).await?;
                summary.take(answered, arguments)?;
            }
        }
        false => {
            let answers = queries.map(|(number, query)| {
                let (source, manner) = (source.clone(), manner.clone());
                let asked = Asked {
                    number,
                    query,
                    arguments,
                    signals: &signals,
                };
                async move {
                    let mut conversation = Conversation::new(room, source, manner, Keep::Nothing)?;
                    asked.answered(&mut conversation).await
                }
            });
            let mut answers = std::pin::pin!(answers.buffered(usize::from(arguments.parallel)));
            while let Some(answered) = answers.next().await {
                summary.take(answered?, arguments)?;
            }
        }
    }
    if signals.have_come() {
        output::complain("stopped; the remaining queries were not sent");
        return Ok(Exit::Failed);
    }
    if summary.answered == 0 {
        output::complain("standard input contains no query");
    }
    Ok(summary.exit())
}

/// Answers what the command line asks, in words unless JSON is wanted. What standard input holds stands below the
/// first question.
///
/// # Errors
/// When standard output cannot be written.
pub(super) async fn asked(
    room: &Room,
    source: Source,
    manner: Manner,
    keep: Keep,
    arguments: &Talk,
) -> Result<Exit, Failure> {
    let signals = Signals::at_terminal(std::io::stdout())?;
    let below = tokio::select! {
        below = below() => below?,
        () = signals.first() => return Ok(Exit::Failed),
    };
    tokio::select! {
        ready = room.ready() => ready?,
        () = signals.first() => return Ok(Exit::Failed),
    }
    let mut conversation = Conversation::new(room, source, manner, keep)?;
    let mut summary = Summary::default();
    for (number, text) in arguments.query.iter().enumerate() {
        let text = match below.trim() {
            below if number == 0 && !below.is_empty() => format!("{text}\n\n{below}"),
            _ => text.clone(),
        };
        let query = Query {
            id: None,
            text: Ok(text.clone()),
        };
        let asked = Asked {
            number,
            query,
            arguments,
            signals: &signals,
        };
        if arguments.json {
            let answered = asked.answered(&mut conversation).await?;
            summary.take(answered, arguments)?;
            continue;
        }
        let mut face = Plain::shown(Tally::unattended(arguments.deny));
        let ended = said(&mut conversation, &text, &mut face, &signals).await;
        face.checked()?;
        match ended {
            Ok(ending) => {
                if let Some(why) = ending.how.why() {
                    output::complain(&output::printable(&why));
                }
                match face.tally.refused(&ending) {
                    Some(why) => {
                        output::complain(&output::printable(&format!("error: {why}")));
                        summary.refused = true;
                    }
                    None => summary.failed |= !ending.how.is_answer(),
                }
            }
            Err(why) => {
                output::complain(&output::printable(&format!("error: {why}")));
                summary.failed = true;
            }
        }
        if signals.have_come() {
            return Ok(Exit::Failed);
        }
    }
    Ok(summary.exit())
}

/// Content of standard input, if it is no terminal.
async fn below() -> Result<String, Failure> {
    use std::io::IsTerminal as _;
    if std::io::stdin().is_terminal() {
        return Ok(String::new());
    }
    let (sender, read) = oneshot::channel();
    // The read cannot be interrupted, so its thread is not joined.
    thread::spawn(move || {
        let mut text = Vec::new();
        let all = std::io::stdin().take(MAX_BELOW_BYTES + 1);
        let read = { all }.read_to_end(&mut text).map(|_| text);
        // The receiver may be dropped.
        let _ = sender.send(read);
    });
    let mut read = std::pin::pin!(read);
    let text = tokio::select! {
        biased;
        text = &mut read => text,
        () = tokio::time::sleep(PATIENCE) => {
            output::complain(
                "waiting for the end of standard input, which is appended to the question; add `< /dev/null` to ask without waiting",
            );
            read.await
        }
    };
    let text = text.map_err(std::io::Error::other)??;
    if text.len() as u64 > MAX_BELOW_BYTES {
        return Err(Failure::usage_text(format!(
            "standard input exceeds {MAX_BELOW_BYTES} bytes, the limit for one question"
        )));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Results of all queries.
#[derive(Debug, Default)]
struct Summary {
    answered: usize,
    failed: bool,
    /// True if no call of a query was made because consent was missing.
    refused: bool,
}

impl Summary {
    fn take(&mut self, answered: Answered, arguments: &Talk) -> Result<(), Failure> {
        self.answered += 1;
        match answered.is_refused {
            true => self.refused = true,
            false => self.failed |= answered.error.is_some(),
        }
        if arguments.json {
            // It is one of the events.
            return Ok(());
        }
        output::json(&answered)
    }

    const fn exit(&self) -> Exit {
        match (self.failed, self.refused) {
            (true, _) => Exit::Failed,
            (false, true) => Exit::Refused,
            (false, false) => Exit::Ok,
        }
    }
}

/// A query that is asked.
struct Asked<'a> {
    number: usize,
    query: Query,
    arguments: &'a Talk,
    signals: &'a Signals,
}

impl Asked<'_> {
    async fn answered(self, conversation: &mut Conversation<'_>) -> Result<Answered, Failure> {
        let id = self.query.id;
        let began = Instant::now();
        let tally = || Tally::unattended(self.arguments.deny);
        let mut events = self
            .arguments
            .json
            .then(|| Events::new(self.number, tally()));
        let mut answered = match self.query.text {
            Err(why) => Answered::failed(None, why),
            Ok(text) => {
                let mut plain = Plain::quiet(tally());
                let ended = match &mut events {
                    Some(events) => said(conversation, &text, events, self.signals).await,
                    None => said(conversation, &text, &mut plain, self.signals).await,
                };
                let tally = events.as_ref().map_or(&plain.tally, |events| &events.tally);
                match ended {
                    Ok(ending) => tally.answered(&text, &ending, began.elapsed()),
                    Err(why) => Answered::failed(Some(text), why),
                }
            }
        };
        answered.id = id;
        if let Some(events) = &mut events {
            events.tell("answer", serde_json::to_value(&answered)?);
            events.checked()?;
        }
        Ok(answered)
    }
}

/// Sends a text and completes the turn; a signal stops it.
async fn said(
    conversation: &mut Conversation<'_>,
    text: &str,
    face: &mut dyn orchestra_chat::Face,
    signals: &Signals,
) -> Result<Ending, String> {
    let stopper = Stopper::default();
    let ended = {
        let saying = conversation.say(text, face, &stopper);
        tokio::pin!(saying);
        tokio::select! {
            biased;
            ended = &mut saying => ended,
            () = signals.first() => {
                stopper.stop();
                saying.await
            }
        }
    };
    let ending = ended.map_err(|no_model| no_model.words())?;
    remember::usage(conversation, &ending).await;
    if let Some(project) = conversation
        .manner
        .remember
        .clone()
        .filter(|_| ending.how.is_answer())
        && let Err(why) = remember::turn(conversation, &project, None).await
    {
        output::complain(&output::printable(&format!("not remembered: {why}")));
    }
    Ok(ending)
}
