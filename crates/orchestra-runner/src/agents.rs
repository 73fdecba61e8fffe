//! Agents: command lines from configuration, what they can do, and what they say of their use.
//!
//! An agent is no vendor's: it is a [`Profile`], which says which program is called with which
//! arguments, how it is asked what it can do, and how its output is read. Profiles of common agents
//! come along as text ([`ready`]) in the very form in which others write theirs. No shell is
//! involved: placeholders become arguments, one value in one argument, whatever stands in it.
//!
//! What runs an agent, restarts it and keeps its output is left to others; so is git.

mod agreement;
mod ask;
mod catalog;
mod checkpoint;
mod covered;
mod ending;
mod error;
mod evidence;
mod figure;
mod instructions;
mod invocation;
mod permission;
mod place;
mod probe;
mod profile;
mod prompt;
mod reader;
pub mod ready;
pub mod scripted;
mod skill;
mod template;
mod tier;
mod usage;

pub use ask::Asked;
pub(crate) use ask::check_folders;
pub use catalog::{Agents, Chosen};
pub use checkpoint::{
    Manifest, ManifestError, Remaining, forget_checkpoint, read_manifest, request_checkpoint,
};
pub(crate) use covered::{Covered, Difference};
pub use ending::{Exited, Verdict, is_no_op, is_transient, retry_after, verdict};
pub use error::AgentError;
pub use evidence::{Evidence, EvidenceError, evidence_path, forget_evidence, read_evidence};
pub use instructions::{brief_text, read_instructions};
pub use invocation::{Invocation, PrivateFile, Task};
pub use permission::{
    Agreements, Author, Case, Denied, Named, Naming, Offer, Permit, Purpose, Word, decide,
};
pub use place::PRIVATE_DIRECTORY;
pub use probe::{Capabilities, Feature, Prober};
pub use profile::{
    Failures, Models, Probe, ProbeOptions, Profile, ProfileError, ProfileText, PromptBy,
};
pub use prompt::{
    ConflictBrief, HealBrief, JobBrief, ReadyBrief, RetryBrief, conflict_prompt, heal_prompt,
    job_prompt, ready_prompt, retry_prompt,
};
pub use reader::{
    EventText, FormText, LineText, ModelsText, Noticed, OutputError, OutputText, Reader, Reading,
    Stream, Tells, TokensText,
};
pub use skill::write_skill;
pub use tier::{Choice, promote};
pub use usage::{Tokens, Usage};
