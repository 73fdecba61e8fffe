//! Events for the functions that wanted them from the start: a queue for each topic, and one who
//! takes from it, so that whoever delivers need not wait for what is done with an event.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    select,
    sync::{Semaphore, mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use super::{
    Phase,
    work::{caught, reached, told},
};
use crate::kit::{
    cx::{Call, Cancel, Cx, Surroundings},
    events::{Event, Function, Queue, Waiting},
};

/// How long a function may go on after it was told to stop.
const STOP_TIME: Duration = Duration::from_secs(5);

/// The queues of a plugin, and who takes from them. They end with it.
pub(super) struct Heard {
    /// By their topic; none any more once the plugin ends.
    queues: Mutex<BTreeMap<String, Queue>>,
    /// A permit for each that is through.
    through: Arc<Semaphore>,
    workers: JoinSet<()>,
    undone: Arc<AtomicU64>,
}

impl Heard {
    /// Begins to take events for the functions. It must be called within a tokio runtime.
    pub(super) fn start(
        functions: &[(String, Arc<Function>)],
        surroundings: &Arc<Surroundings>,
        phase: &watch::Sender<Phase>,
    ) -> Self {
        let mut by_topic: BTreeMap<String, Vec<Arc<Function>>> = BTreeMap::new();
        for (topic, function) in functions {
            let of_topic = by_topic.entry(topic.clone()).or_default();
            of_topic.push(function.clone());
        }
        let mut heard = Self {
            queues: Mutex::default(),
            through: Arc::new(Semaphore::new(0)),
            workers: JoinSet::new(),
            undone: Arc::default(),
        };
        for (topic, functions) in by_topic {
            let (queue, waiting) = Queue::new();
            heard.queues().insert(topic, queue);
            let worker = Worker {
                functions,
                waiting,
                surroundings: surroundings.clone(),
                phase: phase.subscribe(),
                undone: heard.undone.clone(),
            };
            let through = heard.through.clone();
            heard.workers.spawn(async move {
                worker.run().await;
                through.add_permits(1);
            });
        }
        heard
    }

    /// Puts an event into the queue of its topic, if there is one; false when too much waits there.
    pub(super) fn put(&self, event: &Event, bytes: usize) -> bool {
        let queues = self.queues();
        let queue = queues.get(&event.topic);
        queue.is_none_or(|queue| queue.put(event, bytes))
    }

    /// Takes no more events. Those that wait are handled.
    pub(super) fn close(&self) {
        self.queues().clear();
    }

    /// Waits until all that waited is handled, after [`Self::close`].
    pub(super) async fn done(&self) {
        let workers = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
        // It is never closed.
        let _ = self.through.acquire_many(workers).await;
    }

    /// How many events were given up, because the plugin had no more time.
    pub(super) fn undone(&self) -> u64 {
        self.undone.load(Ordering::Relaxed)
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who handles the events of a topic, one after the other.
struct Worker {
    functions: Vec<Arc<Function>>,
    waiting: mpsc::Receiver<Waiting>,
    surroundings: Arc<Surroundings>,
    phase: watch::Receiver<Phase>,
    undone: Arc<AtomicU64>,
}

impl Worker {
    /// Ends after the last event, once no more are taken.
    async fn run(mut self) {
        while let Some(waiting) = self.waiting.recv().await {
            let is_handled = self.handle(&waiting.event).await;
            if !is_handled {
                self.undone.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Calls the functions one after the other; false when one was not, or not to its end.
    async fn handle(&mut self, event: &Event) -> bool {
        for function in self.functions.clone() {
            if *self.phase.borrow() == Phase::Stopping {
                return false;
            }
            let (switch, cancel) = Cancel::pair();
            let (frames, _) = mpsc::channel(1);
            let call = Call {
                caller: event.source.clone(),
                ..Call::default()
            };
            let cx = Cx::new(self.surroundings.clone(), call, cancel, frames);
            let event_of_it = event.clone();
            let mut work = pin!(caught(async move { function(event_of_it, cx).await }));
            let ended = select! {
                biased;
                ended = &mut work => Some(ended),
                () = reached(&mut self.phase, Phase::Stopping) => {
                    switch.send_replace(true);
                    timeout(STOP_TIME, work).await.ok()
                }
            };
            match ended {
                Some(Ok(())) => {}
                Some(Err(panic)) => {
                    let why = told(&*panic, "function");
                    tracing::warn!(topic = event.topic, why, "cannot handle an event");
                }
                None => return false,
            }
        }
        true
    }
}
