//! The table of what clients accept: each member of a definition or result that the official SDKs
//! check, with the form that all of them take.
//!
//! Sources: `src/types.ts` of the TypeScript SDK 1.29, `rev2025-11-25` and `rev2026-07-28` of its
//! second generation, the models of the Python SDK, and the types of the SDKs for Go, Java, Kotlin,
//! C#, Swift, Ruby and PHP.

use orchestra_wire::RawJson;

use super::{Fixed, Notes, Repairable, blocks, icons, questions, schema};

/// Form of a value.
pub(super) enum Shape {
    Any,
    Text,
    Flag,
    /// A flag that may be written as text or as a number.
    Truth,
    Number,
    /// A number from 0 to 1.
    Fraction,
    Integer,
    /// A text or an integer.
    Token,
    /// A date and time with an offset.
    Time,
    Word(&'static [&'static str]),
    /// An array; elements that do not fit are left out.
    List(&'static Self),
    /// An object with members of any name.
    Map(&'static Self),
    /// An object; members that are not in the table are preserved.
    Object(&'static [&'static [Member]]),
    By(fn(&RawJson, &mut Notes<'_>) -> Fixed),
}

/// A member of an object.
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) need: Need,
}

/// What follows where a member is missing or does not fit.
#[derive(Clone, Copy)]
pub(super) enum Need {
    Optional,
    /// The object is of no use without it.
    Required,
    /// This JSON takes its place.
    Default(&'static str),
}

impl Shape {
    /// The form in words.
    pub(super) const fn expected(&self) -> &'static str {
        match self {
            Self::Any => "a value",
            Self::Text => "text",
            Self::Flag | Self::Truth => "true or false",
            Self::Number => "a number",
            Self::Fraction => "a number from 0 to 1",
            Self::Integer => "an integer",
            Self::Token => "text or an integer",
            Self::Time => "a date and time with an offset",
            Self::Word(_) => "a known value",
            Self::List(_) => "an array",
            Self::Map(_) => "an object",
            Self::Object(_) => "an object with the members that it needs",
            Self::By(_) => "of a form that clients accept",
        }
    }
}

/// The shape of each kind.
pub(super) const fn of(kind: Repairable) -> &'static Shape {
    match kind {
        Repairable::Tool => &TOOL,
        Repairable::Prompt => &PROMPT,
        Repairable::Resource => &Shape::By(blocks::resource),
        Repairable::Template => &Shape::By(blocks::template),
        Repairable::ToolResult => &Shape::By(blocks::tool_result),
        Repairable::PromptResult => &Shape::By(blocks::prompt_result),
        Repairable::ResourceResult => &Shape::By(blocks::resource_result),
        Repairable::Completion => &Shape::By(blocks::completion),
        Repairable::Elicitation => &Shape::By(questions::elicitation),
        Repairable::Sampling => &Shape::By(questions::sampling),
    }
}

pub(super) const fn optional(name: &'static str, shape: Shape) -> Member {
    let need = Need::Optional;
    Member { name, shape, need }
}

pub(super) const fn required(name: &'static str, shape: Shape) -> Member {
    let need = Need::Required;
    Member { name, shape, need }
}

pub(super) const fn defaulted(name: &'static str, shape: Shape, default: &'static str) -> Member {
    let need = Need::Default(default);
    Member { name, shape, need }
}

pub(super) static ANY: Shape = Shape::Any;

pub(super) const META: Shape = Shape::Object(&[&[
    optional("progressToken", Shape::Token),
    optional(
        "io.modelcontextprotocol/related-task",
        Shape::Object(&[&[required("taskId", Shape::Text)]]),
    ),
]]);

static ICON_SIZE: Shape = Shape::By(icons::size);

static ICON: Shape = Shape::Object(&[&[
    required("src", Shape::By(icons::source)),
    optional("mimeType", Shape::Text),
    optional("sizes", Shape::List(&ICON_SIZE)),
    optional("theme", Shape::Word(&["light", "dark"])),
]]);

/// Members that tools, prompts, resources and templates share.
static SHOWN: &[Member] = &[
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("icons", Shape::List(&ICON)),
    optional("_meta", Shape::Map(&ANY)),
];

pub(super) static TOOL: Shape = Shape::Object(&[
    SHOWN,
    &[
        required("name", Shape::Text),
        defaulted(
            "inputSchema",
            Shape::By(schema::input),
            "{\"type\":\"object\"}",
        ),
        optional("outputSchema", Shape::By(schema::output)),
        optional("annotations", TOOL_ANNOTATIONS),
        optional("execution", TOOL_EXECUTION),
    ],
]);

const TOOL_ANNOTATIONS: Shape = Shape::Object(&[&[
    optional("title", Shape::Text),
    optional("readOnlyHint", Shape::Flag),
    optional("destructiveHint", Shape::Flag),
    optional("idempotentHint", Shape::Flag),
    optional("openWorldHint", Shape::Flag),
]]);

const TOOL_EXECUTION: Shape = Shape::Object(&[&[optional(
    "taskSupport",
    Shape::Word(&["required", "optional", "forbidden"]),
)]]);

static PROMPT: Shape = Shape::Object(&[
    SHOWN,
    &[
        required("name", Shape::Text),
        optional("arguments", Shape::List(&PROMPT_ARGUMENT)),
    ],
]);

