//! What a tool is: a descriptor, and a function from typed arguments to a typed result.

use std::sync::Arc;

use orchestra_board::{AgentName, Command};
use orchestra_hub::{Annotations, BoxFuture, Cost, Cx, LongWork, Outcome, ToolDescriptor};
use orchestra_memory::engine::NearAnswer;
use orchestra_store::{Action, Receipt};
use orchestra_wire::RawJson;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    args::{self, Arg},
    failure::Failure,
    joined::Joined,
    places,
    plan_service::PlanService,
    schema::{HasSchema, Schemas},
    services::{NearQuery, Services},
    text,
};

/// What a tool's function comes to.
pub(crate) enum Step<Out> {
    /// The result.
    Done(Out),
    /// A change for the store's writer, and the result to be made of its receipt.
    Submit(Box<Submit<Out>>),
}

/// A change, and what to answer once it is durable.
pub(crate) struct Submit<Out> {
    agent: Option<AgentName>,
    action: Action,
    then: Then<Out>,
}

type Then<Out> = Box<dyn FnOnce(&Services, Receipt) -> Result<Out, Failure> + Send>;
/// What a tool does that is told what is near in meaning.
type Finding<Args, Out> = fn(&Services, Args, Option<NearAnswer>) -> Result<Step<Out>, Failure>;
type Serve = Box<dyn Fn(Arc<Services>, RawJson, Cx) -> BoxFuture<Outcome> + Send + Sync>;

/// What a tool works with that is about plans, for one call.
pub(crate) struct PlanCx {
    pub(crate) plans: Arc<dyn PlanService>,
    pub(crate) cx: Cx,
    /// Which tool is called.
    pub(crate) tool: &'static str,
    /// What it is called with, as it was written.
    pub(crate) arguments: RawJson,
}

/// What a tool answers that says itself whether it did all of its work.
pub(crate) trait Reply: Serialize + HasSchema {
    /// Whether all of it was done.
    fn success(&self) -> bool {
        true
    }
}

/// What stands before every answer about plans.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Success {
    success: bool,
}

impl<Out> Step<Out> {
    /// A change of the board whose receipt becomes the result.
    pub(crate) fn command(
        agent: Option<Arg<AgentName>>,
        command: Command,
        then: impl FnOnce(&Services, Receipt) -> Result<Out, Failure> + Send + 'static,
    ) -> Self {
        let agent = agent.map(|agent| agent.0);
        Self::submit(agent, Action::Board(command), then)
    }

    /// A change whose receipt becomes the result.
    pub(crate) fn submit(
        agent: Option<AgentName>,
        action: Action,
        then: impl FnOnce(&Services, Receipt) -> Result<Out, Failure> + Send + 'static,
    ) -> Self {
        Self::Submit(Box::new(Submit {
            agent,
            action,
            then: Box::new(then),
        }))
    }
}

/// How a tool touches the board; decides its annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Changes nothing.
    Read,
    /// Adds something; calling twice adds twice.
    Add,
    /// Changes something; calling twice is the same as calling once.
    Set,
    /// Changes something; calling twice moves on twice.
    Move,
    /// Removes or replaces something for good; calling twice is the same as calling once.
    Remove,
    /// Removes or replaces something for good, if told to or in passing; calling twice is not the
    /// same as calling once.
    Replace,
}

impl Effect {
    const fn annotations(self) -> Annotations {
        let (read_only, destructive, idempotent) = match self {
            Self::Read => (true, None, None),
            Self::Add | Self::Move => (false, Some(false), Some(false)),
            Self::Set => (false, Some(false), Some(true)),
            Self::Remove => (false, Some(true), Some(true)),
            Self::Replace => (false, Some(true), Some(false)),
        };
        Annotations {
            read_only: Some(read_only),
            destructive,
            idempotent,
            open_world: Some(false),
        }
    }
}

/// One tool.
pub(crate) struct Tool {
    pub(crate) descriptor: ToolDescriptor,
    serve: Serve,
    /// Derives the schemas, to compare them with the generated ones.
    #[cfg(test)]
    pub(crate) derived: fn() -> crate::schema::derive::Derived,
}

impl Tool {
    /// A tool that answers in place.
    pub(crate) fn new<Args, Out>(
        name: &'static str,
        title: &'static str,
        effect: Effect,
        description: &'static str,
        run: fn(&Services, Args) -> Result<Step<Out>, Failure>,
    ) -> Self
    where
        Args: DeserializeOwned + HasSchema + Send + 'static,
        Out: Serialize + HasSchema + Send + 'static,
    {
        let serve: Serve = Box::new(move |services, arguments, _| {
            Box::pin(async move {
                let step = args::parse(name, &arguments).and_then(|args| run(&services, args));
                done(&services, step).await
            })
        });
        Self {
            descriptor: descriptor(name, title, effect, description),
            serve,
            #[cfg(test)]
            derived: crate::schema::derive::plain::<Args, Out>,
        }
    }

