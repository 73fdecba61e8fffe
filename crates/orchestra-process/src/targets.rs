//! Paths to which protected ones lead: targets of symbolic links, directories of a repository under another name, and
//! files that a configuration of git includes.
//!
//! A program that reads a protected path reads these as well, so a command must not change them either.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read as _},
    iter::Peekable,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use crate::links::{CONTENT, MAX_FILES, is_out_of_reach, too_many};

/// Largest file that holds a path or a configuration.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum number of symbolic links in a path, as in Linux.
const MAX_LINKS: usize = 40;

/// Files that hold the path of another directory of a repository: of git, Jujutsu and Mercurial.
const POINTERS: [&str; 4] = ["commondir", "git_target", "repo", "sharedpath"];

/// Configuration files in a git directory.
const CONFIGURATIONS: [&str; 2] = ["config", "config.worktree"];

/// Directories in a git directory that hold no settings.
const DATA: [&str; 3] = ["objects", "refs", "logs"];

/// Returns the paths below `writable` directories to which `protected` paths lead, without those at or below protected
/// ones. They may be absent.
///
/// # Errors
/// When there is too much to search, or a path cannot be read.
pub(crate) fn targets(writable: &[PathBuf], protected: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let is_below = |path: &Path, roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
    let mut search = Search::default();
    for path in protected {
        let (base, name) = parts(path);
        let top = (name == ".git").then(|| base.to_owned());
        search.add(path, Role::of(path), base, top.as_deref());
    }
    while let Some(item) = search.items.pop() {
        search.look(&item, |path| is_below(path, writable))?;
    }
    let found = search.found.into_iter();
    // A directory with all that the program may write protects nothing more.
    let is_root = |path: &PathBuf| writable.iter().any(|root| root.starts_with(path));
    let found = found
        .filter(|path| is_below(path, writable) && !is_below(path, protected) && !is_root(path));
    Ok(found.collect())
}

/// Meaning of a file, by the name at which programs read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    /// The file `.git` of a working tree.
    GitFile,
    Pointer,
    Configuration,
    Other,
}

impl Role {
    fn of(path: &Path) -> Self {
        let (directory, name) = parts(path);
        match () {
            () if name == ".git" => Self::GitFile,
            () if name == ".gitconfig" => Self::Configuration,
            () if POINTERS.iter().any(|pointer| name == *pointer) => Self::Pointer,
            () if CONFIGURATIONS.iter().any(|config| name == *config)
                && is_git_directory(directory) =>
            {
                Self::Configuration
            }
            () => Self::Other,
        }
    }
}

/// A path without symbolic links that is to be searched.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    path: PathBuf,
    role: Role,
    /// Directory to which paths in the file are relative.
    base: PathBuf,
    /// Top of the working tree, if it is known.
    top: Option<PathBuf>,
}

#[derive(Default)]
struct Search {
    items: Vec<Item>,
    seen: BTreeSet<Item>,
    found: BTreeSet<PathBuf>,
    files: usize,
}

impl Search {
    /// Adds the links of a path and the path to which they lead.
    fn add(&mut self, path: &Path, role: Role, base: &Path, top: Option<&Path>) {
        let (links, path) = follow(path);
        self.found.extend(links);
        self.found.insert(path.clone());
        // Without links and `..`, there are finitely many.
        let plain = |path| follow(path).1;
        let item = Item {
            path,
            role,
            base: plain(base),
            top: top.map(plain),
        };
        if self.seen.insert(item.clone()) {
            self.items.push(item);
        }
    }

    /// Searches a path and all below it. Outside of writable directories, only the settings of a repository matter.
    fn look(&mut self, item: &Item, is_writable: impl Fn(&Path) -> bool) -> Result<(), String> {
        let top = item.top.as_deref();
        let mut paths = vec![item.path.clone()];
        while let Some(path) = paths.pop() {
            let (directory, name) = parts(&path);
            if CONTENT.iter().any(|content| name == *content) {
                continue;
            }
            self.files += 1;
            if self.files > MAX_FILES {
                return Err(too_many());
            }
            let (role, base) = match path == item.path {
                true => (item.role, &*item.base),
                false => (Role::of(&path), directory),
            };
            let failed = |error: &io::Error| format!("cannot read `{}`: {error}", path.display());
            let kind = match fs::symlink_metadata(&path) {
                Err(error) if is_out_of_reach(&error) => continue,
                found => found.map_err(|error| failed(&error))?.file_type(),
            };
            if kind.is_symlink() {
                self.add(&path, role, base, top);
            } else if kind.is_file() && role != Role::Other {
                match read(&path) {
                    Err(error) if is_out_of_reach(&error) => {}
                    text => {
                        let text = text.map_err(|error| failed(&error))?;
                        self.read(&text, role, base, top);
                    }
                }
            } else if kind.is_dir() {
                match entries(&path, is_writable(&path)) {
                    Err(error) if is_out_of_reach(&error) => {}
                    names => paths.extend(names.map_err(|error| failed(&error))?),
                }
            }
        }
        Ok(())
    }

