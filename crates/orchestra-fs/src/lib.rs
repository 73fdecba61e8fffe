//! Files that hold state: replaced whole and durably, locked, never reached through a symbolic link.
//!
//! A [`Directory`] is an open directory. Its files are opened by their names relative to it, so replacing the
//! directory by a symbolic link meanwhile leads nowhere. A symbolic link in the place of a file is refused with an
//! [`Error`] that names it, and so are pipes, devices and directories.
//!
//! [`Directory::write`] replaces a file in one step: temporary file in the same directory, sync, rename, sync of
//! the directory. After a crash or a power failure the file has its old content or the new one.
//!
//! The functions that take a path open its directory first. Symbolic links above the last component are followed:
//! where another program can plant one, the caller walks down with [`Directory::below`].
//!
//! [`move_directory`] moves a directory whole, also into another file system. [`remove_tree`] removes one, whatever a
//! program has put into it.
//!
//! The content of a file can be hostile before a library reads it: [`check_yaml_depth`] and [`is_plain_table`] refuse
//! YAML and SQLite tables that take any time.
//!
//! A [`Tree`] finds the files below a directory that a command line names, and reads them for a fingerprint.

mod access;
mod accounts;
mod directory;
mod error;
mod folded;
mod holders;
mod linked;
mod lock;
mod moved;
mod name;
mod named;
mod path;
mod quoted;
mod staged;
mod table;
mod temporary;
mod tree_removal;
mod uri;
mod words;
mod yaml;

pub use access::Access;
pub use accounts::{is_alone_in, is_own, user_name};
pub use directory::Directory;
pub use error::{Error, Reason, Result};
pub use folded::folded;
pub use holders::{Holder, holders};
pub use linked::own_target;
pub use lock::{Lock, is_locked, is_shared};
pub use moved::move_directory;
pub use named::{Candidates, Code, Content, Entry, Tree, Unlisted};
pub use path::{
    append, create_new, make_private, open, open_or_create, publish, read, read_own, remove, stage,
    write,
};
pub use quoted::quoted;
pub use staged::Staged;
pub use table::is_plain_table;
pub use temporary::temporary_directory;
pub use tree_removal::remove_tree;
pub use uri::file_uri;
pub use words::{
    CodePaths, Loads, MAX_PATH_BYTES, MOVES, Parts, build_file_rules, build_files, command_words,
    directory_words, is_build_file, is_plain, is_plain_line, is_unclear, known_build_files,
    node_packages, parts, preloaded_modules, shell_lines, shell_words, spellings,
};
pub use yaml::{TooDeep, check_yaml_depth};
