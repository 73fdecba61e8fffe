//! `orchestra plan clone`: a new plan of the jobs of another.

use orchestra_runner::plans::Caller;

use super::{
    desk::{self, Desk, failure},
    file::said,
};
use crate::{
    commands::progress::Turning,
    exit::{Exit, Failure},
    output::{self, Format},
};

/// Makes the copy, which is still to be completed, and says so.
pub(super) async fn run(
    desk: &Desk,
    asked: &str,
    name: Option<&str>,
    target: Option<&str>,
    key: Option<String>,
    format: Format,
) -> Result<Exit, Failure> {
    let name = name.map(|name| said("--name", name)).transpose()?;
    let target = target.map(|target| said("--target", target)).transpose()?;
    let source = desk.plan(asked).await?;
    let caller = Caller {
        key,
        ..Desk::caller()
    };
    let made = desk.plans().copy(*source.id(), name, target, &caller);
    let turning = Turning::new("making the plan");
    let made = made.await;
    drop(turning);
    let answer = made.map_err(failure)?;
    desk::warn(&answer);
    let plan = desk.plan(&answer.plan.to_string()).await?;
    format.print(&answer, |answer| {
        let (name, id) = (output::in_a_line(plan.name()), answer.plan);
        match answer.repeated {
            true => format!("plan {name} ({id}) was already created with this key"),
            false => format!(
                "plan {name} ({id}) has the jobs of {}; `orchestra plan finalize {id}` completes it",
                output::in_a_line(source.name())
            ),
        }
    })?;
    Ok(Exit::Ok)
}
