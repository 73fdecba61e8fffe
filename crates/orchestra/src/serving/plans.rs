//! The plans of what is served: how they are run here, and who runs them on when this program ends.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orchestra_gateway::approval::{DecisionFile, Decisions};
use orchestra_mcp::{PartLook, ServerLifecycle, ServerPart, ServerStatus};
use orchestra_plan::work::ProfileName;
use orchestra_runner::{
    agents::{Agents, Agreements, Prober},
    plans::{
        Background, Closed, Doubt, DoubtedPlace, Machine, Options, Plans, PlansError, Standing,
        Trust,
    },
};
use orchestra_store::Home;
use orchestra_tools::Live;
use tokio::time::Instant;

use super::{LEAVING, Serving};
use crate::{
    board,
    commands::{job_board, runner},
    config::{self, Config},
    env::Variable,
    output, servers,
};

/// Reason for the state of plans that the user has not accepted.
const WAITS_FOR_TRUST: &str = "plans wait for `orchestra plan trust`";

/// Time between two looks at plans that the user has not accepted.
const LOOK: Duration = Duration::from_secs(5);

/// Options with which this program runs the plans of a workspace, under a name that other programs see.
pub(crate) fn options(config: &Config, workspace: &Path, name: &str) -> Options {
    let own = env::current_exe().unwrap_or_else(|_| PathBuf::from("orchestra"));
    let path = Variable::Path.read().unwrap_or_default();
    let mut prober = Prober::new(path, own.clone()).with_user_file(config::user_file());
    if let Ok(state) = servers::state_directory() {
        prober = prober.with_state(state);
    }
    let agents =
        Agents::new(config.plans.profiles(), prober).of_workspace(config.plans.shared_profiles());
    let mut options = Options::with_agents(workspace, &config.plans.storage.value, agents);
    options.name = name.to_owned();
    options.agreements = Agreed::of(workspace);
    options.trust = match servers::state_directory() {
        Ok(state) => Trust::Listed {
            state,
            workspace: workspace.to_owned(),
        },
        Err(_) => Trust::Nothing,
    };
    let mut options = config.plans.apply(options);
    let configured = config.workspace.clone();
    let read = move |before: &Options| match Config::plans_now(&configured) {
        Ok(plans) => Ok(plans.renew(before)),
        // An error of TOML has several lines.
        Err(failure) => Err(failure.text().lines().next().unwrap_or_default().to_owned()),
    };
    options.read_settings = Some(Arc::new(read));
    options.board = Some(job_board::server(&own, workspace));
    options.closed = servers::closed(workspace);
    options.is_board_shared = Some(|workspace| match board::home(workspace) {
        Ok(home) => Ok(!matches!(home, Home::Checkout)),
        Err(failure) => Err(failure.text().lines().next().unwrap_or_default().to_owned()),
    });
    // Its worktree may have a copy of the board, which is not the one that others see.
    let named = (Variable::Workspace.name().into(), workspace.into());
    options.unconfined.extend([named]);
    options.background = Some(Background {
        program: own,
        arguments: runner::arguments(workspace, &config.plans.storage.value),
    });
    options.machine = config
        .plans
        .machine_jobs()
        .zip(servers::state_directory().ok())
        .map(|(slots, state)| Machine {
            directory: state.join("slots"),
            slots,
        });
    options
}

/// Agreements of the user to agents, stored with the decisions about servers.
#[derive(Debug)]
struct Agreed {
    file: DecisionFile,
    workspace: PathBuf,
}

impl Agreed {
    fn of(workspace: &Path) -> Option<Arc<dyn Agreements>> {
        let agreed = Self {
            // Without a home there are no agreements.
            file: servers::decisions().ok()?,
            workspace: workspace.to_owned(),
        };
        Some(Arc::new(agreed))
    }
}

