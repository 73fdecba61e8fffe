//! The PRD questionnaire.

use orchestra_board::{
    Body, Change, Command, PrdMove, PrdSession, QUESTIONS, Refusal, Slug, Title, prd_document,
};
use orchestra_store::{PhaseRecord, Receipt};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::Arg;
use crate::failure::Failure;
use crate::services::{Services, project};
use crate::tool::{Effect, Step, Tool};
use crate::wire::List;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "start_prd_session",
            "Start PRD",
            Effect::Replace,
            "Start the PRD questionnaire (12 questions) and return the first. `restart` discards earlier answers.",
            start,
        ),
        Tool::new(
            "answer_prd_question",
            "Answer PRD question",
            Effect::Replace,
            "Answer the current question and return the next, or write prd.md after the last. `overwrite` replaces a prd.md written by hand.",
            answer,
        ),
        Tool::new(
            "get_prd_session",
            "Get PRD session",
            Effect::Read,
            "Return the answers so far and the current question.",
            get,
        ),
        Tool::new(
            "abandon_prd_session",
            "Abandon PRD",
            Effect::Remove,
            "Discard the questionnaire and its answers.",
            abandon,
        ),
        Tool::new(
            "skip_prd_question",
            "Skip PRD question",
            Effect::Replace,
            "Skip the current question if it is optional.",
            skip,
        ),
        Tool::new(
            "back_prd_question",
            "Previous PRD question",
            Effect::Replace,
            "Go back one question and discard its answer.",
            back,
        ),
        Tool::new(
            "preview_prd",
            "Preview PRD",
            Effect::Read,
            "Return the PRD that the answers so far would produce.",
            preview,
        ),
        Tool::new(
            "split_prd",
            "Split PRD",
            Effect::Add,
            "Split a complete PRD into 2 to 20 phases, each a project with its own questionnaire.",
            split,
        ),
        Tool::new(
            "list_prd_phases",
            "List PRD phases",
            Effect::Read,
            "List the phases of a split PRD with their states.",
            phases,
        ),
    ]
}

/// The question to be answered next, or that there is none left.
#[derive(Serialize, Default)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Question {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    required: Option<bool>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    options: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'static str>,
}

fn question(session: &PrdSession) -> Question {
    match session.question() {
        Some(question) => Question {
            status: "in_progress",
            question: Some(question.text),
            key: Some(question.key),
            index: Some(session.current),
            required: Some(question.required),
            options: question.options,
            file: None,
        },
        None => Question {
            status: "complete",
            file: Some("prd.md"),
            ..Question::default()
        },
    }
}

fn step(slug: Slug, step: PrdMove) -> Step<Question> {
    let command = Command::Prd {
        project: slug.clone(),
        step,
    };
    Step::command(None, command, move |_, receipt| {
        match session_of(&receipt, &slug) {
            Some(session) => Ok(question(session)),
            None => Err(Refusal::NoPrdSession { project: slug }.into()),
        }
    })
}

