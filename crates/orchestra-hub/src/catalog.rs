//! What a provider offers: descriptors of tools, prompts, resources and templates, in a fixed order.

use std::{borrow::Cow, sync::Arc};

use orchestra_wire::RawJson;

use crate::SkillDescriptor;

/// Everything one provider offers, in the order in which clients see it.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Tools, in a deterministic order (clients cache prompts by it).
    pub tools: Vec<ToolDescriptor>,
    /// Tools that the server has or had and that `tools` does not show. Without its prefix, the name of such a tool
    /// reaches no tool of another server.
    pub hidden_tools: Vec<HiddenTool>,
    /// Prompts.
    pub prompts: Vec<PromptDescriptor>,
    /// Concrete resources.
    pub resources: Vec<ResourceDescriptor>,
    /// Resource templates (RFC 6570).
    pub templates: Vec<TemplateDescriptor>,
    /// Skills (MCP extension `io.modelcontextprotocol/skills`), whose files are read as resources;
    /// `None` when the provider serves none, ever. Their `SKILL.md` may also stand among the
    /// resources.
    pub skills: Option<Vec<SkillDescriptor>>,
    /// Whether resources can be read that are neither listed nor fit a template, as those that
    /// results link to.
    pub reads_unlisted: bool,
    /// Guidance for the model, sent once at the start of a session.
    pub instructions: Option<String>,
    /// Catalogs that some clients see in the place of this one.
    pub of_clients: Vec<ClientCatalog>,
}

/// Names of a tool that a catalog does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenTool {
    /// Name with which clients call it.
    pub name: String,
    /// Name that its server gave it.
    pub own: String,
}

/// Catalog of clients to which a provider offers something of their own.
#[derive(Debug, Clone)]
pub struct ClientCatalog {
    /// Their numbers ([`Cx::connection`](crate::Cx::connection)).
    pub clients: Vec<u64>,
    /// Everything that the provider offers to them. Its own [`of_clients`](Catalog::of_clients) is not used.
    pub catalog: Arc<Catalog>,
}

/// How long a call may take, which decides where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cost {
    /// The first poll answers, or waits, within well under a millisecond: it runs in place.
    #[default]
    Quick,
    /// The call computes for longer: it runs on the blocking pool.
    Heavy,
}

/// Whether a call may go on after its request was answered, for a caller who comes back for the
/// result (in MCP: as a task).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LongWork {
    /// The caller waits for the result.
    #[default]
    Never,
    /// It goes on alone when its first poll does not answer and its caller knows how to come back.
    May,
    /// It goes on alone when its provider says so by [`Later`](crate::Later), as that of another
    /// server does, which knows only from its answer; until then its caller waits.
    Later,
    /// As `May`, and a caller who could know how and does not is refused: nobody waits so long.
    Must,
    /// As `Later`, and refused as `Must`.
    MustLater,
}

impl LongWork {
    /// The member of `_meta` by which a tool says in a list of the session era, which has no such
    /// tasks, that its calls may last.
    pub const META: &'static str = "orchestra/longWork";

    /// The value of [`META`](Self::META); `None` for a tool whose calls do not last.
    #[must_use]
    pub const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Never => None,
            Self::May | Self::Later => Some("may"),
            Self::Must | Self::MustLater => Some("must"),
        }
    }
}

/// MCP tool annotations: hints, never a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Annotations {
    /// The tool changes nothing.
    pub read_only: Option<bool>,
    /// The tool may destroy or overwrite.
    pub destructive: Option<bool>,
    /// Calling twice with the same arguments is the same as calling once.
    pub idempotent: Option<bool>,
    /// The tool reaches outside of its own domain.
    pub open_world: Option<bool>,
}

/// One tool.
#[derive(Debug, Clone)]
pub struct ToolDescriptor {
    /// Name, unique in the hub.
    pub name: String,
    /// Title for people.
    pub title: Option<String>,
    /// Description written for a model.
    pub description: Option<String>,
    /// JSON Schema of the arguments; an object schema.
    pub input_schema: RawJson,
    /// What the toolset `lean` shows in its place: the same without arguments that are seldom
    /// needed. Since those are taken all the same it has to be open (no `additionalProperties:
    /// false`), or a client that checks calls by what it was shown would refuse them. `None` where
    /// nothing is left out.
    pub lean_schema: Option<RawJson>,
    /// JSON Schema of the structured result.
    pub output_schema: Option<RawJson>,
    /// Hints.
    pub annotations: Annotations,
    /// The toolset group it belongs to, for instance `task` or `memory`; for the tool of another
    /// server, the name of that server.
    pub group: Cow<'static, str>,
    /// Where it may run.
    pub cost: Cost,
    /// Whether its calls may go on after their requests were answered.
    pub long: LongWork,
    /// The whole definition as another server gave it, an object. It is listed member by member as
    /// it came, unknown ones included, but for the name, and for what a revision has not.
    pub definition: Option<RawJson>,
}

impl ToolDescriptor {
    /// The name of the server of others whose tool it is; `None` for one of this program.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.definition.as_ref().map(|_| &*self.group)
    }
}

/// One prompt.
#[derive(Debug, Clone)]
pub struct PromptDescriptor {
    /// Name, unique in the hub.
    pub name: String,
    /// Title for people.
    pub title: Option<String>,
    /// What the prompt is for.
    pub description: Option<String>,
    /// Its arguments, all of them text.
    pub arguments: Vec<PromptArgument>,
    /// As [`ToolDescriptor::definition`].
    pub definition: Option<RawJson>,
}

/// One argument of a prompt.
#[derive(Debug, Clone)]
pub struct PromptArgument {
    /// Name.
    pub name: String,
    /// What it means.
    pub description: Option<String>,
    /// Whether it must be given.
    pub required: bool,
}

/// One concrete resource.
#[derive(Debug, Clone)]
pub struct ResourceDescriptor {
    /// Its URI.
    pub uri: String,
    /// Programmatic name.
    pub name: String,
    /// Title for people.
    pub title: Option<String>,
    /// What it holds.
    pub description: Option<String>,
    /// Media type of the contents.
    pub mime_type: Option<String>,
    /// As [`ToolDescriptor::definition`].
    pub definition: Option<RawJson>,
}

/// One resource template.
#[derive(Debug, Clone)]
pub struct TemplateDescriptor {
    /// URI template (RFC 6570). `{name}` stands for one path segment; the expressions of higher
    /// levels stand for any text.
    pub uri_template: String,
    /// Programmatic name.
    pub name: String,
    /// Title for people.
    pub title: Option<String>,
    /// What the resources hold.
    pub description: Option<String>,
    /// Media type of all resources that match.
    pub mime_type: Option<String>,
    /// As [`ToolDescriptor::definition`].
    pub definition: Option<RawJson>,
}