impl Agreements for Agreed {
    fn agreed(&self) -> BTreeMap<String, String> {
        match self.file.read() {
            Ok(decisions) => decisions.agents(&self.workspace),
            Err(error) => {
                tracing::warn!(%error, "cannot read the agreements to agents; all are treated as missing");
                BTreeMap::new()
            }
        }
    }

    fn agree(&self, agent: &ProfileName, agreement: &str) -> Result<(), String> {
        let agree = |decisions: &mut Decisions| {
            decisions.agree(&self.workspace, agent.as_str(), agreement);
        };
        self.file.change(agree).map_err(|error| error.to_string())
    }
}

impl Serving {
    /// Takes part in running the plans, if there are any, in the background. The states of all parts are reported with
    /// the life of the server. Must run inside the runtime.
    pub(crate) fn attend_plans(&self, life: &ServerLifecycle) {
        self.config.plans.overreach().for_each(output::complain);
        for part in self.parts() {
            life.add_part(part);
        }
        if let Some(plans) = self.plans.clone() {
            let begun = self.begun();
            tokio::spawn(async move {
                begun.await;
                attend(&plans).await;
            });
        }
    }

    /// State of the plans, if any are served.
    pub(crate) fn plans_part(&self) -> Option<PartLook> {
        let plans = self.plans.clone()?;
        Some(PartLook::new(move || part(&plans)))
    }

    /// What can be watched, where there is a board.
    pub(crate) fn live(&self) -> Option<Live> {
        if self.config.servers.only_servers {
            return None;
        }
        Some(Live::new(self.store.clone()?, self.plans.clone()))
    }

    /// Has plans that a call has set going run on in the background, when this program ends.
    pub(crate) async fn leave_plans(&self) {
        if let Some(plans) = &self.plans {
            leave(plans, Instant::now() + LEAVING).await;
        }
    }
}

/// State of the plans as a part of the server: run by this process, or by another.
fn part(plans: &Plans) -> ServerPart {
    let status = match plans.standing() {
        Standing::Holds | Standing::Follows(_) => ServerStatus::Connected,
        // Without plans, it runs the first ones.
        Standing::Apart | Standing::Settling(_) => ServerStatus::Available,
        Standing::Ended => ServerStatus::Stopped,
        Standing::Failed(why) => ServerStatus::Error(why),
    };
    // It names the socket.
    let endpoint = plans.options().storage.join("runner.json");
    ServerPart {
        name: "plans",
        endpoint: endpoint.display().to_string(),
        status,
        reason: plans.is_blocked().then_some(WAITS_FOR_TRUST),
    }
}

/// Takes part in running the plans, if there are any. A failure is logged and stops nothing else. Plans that wait for
/// the user are logged once, and looked at until they are accepted.
async fn attend(plans: &Plans) {
    let mut is_reported = false;
    loop {
        let doubts = plans.blocked().await.unwrap_or_default();
        let is_whole = |doubt: &Doubt| doubt.place == DoubtedPlace::Storage;
        // Plans of the working tree stand in no other's way.
        if !doubts.iter().any(is_whole)
            && let Err(error) = plans.attend().await
            && (!is_reported || doubts.is_empty())
        {
            tracing::warn!(%error, "this process cannot run plans");
        }
        if doubts.is_empty() {
            return;
        }
        for doubt in doubts.iter().filter(|_| !is_reported) {
            tracing::warn!("{}", doubt.reason);
        }
        is_reported = true;
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends this program's part by a deadline. Live plans continue in the background.
pub(crate) async fn leave(plans: &Plans, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    match plans.close(left).await {
        Ok(Closed::Stopped) => {
            tracing::warn!(
                "no process runs the plans now; they continue when a program of the workspace starts"
            );
        }
        Ok(_) => {}
        // None of them is left to go on.
        Err(error @ PlansError::Gone { .. }) => output::complain(&error.to_string()),
        Err(error) => output::complain(&format!(
            "cannot hand over the plans; they continue when a program of the workspace starts: {error}"
        )),
    }
}
