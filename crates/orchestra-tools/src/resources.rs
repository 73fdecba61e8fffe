//! The three resources: a project's PRD, its status, and a task.

use orchestra_hub::{
    ProviderError, ResourceContents, ResourceDescriptor, ResourceResult, TemplateDescriptor,
};
use orchestra_store::PageRequest;
use serde::Serialize;

use crate::failure::Failure;
use crate::services::{Services, Sort, find, project};
use crate::uri::{PRD_TEMPLATE, ResourceUri, STATUS_TEMPLATE, TASK_TEMPLATE, UriError};
use crate::wire::{IssueFull, ProjectFull};

/// The most projects whose resources are listed one by one; the templates reach the rest.
const MAX_LISTED_PROJECTS: u32 = 500;
/// How many rows of each kind the status shows.
const STATUS_ROWS: u32 = 50;

const MARKDOWN: &str = "text/markdown";
const JSON: &str = "application/json";

/// The templates, which reach every resource.
pub(crate) fn templates() -> Vec<TemplateDescriptor> {
    let template =
        |uri: &str, name: &str, title: &str, mime: &str, description: &str| TemplateDescriptor {
            uri_template: uri.to_owned(),
            name: name.to_owned(),
            title: Some(title.to_owned()),
            description: Some(description.to_owned()),
            mime_type: Some(mime.to_owned()),
            definition: None,
        };
    vec![
        template(
            PRD_TEMPLATE,
            "project_prd",
            "Project PRD Document",
            MARKDOWN,
            "The product requirements document of a project",
        ),
        template(
            STATUS_TEMPLATE,
            "project_status",
            "Project Status",
            JSON,
            "Counts and first rows of a project",
        ),
        template(
            TASK_TEMPLATE,
            "task_detail",
            "Task Detail",
            JSON,
            "A task with everything but its history",
        ),
    ]
}

/// The resources of each project, one by one.
pub(crate) fn listed(services: &Services) -> Result<Vec<ResourceDescriptor>, Failure> {
    let request = PageRequest::first(MAX_LISTED_PROJECTS);
    let projects = services.read(|reader| Ok(reader.projects(&request)?))?;
    let mut listed = Vec::with_capacity(projects.items.len() * 2);
    for record in projects.items {
        let (slug, name) = (record.project.slug, record.project.name);
        let resource = |uri: &ResourceUri, what: &str, mime: &str| ResourceDescriptor {
            uri: uri.to_string(),
            name: format!("{slug}/{what}"),
            title: Some(format!("{name}: {what}")),
            description: None,
            mime_type: Some(mime.to_owned()),
            definition: None,
        };
        listed.push(resource(&ResourceUri::Prd(slug.clone()), "prd", MARKDOWN));
        listed.push(resource(&ResourceUri::Status(slug.clone()), "status", JSON));
    }
    Ok(listed)
}

/// Reads one resource.
///
/// # Errors
/// `InvalidParams` when a part of the URI is not an id; `Unknown` when there is no such resource;
/// `Unreachable` when the store fails.
pub(crate) fn read(services: &Services, uri: &str) -> Result<ResourceResult, ProviderError> {
    let unknown = || ProviderError::Unknown {
        kind: "resource",
        name: uri.chars().take(200).collect(),
    };
    let parsed = match ResourceUri::parse(uri) {
        Ok(parsed) => parsed,
        Err(UriError::OtherForm) => return Err(unknown()),
        Err(error @ UriError::Part(_)) => {
            return Err(ProviderError::InvalidParams(error.to_string()));
        }
    };
    let found = services.read(|reader| match &parsed {
        ResourceUri::Prd(slug) => Ok((MARKDOWN, reader.prd_text(slug)?)),
        ResourceUri::Status(slug) => {
            let record = project(reader, slug)?;
            json(&ProjectFull::read(reader, &record, STATUS_ROWS)?)
        }
        ResourceUri::Task(target) => {
            let record = find(reader, target, Sort::Task)?;
            json(&IssueFull::new(&record, services.now()))
        }
    });
    // A refusal of the board means that the resource is not there; anything else is the store's.
    let (mime, text) = match found {
        Ok(found) => found,
        Err(failure) if failure.is_refusal() => return Err(unknown()),
        Err(failure) => return Err(ProviderError::Unreachable(failure.to_string())),
    };
    let contents = ResourceContents {
        uri: uri.to_owned(),
        mime_type: Some(mime.to_owned()),
        data: text,
        binary: false,
    };
    Ok(ResourceResult {
        contents: vec![contents],
    })
}

/// Whether there is such a resource; while the store fails, any URI of the right form counts.
pub(crate) fn is_there(services: &Services, uri: &str) -> bool {
    let Ok(parsed) = ResourceUri::parse(uri) else {
        return false;
    };
    let found = services.read(|reader| match &parsed {
        ResourceUri::Prd(slug) | ResourceUri::Status(slug) => project(reader, slug).map(drop),
        ResourceUri::Task(target) => find(reader, target, Sort::Task).map(drop),
    });
    found.map_or_else(|failure| !failure.is_refusal(), |()| true)
}

fn json<T: Serialize>(value: &T) -> Result<(&'static str, String), Failure> {
    let text = serde_json::to_string(value);
    text.map(|text| (JSON, text))
        .map_err(|error| Failure::text(format!("the resource has no JSON form: {error}")))
}
