//! Where plans are asked: the configuration, the handle to the plans, and its end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orchestra_plan::{
    ids::JobId, plan::Plan, schedule::Waiting, spec::PlanSettings, view::PlanView,
};
use orchestra_runner::{
    holder::{Place, short_directory},
    plans::{Answer, Caller, Closed, Plans, PlansError},
};
use tokio::time::Instant;

use crate::{
    cli::Common,
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging, output, serving,
    stopping::{AFTER_SERVERS, FILES, Signals},
};

/// Time that a command has to end after a signal.
const ENDING: Duration = Duration::from_secs(2);

/// The plans of a workspace, open for a command.
pub(super) struct Desk {
    config: Config,
    plans: Plans,
    signals: Signals,
    /// Whether the command itself ends at a signal.
    heeds_signals: AtomicBool,
}

/// Does something at a desk, and leaves it: plans that are live go on in the background. With `only_looks` it starts no
/// runner.
pub(super) fn at(
    common: &Common,
    only_looks: bool,
    does: impl AsyncFnOnce(&Desk) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    logging::start(&config.log.value)?;
    config.plans.overreach().for_each(output::complain);
    let runtime = serving::runtime()?;
    let mut options = serving::plan_options(&config, &config.workspace, "orchestra plan");
    options.only_looks = only_looks;
    let (done, is_stopped) = runtime.block_on(async {
        let desk = Desk {
            config,
            plans: Plans::new(options),
            signals: Signals::at_terminal(std::io::stderr())?,
            heeds_signals: AtomicBool::new(false),
        };
        let (done, is_stopped) = tokio::select! {
            biased;
            done = does(&desk) => (done, false),
            () = desk.stopped() => (Err(anyhow::Error::msg("stopped by a signal").into()), true),
        };
        let _held = desk.signals.hold();
        let leaving = match is_stopped {
            true => AFTER_SERVERS,
            false => serving::LEAVING,
        };
        serving::leave_plans(&desk.plans, Instant::now() + leaving).await;
        Ok::<_, Failure>((done, is_stopped))
    })?;
    match is_stopped {
        // Programs that were started are ended.
        true => runtime.shutdown_timeout(FILES),
        // Nothing that still computes is waited for.
        false => runtime.shutdown_background(),
    }
    done
}

impl Desk {
    /// The handle to the plans.
    pub(super) const fn plans(&self) -> &Plans {
        &self.plans
    }

    /// Signals to stop, for a command that ends in order at the first one.
    pub(super) fn signals(&self) -> &Signals {
        self.heeds_signals.store(true, Ordering::Relaxed);
        &self.signals
    }

    /// Waits for a signal, and until the command has had its time to end.
    async fn stopped(&self) {
        self.signals.first().await;
        tokio::time::sleep(ENDING).await;
        if self.heeds_signals.load(Ordering::Relaxed) {
            tokio::time::sleep(serving::LEAVING).await;
        }
    }

    /// Leaves before the end of the command: whether a process runs the plans now, and if not, why. No
    /// second signal cuts it off.
    pub(super) async fn hand_over(&self) -> Result<(), String> {
        let _held = self.signals.hold();
        if self.plans.options().only_looks {
            return match self.is_run().await {
                true => Ok(()),
                false => Err("no process runs the plans".to_owned()),
            };
        }
        // Who was only about to look may be the only one to see to it.
        if let Err(error) = self.plans.attend().await {
            return Err(output::printable(&error.to_string()).into_owned());
        }
        match self.plans.close(serving::LEAVING).await {
            Ok(Closed::Stopped) => Err("no program could be started in the background".to_owned()),
            Ok(Closed::Apart | Closed::Left | Closed::Idle | Closed::HandedOver) => Ok(()),
            Err(error) => Err(output::printable(&error.to_string()).into_owned()),
        }
    }

    /// Who asks.
    pub(super) fn caller() -> Caller {
        Caller::named("orchestra plan")
    }

    /// Reports plans of the workspace in the place that `place` does not choose.
    pub(super) fn report_unused_place(&self) {
        if let Some(unused) = self.config.plans.unused_place(&self.config) {
            output::complain(&output::printable(&unused));
        }
    }

    /// Reports plans that are live and that no process runs. Starts none.
    pub(super) async fn report_unattended(&self) -> Result<(), Failure> {
        let doubts = self.plans.blocked().await.map_err(failure)?;
        for doubt in &doubts {
            output::complain(&output::printable(&doubt.reason.to_string()));
        }
        if !doubts.is_empty() {
            return Ok(());
        }
        let plans = self.plans.list().await.map_err(failure)?;
        if !plans.iter().any(|plan| plan.is_live()) {
            return Ok(());
        }
        if !self.is_run().await {
            output::complain(
                "no process runs the plans that are under way; `orchestra doctor --fix` has a program in the \
                 background do it",
            );
        }
        Ok(())
    }

    /// Returns whether a process runs the plans. Starts none and creates no directory.
    async fn is_run(&self) -> bool {
        let storage = self.plans.options().storage.clone();
        let is_run = tokio::task::spawn_blocking(move || {
            let place = Place::new(&storage, &short_directory());
            matches!(place.is_led(), Ok(true))
        });
        is_run.await.unwrap_or(true)
    }

