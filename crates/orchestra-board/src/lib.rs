//! The board as a pure model: projects, epics, stories, tasks, the 13 states, evidence gates,
//! claims, dependencies, the PRD questionnaire and usage.
//!
//! [`decide`] turns a [`Command`] and a [`View`] of what is stored into events or a refusal;
//! [`Issue::apply`] and [`Project::apply`] turn an event into the next record. Nothing here reads
//! a clock, a file or a database: the store does, and hands in what a command needs.

mod command;
mod decide;
mod digest;
mod event;
mod ids;
mod issue;
mod model;
mod parent;
mod prd;
mod project;
mod refusal;
mod state;
mod text;
mod time;
mod uid;
mod usage;
mod view;

pub use command::{
    Command, Context, Evidence, IssuePatch, IssueRef, NewIssue, NewProject, NewRequest, PrdMove,
    RequestKind, Source,
};
pub use decide::{CLAIM_LEASE_SECONDS, Decision, MAX_PHASES, NextTask, decide, next_task};
pub use event::{Cause, Change, Edit, Event, Request, RequestStatus};
pub use ids::{AgentName, IdError, IssueId, Key, Label, PlanId, SessionId, Slug};
pub use issue::{Claim, Issue, Kind, Priority, Version, rank};
pub use model::Model;
pub use parent::{OwnState, Tally, parent_state};
pub use prd::{Answer, PrdSession, PrdStatus, QUESTIONS, Question, document as prd_document};
pub use project::{PrdOrigin, Project};
pub use refusal::{DecideError, Refusal};
pub use state::{Gate, State};
pub use text::{Body, TextError, Title, composed};
pub use time::{TimeError, Timestamp};
pub use uid::{Uid, UidError};
pub use usage::{Cost, UsageEntry, UsageError, UsageOf, UsageSession, UsageTotals};
pub use view::{View, ViewError};
