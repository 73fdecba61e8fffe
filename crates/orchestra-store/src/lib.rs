//! The durable board: an SQLite database that programs work on, and readable files that people and
//! git see; each can be rebuilt from the other.
//!
//! [`Store`] is the door: [`Store::submit`] hands an [`Action`] to the one writer of the process,
//! [`Store::read`] answers in place from a snapshot, [`Store::changes`] tells what changed, whoever
//! changed it. What is allowed is decided by `orchestra-board`; nothing here knows of protocols.

mod action;
mod clock;
mod convert;
mod db;
mod doctor;
mod document;
mod error;
mod exchange;
mod files;
mod home;
mod import;
mod io;
mod linked;
mod merge;
mod notice;
mod page;
mod place_check;
mod pulse;
mod queue;
mod reader;
mod readme;
mod record;
mod redact;
mod rows;
mod shared;
mod store;
mod toon;
mod uid;
mod wait;
mod watch;
mod words;
mod writer;
mod writing;

pub use action::{
    Action, ChunkPatch, Made, NewChunk, NewHookEvent, NewSession, NewSessionEvent, Receipt,
    Reindex, Reindexed, Submission,
};
pub use clock::{Clock, SystemClock};
pub use convert::{CheckoutCopy, clear_shared, copy_to_checkout, has_own_database, own_database};
pub use doctor::{DoctorError, Fix, Report};
pub use document::{
    Detail, Document, DocumentDirectory, DocumentEntry, DocumentError, DocumentPath,
    DocumentPathError, DocumentRefusal, Expected, Glob, GlobError, Metadata, MetadataError,
    NewDocument,
};
pub use error::{ActionError, Fault, OpenError, ReadError};
pub use exchange::{
    BoardChanges, BoardFiles, BoardSnapshot, BoardVersion, Effect, ExchangeError, Exchanged,
    LastExchange, changes_between, files_to_parse,
};
pub use files::FilesError;
pub use home::{Home, SharedHome};
pub use import::{ImportError, Imported};
pub use io::{Entry, EntryKind, FileIo, RealFs, Stat};
pub use linked::BoardSize;
pub use notice::{ChangeNotice, What};
pub use page::{Cursor, CursorError, Page, PageRequest};
pub use place_check::HomeCheck;
pub use reader::{
    MemoryChanges, MemoryFilter, MemoryPlace, Reader, Recall, Recalled, Remembered, WantedWord,
    forms_of, rarity,
};
pub use record::{
    Census, Chunk, ChunkFilter, ChunkId, ChunkIdError, ContextItem, Hit, HookEventRecord,
    IssueFilter, IssueRecord, Life, MemorySize, NextRecord, PhaseRecord, PlanRecord, ProjectRecord,
    SessionEvent, SessionRecord, UsageDay, UsageOfRecord, UsageRecord, UsageRequest,
    UsageSessionRecord, UsageSums, Waiting,
};
pub use store::{CloseWatch, GivenUp, Options, Store, accept, give_up};
pub use toon::{FileError, FileFault};
pub use words::{stem, words_of};
