//! Routes calls from protocol faces to providers.
//!
//! A [`Provider`] offers a [`Catalog`] and answers [`Request`]s. A face lets a caller in with
//! [`Hub::attach`] and sends each request through [`Attachment::call`]. The hub owns what is the
//! same for all of them: the merged catalog, toolsets, permission, limits, deadlines, the audit
//! file, metrics, subscriptions and the fan-out of notices.

mod along;
mod arguments;
mod attachment;
mod attachments;
mod audit;
mod call;
mod cancel;
mod catalog;
mod hub;
mod listing;
mod lists;
mod merged;
mod metrics;
mod outcome;
mod peer;
mod permission;
mod provider;
mod pump;
mod request;
mod reserved;
mod search;
mod skills;
mod slot;
mod template;
mod toolset;
mod view;

pub use along::{Along, Carried, SessionName};
pub use arguments::parse_arguments;
pub use attachment::{Attachment, HubNotice, Notices, SubscribeError};
pub use audit::{Action, Audit, AuditConfig, Fsync, Misfit, Spot, Verified, verify_audit};
pub use call::Call;
pub use cancel::{CancelSignal, CancelSource};
pub use catalog::{
    Annotations, Catalog, ClientCatalog, Cost, HiddenTool, LongWork, PromptArgument,
    PromptDescriptor, ResourceDescriptor, TemplateDescriptor, ToolDescriptor,
};
pub use hub::{Clients, Hub, HubConfig, Offers, RegisterError};
pub use listing::{ListKind, Listing};
pub use merged::Collision;
pub use metrics::{CallEnd, Metrics, MetricsReport, ToolMetrics, ToolReport};
pub use outcome::{
    Completion, Content, InputRequired, Outcome, PromptResult, ProviderError, ResourceContents,
    ResourceResult, ResultKind, ToolResult,
};
pub use peer::{PeerCalls, PeerLatency, PeerReport, PeerStatus};
pub use permission::{NamePattern, Permission};
pub use provider::{BoxFuture, LogLevel, Notice, Provider, ProviderId};
pub use request::{
    Answers, Caller, ClientFeatures, CompletionRef, Cx, Later, ProgressListener, ProgressSink,
    Remark, Request, Target,
};
pub use search::TOOLS as SEARCH_TOOLS;
pub use skills::{
    MAX_SKILL_BYTES, MAX_SKILL_FILES, Sha256Digest, SkillAnswer, SkillDescriptor, SkillError,
    SkillFile, SkillQuery, is_skill_name,
};
pub use toolset::{Toolset, ToolsetError};
