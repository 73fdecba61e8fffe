//! The plans of a workspace, for whoever shows or changes them: tools, commands, pages.
//!
//! A [`Plans`] is a process's handle. Reading works in any process, by the logs alone, also when nothing
//! runs. What changes something goes to the process that runs the plans: this one, where it is the holder
//! of the workspace's lock, or another one over a local socket. Who asks need not know which.
//!
//! Nothing is written before something is asked for: a workspace without plans stays as it is. The first
//! change makes this process take part, and [`Plans::attend`] does where there are plans already.

mod accept;
mod close;
mod doubt;
mod earlier;
mod error;
mod exports;
mod former;
mod home;
mod kept;
mod log;
mod look;
mod options;
mod order;
mod read;
mod rebuild;
mod secrets;
mod trust;
mod wire;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use orchestra_plan::{
    command::{Command, NewPlan, Request},
    decide,
    ids::{AttemptNumber, Branch, JobId, Millis, PlanId},
    plan::{Job, Plan},
    schedule::Waiting,
    spec::{JobSpec, Name, PlanSettings},
    view::{self, PlanView},
};
use orchestra_process::Sandbox;

pub use accept::rebuild_trusted;
pub(crate) use accept::separate;
pub use close::Closed;
pub use doubt::{Doubt, DoubtedPlace};
pub use error::PlansError;
pub use exports::{damaged_files, mend_files};
pub use kept::KeptWorktree;
pub use log::LogOf;
pub use options::{Background, IsBoardShared, Machine, Options, Placement, ReadSettings};
pub use order::{Answer, Caller, Item, ItemRefusal};
pub use read::{Placed, Unreadable};
pub use rebuild::{Inspected, Mended, inspect, rebuild};
pub use secrets::literal_secrets;
pub use trust::Trust;

pub use crate::runner::{Roster, Standby};

pub(crate) use error::{git_words, refused, refused_by};
pub(crate) use former::{Consent, import};
pub(crate) use log::texts as log_texts;
pub(crate) use order::Order;
pub(crate) use read::{Folded, key_of};
pub(crate) use secrets::{literal_secrets_in, literal_secrets_of, unset_in};
pub(crate) use trust::is_expected;
pub(crate) use wire::WireOrder;

use self::earlier::Earlier;
use crate::{
    agents::Offer,
    git::GitTimes,
    holder::{Call, CallError, Role, Seat, Settings},
    journal::{Fault, OnceKey},
    runner::{self, Host, Outline},
};

/// Code of a refusal because the settings cannot be read.
pub(crate) const UNREADABLE: &str = "settings-unreadable";

/// What a follower asks the holder to do.
pub(crate) const METHOD: &str = "order";

/// A process's handle to the plans of a workspace. Clones are the same.
#[derive(Clone, Debug)]
pub struct Plans(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Arc<Host>,
    folded: Folded,
    /// Plans that were not moved into the storage root yet.
    former: Option<Folded>,
    earlier: Arc<Earlier>,
    seat: Mutex<Option<Arc<Seat>>>,
    /// The last place of an event that was seen.
    seen: AtomicU64,
    /// Whether plans waited for the user at the last look.
    is_blocked: AtomicBool,
}

/// What this process is to the plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It takes no part: it has only read so far.
    Apart,
    /// It is not settled yet who runs them, and why not.
    Settling(Option<String>),
    /// It runs them.
    Holds,
    /// Another process runs them, which is this one.
    Follows(u32),
    /// Nobody runs them, for this reason.
    Failed(String),
    /// It has ended its part.
    Ended,
}

