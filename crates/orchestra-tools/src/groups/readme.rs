//! The status page of a project.

use orchestra_board::Slug;
use orchestra_store::{Action, Made};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::Arg;
use crate::failure::Failure;
use crate::services::Services;
use crate::tool::{Effect, Step, Tool};

pub(super) fn tools() -> Vec<Tool> {
    let tool = Tool::new(
        "regenerate_readme",
        "Write status page",
        Effect::Replace,
        "Write the project's status page, README.md in its directory. `overwrite` replaces a page written by hand.",
        regenerate,
    );
    vec![tool.heavy()]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct RegenerateReadme {
    project: Arg<Slug>,
    overwrite: Option<bool>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Written {
    file: &'static str,
    path: String,
    bytes: u64,
}

fn regenerate(_: &Services, args: RegenerateReadme) -> Result<Step<Written>, Failure> {
    let path = format!(".projects/{}/README.md", args.project.0);
    let action = Action::WriteReadme {
        project: args.project.0,
        overwrite: args.overwrite.unwrap_or_default(),
    };
    Ok(Step::submit(None, action, move |_, receipt| {
        let bytes = match receipt.made {
            Made::Readme { bytes } => bytes,
            _ => 0,
        };
        Ok(Written {
            file: "README.md",
            path,
            bytes,
        })
    }))
}
