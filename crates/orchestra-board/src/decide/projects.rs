//! Decisions about projects as a whole.

use super::work::{Result, Work};
use crate::{
    Change, Key, NewProject, NewRequest, PrdOrigin, Project, Refusal, Request, RequestStatus, Slug,
    Title,
};

pub(super) fn create(work: &mut Work<'_>, new: &NewProject) -> Result<()> {
    let slug = match Slug::of_name(new.name.as_str()) {
        Some(slug) if work.view.project(&slug)?.is_some() => {
            return Err(Refusal::ProjectExists { slug }.into());
        }
        Some(slug) => slug,
        None => first_numbered_slug(work)?,
    };
    let project = with_free_key(work, slug, new.name.clone(), new)?;
    add(work, project);
    Ok(())
}

fn first_numbered_slug(work: &Work<'_>) -> Result<Slug> {
    let mut number = 1;
    loop {
        let slug = Slug::numbered(number);
        if work.view.project(&slug)?.is_none() {
            return Ok(slug);
        }
        number += 1;
    }
}

fn with_free_key(work: &Work<'_>, slug: Slug, name: Title, new: &NewProject) -> Result<Project> {
    let key = free_key(work, name.as_str(), &[])?;
    Ok(Project::new(
        slug,
        key,
        name,
        new.description.clone(),
        work.cx.now,
    ))
}

/// The best key for `name` that neither the workspace nor `taken` has.
pub(super) fn free_key(work: &Work<'_>, name: &str, taken: &[Key]) -> Result<Key> {
    for key in Key::candidates(name) {
        if !taken.contains(&key) && !work.view.key_taken(&key)? {
            return Ok(key);
        }
    }
    Err(Refusal::NoKeyLeft.into())
}

/// Makes the project, with its stub of a PRD.
pub(super) fn add(work: &mut Work<'_>, project: Project) {
    let slug = project.slug.clone();
    let content = project.stub_prd();
    work.emit_project(&slug, Change::ProjectCreated(Box::new(project)));
    work.emit_project(
        &slug,
        Change::PrdWritten {
            content,
            origin: PrdOrigin::Stub,
        },
    );
    work.about_project(&slug);
}

pub(super) fn rename(work: &mut Work<'_>, slug: &Slug, name: &Title) -> Result<()> {
    let project = work.project(slug)?;
    work.about_project(slug);
    if project.name != *name {
        work.emit_project(slug, Change::ProjectRenamed { name: name.clone() });
    }
    Ok(())
}

pub(super) fn delete(work: &mut Work<'_>, slug: &Slug) -> Result<()> {
    work.project(slug)?;
    work.emit_project(slug, Change::ProjectDeleted);
    Ok(())
}

pub(super) fn write_prd(work: &mut Work<'_>, slug: &Slug, content: &str) -> Result<()> {
    work.project(slug)?;
    work.about_project(slug);
    let change = Change::PrdWritten {
        content: content.to_owned(),
        origin: PrdOrigin::Written,
    };
    work.emit_project(slug, change);
    Ok(())
}

pub(super) fn log_request(work: &mut Work<'_>, slug: &Slug, new: &NewRequest) -> Result<()> {
    let project = work.project(slug)?;
    work.about_project(slug);
    let request = Request {
        number: project.next_request,
        kind: new.kind,
        description: new.description.clone(),
        status: RequestStatus::New,
        at: work.cx.now,
    };
    work.emit_project(slug, Change::RequestLogged(Box::new(request)));
    Ok(())
}