    /// The plan that is meant. Of several with a name it is the one that has not ended, else the newest,
    /// and that is said.
    pub(super) async fn plan(&self, asked: &str) -> Result<Arc<Plan>, Failure> {
        match self.plans.find(asked).await {
            Err(error @ PlansError::AmbiguousPlan { .. }) => {
                let plans = self.plans.list().await.map_err(failure)?;
                let taken = namesake(&plans, asked).ok_or_else(|| failure(error))?;
                output::complain(&format!(
                    "several plans are named {}; using the {} one, {}",
                    output::in_a_line(taken.name()),
                    match taken.status().is_ended() {
                        true => "newest",
                        false => "open",
                    },
                    taken.id()
                ));
                Ok(Arc::clone(taken))
            }
            found => found.map_err(failure),
        }
    }

    /// The plan that is meant, where a wrong guess could not be undone.
    pub(super) async fn exactly(&self, asked: &str) -> Result<Arc<Plan>, Failure> {
        self.plans.find(asked).await.map_err(failure)
    }

    /// How many jobs of a plan are at work at once, and which setting bounds that.
    pub(super) fn bound(&self, settings: &PlanSettings) -> String {
        let options = self.plans.options();
        let own = settings.max_parallel.get();
        let usual = PlanSettings::of(settings.name.clone());
        let of_plan = match own == usual.max_parallel.get() {
            true => format!("maxParallel of the plan, {own} by default"),
            false => "maxParallel of the plan".to_owned(),
        };
        let machine = options.machine.as_ref();
        let machine = machine.map_or(0, |machine| {
            u64::try_from(machine.slots).unwrap_or(u64::MAX)
        });
        // Of several that say the same, the plan's own is the one to look at.
        let limits = [
            (own, of_plan.as_str()),
            (
                u64::from(options.limits.total),
                "plans.max_jobs of orchestra.toml, for all plans of the workspace",
            ),
            (
                machine,
                "plans.machine_jobs of orchestra.toml, for all workspaces of this machine",
            ),
        ];
        let set = limits.into_iter().filter(|(limit, _)| *limit > 0);
        match set.min_by_key(|(limit, _)| *limit) {
            Some((limit, setting)) => format!("{limit} at once: {setting}"),
            None => "any number at once".to_owned(),
        }
    }

    /// A plan as it is shown, with what its jobs wait for.
    pub(super) async fn view(&self, plan: &Plan) -> Result<PlanView, Failure> {
        self.plans.view(plan).await.map_err(failure)
    }

    /// What each job waits for, as it is looked up.
    pub(super) async fn waiting(
        &self,
        plan: &Plan,
    ) -> Result<impl Fn(&JobId) -> Option<Waiting> + use<>, Failure> {
        let waiting = self.plans.waiting(plan).await.map_err(failure)?;
        let waiting: std::collections::HashMap<JobId, Waiting> = waiting.into_iter().collect();
        Ok(move |job: &JobId| waiting.get(job).cloned())
    }
}

/// Says what should be known of what was done.
pub(super) fn warn(answer: &Answer) {
    for warning in &answer.warnings {
        output::complain(&format!("warning: {}", output::printable(warning)));
    }
}

/// Why something asked of the plans was not done, for whoever asked.
pub(super) fn failure(error: PlansError) -> Failure {
    let text = output::printable(&error.to_string()).into_owned();
    match error {
        PlansError::Refused { .. }
        | PlansError::UnknownPlan { .. }
        | PlansError::AmbiguousPlan { .. } => Failure::refused(text),
        error => Failure::Failed(error.into()),
    }
}

/// How a command exits that waited for a plan.
pub(super) fn exit_of(plan: &Plan) -> Exit {
    use orchestra_plan::status::PlanStatus as S;
    match plan.status() {
        S::Succeeded => Exit::Ok,
        S::Failed => Exit::PlanFailed,
        S::Canceled => Exit::PlanCanceled,
        // It ended somehow before it was put away.
        S::Archived if plan.counts().failed > 0 => Exit::PlanFailed,
        S::Archived if plan.counts().canceled > 0 => Exit::PlanCanceled,
        S::Archived => Exit::Ok,
        S::Scaffolding | S::Pending | S::PendingStart | S::Running | S::Pausing | S::Paused => {
            Exit::PlanOpen
        }
    }
}

/// Which of several plans of a name is meant: the one that has not ended, where there is one, else the
/// newest; none where several have not ended, or it is no name.
fn namesake<'a>(plans: &'a [Arc<Plan>], asked: &str) -> Option<&'a Arc<Plan>> {
    let wanted = asked.trim().to_lowercase();
    let named = || {
        let named = plans.iter();
        named.filter(|plan| plan.name().trim().to_lowercase() == wanted)
    };
    let mut open = named().filter(|plan| !plan.status().is_ended());
    match (open.next(), open.next()) {
        (Some(only), None) => Some(only),
        (Some(_), Some(_)) => None,
        // They are listed in the order in which they were made.
        (None, _) => named().next_back(),
    }
}
