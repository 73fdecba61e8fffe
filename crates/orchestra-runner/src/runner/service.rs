//! The engine as the holder of the workspace's lock offers it.

use std::sync::{Arc, Mutex, PoisonError};

use orchestra_process::Sandbox;
use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use super::{
    beforehand,
    engine::{Engine, Event},
    export::Shown,
    foresee,
    host::Host,
    recover,
    roster::{Outline, roster},
};
use crate::{
    cause::chain,
    git::EXCLUDED,
    holder::{Call, Refused, Served, Service, Slots, Work},
    journal::Journal,
    plans::{
        Consent, Folded, METHOD, Options, Order, UNREADABLE, WireOrder, import, is_expected,
        literal_secrets_in, literal_secrets_of, refused, separate, unset_in,
    },
};

/// The sort of the slots of the machine that jobs take.
pub(crate) const SLOTS: &str = "jobs";

/// Begins to run the plans: opens the journal and takes up what the last holder left.
pub(super) async fn start(host: Arc<Host>) -> Result<Served, String> {
    let options = Arc::clone(&host.options);
    // From the first moment on: else a `git add` of everything takes the plans along. Who has no repository
    // yet is told so when it is needed.
    if let Ok(repository) = host.repository().await
        && let Err(error) = repository.exclude(&EXCLUDED).await
    {
        tracing::warn!(%error, "cannot exclude the directories of plans from git; git may show them");
    }
    let opened = {
        let (host, runtime) = (Arc::clone(&host), Handle::current());
        tokio::task::spawn_blocking(move || open(&host.options, &runtime)).await
    };
    let (journal, folded) = opened.map_err(|error| error.to_string())??;
    host.look_for_healer().await;
    let slots = options.machine.as_ref().and_then(|machine| {
        let slots = Slots::new(&machine.directory, SLOTS, machine.slots);
        let warn = |error: &_| tracing::warn!(%error, "cannot count the slots of the machine");
        slots.inspect_err(warn).ok()
    });
    let mut engine = Engine::new(
        Arc::clone(&host),
        journal.clone(),
        folded.clone(),
        host.policy(),
        slots,
    );
    let first = recover::take_up(&mut engine).await?;
    let events = engine.events.clone();
    engine.live.send_replace(engine.is_live());
    let live = engine.live.subscribe();
    let given_up = engine.given_up.subscribe();
    let task = tokio::spawn(engine.run(first));
    Ok(Arc::new(Holding {
        host,
        journal,
        folded,
        events,
        live,
        given_up,
        task: Mutex::new(Some(task)),
    }))
}

fn open(options: &Options, runtime: &Handle) -> Result<(Journal, Folded), String> {
    let separated = separate(options, runtime).map_err(|error| chain(&error))?;
    if !separated.is_empty() {
        tracing::warn!(
            "the database of plans was copied or restored from a copy: {} of its plans are paused; `orchestra plan resume` continues one",
            separated.len()
        );
    }
    let folded = Folded::new(&options.storage);
    let mut how = options.journal();
    how.readable = Some(Arc::new(Shown::new(folded.clone())));
    let admitted = options.trust.admit(&options.storage);
    how.id = admitted.map_err(|error| chain(&error))?;
    let expected = how.id;
    let journal = Journal::open(&options.storage, how).map_err(|error| chain(&error))?;
    if !is_expected(expected, journal.identity()) {
        journal.close_now();
        return Err(
            "the plans' database was replaced while it was opened, and nothing of it runs"
                .to_owned(),
        );
    }
    // New plans are created in any case.
    match import(options, &journal, runtime, Consent::Listed) {
        Ok(paused) if !paused.is_empty() => tracing::warn!(
            "{} plans were moved out of the working tree and are paused; `orchestra plan resume` continues one",
            paused.len()
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!("{}", chain(&error)),
    }
    Ok((journal, folded))
}

/// What is to be said of the values of variables that an order brings.
fn of_values(order: &Order, options: &Options) -> Vec<String> {
    match order {
        // Of a copy it was said when its source was made.
        Order::Create { new, .. } if new.source.is_none() => {
            let literal = literal_secrets_of(Some(&new.settings), &new.jobs);
            let unset = unset_in(&new.settings, &new.jobs, &options.environment);
            literal.into_iter().chain(unset).collect()
        }
        Order::Change { request, .. } => literal_secrets_in(&request.command).into_iter().collect(),
        Order::Create { .. } => Vec::new(),
    }
}

struct Holding {
    host: Arc<Host>,
    journal: Journal,
    folded: Folded,
    events: mpsc::Sender<Event>,
    live: watch::Receiver<bool>,
    given_up: watch::Receiver<Option<String>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Service for Holding {
    fn call(&self, call: Call) -> Work<'_, Result<Value, Refused>> {
        Box::pin(self.asked(call))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.journal.committed()
    }

    fn is_live(&self) -> watch::Receiver<bool> {
        self.live.clone()
    }

    fn given_up(&self) -> Option<String> {
        self.given_up.borrow().clone()
    }

    fn is_kept(&self) -> bool {
        self.journal.is_there()
    }

    fn end(&self) -> Work<'_, ()> {
        Box::pin(self.ended())
    }
}

