//! One look at all skills of the workspace, within bounds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use orchestra_hub::{
    MAX_SKILL_BYTES, MAX_SKILL_FILES, Sha256Digest, SkillDescriptor, SkillError, SkillFile,
    is_skill_name,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::front::FrontError;
use super::tree::{Kind, MAX_FILE_BYTES, Opened, Stamp, Tree, directory_in, file_in, names_in};
use super::{ENTRY, Place, SCHEME, contents, front};

/// The most names that are looked at in the directory of all skills.
const MAX_NAMES: usize = 1_024;
/// The most skills of a workspace, those inside of others not counted.
const MAX_SKILLS: usize = 256;
/// The most files and directories of all skills.
const MAX_PLACES: usize = 8_192;
/// The most bytes of all skills.
const MAX_BYTES: u64 = 128 * 1024 * 1024;
/// How deep directories of a skill may lie inside of each other.
const MAX_DEPTH: usize = 16;

/// How long after a file's last change its digest may be kept, in seconds: file systems with the
/// coarsest clocks tell two changes within this time by nothing.
const GRAIN: i64 = 3;

/// What was read before.
pub(super) type Known = HashMap<Stamp, (Sha256Digest, &'static str)>;

/// Directories, by the names that lead to them.
pub(crate) type Directories = BTreeSet<Vec<String>>;

/// What a look has found.
#[derive(Default)]
pub(super) struct Scan {
    pub(super) skills: Vec<SkillDescriptor>,
    pub(super) places: HashMap<String, Place>,
    /// What is not served, and why.
    pub(super) problems: BTreeSet<String>,
    /// The same of skills alone, by the URI that their `SKILL.md` would have.
    pub(super) broken: HashMap<String, String>,
    /// The directories where a change may matter: names, below the one of all skills.
    pub(super) directories: Directories,
    pub(super) known: Known,
    before: Known,
    deadline: Option<Instant>,
    visited: usize,
    bytes: u64,
}

/// The files of one skill, and the front matter of each `SKILL.md` in it, by directory.
#[derive(Default)]
struct Walk {
    files: Vec<(Vec<String>, SkillFile)>,
    fronts: BTreeMap<Vec<String>, Result<Map<String, Value>, FrontError>>,
    bytes: u64,
}

/// Why a skill is not served.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Front(#[from] FrontError),
    #[error(transparent)]
    Skill(#[from] SkillError),
    #[error("the name of a file is not UTF-8: {0}")]
    Name(String),
    #[error("the workspace has more than {MAX_SKILLS} skills; remove some of them")]
    Many,
    #[error("the directories of the skill are nested more than {MAX_DEPTH} deep")]
    Deep,
    #[error("{0} has more than {MAX_FILE_BYTES} bytes")]
    LargeFile(String),
    #[error(
        "the skills before this one reach the limit for all skills together: {MAX_PLACES} files and directories, or {MAX_BYTES} bytes; remove skills that are not needed"
    )]
    Full,
    #[error("cannot read {0}: {kind}", kind = .1.kind())]
    Read(String, io::Error),
    #[error("the scan reached its time limit before it read this skill")]
    Late,
}

impl Scan {
    /// Looks at all skills of a workspace, or, past a deadline, at those for which there was time.
    /// What `known` says is not read again.
    pub(super) fn of(workspace: &Path, known: Known, deadline: Option<Instant>) -> Self {
        let mut scan = Self {
            before: known,
            deadline,
            ..Self::default()
        };
        if let Err(error) = scan.run(workspace) {
            let kind = error.kind();
            scan.problems
                .insert(format!("cannot read .claude/skills: {kind}"));
        }
        scan.before = Known::default();
        scan
    }

    fn run(&mut self, workspace: &Path) -> io::Result<()> {
        let Some(tree) = Tree::open(workspace)? else {
            return Ok(());
        };
        let Some(names) = names_in(tree.home(), MAX_NAMES)? else {
            self.problems
                .insert(format!(".claude/skills has more than {MAX_NAMES} entries"));
            return Ok(());
        };
        self.directories.insert(Vec::new());
        let mut count = 0;
        for (name, kind, _) in names {
            if name.starts_with('.') || kind == Kind::File {
                continue;
            }
            let path = [name];
            if kind == Kind::Other {
                self.problem(&path, &"it is a link, which is not followed");
                continue;
            }
            match self.top(&tree, &path, &mut count) {
                Ok(()) => {}
                Err(Broken::Late) => break,
                Err(broken) => self.problem(&path, &broken),
            }
        }
        Ok(())
    }

    /// A directory right below that of all skills.
    fn top(&mut self, tree: &Tree, path: &[String; 1], count: &mut usize) -> Result<(), Broken> {
        let [name] = path;
        let read = |error| Broken::Read(name.clone(), error);
        let Some(directory) = directory_in(tree.home(), name).map_err(read)? else {
            return Ok(());
        };
        self.directories.insert(path.to_vec());
        // A directory without a SKILL.md is no skill, and nothing is wrong with it.
        let entry = file_in(&directory, ENTRY);
        if entry.map_err(read)?.is_none() {
            return Ok(());
        }
        if *count == MAX_SKILLS {
            return Err(Broken::Many);
        }
        *count += 1;
        self.skill(name, &directory)
    }

