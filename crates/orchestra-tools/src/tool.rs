//! What a tool is: a descriptor, and a function from typed arguments to a typed result.

use std::sync::Arc;

use orchestra_board::{AgentName, Command};
use orchestra_hub::{Annotations, BoxFuture, Cost, LongWork, Outcome, ToolDescriptor};
use orchestra_memory::engine::NearAnswer;
use orchestra_store::{Action, Receipt};
use orchestra_wire::RawJson;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    args,
    failure::Failure,
    schema,
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
type Serve = Box<dyn Fn(Arc<Services>, RawJson) -> BoxFuture<Outcome> + Send + Sync>;

impl<Out> Step<Out> {
    /// A change of the board whose receipt becomes the result.
    pub(crate) fn command(
        agent: Option<AgentName>,
        command: Command,
        then: impl FnOnce(&Services, Receipt) -> Result<Out, Failure> + Send + 'static,
    ) -> Self {
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
        Args: DeserializeOwned + JsonSchema + Send + 'static,
        Out: Serialize + JsonSchema + Send + 'static,
    {
        let serve: Serve = Box::new(move |services, arguments| {
            Box::pin(async move {
                let step = args::parse(&arguments).and_then(|args| run(&services, args));
                done(&services, step).await
            })
        });
        Self::described::<Args, Out>(name, title, effect, description, serve)
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
        Args: DeserializeOwned + JsonSchema + Send + 'static,
        Out: Serialize + JsonSchema + Send + 'static,
    {
        let serve: Serve = Box::new(move |services, arguments| {
            Box::pin(async move {
                let step = match args::parse(&arguments) {
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
        Self::described::<Args, Out>(name, title, effect, description, serve)
    }

    fn described<Args: JsonSchema, Out: JsonSchema>(
        name: &'static str,
        title: &'static str,
        effect: Effect,
        description: &'static str,
        serve: Serve,
    ) -> Self {
        let input = schema::input::<Args>();
        let descriptor = ToolDescriptor {
            name: name.to_owned(),
            title: Some(title.to_owned()),
            description: Some(description.to_owned()),
            input_schema: input.whole,
            lean_schema: input.lean,
            output_schema: Some(schema::output::<Out>()),
            annotations: effect.annotations(),
            group: "".into(),
            definition: None,
            cost: Cost::Quick,
            long: LongWork::Never,
        };
        Self { descriptor, serve }
    }

    /// The same tool, computing for longer than a call in place may.
    pub(crate) fn heavy(mut self) -> Self {
        self.descriptor.cost = Cost::Heavy;
        self
    }

    /// Answers one call. Changes are queued at the writer by the first poll.
    pub(crate) fn serve(&self, services: Arc<Services>, arguments: RawJson) -> BoxFuture<Outcome> {
        (self.serve)(services, arguments)
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