static PROMPT_ARGUMENT: Shape = Shape::Object(&[&[
    required("name", Shape::By(blocks::filled)),
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("required", Shape::Truth),
]]);

/// Members that resources, their templates and links to them share.
static RESOURCE_MEMBERS: &[Member] = &[
    required("name", Shape::By(blocks::filled)),
    optional("mimeType", Shape::Text),
    optional("annotations", ANNOTATIONS),
];

pub(super) static RESOURCE: Shape = Shape::Object(&[
    SHOWN,
    RESOURCE_MEMBERS,
    &[
        required("uri", Shape::By(blocks::uri)),
        optional("size", Shape::Integer),
    ],
]);

pub(super) static TEMPLATE: Shape = Shape::Object(&[
    SHOWN,
    RESOURCE_MEMBERS,
    &[required("uriTemplate", Shape::By(blocks::uri_template))],
]);

const ANNOTATIONS: Shape = Shape::Object(&[&[
    optional("audience", Shape::List(&ROLE)),
    optional("priority", Shape::Fraction),
    optional("lastModified", Shape::Time),
]]);

static ROLE: Shape = Shape::Word(&["user", "assistant"]);

/// Members that all content blocks share.
static BLOCK: &[Member] = &[
    optional("annotations", ANNOTATIONS),
    optional("_meta", Shape::Map(&ANY)),
];

/// Members of other blocks than the one at hand. Some clients read every block as one type that has them all. Where a
/// block has a member itself, the first entry counts.
static OF_OTHER_BLOCKS: &[Member] = &[
    optional("text", Shape::Text),
    optional("data", Shape::By(blocks::base64)),
    optional("mimeType", Shape::Text),
    optional("resource", Shape::By(blocks::contents)),
    optional("uri", Shape::Text),
    optional("name", Shape::Text),
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("icons", Shape::List(&ICON)),
    optional("size", Shape::Integer),
    optional("id", Shape::Text),
    optional("toolUseId", Shape::Text),
    optional("input", Shape::Map(&ANY)),
    optional("isError", Shape::Flag),
];

pub(super) static TEXT_BLOCK: Shape = Shape::Object(&[
    BLOCK,
    &[
        required("type", Shape::Text),
        defaulted("text", Shape::By(blocks::textual), "\"\""),
    ],
    OF_OTHER_BLOCKS,
]);

pub(super) static MEDIA_BLOCK: Shape = Shape::Object(&[
    BLOCK,
    &[
        required("type", Shape::Text),
        required("data", Shape::By(blocks::base64)),
        defaulted("mimeType", Shape::Text, "\"application/octet-stream\""),
    ],
    OF_OTHER_BLOCKS,
]);

pub(super) static RESOURCE_BLOCK: Shape = Shape::Object(&[
    BLOCK,
    &[
        required("type", Shape::Text),
        required("resource", Shape::By(blocks::contents)),
    ],
    OF_OTHER_BLOCKS,
]);

pub(super) static LINK_BLOCK: Shape = Shape::Object(&[
    SHOWN,
    RESOURCE_MEMBERS,
    &[
        required("type", Shape::Text),
        required("uri", Shape::By(blocks::uri)),
        optional("size", Shape::Integer),
    ],
    OF_OTHER_BLOCKS,
]);

pub(super) static TEXT_CONTENTS: Shape =
    Shape::Object(&[CONTENTS, &[required("text", Shape::By(blocks::textual))]]);

pub(super) static BLOB_CONTENTS: Shape =
    Shape::Object(&[CONTENTS, &[required("blob", Shape::By(blocks::base64))]]);

static CONTENTS: &[Member] = &[
    required("uri", Shape::By(blocks::uri)),
    optional("mimeType", Shape::Text),
    optional("_meta", Shape::Map(&ANY)),
];

pub(super) static TOOL_RESULT: Shape = Shape::Object(&[
    RESULT,
    &[
        defaulted("content", Shape::By(blocks::blocks), "[]"),
        optional("structuredContent", Shape::By(schema::not_null)),
        optional("isError", Shape::By(super::failed)),
    ],
]);

pub(super) static PROMPT_RESULT: Shape = Shape::Object(&[
    RESULT,
    &[
        optional("description", Shape::Text),
        defaulted("messages", Shape::By(blocks::messages), "[]"),
    ],
]);

pub(super) static RESOURCE_RESULT: Shape = Shape::Object(&[
    RESULT,
    &[defaulted("contents", Shape::By(blocks::all_contents), "[]")],
]);

pub(super) static COMPLETION: Shape = Shape::Object(&[
    RESULT,
    &[defaulted(
        "completion",
        Shape::By(blocks::completed),
        "{\"values\":[]}",
    )],
]);

pub(super) static COMPLETED: Shape = Shape::Object(&[&[
    defaulted("values", Shape::By(blocks::values), "[]"),
    optional("total", Shape::Integer),
    optional("hasMore", Shape::Truth),
]]);

/// Members that all results share.
static RESULT: &[Member] = &[
    optional("_meta", META),
    optional("ttlMs", Shape::By(blocks::time_to_live)),
    optional("cacheScope", Shape::Word(&["public", "private"])),
];