    /// A tool that answers with what is near in meaning at hand, if anything says so in time.
    pub(crate) fn finding<Args, Out>(
        name: &'static str,
        title: &'static str,
        effect: Effect,
        description: &'static str,
        wanted: fn(&Args) -> NearQuery,
        run: Finding<Args, Out>,
    ) -> Self
    where
        Args: DeserializeOwned + HasSchema + Send + 'static,
        Out: Serialize + HasSchema + Send + 'static,
    {
        let serve: Serve = Box::new(move |services, arguments, _| {
            Box::pin(async move {
                let step = match args::parse(name, &arguments) {
                    Ok(args) => {
                        let query = wanted(&args);
                        let near = services.near(name, &query).await;
                        run(&services, args, near)
                    }
                    Err(failure) => Err(failure),
                };
                done(&services, step).await
            })
        });
        Self {
            descriptor: descriptor(name, title, effect, description),
            serve,
            #[cfg(test)]
            derived: crate::schema::derive::plain::<Args, Out>,
        }
    }

    /// A tool about plans, which waits for whoever runs them.
    pub(crate) fn of_plans<Args, Out, Run, Answer>(
        name: &'static str,
        title: &'static str,
        effect: Effect,
        description: &'static str,
        run: Run,
    ) -> Self
    where
        Args: DeserializeOwned + HasSchema + Send + 'static,
        Out: Reply + Send + 'static,
        Run: Fn(PlanCx, Args) -> Answer + Send + Sync + Copy + 'static,
        Answer: Future<Output = Result<Out, Failure>> + Send + 'static,
    {
        let serve: Serve = Box::new(move |services, arguments, cx| {
            Box::pin(async move {
                let answer = match (args::parse::<Args>(name, &arguments), services.plans()) {
                    (Err(failure), _) => Err(failure),
                    (Ok(_), None) => Err(Failure::coded("no-runner", "nothing runs plans here")),
                    (Ok(args), Some(plans)) => {
                        let cx = PlanCx {
                            plans,
                            cx,
                            tool: name,
                            arguments,
                        };
                        run(cx, args).await
                    }
                };
                match answer {
                    Ok(out) => {
                        let success = out.success();
                        let out = Joined(Success { success }, out);
                        match places::with_relative(&out, services.workspace()) {
                            Some(out) => text::outcome_of(&out, services.text(), success),
                            None => text::outcome_of(&out, services.text(), success),
                        }
                    }
                    Err(failure) => failure.into_coded("invalid-arguments", services.text()),
                }
            })
        });
        Self {
            descriptor: descriptor(name, title, effect, description),
            serve,
            #[cfg(test)]
            derived: crate::schema::derive::shared::<
                Args,
                Joined<Success, Out>,
                crate::failure::Coded,
            >,
        }
    }

    /// The same tool, computing for longer than a call in place may.
    pub(crate) fn heavy(mut self) -> Self {
        self.descriptor.cost = Cost::Heavy;
        self
    }

    /// The same tool, whose calls may last until a plan has ended.
    pub(crate) fn lasting(mut self) -> Self {
        self.descriptor.long = LongWork::Later;
        self
    }

    /// The same tool, which accepts commands or plans, or lets them start. Clients ask their user about it: a command
    /// may destroy anything, and reaches further than the board.
    pub(crate) fn starting(mut self) -> Self {
        let annotations = &mut self.descriptor.annotations;
        (annotations.destructive, annotations.open_world) = (Some(true), Some(true));
        self
    }

    /// Answers one call. Changes are queued at the writer by the first poll.
    pub(crate) fn serve(
        &self,
        services: Arc<Services>,
        arguments: RawJson,
        cx: Cx,
    ) -> BoxFuture<Outcome> {
        (self.serve)(services, arguments, cx)
    }
}

fn descriptor(name: &str, title: &str, effect: Effect, description: &str) -> ToolDescriptor {
    let schemas = Schemas::of(name);
    ToolDescriptor {
        name: name.to_owned(),
        title: Some(title.to_owned()),
        description: Some(description.to_owned()),
        input_schema: schemas.input(),
        lean_schema: schemas.lean(),
        output_schema: Some(schemas.output()),
        annotations: effect.annotations(),
        group: "".into(),
        definition: None,
        cost: Cost::Quick,
        long: LongWork::Never,
    }
}

/// Waits for what a tool has begun, and makes an answer of it.
async fn done<Out: Serialize>(services: &Services, step: Result<Step<Out>, Failure>) -> Outcome {
    let out = match step {
        Ok(Step::Done(out)) => Ok(out),
        Ok(Step::Submit(submit)) => submitted(services, *submit).await,
        Err(failure) => Err(failure),
    };
    match out {
        Ok(out) => text::outcome(&out, services.text()),
        Err(failure) => failure.into_outcome(services.workspace_text()),
    }
}

async fn submitted<Out>(services: &Services, submit: Submit<Out>) -> Result<Out, Failure> {
    let Submit {
        agent,
        action,
        then,
    } = submit;
    let receipt = services.store().submit(agent, action).await?;
    then(services, receipt)
}