impl Plans {
    /// A handle. Makes no directory and reads nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let folded = Folded::new(&options.storage);
        let former = options.former.as_deref();
        let earlier = Arc::new(Earlier::new(former.unwrap_or(&options.storage)));
        let former = former.map(Folded::untouched);
        Self(Arc::new(Inner {
            host: Arc::new(Host::new(Arc::new(options))),
            folded,
            former,
            earlier,
            seat: Mutex::default(),
            seen: AtomicU64::new(0),
            is_blocked: AtomicBool::new(false),
        }))
    }

    /// Options of this process as it began. The settings may have changed since.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.0.host.options
    }

    /// How many git processes this process has started for plans, and how long they took together; nothing
    /// as long as it has run none.
    #[must_use]
    pub fn git_times(&self) -> Option<GitTimes> {
        self.0.host.git_times()
    }

    /// Takes part where there are plans: runs them, if nobody does, from where they stopped. `false`
    /// where there are none, and nothing is made. Must run inside a runtime.
    ///
    /// # Errors
    /// When the place where plans are kept cannot be used, or its database is not trusted.
    pub async fn attend(&self) -> Result<bool, PlansError> {
        let options = self.options();
        // Why there is no place is the answer to whoever asks for plans.
        if options.only_looks || matches!(options.placement, Placement::Nowhere(_)) {
            return Ok(false);
        }
        let (options, former) = (Arc::clone(&self.0.host.options), self.0.former.clone());
        let has_plans = move |folded: &Folded| {
            let waits = former.is_some_and(|former| former::waits(&options, &former));
            Ok(waits || folded.reader().last()? > 0)
        };
        if !self.folded(has_plans).await? {
            return Ok(false);
        }
        self.check_trust().await?;
        self.seat()?;
        Ok(true)
    }

    /// What this process is to the plans.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let seat = self.lock().clone();
        match seat.map(|seat| seat.role()) {
            None => Standing::Apart,
            Some(Role::Settling(why)) => Standing::Settling(why),
            Some(Role::Holds(_)) => Standing::Holds,
            Some(Role::Follows(pid)) => Standing::Follows(pid),
            Some(Role::Failed(why)) => Standing::Failed(why),
            Some(Role::Ended) => Standing::Ended,
            Some(Role::Gone) => Standing::Failed(CallError::Gone.to_string()),
        }
    }

    /// Looks at work before a plan is made of it, as [`Self::create`] does, and gives what should be known of
    /// it: agents that are not installed here, changes that no job will see, and secrets that are written
    /// out. Makes nothing.
    ///
    /// # Errors
    /// When it asks for an agent that there is not, or for what that cannot do; when it cannot begin or end
    /// in the repository; when the plan that it waits for is not there.
    pub async fn foresee(
        &self,
        settings: &PlanSettings,
        jobs: &[JobSpec],
    ) -> Result<Vec<String>, PlansError> {
        self.options().check_storage(false)?;
        let pieces = runner::of_new(settings, jobs);
        let foreseen = runner::foresee(&self.0.host, pieces, false).await;
        let mut foreseen = foreseen.map_err(|error| PlansError::Refused {
            code: error.code().to_owned(),
            message: error.to_string(),
        })?;
        if let Some(after) = settings.resume_after_plan {
            self.plan(after).await?;
        }
        let new = NewPlan {
            id: new_plan_id()?,
            settings: settings.clone(),
            jobs: jobs.to_vec(),
            scaffolding: false,
            source: None,
            mark: None,
            sandboxed: false,
        };
        let looked = runner::looked(&self.0.host, new).await;
        let looked = looked.map_err(|refused| PlansError::Refused {
            code: refused.code,
            message: refused.message,
        })?;
        // In the order in which making it tells.
        foreseen.splice(0..0, looked);
        foreseen.extend(literal_secrets_of(Some(settings), jobs));
        foreseen.extend(unset_in(settings, jobs, &self.options().environment));
        Ok(foreseen)
    }

    /// The agents that a plan may start before it is made: which, for what, how often and up to which cost.
    pub async fn roster(&self, settings: &PlanSettings, jobs: &[JobSpec]) -> Roster {
        runner::roster(&self.0.host, Outline::of_new(settings, jobs)).await
    }

    /// The agents that a plan may start.
    pub async fn roster_of(&self, plan: &Plan) -> Roster {
        runner::roster(&self.0.host, Outline::of_plan(plan)).await
    }

    /// A plan as it is shown, with what its jobs wait for and the agents that it may start.
    ///
    /// # Errors
    /// When it cannot be looked up what its jobs wait for.
    pub async fn view(&self, plan: &Plan) -> Result<PlanView, PlansError> {
        let waiting: HashMap<JobId, Waiting> = self.waiting(plan).await?.into_iter().collect();
        let of = |job: &Job| waiting.get(job.id()).cloned().unwrap_or(Waiting::Turn);
        let mut view = view::plan(plan, &of);
        if !plan.status().is_ended() {
            view.agents = self.roster_of(plan).await.lines;
        }
        Ok(view)
    }

    /// For each purpose, the agent that may start where a plan names none, or why none may.
    pub async fn standby(&self) -> Vec<Standby> {
        runner::standby(&self.0.host).await
    }

    /// Limits of heals: number and cost.
    #[must_use]
    pub fn heal_limits(&self) -> String {
        self.0.host.heal_limits()
    }

    /// Description of an agent for a person who is to agree to it; `None` where no agent has this name.
    #[must_use]
    pub fn offer(&self, agent: &str) -> Option<Offer> {
        self.0.host.offer(agent)
    }

    /// Stores that the user agreed to an agent as it was shown, for this workspace.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub async fn agree(&self, offer: Offer) -> Result<(), PlansError> {
        let refused = |message: String| PlansError::Refused {
            code: "agreement-not-stored".to_owned(),
            message,
        };
        let Some(agreements) = self.options().agreements.clone() else {
            return Err(refused(
                "this program stores no agreements to agents".to_owned(),
            ));
        };
        let agreed =
            tokio::task::spawn_blocking(move || agreements.agree(&offer.name, &offer.agreement()));
        let agreed = agreed.await.unwrap_or_else(|error| Err(error.to_string()));
        agreed.map_err(refused)
    }

    /// What is wrong with the agents that the configuration names, as a healer that there is not.
    pub async fn misnamed_agents(&self) -> Vec<String> {
        runner::misnamed(&self.0.host).await
    }

    /// Makes a plan: whole, or under construction. With a key that a plan was made with before, that plan
    /// is the answer and nothing is made.
    ///
    /// # Errors
    /// When its jobs are not a graph, the workspace is in no repository that plans can work in, or nobody
    /// can keep it.
    pub async fn create(
        &self,
        settings: PlanSettings,
        jobs: Vec<JobSpec>,
        scaffolding: bool,
        caller: &Caller,
    ) -> Result<Answer, PlansError> {
        let new = NewPlan {
            id: new_plan_id()?,
            settings,
            jobs,
            scaffolding,
            source: None,
            mark: None,
            sandboxed: false,
        };
        self.make(new, caller).await
    }

    /// Makes a plan under construction of the jobs of another, none of them begun.
    ///
    /// # Errors
    /// As [`Self::create`]; when there is no such plan, or this user's programs did not create it.
    pub async fn copy(
        &self,
        plan: PlanId,
        name: Option<Name>,
        target: Option<Branch>,
        caller: &Caller,
    ) -> Result<Answer, PlansError> {
        let source = self.plan(plan).await?;
        self.check_source(plan).await?;
        let new = decide::cloned(&source, new_plan_id()?, name, target)?;
        self.make(new, caller).await
    }

    /// Checks that a plan may be copied. Its jobs run in the copy, so that it must be trusted like a plan that runs.
    async fn check_source(&self, plan: PlanId) -> Result<(), PlansError> {
        let (former, earlier) = (self.0.former.clone(), Arc::clone(&self.0.earlier));
        let options = Arc::clone(&self.0.host.options);
        self.folded(move |folded| {
            let (trust, ours) = (&options.trust, folded.known()?);
            if ours.contains(&plan) {
                return trust.check_source(&options.storage, folded.reader());
            }
            // As in `plan`: a plan of this database is found before one of the earlier system.
            let found = former.as_ref().map(|former| former.one(plan));
            let is_former = match found {
                None | Some(Ok(None) | Err(PlansError::Storage(Fault::Moved))) => false,
                Some(Ok(Some(_)) | Err(_)) => true,
            };
            match (&options.former, &former) {
                (Some(root), Some(former)) if is_former => {
                    trust.check_source(root, former.reader())
                }
                _ => earlier.check(&options),
            }
        })
        .await
    }

    async fn make(&self, mut new: NewPlan, caller: &Caller) -> Result<Answer, PlansError> {
        if let Some(key) = &caller.key
            && new.settings.idempotency_key.is_none()
        {
            let key = orchestra_plan::spec::IdempotencyKey::parse(key);
            new.settings.idempotency_key = Some(key.map_err(|error| PlansError::Refused {
                code: "bad-key".to_owned(),
                message: error.to_string(),
            })?);
        }
        // Where there is nothing to work in, no directory is made either.
        if !self.options().workspace.is_dir() {
            return Err(self.gone().await);
        }
        self.0.host.repository().await?;
        let settings = self.0.host.settings().await;
        let settings = settings.map_err(|message| PlansError::Refused {
            code: UNREADABLE.to_owned(),
            message,
        })?;
        // The runner of the plans may read other files.
        new.sandboxed = settings.sandbox != Sandbox::None;
        let by = caller.by.clone();
        let new = Box::new(new);
        self.order(Order::Create { new, by }).await
    }

    /// Changes a plan. The answer comes when the change is durable; what it sets in motion goes on.
    ///
    /// # Errors
    /// When the plan refuses it, with the code of the refusal; when nobody can keep it; or when the
    /// process that runs the plans went away before it was known whether it was done.
    pub async fn command(
        &self,
        plan: PlanId,
        command: Command,
        caller: &Caller,
    ) -> Result<Answer, PlansError> {
        let request = Box::new(Request {
            command,
            expected_version: caller.expected_version,
            key: caller.key.clone(),
            by: caller.by.clone(),
        });
        match self.order(Order::Change { plan, request }).await {
            Err(error) if error.code() == "plan-unknown" => {
                Err(self.refusal_of(plan).await.unwrap_or(error))
            }
            done => done,
        }
    }

    /// Reason that a plan which is shown does not change: it was not moved, or the earlier system made it.
    async fn refusal_of(&self, plan: PlanId) -> Option<PlansError> {
        if let Some(refusal) = self.former_refusal(plan).await {
            return Some(refusal);
        }
        let words = "the plan was made by the earlier system: it is shown, and does not change; clone it, and change \
                     the copy";
        self.is_earlier(plan).await.then(|| PlansError::Refused {
            code: "plan-read-only".to_owned(),
            message: words.to_owned(),
        })
    }

    async fn order(&self, order: Order) -> Result<Answer, PlansError> {
        let internal = |what: &str| PlansError::Internal(what.to_owned());
        let is_new = matches!(order, Order::Create { .. });
        let wire = WireOrder::of(order).ok_or_else(|| PlansError::Refused {
            code: "not-for-callers".to_owned(),
            message: "this is said by the runner alone".to_owned(),
        })?;
        let params = serde_json::to_value(wire).map_err(|error| internal(&error.to_string()))?;
        let key = format!("{:032x}", u128::from_be_bytes(random()?));
        let call = Call {
            method: METHOD.to_owned(),
            params,
            once: OnceKey::parse(&key),
        };
        if self.lock().is_none() {
            self.check_trust().await?;
        }
        // Another may have made it anew as well.
        let seat = match is_new || self.options().storage.is_dir() {
            true => self.new_seat()?,
            false => self.seat()?,
        };
        let value = seat.call(call).await;
        let value = self.or_gone(value).await?;
        serde_json::from_value(value).map_err(|error| internal(&error.to_string()))
    }

    /// Where an attempt keeps its files.
    #[must_use]
    pub fn attempt_directory(&self, plan: PlanId, job: JobId, attempt: AttemptNumber) -> PathBuf {
        let (storage, former) = (&self.options().storage, self.options().former.as_ref());
        let name = plan.to_string();
        let is_former =
            |former: &&PathBuf| former.join(&name).is_dir() && !storage.join(&name).is_dir();
        let root = former.filter(is_former).unwrap_or(storage);
        runner::attempt_directory(root, plan, job, attempt)
    }

    /// Checks that plans can be stored and are this workspace's. Creates nothing.
    ///
    /// # Errors
    /// [`PlansError::Refused`] with the code `storage-unusable` or `storage-of-another`.
    pub async fn check_storage(&self) -> Result<(), PlansError> {
        self.folded(|_| Ok(())).await
    }

    /// Reads on a thread of its own.
    async fn folded<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Folded) -> Result<T, PlansError> + Send + 'static,
    ) -> Result<T, PlansError> {
        let (folded, host) = (self.0.folded.clone(), Arc::clone(&self.0.host));
        let read = tokio::task::spawn_blocking(move || {
            host.options.check_storage(false)?;
            read(&folded)
        });
        let read = read.await;
        read.unwrap_or_else(|error| Err(PlansError::Internal(error.to_string())))
    }

    /// What happened to the plans, and what is left of them.
    async fn gone(&self) -> PlansError {
        runner::gone(&self.0.host).await
    }

    /// What was answered, with more of why where all is gone.
    async fn or_gone<T>(&self, answered: Result<T, CallError>) -> Result<T, PlansError> {
        match answered {
            Err(CallError::Gone) => Err(self.gone().await),
            answered => Ok(answered?),
        }
    }

    /// The part of this process, which it takes anew where what plans were kept in is gone.
    fn new_seat(&self) -> Result<Arc<Seat>, PlansError> {
        let mut seat = self.lock();
        let is_gone = |seat: &Arc<Seat>| matches!(seat.role(), Role::Gone);
        if seat.as_ref().is_some_and(is_gone) {
            *seat = None;
            self.0.seen.store(0, Ordering::Relaxed);
        }
        drop(seat);
        self.seat()
    }

    /// The part of this process, which it takes now at the latest.
    fn seat(&self) -> Result<Arc<Seat>, PlansError> {
        let mut seat = self.lock();
        if let Some(seat) = &*seat {
            return match seat.role() {
                Role::Ended => Err(PlansError::Holder(CallError::Ended)),
                _ => Ok(Arc::clone(seat)),
            };
        }
        let options = self.options();
        options.check_storage(true)?;
        let start = runner::starter(Arc::clone(&self.0.host));
        let settings = Settings::new(&options.storage, &options.name, start);
        let opened = Arc::new(Seat::open(settings)?);
        *seat = Some(Arc::clone(&opened));
        Ok(opened)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Seat>>> {
        self.0.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time.
pub(crate) fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Millis::new(since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }))
}

fn random() -> Result<[u8; 16], PlansError> {
    let mut bytes = [0; 16];
    let filled = getrandom::fill(&mut bytes);
    filled
        .map_err(|error| PlansError::Internal(format!("the system has no randomness: {error}")))?;
    Ok(bytes)
}

fn new_plan_id() -> Result<PlanId, PlansError> {
    random().map(PlanId::of_random)
}
