//! The methods of the skills extension (SEP-2640). They are calls, because what there is may have
//! to be looked at first; the hub answers them.

use orchestra_hub::{SkillQuery, Target};
use orchestra_wire::{Method, RpcError};

use super::{
    Connection, Handled,
    calls::NewCall,
    requests::{Parsed, start_of},
    targets::text,
};
use crate::cursor::Paged;

impl Connection {
    /// Whether a method is served as far as extensions go; where it is not, it is a method like
    /// any other that we do not know.
    pub(super) fn has_extension_of(&self, method: Method) -> bool {
        match method {
            Method::SkillsList | Method::SkillsGet | Method::DirectoryRead => {
                self.attachment.offers().skills
            }
            _ => true,
        }
    }

    pub(super) fn skills(
        &mut self,
        method: Method,
        parsed: &mut Parsed<'_, '_>,
    ) -> Result<Handled, RpcError> {
        let limit = self.server.0.limits.page.get();
        let query = match method {
            Method::SkillsList => SkillQuery::List {
                start: start_of(parsed, Paged::Skills)?,
                limit,
            },
            Method::DirectoryRead => SkillQuery::Directory {
                uri: text(parsed.fields.uri, "uri")?,
                start: start_of(parsed, Paged::Directory)?,
                limit,
            },
            _ => SkillQuery::Get {
                uri: text(parsed.fields.uri, "uri")?,
            },
        };
        let call = NewCall {
            target: Target::Skills(query),
            answers: None,
        };
        self.enter(parsed, call)
    }
}
