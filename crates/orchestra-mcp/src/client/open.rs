//! Calls that the server has not answered: who waits for each, and what the server has asked of it.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};

use orchestra_hub::{ClientFeatures, Cx, ProgressSink};
use orchestra_wire::{RawJson, RequestId};
use tokio::{sync::Notify, time::Instant};

use super::{background::ClientKey, roots::own_connection};
use crate::{told::Ask, translation::Input};

/// Maximum number of questions of one call that wait, or come in one result.
pub(super) const MAX_QUESTIONS: usize = 16;

/// Number of refused questions of one call after which further questions are refused unread.
pub(super) const MAX_OBJECTIONS: usize = 16;

/// What a server asks so soon after a question of a call is asked together with it.
const TOGETHER: Duration = Duration::from_secs(1);

/// A call that the server has not answered.
pub(super) struct OpenCall {
    pub(super) began: Instant,
    pub(super) whose: Whose,
    /// Its caller has a session of its own, and so one list of roots for all its calls.
    pub(super) is_of_session: bool,
    /// The task of the server whose end it waits for.
    pub(super) task: Option<String>,
    caller: Mutex<Caller>,
    questions: Mutex<Vec<Asked>>,
    /// Number of questions that were refused unseen by its client.
    pub(super) objections: AtomicUsize,
    /// Rings when there are questions.
    pub(super) asked: Notify,
    /// Rings when the server says that the stream which it opens has begun.
    pub(super) begun: Notify,
    /// Resources that the stream includes, as the server has acknowledged it; `None` where it names
    /// nothing.
    pub(super) included: Mutex<Option<BTreeSet<String>>>,
    /// What was asked of a caller who does not offer it, a bit each.
    lacked: AtomicU8,
}

/// On whose behalf a request is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Somebody uses the server.
    Caller,
    /// All clients that watch a resource: none of them can be asked.
    Watchers,
    /// It is only watched: nobody is there to be asked.
    Ours,
}

/// Who waits for it, and since when nothing was heard.
struct Caller {
    progress: ProgressSink,
    features: ClientFeatures,
    client: ClientKey,
    heard: Instant,
    /// Since when it waits for answers of its caller.
    parked: Option<Instant>,
}

/// A question of the server.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) id: RequestId,
    pub(super) method: String,
    pub(super) params: Option<RawJson>,
    /// What the server says of it.
    pub(super) input: Option<Input>,
    /// Its answer has the roots of the session from then on.
    pub(super) gives_roots: bool,
}

impl OpenCall {
    /// Resources of `wanted` that the stream includes, which was acknowledged.
    pub(super) fn included(&self, wanted: &BTreeSet<String>) -> BTreeSet<String> {
        let included = self.included.lock().unwrap_or_else(PoisonError::into_inner);
        match &*included {
            Some(included) => wanted.intersection(included).cloned().collect(),
            None => wanted.clone(),
        }
    }

    pub(super) fn new(cx: &Cx, whose: Whose, task: Option<String>) -> Self {
        let now = Instant::now();
        Self {
            began: now,
            whose,
            is_of_session: own_connection(cx).is_some(),
            task,
            caller: Mutex::new(Caller {
                progress: cx.progress.clone(),
                features: cx.features,
                client: ClientKey::of(cx),
                heard: now,
                parked: None,
            }),
            questions: Mutex::default(),
            objections: AtomicUsize::new(0),
            asked: Notify::new(),
            begun: Notify::new(),
            included: Mutex::default(),
            lacked: AtomicU8::new(0),
        }
    }

    /// Leaves a question for whoever waits; false when too many wait already. Those that belong
    /// together are waited for together.
    pub(super) fn ask(&self, asked: Asked) -> bool {
        let count = asked.input.as_ref().map_or(1, |input| input.count);
        let has_room = self.has_room();
        if has_room {
            let mut questions = self.questions();
            questions.push(asked);
            if questions.len() >= count.min(MAX_QUESTIONS) {
                self.asked.notify_one();
            }
        }
        has_room
    }

    /// Returns whether another question can wait.
    pub(super) fn has_room(&self) -> bool {
        self.questions().len() < MAX_QUESTIONS
    }

    /// The questions that wait.
    pub(super) fn take_questions(&self) -> Vec<Asked> {
        std::mem::take(&mut self.questions())
    }

    fn questions(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// It waits for answers of its caller.
    pub(super) fn park(&self) {
        self.caller().parked = Some(Instant::now());
    }

    /// It goes on for whoever made it again.
    pub(super) fn renew(&self, cx: &Cx) {
        let mut caller = self.caller();
        caller.progress = cx.progress.clone();
        caller.features = cx.features;
        caller.client = ClientKey::of(cx);
        caller.heard = Instant::now();
        caller.parked = None;
    }

    /// When something was heard of it.
    pub(super) fn heard(&self) -> Instant {
        self.caller().heard
    }

    /// Whether its questions are out already, so that what the server asks now is of another call.
    pub(super) fn has_asked(&self) -> bool {
        let parked = self.caller().parked;
        parked.is_some_and(|since| since.elapsed() >= TOGETHER)
    }

    pub(super) fn client(&self) -> ClientKey {
        self.caller().client.clone()
    }

    /// Whether it is of another caller than a call that is to be made, and one of the two can be
    /// asked for something.
    pub(super) fn confuses(&self, cx: &Cx) -> bool {
        let caller = self.caller();
        self.whose == Whose::Caller
            && caller.client != ClientKey::of(cx)
            && (caller.features.any() || cx.features.any())
    }

    fn caller(&self) -> MutexGuard<'_, Caller> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that it goes on; where its progress goes.
    pub(super) fn hear(&self) -> ProgressSink {
        let mut caller = self.caller();
        caller.heard = Instant::now();
        caller.progress.clone()
    }

    /// Whether its caller offers what is asked; remembered where not.
    pub(super) fn can(&self, ask: Ask) -> bool {
        let can = ask.is_in(self.caller().features);
        if !can {
            self.lacked.fetch_or(1 << ask as u8, Ordering::Relaxed);
        }
        can
    }

    /// What was asked of a caller who does not offer it.
    pub(super) fn lacked(&self) -> Option<Vec<Ask>> {
        let lacked = self.lacked.load(Ordering::Relaxed);
        (lacked != 0).then(|| {
            let asks = Ask::ALL.into_iter();
            asks.filter(|ask| lacked & (1 << *ask as u8) != 0).collect()
        })
    }
}
