//! What jobs print: kept byte-exact and bounded, as lines that can be read and followed.
//!
//! Each attempt of a job has a directory. In it lies, for each run of a phase, what the command
//! printed, byte for byte but for secrets ([`Raw`]), and for the attempt as a whole its lines with
//! their time, number, phase and stream ([`Lines`]), one JSON object a line. Both keep their head and
//! their tail within a bound and leave out what is between, so that a flood costs neither disk nor
//! memory: the head is one file, the tail a row of files of which the oldest goes when a new one is
//! begun. Nothing is synced; what a machine that stops has not yet written is lost.
//!
//! Two write lines at the same time: the supervisor of a command, and the runner, whose lines say
//! which phase began, ended and why. Each takes the lock of the file for one batch, sees by its length
//! whether the other has written since, takes the next number, and appends the batch in one write.

mod collect;
mod follow;
mod line;
mod raw;
mod read;
mod segments;
mod write;

pub(crate) use raw::raw_length;
pub(crate) use write::now;

pub use collect::{Collected, Kept, Policy, collect, remove, to_remove};
pub use follow::Follower;
pub use line::{Line, MAX_LINE_BYTES, Splitter, Stream};
pub use raw::{Raw, RawContent, raw_content};
pub use read::{MAX_PAGE, Page, Query, last_line, read};
pub use segments::Bounds;
pub use write::{Lines, Source};