fn session_of<'a>(receipt: &'a Receipt, slug: &Slug) -> Option<&'a PrdSession> {
    receipt
        .events
        .iter()
        .rev()
        .find_map(|event| match &event.change {
            Change::PrdSession(Some(session)) if session.slug == *slug => Some(&**session),
            _ => None,
        })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ProjectOnly {
    project: Arg<Slug>,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct StartPrd {
    project: Arg<Slug>,
    restart: Option<bool>,
}

fn start(_: &Services, args: StartPrd) -> Result<Step<Question>, Failure> {
    Ok(step(
        args.project.0,
        PrdMove::Start {
            restart: args.restart.unwrap_or_default(),
        },
    ))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct AnswerPrd {
    project: Arg<Slug>,
    answer: Arg<Body>,
    overwrite: Option<bool>,
}

fn answer(_: &Services, args: AnswerPrd) -> Result<Step<Question>, Failure> {
    let overwrite = args.overwrite.unwrap_or_default();
    Ok(step(
        args.project.0,
        PrdMove::Answer {
            text: args.answer.0,
            overwrite,
        },
    ))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct SkipPrd {
    project: Arg<Slug>,
    overwrite: Option<bool>,
}

fn skip(_: &Services, args: SkipPrd) -> Result<Step<Question>, Failure> {
    Ok(step(
        args.project.0,
        PrdMove::Skip {
            overwrite: args.overwrite.unwrap_or_default(),
        },
    ))
}

fn back(_: &Services, args: ProjectOnly) -> Result<Step<Question>, Failure> {
    Ok(step(args.project.0, PrdMove::Back))
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Abandoned {
    status: &'static str,
}

fn abandon(_: &Services, args: ProjectOnly) -> Result<Step<Abandoned>, Failure> {
    let command = Command::Prd {
        project: args.project.0,
        step: PrdMove::Abandon,
    };
    Ok(Step::command(None, command, |_, _| {
        Ok(Abandoned {
            status: "abandoned",
        })
    }))
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Session {
    project_name: String,
    slug: String,
    status: &'static str,
    current_index: usize,
    answers: Vec<Answer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_slug: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    phases: Vec<String>,
    /// The current question.
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<&'static str>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Answer {
    question: &'static str,
    answer: String,
}

fn get(services: &Services, args: ProjectOnly) -> Result<Step<Session>, Failure> {
    let slug = args.project.0;
    services.read(|reader| {
        let phase_of = project(reader, &slug)?.project.phase_of;
        let Some(session) = reader.prd_session(&slug)? else {
            return Err(Refusal::NoPrdSession { project: slug }.into());
        };
        let answers = session.answers.iter().filter_map(|answer| {
            let question = QUESTIONS.get(answer.question)?.key;
            Some(Answer {
                question,
                answer: answer.text.to_string(),
            })
        });
        Ok(Step::Done(Session {
            project_name: session.project_name.to_string(),
            slug: session.slug.to_string(),
            status: session.status.as_str(),
            current_index: session.current,
            answers: answers.collect(),
            parent_slug: phase_of.as_ref().map(|(parent, _)| parent.to_string()),
            phase: phase_of.as_ref().map(|(_, phase)| *phase),
            phases: session.phases.iter().map(Slug::to_string).collect(),
            question: session.question().map(|question| question.text),
        }))
    })
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Document {
    content: String,
}

fn preview(services: &Services, args: ProjectOnly) -> Result<Step<Document>, Failure> {
    let slug = args.project.0;
    services.read(|reader| {
        project(reader, &slug)?;
        match reader.prd_session(&slug)? {
            Some(session) => Ok(Step::Done(Document {
                content: prd_document(&session),
            })),
            None => Err(Refusal::NoPrdSession { project: slug }.into()),
        }
    })
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct SplitPrd {
    project: Arg<Slug>,
    /// Names of the phases, in order.
    phases: Vec<Arg<Title>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Split {
    phases: Vec<String>,
    count: usize,
}

fn split(_: &Services, args: SplitPrd) -> Result<Step<Split>, Failure> {
    let slug = args.project.0;
    let phases = args.phases.into_iter().map(|name| name.0).collect();
    let command = Command::Prd {
        project: slug.clone(),
        step: PrdMove::Split { phases },
    };
    Ok(Step::command(None, command, move |_, receipt| {
        let session = session_of(&receipt, &slug).ok_or(Refusal::NoPrdSession {
            project: slug.clone(),
        })?;
        let phases: Vec<String> = session.phases.iter().map(Slug::to_string).collect();
        Ok(Split {
            count: phases.len(),
            phases,
        })
    }))
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Phase {
    slug: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    phase: u32,
    status: &'static str,
}

fn phases(services: &Services, args: ProjectOnly) -> Result<Step<List<Phase>>, Failure> {
    let found = services.read(|reader| Ok(reader.phases(&args.project.0)?))?;
    let show = |phase: PhaseRecord| Phase {
        slug: phase.slug.to_string(),
        name: phase.name.map(|name| name.to_string()),
        phase: phase.number,
        status: phase
            .status
            .map_or("missing", orchestra_board::PrdStatus::as_str),
    };
    Ok(Step::Done(List::whole(
        found.into_iter().map(show).collect(),
    )))
}
