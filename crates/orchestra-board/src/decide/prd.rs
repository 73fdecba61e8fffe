//! Decisions about the PRD questionnaire.

use super::projects;
use super::work::{Result, Work};
use crate::{
    Answer, Body, Change, PrdMove, PrdOrigin, PrdSession, PrdStatus, Project, Refusal, Slug, Title,
    prd,
};

/// The most phases a PRD can be split into.
pub const MAX_PHASES: usize = 20;

pub(super) fn step(work: &mut Work<'_>, slug: &Slug, step: &PrdMove) -> Result<()> {
    let project = work.project(slug)?;
    work.about_project(slug);
    let session = work.view.prd_session(slug)?;
    match step {
        PrdMove::Start { restart } => start(work, &project, session.as_ref(), *restart),
        PrdMove::Abandon => {
            if session.is_some() {
                work.emit_project(slug, Change::PrdSession(None));
            }
            Ok(())
        }
        PrdMove::Answer { text, overwrite } => {
            let session = under_way(slug, session)?;
            answer(work, &project, session, Some(text), *overwrite)
        }
        PrdMove::Skip { overwrite } => {
            let session = under_way(slug, session)?;
            answer(work, &project, session, None, *overwrite)
        }
        PrdMove::Back => back(work, slug, exists(slug, session)?),
        PrdMove::Split { phases } => split(work, &project, exists(slug, session)?, phases),
    }
}

fn exists(slug: &Slug, session: Option<PrdSession>) -> Result<PrdSession> {
    session.ok_or_else(|| {
        Refusal::NoPrdSession {
            project: slug.clone(),
        }
        .into()
    })
}

fn under_way(slug: &Slug, session: Option<PrdSession>) -> Result<PrdSession> {
    let session = exists(slug, session)?;
    if session.status == PrdStatus::Complete {
        Err(Refusal::PrdComplete.into())
    } else {
        Ok(session)
    }
}

fn start(
    work: &mut Work<'_>,
    project: &Project,
    old: Option<&PrdSession>,
    restart: bool,
) -> Result<()> {
    let worth_keeping =
        |old: &PrdSession| !old.answers.is_empty() || old.status == PrdStatus::Complete;
    if !restart && old.is_some_and(worth_keeping) {
        return Err(Refusal::PrdUnderWay {
            project: project.slug.clone(),
        }
        .into());
    }
    let mut session = PrdSession::new(
        project.slug.clone(),
        project.name.clone(),
        PrdStatus::InProgress,
    );
    if let Some(old) = old {
        session.phases.clone_from(&old.phases);
    }
    work.emit_project(&project.slug, Change::PrdSession(Some(Box::new(session))));
    Ok(())
}

fn answer(
    work: &mut Work<'_>,
    project: &Project,
    mut session: PrdSession,
    text: Option<&Body>,
    overwrite: bool,
) -> Result<()> {
    let question = session.question().ok_or(Refusal::PrdComplete)?;
    let text = text.filter(|text| !text.as_str().trim().is_empty());
    if question.required && text.is_none() {
        return Err(Refusal::AnswerRequired { key: question.key }.into());
    }
    let index = session.current;
    session.answers.retain(|answer| answer.question != index);
    if let Some(text) = text {
        session.answers.push(Answer {
            question: index,
            text: text.clone(),
        });
        orchestra_sort::sort_by_key(&mut session.answers, |answer| answer.question);
    }
    session.current += 1;
    session.status = PrdStatus::InProgress;
    if session.question().is_none() {
        if project.prd_origin == PrdOrigin::Written && !overwrite {
            return Err(Refusal::PrdWouldBeReplaced.into());
        }
        session.status = PrdStatus::Complete;
        let content = prd::document(&session);
        work.emit_project(
            &project.slug,
            Change::PrdWritten {
                content,
                origin: PrdOrigin::Questionnaire,
            },
        );
    }
    work.emit_project(&project.slug, Change::PrdSession(Some(Box::new(session))));
    Ok(())
}

fn back(work: &mut Work<'_>, slug: &Slug, mut session: PrdSession) -> Result<()> {
    if session.current == 0 {
        return Err(Refusal::FirstQuestion.into());
    }
    session.current -= 1;
    session.status = PrdStatus::InProgress;
    let index = session.current;
    session.answers.retain(|answer| answer.question != index);
    work.emit_project(slug, Change::PrdSession(Some(Box::new(session))));
    Ok(())
}

fn split(
    work: &mut Work<'_>,
    project: &Project,
    mut session: PrdSession,
    names: &[Title],
) -> Result<()> {
    if session.status != PrdStatus::Complete {
        return Err(Refusal::PrdNotComplete.into());
    }
    if !(2..=MAX_PHASES).contains(&names.len()) {
        return Err(Refusal::PhaseCount.into());
    }
    let mut left = Vec::new();
    for phase in &session.phases {
        if work.view.project(phase)?.is_some() {
            left.push(phase.clone());
        }
    }
    if !left.is_empty() {
        return Err(Refusal::SplitAlready { phases: left }.into());
    }
    session.phases.clear();
    let mut keys = Vec::new();
    for (number, name) in (1_u32..).zip(names) {
        let too_long = || Refusal::PhaseSlugTooLong {
            project: project.slug.clone(),
        };
        let slug = project.slug.phase(number).ok_or_else(too_long)?;
        if work.view.project(&slug)?.is_some() {
            return Err(Refusal::ProjectExists { slug }.into());
        }
        let title = format!("{} — Phase {number}: {name}", project.name);
        let title = Title::cut(&title).expect("a title with a visible word in it is not empty");
        let key = projects::free_key(work, &format!("{} P{number}", project.name), &keys)?;
        keys.push(key.clone());
        let mut phase = Project::new(
            slug.clone(),
            key,
            title.clone(),
            Body::default(),
            work.cx.now,
        );
        phase.phase_of = Some((project.slug.clone(), number));
        projects::add(work, phase);
        let child = PrdSession::new(slug.clone(), title, PrdStatus::Pending);
        work.emit_project(&slug, Change::PrdSession(Some(Box::new(child))));
        session.phases.push(slug);
    }
    work.about_project(&project.slug);
    work.emit_project(&project.slug, Change::PrdSession(Some(Box::new(session))));
    Ok(())
}
