//! Results of the skills extension.

use orchestra_hub::SkillAnswer;
use orchestra_wire::Rope;

use super::{Caching, Results, next_cursor};
use crate::cursor::Paged;

/// The extension as a member of the extensions.
pub(super) const EXTENSION: &[u8] = b"\"io.modelcontextprotocol/skills\":{\"directoryRead\":true}";

impl Results<'_> {
    pub(super) fn skills(self, rope: &mut Rope, answer: SkillAnswer) {
        self.head(rope);
        match answer {
            SkillAnswer::List(items, next) => {
                rope.push(b"\"skills\":[");
                rope.push_body(items);
                rope.push_byte(b']');
                next_cursor(rope, Paged::Skills, next);
                self.tail(rope, &Caching::List, None);
            }
            SkillAnswer::Entry(entry) => {
                rope.push(b"\"skill\":");
                rope.push_body(entry);
                // Its client asks because it wants to know how the skill is now.
                self.tail(rope, &Caching::Resource, None);
            }
            SkillAnswer::Directory(items, next) => {
                rope.push(b"\"resources\":[");
                rope.push_body(items);
                rope.push_byte(b']');
                next_cursor(rope, Paged::Directory, next);
                self.tail(rope, &Caching::No, None);
            }
        }
    }
}
