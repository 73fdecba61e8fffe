//! Parameters of the questions that servers ask of clients: elicitation and sampling.

use orchestra_wire::RawJson;

use super::{
    Fixed, Notes, Object, array,
    blocks::{
        block, each, in_words, is_role, role, text_block, textual, with_member, without_member,
    },
    fix, integer, is_text, items,
    shapes::{ANY, META, Member, Shape, TOOL, defaulted, optional, required},
    text,
};

static TEXT: Shape = Shape::Text;
static FIELD: Shape = Shape::By(field);

const MESSAGE: Member = defaulted("message", Shape::By(textual), "\"\"");

static FORM: Shape = Shape::Object(&[&[
    optional("mode", Shape::Word(&["form"])),
    MESSAGE,
    defaulted(
        "requestedSchema",
        REQUESTED,
        "{\"type\":\"object\",\"properties\":{}}",
    ),
    optional("task", Shape::Map(&ANY)),
    optional("_meta", META),
]]);

static PAGE: Shape = Shape::Object(&[&[
    defaulted("mode", Shape::Word(&["url"]), "\"url\""),
    MESSAGE,
    required("url", Shape::Text),
    defaulted("elicitationId", Shape::By(textual), "\"\""),
    optional("task", Shape::Map(&ANY)),
    optional("_meta", META),
]]);

const REQUESTED: Shape = Shape::Object(&[&[
    optional("$schema", Shape::Text),
    defaulted("type", Shape::Word(&["object"]), "\"object\""),
    defaulted("properties", Shape::Map(&FIELD), "{}"),
    optional("required", Shape::List(&TEXT)),
]]);

/// Members that all fields of a form share.
static SHOWN: &[Member] = &[
    optional("title", Shape::Text),
    optional("description", Shape::Text),
];

static TEXT_FIELD: Shape = Shape::Object(&[
    SHOWN,
    &[
        optional("minLength", Shape::Integer),
        optional("maxLength", Shape::Integer),
        // Clients know no `password`. The check for secrets does, and it comes after the repair.
        optional(
            "format",
            Shape::Word(&["email", "uri", "date", "date-time", "password"]),
        ),
        optional("enum", Shape::List(&TEXT)),
        optional("enumNames", Shape::List(&TEXT)),
        optional("default", Shape::Text),
    ],
]);

static NUMBER_FIELD: Shape = Shape::Object(&[
    SHOWN,
    &[
        optional("minimum", Shape::Number),
        optional("maximum", Shape::Number),
        optional("default", Shape::Number),
    ],
]);

static FLAG_FIELD: Shape = Shape::Object(&[SHOWN, &[optional("default", Shape::Truth)]]);

static LIST_FIELD: Shape = Shape::Object(&[
    SHOWN,
    &[
        optional("minItems", Shape::Integer),
        optional("maxItems", Shape::Integer),
        optional("default", Shape::List(&TEXT)),
    ],
]);

static SAMPLING: Shape = Shape::Object(&[&[
    defaulted("messages", Shape::By(messages), "[]"),
    defaulted("maxTokens", Shape::By(whole), "1024"),
    optional("modelPreferences", PREFERENCES),
    optional("systemPrompt", Shape::Text),
    optional(
        "includeContext",
        Shape::Word(&["none", "thisServer", "allServers"]),
    ),
    optional("temperature", Shape::By(number)),
    optional("stopSequences", Shape::By(texts)),
    optional("metadata", Shape::Map(&ANY)),
    optional("tools", Shape::List(&TOOL)),
    optional("toolChoice", TOOL_CHOICE),
    optional("task", Shape::Map(&ANY)),
    optional("_meta", META),
]]);

const PREFERENCES: Shape = Shape::Object(&[&[
    optional("hints", Shape::List(&HINT)),
    optional("costPriority", Shape::Fraction),
    optional("speedPriority", Shape::Fraction),
    optional("intelligencePriority", Shape::Fraction),
]]);

static HINT: Shape = Shape::Object(&[&[optional("name", Shape::Text)]]);

const TOOL_CHOICE: Shape =
    Shape::Object(&[&[optional("mode", Shape::Word(&["auto", "required", "none"]))]]);

/// Parameters of `elicitation/create`.
pub(super) fn elicitation(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let mode = value.member("mode");
    let is_page = match mode.as_ref().and_then(text) {
        Some(mode) => mode.eq_ignore_ascii_case("url"),
        None => {
            value.member("requestedSchema").is_none()
                && value.member("url").as_ref().is_some_and(is_text)
        }
    };
    match is_page {
        true => fix(&PAGE, value, notes),
        false => fix(&FORM, value, notes),
    }
}

