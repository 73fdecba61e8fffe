//! Plans: graphs of jobs that agents and programs do, each in a worktree of its own. The names of tools
//! and arguments are those of the earlier system, so that prompts and skills written for it work.

mod add;
mod args;
mod change;
mod consent;
mod course;
mod create;
mod job;
mod keys;
mod look;
mod proof;
mod reply;
mod reshape;
mod retry;
mod steer;

use std::sync::Arc;

use orchestra_plan::command::Command;
use orchestra_plan::plan::Plan;

use crate::failure::Failure;
use crate::plan_service::{Done, PlanFault};
use crate::tool::{PlanCx, Tool};

use args::OnConditions;

pub(super) fn tools() -> Vec<Tool> {
    let mut tools = create::tools();
    tools.extend(add::tools());
    tools.extend(look::tools());
    tools.extend(job::tools());
    tools.extend(change::tools());
    tools.extend(reshape::tools());
    tools.extend(steer::tools());
    tools.extend(retry::tools());
    tools.extend(proof::tools());
    tools
}

impl PlanCx {
    /// Who calls, for the log of a plan.
    fn by(&self) -> String {
        let caller = &self.cx.caller;
        let face = match caller.face {
            "" => "tool",
            face => face,
        };
        let shown: String = caller
            .client
            .iter()
            .flat_map(|name| name.chars())
            .take(80)
            .collect();
        match shown.is_empty() {
            true => face.to_owned(),
            false => format!("{face}: {shown}"),
        }
    }

    /// The plan that a caller names.
    async fn plan(&self, asked: &str) -> Result<Arc<Plan>, Failure> {
        Ok(self.plans.plan(asked).await?)
    }

    /// Changes the plan that a call names, and says how it was before and what was done.
    async fn change(
        &self,
        args: &impl OnConditions,
        command: impl FnOnce(&Plan) -> Result<Command, Failure>,
    ) -> Result<(Arc<Plan>, Done), Failure> {
        let plan = self.plan(args.plan()).await?;
        let command = command(&plan)?;
        let asking = args.asking(self)?;
        let done = self.plans.change(*plan.id(), command, asking);
        let done = done.await?;
        Ok((plan, done))
    }
}

/// Nothing that can be done about a cursor of another list.
fn bad_cursor() -> Failure {
    let fault = PlanFault::new(
        "bad-cursor",
        "the cursor is not from this list; omit it to start with the first page",
    );
    fault.into()
}
