//! Skills of the MCP extension `io.modelcontextprotocol/skills` (SEP-2640): what a provider says of
//! one, checked when it is made; and what is answered about all of them.

mod answer;
mod descriptor;

pub use answer::{SkillAnswer, SkillQuery};
pub(crate) use answer::{entry, route};
pub use descriptor::{
    MAX_SKILL_BYTES, MAX_SKILL_FILES, Sha256Digest, SkillDescriptor, SkillError, SkillFile,
    is_skill_name,
};