/// A field of a form. One of an unknown type is left as it is: the check of forms refuses it.
fn field(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let kind = value.member("type");
    let shape = match kind.as_ref().and_then(text).as_deref() {
        Some("string") => &TEXT_FIELD,
        Some("number" | "integer") => &NUMBER_FIELD,
        Some("boolean") => &FLAG_FIELD,
        Some("array") => &LIST_FIELD,
        _ if value.members().is_none() => return Fixed::Gone,
        _ => return Fixed::Same,
    };
    fix(shape, value, notes)
}

/// Parameters of `sampling/createMessage`. A client that calls no tools is asked where none are named.
pub(super) fn sampling(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let fixed = fix(&SAMPLING, value, notes);
    let result = match &fixed {
        Fixed::Same => value,
        Fixed::Other(other) => other,
        Fixed::Gone => return fixed,
    };
    let tools = result.member("tools");
    let is_choice_alone = tools.is_none() && result.member("toolChoice").is_some();
    let has_no_tool = tools.is_some_and(|tools| items(&tools).is_some_and(|all| all.is_empty()));
    if !is_choice_alone && !has_no_tool {
        return fixed;
    }
    notes.within("tools", |notes| notes.add("has no tool: dropped"));
    let result = without_member(result, "tools");
    Fixed::Other(without_member(&result, "toolChoice"))
}

/// Messages for a model: an array, or one of them alone.
fn messages(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    each(value, notes, |item, notes| {
        let fixed = message(&item, notes);
        vec![(item, fixed)]
    })
}

fn message(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let Some(content) = value.member("content") else {
        notes.add("was no message: made one");
        if value.as_str() == "null" {
            return Fixed::Gone;
        }
        let content = value.member("text").unwrap_or_else(|| value.clone());
        let message = Object::default().with("role", &role(value));
        let message = message.with("content", &text_block(&in_words(&content)));
        return Fixed::Other(message.finish());
    };
    let fixed = notes.within("content", |notes| match items(&content) {
        Some(_) => each(&content, notes, |item, notes| {
            let fixed = sampled(&item, notes);
            vec![(item, fixed)]
        }),
        None => sampled(&content, notes),
    });
    let has_role = value.member("role").as_ref().is_some_and(is_role);
    let content = match fixed {
        Fixed::Same if has_role => return Fixed::Same,
        Fixed::Same => content,
        Fixed::Other(other) => other,
        Fixed::Gone => text_block(""),
    };
    let message = with_member(value, "content", &content);
    if has_role {
        return Fixed::Other(message);
    }
    notes.within("role", |notes| {
        notes.add("is none that clients accept: replaced");
    });
    Fixed::Other(with_member(&message, "role", &role(value)))
}

/// A content block for a model. It is no resource, and it may be the call of a tool or its result.
fn sampled(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    let is_of = |value: &RawJson, kinds: [&str; 2]| {
        let kind = value.member("type");
        kind.is_some_and(|kind| kinds.contains(&kind.as_str()))
    };
    if is_of(value, ["\"tool_use\"", "\"tool_result\""]) {
        return Fixed::Same;
    }
    let fixed = block(value, notes);
    let fitting = match &fixed {
        Fixed::Same => value,
        Fixed::Other(other) => other,
        Fixed::Gone => return fixed,
    };
    if !is_of(fitting, ["\"resource\"", "\"resource_link\""]) {
        return fixed;
    }
    notes.add("is no content for a model: made text");
    let inner = fitting.member("resource");
    let inner = inner.and_then(|inner| inner.member("text"));
    let inner = inner.as_ref().and_then(text);
    let words = inner.unwrap_or_else(|| in_words(fitting));
    Fixed::Other(text_block(&words))
}

/// Texts: an array, or one of them alone.
fn texts(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    if is_text(value) {
        notes.add("was no array: made one");
        return Fixed::Other(array(std::slice::from_ref(value)));
    }
    fix(&Shape::List(&TEXT), value, notes)
}

/// A number, which may be written as text.
fn number(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    of_text(value, notes, |value, notes| {
        fix(&Shape::Number, value, notes)
    })
}

/// An integer, which may be written as text.
fn whole(value: &RawJson, notes: &mut Notes<'_>) -> Fixed {
    of_text(value, notes, integer)
}

/// Fits a value, or the JSON that it has as text.
fn of_text(
    value: &RawJson,
    notes: &mut Notes<'_>,
    fit: impl FnOnce(&RawJson, &mut Notes<'_>) -> Fixed,
) -> Fixed {
    let Some(written) = text(value) else {
        return fit(value, notes);
    };
    let Ok(written) = RawJson::checked(written.trim().to_owned().into()) else {
        return Fixed::Gone;
    };
    match fit(&written, notes) {
        Fixed::Same => {
            notes.add("was text: made a number");
            Fixed::Other(written)
        }
        fixed => fixed,
    }
}