    fn problem(&mut self, path: &[String], problem: &dyn std::fmt::Display) {
        let name = path.join("/");
        let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
        self.problems.insert(format!("{shown}: {problem}"));
        let entry = format!("{}/{ENTRY}", uri(path));
        self.broken.insert(entry, problem.to_string());
    }

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// One skill with those inside of it.
    fn skill(&mut self, name: &str, directory: &OwnedFd) -> Result<(), Broken> {
        if !is_skill_name(name) {
            return Err(SkillError::Name.into());
        }
        let mut walk = Walk::default();
        self.walk(&mut walk, directory, &[name.to_owned()])?;
        let mut skills = Vec::new();
        for (path, front) in std::mem::take(&mut walk.fronts) {
            let is_inner = path.len() > 1;
            match front
                .map_err(Broken::from)
                .and_then(|front| walk.descriptor(&path, &front))
            {
                Ok(skill) => skills.push(skill),
                // It is still a file of the skill around it.
                Err(broken) if is_inner => self.problem(&path, &broken),
                Err(broken) => return Err(broken),
            }
        }
        self.skills.append(&mut skills);
        let places = walk.files.into_iter();
        self.places
            .extend(places.map(|(path, file)| (file.uri, Place::File(path))));
        Ok(())
    }

    /// All files of a directory and below it; `path` leads to it.
    fn walk(
        &mut self,
        walk: &mut Walk,
        directory: &OwnedFd,
        path: &[String],
    ) -> Result<(), Broken> {
        if path.len() > MAX_DEPTH {
            return Err(Broken::Deep);
        }
        self.directories.insert(path.to_vec());
        let read = |error| Broken::Read(path.join("/"), error);
        let left = MAX_PLACES.saturating_sub(self.visited);
        let names = names_in(directory, left)
            .map_err(read)?
            .ok_or(Broken::Full)?;
        self.visited += names.len();
        for (name, kind, is_text) in names {
            // Editors, systems and version control keep their own there.
            if name.starts_with('.') || kind == Kind::Other {
                continue;
            }
            let path: Vec<String> = path.iter().cloned().chain([name]).collect();
            let Some(name) = path.last().filter(|_| is_text) else {
                return Err(Broken::Name(path.join("/").escape_debug().to_string()));
            };
            let read = |error| Broken::Read(path.join("/"), error);
            if kind == Kind::Directory {
                if let Some(inner) = directory_in(directory, name).map_err(read)? {
                    self.walk(walk, &inner, &path)?;
                }
            } else if let Some(opened) = file_in(directory, name).map_err(read)? {
                self.file(walk, opened, path)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, walk: &mut Walk, opened: Opened, path: Vec<String>) -> Result<(), Broken> {
        let stamp = opened.stamp;
        if stamp.size > MAX_FILE_BYTES {
            return Err(Broken::LargeFile(path.join("/")));
        }
        if walk.files.len() == MAX_SKILL_FILES {
            return Err(SkillError::TooMany.into());
        }
        let name = path.last().map(String::as_str).unwrap_or_default();
        let before = self.before.get(&stamp).filter(|_| name != ENTRY).copied();
        let (digest, mime_type, size) = match before {
            Some((digest, mime_type)) => (digest, mime_type, stamp.size),
            None if self.is_late() => return Err(Broken::Late),
            None => {
                let now = SystemTime::now();
                let bytes = opened.read();
                let bytes = bytes.map_err(|error| Broken::Read(path.join("/"), error))?;
                if name == ENTRY {
                    let directory = path[..path.len() - 1].to_vec();
                    walk.fronts.insert(directory, front::parse(&bytes));
                }
                let mime_type = contents::mime_type(name, &bytes);
                let digest = Sha256Digest::of(&bytes);
                if is_settled(stamp, now) && bytes.len() as u64 == stamp.size {
                    self.known.insert(stamp, (digest, mime_type));
                }
                (digest, mime_type, bytes.len() as u64)
            }
        };
        if before.is_some() {
            self.known.insert(stamp, (digest, mime_type));
        }
        walk.bytes += size;
        self.bytes += size;
        if walk.bytes > MAX_SKILL_BYTES {
            return Err(SkillError::TooLarge.into());
        }
        if self.bytes > MAX_BYTES {
            return Err(Broken::Full);
        }
        let file = SkillFile {
            uri: uri(&path),
            digest,
            size,
            mime_type: Some(mime_type.to_owned()),
        };
        walk.files.push((path, file));
        Ok(())
    }
}

impl Walk {
    /// The skill in the directory `path`.
    fn descriptor(
        &self,
        path: &[String],
        front: &Map<String, Value>,
    ) -> Result<SkillDescriptor, Broken> {
        let inside = self.files.iter().filter(|(file, _)| file.starts_with(path));
        let files = inside.map(|(_, file)| file.clone()).collect();
        Ok(SkillDescriptor::new(&uri(path), front, files)?)
    }
}

/// Whether a later change of the file will show in its stamp.
fn is_settled(stamp: Stamp, now: SystemTime) -> bool {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    stamp.changed.0.saturating_add(GRAIN) < now
}

/// Bytes that are escaped in a segment of a URI (RFC 3986, section 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The URI of a path.
fn uri(path: &[String]) -> String {
    let names = path
        .iter()
        .map(|name| utf8_percent_encode(name, ESCAPED).to_string());
    format!("{SCHEME}{}", names.collect::<Vec<_>>().join("/"))
}
