//! JSON Schemas (draft 2020-12) of the arguments and results of tools. `cargo xtask
//! codegen` derives them from the structs; at run time they are only looked up.

#[cfg(test)]
pub(crate) mod derive;
mod generated;

use orchestra_wire::RawJson;

/// Types with a JSON Schema. Without the feature `schema`, every type has the trait: the program only
/// looks up generated schemas.
#[cfg(feature = "schema")]
pub(crate) trait HasSchema: schemars::JsonSchema {}
#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> HasSchema for T {}

#[cfg(not(feature = "schema"))]
pub(crate) trait HasSchema {}
#[cfg(not(feature = "schema"))]
impl<T> HasSchema for T {}

/// The schemas of one tool.
pub(crate) struct Schemas {
    tool: &'static str,
    /// Schema of all arguments, with no others allowed.
    input: &'static str,
    /// Schema without the arguments that are seldom needed, if there are any. It is open: a client
    /// that checks calls against the schema it was shown must not refuse an argument that the tool
    /// accepts. The tool itself refuses unknown arguments, and names all that it accepts.
    lean: Option<&'static str>,
    /// Schema of the structured result.
    output: &'static str,
}

impl Schemas {
    /// Returns the schemas of the tool with this name. Every tool has generated schemas; a new one
    /// shows empty ones until they are generated.
    pub(crate) fn of(tool: &str) -> &'static Self {
        const NONE: Schemas = Schemas {
            tool: "",
            input: r#"{"type":"object","properties":{}}"#,
            lean: None,
            output: r#"{"type":"object"}"#,
        };
        let at = generated::ALL.binary_search_by(|schemas| schemas.tool.cmp(tool));
        at.map_or(&NONE, |at| &generated::ALL[at])
    }

    pub(crate) const fn input(&self) -> RawJson {
        RawJson::from_static(self.input)
    }

    pub(crate) fn lean(&self) -> Option<RawJson> {
        self.lean.map(RawJson::from_static)
    }

    pub(crate) const fn output(&self) -> RawJson {
        RawJson::from_static(self.output)
    }
}