    /// Adds the paths that a file names.
    fn read(&mut self, text: &[u8], role: Role, base: &Path, top: Option<&Path>) {
        match role {
            Role::Other => {}
            Role::GitFile => {
                if let Some(target) = text.strip_prefix(b"gitdir: ") {
                    self.add(&base.join(line(target)), Role::Other, base, Some(base));
                }
            }
            Role::Pointer => self.add(&base.join(line(text)), Role::Other, base, top),
            Role::Configuration => self.configuration(text, base, top),
        }
    }

    fn configuration(&mut self, text: &[u8], base: &Path, top: Option<&Path>) {
        let values = values(text);
        let named = values.iter().filter(|it| it.is("core", b"worktree"));
        let named: Vec<PathBuf> = named.map(|it| it.below(base)).collect();
        let tops = named.iter().map(PathBuf::as_path).chain(top);
        let tops: Vec<&Path> = tops.collect();
        for value in &values {
            if value.is("include", b"path") || value.is("includeif", b"path") {
                let path = value.below(base);
                let (base, _) = parts(&path);
                self.add(&path, Role::Configuration, base, tops.first().copied());
            }
            if value.is("core", b"hookspath") || value.is("core", b"attributesfile") {
                for top in &tops {
                    self.add(&value.below(top), Role::Other, top, None);
                }
            }
        }
    }
}

/// Directory and name of a path.
fn parts(path: &Path) -> (&Path, &OsStr) {
    let directory = path.parent().unwrap_or(path);
    (directory, path.file_name().unwrap_or_default())
}

/// Returns whether a directory has entries of a git directory, or of the part that its worktrees share.
fn is_git_directory(path: &Path) -> bool {
    let is_there = |name| fs::symlink_metadata(path.join(name)).is_ok();
    is_there("HEAD") || is_there("objects")
}

/// Paths in a directory that are to be searched.
fn entries(directory: &Path, is_writable: bool) -> io::Result<Vec<PathBuf>> {
    if !is_writable {
        let names = POINTERS.iter().chain(&CONFIGURATIONS).chain(&["hooks"]);
        return Ok(names.map(|name| directory.join(name)).collect());
    }
    let is_git = is_git_directory(directory);
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_data = DATA.iter().any(|data| path.ends_with(data));
        if !(is_git && is_data) {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Reads a file. A larger one is refused, as git would read it.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = fs::File::open(path)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other(format!("more than {MAX_BYTES} bytes"))),
        false => Ok(text),
    }
}

/// The path that a file holds, without the end of its line.
fn line(text: &[u8]) -> &Path {
    let mut text = text;
    while let [rest @ .., b'\n' | b'\r'] = text {
        text = rest;
    }
    path(text)
}

/// Returns bytes as a path, which ends at a zero byte.
fn path(bytes: &[u8]) -> &Path {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Path::new(OsStr::from_bytes(bytes))
}

/// Follows a path as the system does. Returns the symbolic links in it, and where it leads. That is the first absent
/// entry of a path that leads nowhere: without it, nothing is below it.
fn follow(path: &Path) -> (Vec<PathBuf>, PathBuf) {
    let mut rest = reversed(path);
    let (mut at, mut links) = (PathBuf::from("/"), Vec::new());
    while let Some(name) = rest.pop() {
        match name.as_bytes() {
            b"." => {}
            b"/" => at = PathBuf::from("/"),
            b".." => {
                at.pop();
            }
            _ => {
                at.push(name);
                match fs::read_link(&at) {
                    Ok(target) if links.len() < MAX_LINKS => {
                        links.push(at.clone());
                        at.pop();
                        rest.extend(reversed(&target));
                    }
                    // An entry that is no link.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                    _ => break,
                }
            }
        }
    }
    (links, at)
}

fn reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().map(Component::as_os_str);
    let mut names: Vec<OsString> = names.map(OsStr::to_owned).collect();
    names.reverse();
    names
}

