//! Projects and their PRD documents.

use orchestra_board::{Body, Command, NewProject, Slug, Title};
use orchestra_store::Cursor;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Arg, Limit};
use crate::failure::Failure;
use crate::services::{Services, page, project};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{ProjectFull, ProjectRow};

/// The most bytes of a PRD document.
const MAX_PRD_BYTES: usize = 1024 * 1024;
/// How many rows of each kind `get_project_status` shows unless told.
const STATUS_ROWS: u32 = 20;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "list_projects",
            "List projects",
            Effect::Read,
            "List projects with their progress.",
            list,
        ),
        Tool::new(
            "create_project",
            "Create project",
            Effect::Add,
            "Create a project and return its slug.",
            create,
        ),
        Tool::new(
            "get_project_status",
            "Project status",
            Effect::Read,
            "Return the counts of a project, and its first epics, stories and tasks.",
            status,
        ),
        Tool::new(
            "rename_project",
            "Rename project",
            Effect::Set,
            "Change a project's name; slug and ids stay.",
            rename,
        ),
        Tool::new(
            "delete_project",
            "Delete project",
            Effect::Remove,
            "Delete a project with all its issues, documents and memories.",
            delete,
        ),
        Tool::new(
            "read_prd",
            "Read PRD",
            Effect::Read,
            "Return the product requirements document (prd.md).",
            read_prd,
        ),
        Tool::new(
            "write_prd",
            "Write PRD",
            Effect::Remove,
            "Replace the whole PRD (Markdown).",
            write_prd,
        ),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ListProjects {
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

/// A page of projects.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Projects {
    items: Vec<ProjectRow>,
    total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Next step for a board without projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

fn list(services: &Services, args: ListProjects) -> Result<Step<Projects>, Failure> {
    let request = page(args.limit, args.cursor);
    let found = services.read(|reader| Ok(reader.projects(&request)?))?;
    let hint = match found.total {
        0 => services.empty_board_hint(),
        _ => None,
    };
    Ok(Step::Done(Projects {
        items: found.items.iter().map(ProjectRow::new).collect(),
        total: found.total,
        next_cursor: found.next_cursor,
        hint,
    }))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct CreateProject {
    name: Arg<Title>,
    description: Option<Arg<Body>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Created {
    slug: String,
    key: String,
    status: &'static str,
}

fn create(_: &Services, args: CreateProject) -> Result<Step<Created>, Failure> {
    let description = args.description.map_or_else(Body::default, |text| text.0);
    let command = Command::CreateProject(NewProject {
        name: args.name.0,
        description,
    });
    Ok(Step::command(None, command, |_, receipt| {
        let project = receipt
            .project
            .ok_or_else(|| {
                Failure::text(
                    "the project was created, and deleted by another change at the same time",
                )
            })?
            .project;
        Ok(Created {
            slug: project.slug.to_string(),
            key: project.key.to_string(),
            status: "created",
        })
    }))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct GetProjectStatus {
    project: Arg<Slug>,
}

fn status(services: &Services, args: GetProjectStatus) -> Result<Step<ProjectFull>, Failure> {
    services.read(|reader| {
        let record = project(reader, &args.project.0)?;
        Ok(Step::Done(ProjectFull::read(reader, &record, STATUS_ROWS)?))
    })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct RenameProject {
    project: Arg<Slug>,
    name: Arg<Title>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Renamed {
    slug: String,
    name: String,
}

fn rename(_: &Services, args: RenameProject) -> Result<Step<Renamed>, Failure> {
    let renamed = Renamed {
        slug: args.project.0.to_string(),
        name: args.name.0.to_string(),
    };
    let command = Command::RenameProject {
        project: args.project.0,
        name: args.name.0,
    };
    Ok(Step::command(None, command, |_, _| Ok(renamed)))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ProjectOnly {
    project: Arg<Slug>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Deleted {
    deleted: String,
}

fn delete(_: &Services, args: ProjectOnly) -> Result<Step<Deleted>, Failure> {
    let deleted = Deleted {
        deleted: args.project.0.to_string(),
    };
    Ok(Step::command(
        None,
        Command::DeleteProject {
            project: args.project.0,
        },
        |_, _| Ok(deleted),
    ))
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Document {
    content: String,
}

fn read_prd(services: &Services, args: ProjectOnly) -> Result<Step<Document>, Failure> {
    services.read(|reader| {
        Ok(Step::Done(Document {
            content: reader.prd_text(&args.project.0)?,
        }))
    })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct WritePrd {
    project: Arg<Slug>,
    content: String,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Written {
    file: &'static str,
    bytes: usize,
}

fn write_prd(_: &Services, args: WritePrd) -> Result<Step<Written>, Failure> {
    let bytes = args.content.len();
    if bytes > MAX_PRD_BYTES {
        return Err(Failure::text(
            "argument `content`: is too long: at most 1 MiB",
        ));
    }
    if args.content.contains('\0') {
        return Err(Failure::text(
            "argument `content`: contains a NUL; remove it",
        ));
    }
    let command = Command::WritePrd {
        project: args.project.0,
        content: args.content,
    };
    Ok(Step::command(None, command, move |_, _| {
        Ok(Written {
            file: "prd.md",
            bytes,
        })
    }))
}