impl Holding {
    async fn asked(&self, call: Call) -> Result<Value, Refused> {
        let Call {
            method,
            params,
            once,
        } = call;
        if method != METHOD {
            return Err(refused(
                "invalid-request",
                "this is not known here; update the program",
            ));
        }
        let order: WireOrder = serde_json::from_value(params)
            .map_err(|error| refused("invalid-request", &format!("unknown request: {error}")))?;
        let order = order.into_order();
        if let Some(key) = once.clone() {
            let reader = self.folded.reader().clone();
            let before = tokio::task::spawn_blocking(move || reader.answer(&key)).await;
            if let Ok(Ok(Some(before))) = before {
                return serde_json::from_str(before.get())
                    .map_err(|error| refused("internal", &error.to_string()));
            }
        }
        let mut order = order;
        // The decisions that follow a change, such as which jobs may start, also use the settings.
        let settings = self.host.settings().await;
        // Rather now than when its first job is to start.
        let mut warnings = match &mut order {
            Order::Create { new, .. } => {
                let settings = settings.map_err(|why| refused(UNREADABLE, &why))?;
                new.sandboxed |= settings.sandbox != Sandbox::None;
                new.take_mark();
                let mut warnings = beforehand::of_new(&self.host, new).await?;
                warnings.extend(beforehand::misnamed(&self.host).await);
                warnings
            }
            Order::Change { .. } => Vec::new(),
        };
        warnings.extend(self.foreseen(&order).await?);
        warnings.extend(of_values(&order, &self.host.options));
        let agents = match &order {
            Order::Create { new, .. } => {
                let outline = Outline::of_new(&new.settings, &new.jobs);
                let roster = roster(&self.host, outline).await;
                warnings.extend(roster.warnings);
                roster.lines
            }
            Order::Change { .. } => Vec::new(),
        };
        let (answer, answered) = oneshot::channel();
        let asked = Event::Asked {
            order: Box::new(order),
            once,
            answer,
        };
        let ended = || refused("ending", "this program is ending; nothing was done");
        self.events.send(asked).await.map_err(|_| ended())?;
        let answer = answered.await.unwrap_or_else(|_| {
            let what = "the program that runs the plans ended meanwhile; look whether it was done";
            Err(refused("maybe-done", what))
        });
        answer.map(|mut answer| {
            if let (Value::Object(fields), false) = (&mut answer, warnings.is_empty()) {
                fields.insert("warnings".to_owned(), warnings.into());
            }
            if let (Value::Object(fields), false) = (&mut answer, agents.is_empty()) {
                fields.insert("agents".to_owned(), agents.into());
            }
            answer
        })
    }

    /// What can be known of the work that an order brings.
    async fn foreseen(&self, order: &Order) -> Result<Vec<String>, Refused> {
        let (pieces, lenient) = match order {
            // A copy may be mended before it is completed.
            Order::Create { new, .. } => (
                foresee::of_new(&new.settings, &new.jobs),
                new.source.is_some(),
            ),
            Order::Change { plan, request } if foresee::brings_work(&request.command) => {
                let (folded, id) = (self.folded.clone(), *plan);
                let plan = tokio::task::spawn_blocking(move || folded.one(id)).await;
                // What cannot be read, or is not there, is refused where it is decided.
                let Ok(Ok(Some(plan))) = plan else {
                    return Ok(Vec::new());
                };
                (foresee::of_command(&plan, &request.command), false)
            }
            Order::Change { .. } => return Ok(Vec::new()),
        };
        let foreseen = foresee::foresee(&self.host, pieces, lenient).await;
        foreseen.map_err(|error| refused(error.code(), &error.to_string()))
    }

    async fn ended(&self) {
        let (ended, heard) = oneshot::channel();
        if self.events.send(Event::End(ended)).await.is_ok() {
            // One that has stopped by itself is as good.
            let _ = heard.await;
        }
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            // Where it panicked it has ended.
            let _ = task.await;
        }
        self.journal.close().await;
        let reader = self.folded.reader().clone();
        // It waits for who reads.
        let _ = tokio::task::spawn_blocking(move || reader.close()).await;
    }
}