/// A value in the configuration of git.
struct Value {
    section: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Value {
    fn is(&self, section: &str, key: &[u8]) -> bool {
        self.section.trim_ascii() == section.as_bytes() && self.key.trim_ascii() == key
    }

    /// The value as a path that is relative to a directory.
    fn below(&self, directory: &Path) -> PathBuf {
        let value = &*self.value;
        let value = value.strip_prefix(b":(optional)").unwrap_or(value);
        match value.strip_prefix(b"~/") {
            Some(rest) => {
                let home = std::env::home_dir().unwrap_or_else(|| directory.to_owned());
                home.join(path(rest))
            }
            None => directory.join(path(value)),
        }
    }
}

/// Returns all values in the text of a configuration of git, with sections and keys in lower case. Subsections are left
/// out.
fn values(text: &[u8]) -> Vec<Value> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    // A carriage return counts only as part of a path.
    let is_end = |at: usize| text[at] == b'\r' && text.get(at + 1) == Some(&b'\n');
    let bytes = (0..text.len()).filter(|at| !is_end(*at));
    let mut bytes = bytes.map(|at| text[at]).peekable();
    let (mut section, mut values) = (Vec::new(), Vec::new());
    while let Some(next) = bytes.next() {
        match next {
            b'#' | b';' => skip_line(&mut bytes),
            b'[' => section = self::section(&mut bytes),
            _ if next.is_ascii_whitespace() => {}
            _ => {
                let mut key = vec![next.to_ascii_lowercase()];
                while let Some(next) = bytes.next_if(|next| !b"=\n#;".contains(next)) {
                    key.push(next.to_ascii_lowercase());
                }
                if bytes.next_if_eq(&b'=').is_some() {
                    values.push(Value {
                        section: section.clone(),
                        key,
                        value: value(&mut bytes),
                    });
                }
            }
        }
    }
    values
}

fn skip_line(bytes: &mut Peekable<impl Iterator<Item = u8>>) {
    while bytes.next_if(|next| *next != b'\n').is_some() {}
}

/// Reads the rest of the header of a section.
fn section(bytes: &mut impl Iterator<Item = u8>) -> Vec<u8> {
    let (mut name, mut is_quoted) = (Vec::new(), false);
    while let Some(next) = bytes.next() {
        match next {
            b'"' => is_quoted = !is_quoted,
            b'\\' if is_quoted => {
                bytes.next();
            }
            b']' if !is_quoted => break,
            b'\n' => break,
            _ if !is_quoted => name.push(next.to_ascii_lowercase()),
            _ => {}
        }
    }
    name
}

/// Reads the value after an equals sign.
fn value(bytes: &mut Peekable<impl Iterator<Item = u8>>) -> Vec<u8> {
    let (mut value, mut is_quoted) = (Vec::new(), false);
    // Length without spaces at the end that are not quoted.
    let mut length = 0;
    while let Some(next) = bytes.next() {
        match next {
            b'\n' => break,
            b'#' | b';' if !is_quoted => {
                skip_line(bytes);
                break;
            }
            b'"' => {
                is_quoted = !is_quoted;
                continue;
            }
            b'\\' => match bytes.next() {
                None | Some(b'\n') => continue,
                Some(b'n') => value.push(b'\n'),
                Some(b't') => value.push(b'\t'),
                Some(b'b') => value.push(8),
                Some(other) => value.push(other),
            },
            _ if !is_quoted && next.is_ascii_whitespace() => {
                if !value.is_empty() {
                    value.push(next);
                }
                continue;
            }
            _ => value.push(next),
        }
        length = value.len();
    }
    value.truncate(length);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_git_reads_them() {
        let text = b"\xef\xbb\xbf# [include] path = a\r\n[Include] Path = \"../a #b \" ; c\n\
                     [includeIf \"gitdir:~/x]\\\"/\"]\r\n\tpath = a\\\r\n\\\\b \n\
                     [core \"x\"] [core]\nbare\nhooksPath = \" a\"\\tb\nother=\n";
        let found: Vec<_> = values(text)
            .into_iter()
            .map(|it| [it.section.trim_ascii(), it.key.trim_ascii(), &*it.value].join(&b'|'))
            .map(|it| String::from_utf8(it).unwrap())
            .collect();
        assert_eq!(
            found,
            [
                "include|path|../a #b ",
                "includeif|path|a\\b",
                "core|hookspath| a\tb",
                "core|other|",
            ]
        );
    }
}
