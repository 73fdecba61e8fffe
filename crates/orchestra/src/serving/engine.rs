//! The memory engine of what is served.

use std::{path::Path, sync::Arc, time::Duration};

use orchestra_memory::{
    engine::{self, Engines, Settings, Standing},
    model::Wish,
};
use orchestra_place::RunDirectory;
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::{Face, Serving};
use crate::{
    board,
    config::{Config, EngineUse, wrong_engine_port},
    env::Variable,
    output,
    workspace::run_directory,
};

/// How often it is looked whether a model was configured, or somebody has an engine with one, where
/// nothing needs an engine yet.
const MODEL_LOOKS: Duration = Duration::from_secs(5);

/// How long somebody who asks once waits for the engine and its model, which have to start for it.
const ONCE: Duration = Duration::from_secs(3);
const ONCE_LOOKS: Duration = Duration::from_millis(20);

/// So many vectors are made while somebody who asks once waits.
const SOON: u64 = 500;

impl Serving {
    /// Has the engine used where a model is configured or it has one, and waits until it finds by meaning, a few
    /// seconds at most: for who asks once and ends. Must run inside the runtime.
    pub(crate) async fn await_engine(&self) {
        let (Some(engines), Some(_)) = (&self.engines, &self.store) else {
            return;
        };
        let workspace = board::seat(&self.config);
        let run = engines.run_directory();
        let model = &self.config.memory.model;
        if !model.is_wanted() && !has_model(&workspace, run).await {
            if let Wish::Refused(why) = model.wish() {
                engines.tell_trouble(why);
            }
            return;
        }
        engines.begin();
        let ready = async {
            engines.answers(ONCE).await;
            loop {
                match engine::standing(&workspace, run).await {
                    Some(standing) if finds_most(&standing) => {
                        engines.tell_trouble(&standing.trouble.unwrap_or_default());
                        break;
                    }
                    _ => sleep(ONCE_LOOKS).await,
                }
            }
        };
        // What is not there by then is done without.
        let _ = timeout(ONCE, ready).await;
    }

    /// Looks for the memory engine of the workspace, and starts it where there is none, for as long as
    /// this is served: in the background, so that nobody waits for it. Must run inside the runtime.
    pub(crate) fn start_engine(&mut self, face: Face) {
        let memory = &self.config.memory;
        let Some(engines) = &self.engines else {
            memory.overreach().for_each(output::complain);
            return;
        };
        let model = &memory.model;
        if face == Face::Http
            && let Some(why) = wrong_engine_port()
        {
            output::complain(&why);
        }
        // That it costs the model is told with it.
        let is_told = |line: &&str| matches!(model.wish(), Wish::Refused(why) if why == line);
        let untold = memory.overreach().filter(|line| !is_told(line));
        untold.for_each(output::complain);
        // Until there is a model, it knows nothing that the store does not. Another program may have
        // given one to the engine that it started.
        if let Wish::Refused(why) = model.wish() {
            engines.tell_trouble(why);
        }
        let is_wanted = self.config.engine.value == EngineUse::Always || model.is_wanted();
        // Other programs are served even without a model, if an engine is installed.
        let serves_others = face == Face::Http;
        let (engines, workspace) = (engines.clone(), board::seat(&self.config));
        let begun = self.begun();
        self.waiting = Some(tokio::spawn(async move {
            begun.await;
            while !(is_wanted
                || serves_others && is_installed(&workspace).await
                || model_is_wanted(&workspace).await
                || has_model(&workspace, engines.run_directory()).await)
            {
                sleep(MODEL_LOOKS).await;
            }
            engines.begin();
        }));
    }
}

/// Whether it is of no use to wait for an engine to find more: what is missing is little and soon made,
/// or more than somebody waits for.
fn finds_most(standing: &Standing) -> bool {
    match standing.phase.as_str() {
        engine::OPENING => false,
        "filling" => standing.wanted.saturating_sub(standing.vectors) > SOON,
        _ => true,
    }
}

/// The memory engine of a workspace, which is not looked for yet; `None` where nobody wants one, where a
/// program that is to start one does not know where it is itself, and where the workspace has no run directory.
pub(super) fn of(config: &Config) -> Option<Engines> {
    if config.engine.value == EngineUse::Off {
        return None;
    }
    let run = run_directory(config)
        .map_err(|error| tracing::warn!("cannot use the memory engine: {error:#}"));
    Some(Engines::new(Settings {
        workspace: board::seat(config),
        run: run.ok()?,
        client: "orchestra",
        starts: true,
        always_asks: config.engine.value == EngineUse::Always,
        program: std::env::current_exe().ok()?,
        search_path: Variable::Path.read(),
        tell: Arc::new(output::complain),
    }))
}

/// Returns whether there is a program that may be the engine.
async fn is_installed(workspace: &Path) -> bool {
    let workspace = workspace.to_owned();
    let found = spawn_blocking(move || {
        let search_path = Variable::Path.read();
        let this = std::env::current_exe().ok()?;
        Some(!engine::programs(&this, search_path.as_deref(), &workspace).is_empty())
    });
    matches!(found.await, Ok(Some(true)))
}

/// Whether a model is configured by now.
async fn model_is_wanted(workspace: &Path) -> bool {
    let workspace = workspace.to_owned();
    let wish = spawn_blocking(move || Config::model_wish(&workspace, None));
    matches!(wish.await, Ok(Wish::Model(_)))
}

/// Whether an engine runs that finds by a model, whoever gave it one.
async fn has_model(workspace: &Path, run: &RunDirectory) -> bool {
    let standing = engine::standing(workspace, run).await;
    standing.is_some_and(|standing| !standing.model.is_empty())
}
