//! Where documents can be: paths below `.projects/` that lead nowhere else and into nothing that is
//! the program's or a board's own.

use std::fmt;

use orchestra_board::Slug;
use orchestra_fs::{folded, is_build_file};

/// The ending of the files in which earlier programs kept the version of a document.
pub(crate) const SIDE: &str = ".version";
/// Endings of files that the program itself makes beside those it keeps, and [`SIDE`].
const ENDINGS: [&str; 3] = [".conflict", ".orchestra-tmp", SIDE];
/// What stands right below `.projects/` and is the program's own.
const TOP: [&str; 6] = [
    ".store",
    ".run",
    ".events",
    ".usage",
    ".gitignore",
    ".gitattributes",
];
/// What stands in the directory of a project and is the board's own, with all below it.
const BOARD: [&str; 8] = [
    "project-status.toon",
    "prd.md",
    "prd-session.toon",
    "requests.toon",
    "readme.md",
    "epics",
    ".plans",
    ".memory",
];
/// Names, in lower case, of files that agents and other programs take for instructions or settings in any directory, as
/// they do with names that begin with a dot. The author of a document may be another user of the board. Files of build
/// tools are known besides.
const OF_PROGRAMS: [&str; 40] = [
    "agent.md",
    "agents.md",
    "agents.override.md",
    "angular.json",
    "apm.yml",
    "azure-pipelines.yml",
    "biome.json",
    "claude.local.md",
    "claude.md",
    "codebuddy.md",
    "copilot-instructions.md",
    "crush.json",
    "crush.md",
    "devbox.json",
    "devcontainer.json",
    "gemini.md",
    "iflow.md",
    "jsconfig.json",
    "lefthook.toml",
    "lefthook.yaml",
    "lefthook.yml",
    "lerna.json",
    "mcp.json",
    "mcp_config.json",
    "mkdocs.yml",
    "netlify.toml",
    "nx.json",
    "opencode.json",
    "opencode.jsonc",
    "orchestra.toml",
    "pixi.toml",
    "process-compose.yaml",
    "process-compose.yml",
    "qwen.md",
    "replit.md",
    "skill.md",
    "turbo.json",
    "vercel.json",
    "warp.md",
    "wrangler.toml",
];
/// Ends, in lower case, of names of such files.
const ENDS_OF_PROGRAMS: [&str; 5] = [
    ".agent.md",
    ".chatmode.md",
    ".config.json",
    ".instructions.md",
    ".prompt.md",
];
/// Endings of documents that are not made by hand. No program reads a file with one of them by a fixed name.
const NOT_BY_HAND: [&str; 9] = [
    "adoc", "html", "jsonl", "mmd", "rst", "sql", "svg", "toon", "tsv",
];
/// Endings of files that count as documents when somebody makes them by hand: what editors and
/// systems leave behind does not.
const BY_HAND: [&str; 8] = [
    "md", "markdown", "json", "yaml", "yml", "toml", "txt", "csv",
];

/// A character that no path has, for who orders paths by directories.
pub(crate) const GIVEN_UP: char = '\u{1}';

/// Where a document is, below `.projects/`, with `/` between the names.
///
/// A leading `/`, empty names and `.` mean nothing and are left out, as earlier programs do. Of `..`
/// only the name is refused: earlier programs refuse it inside of names as well (`a..b.md`), and so
/// none of them can have such a path in use; what they take is taken, save a path with a `..` name
/// that leads back below the root, which none of them makes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentPath(String);

/// A directory of documents, below `.projects/`; or all of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct DocumentDirectory(String);

/// Why a path can be no document's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentPathError {
    /// There is none.
    #[error("the path of a document is empty; name it below the root, such as `my-app/notes.md`")]
    Empty,
    /// It is too long.
    #[error(
        "the path of a document has {bytes} bytes, but at most {} are allowed",
        DocumentPath::MAX_BYTES
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// One of its names is too long.
    #[error(
        "a part of the path of a document has {bytes} bytes, but at most {} are allowed",
        DocumentPath::MAX_NAME_BYTES
    )]
    NameTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// It has too many names.
    #[error(
        "the path of a document has {names} parts, but at most {} are allowed",
        DocumentPath::MAX_NAMES
    )]
    TooDeep {
        /// How many it has.
        names: usize,
    },
    /// It leads upwards.
    #[error("`..` in the path of a document could lead out of the root; name the document itself")]
    Parent,
    /// It holds a NUL or another control character.
    #[error("the path of a document holds a control character")]
    Control,
    /// It is not a document's to have.
    #[error("no document can have the path `{path}`: {why}")]
    Reserved {
        /// The path, without what means nothing.
        path: String,
        /// Whose it is.
        why: &'static str,
    },
}

impl DocumentPath {
    /// The most bytes of a path, as given.
    pub const MAX_BYTES: usize = 4_096;
    /// The most bytes of one name in it: what file systems take, with room for the endings that the
    /// program adds.
    pub const MAX_NAME_BYTES: usize = 230;
    /// The most names in it.
    pub const MAX_NAMES: usize = 32;

    /// Reads the path of a document that may be created.
    ///
    /// # Errors
    /// When no document can be there; the error says why.
    pub fn parse(text: &str) -> Result<Self, DocumentPathError> {
        let path = Self::parse_existing(text)?;
        match of_programs(&path.0) {
            Some(why) => Err(DocumentPathError::Reserved { path: path.0, why }),
            None => Ok(path),
        }
    }

    /// Reads the path of a document that may exist: earlier versions also created documents with names that other
    /// programs use.
    ///
    /// # Errors
    /// When no version creates a document there; the error says why.
    pub fn parse_existing(text: &str) -> Result<Self, DocumentPathError> {
        let names = names(text)?;
        let path = names.join("/");
        let Some((first, rest)) = names.split_first() else {
            return Err(DocumentPathError::Empty);
        };
        match reserved(first, rest.first().copied(), &names) {
            Some(why) => Err(DocumentPathError::Reserved { path, why }),
            None => Ok(Self(path)),
        }
    }

    /// Returns whether earlier versions created documents with this path, and this one creates none and gives them no
    /// file.
    pub(crate) fn is_of_earlier_version(text: &str) -> bool {
        Self::parse_existing(text).is_ok_and(|path| path.0 == text && !path.may_be_created())
    }

    /// Returns whether a document may be created here, and have a file.
    pub(crate) fn may_be_created(&self) -> bool {
        Self::parse(&self.0).is_ok()
    }

    /// The path, with `/` between the names and none before the first.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The directories that it is in, from the top.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(at, _)| &self.0[..at])
    }

    /// The path as it is ordered: a directory with all that is in it before what only begins with
    /// its name, as a walk through directories meets them.
    pub(crate) fn key(&self) -> String {
        key(&self.0)
    }

    /// Reads back [`DocumentPath::key`].
    pub(crate) fn of_key(key: &str) -> Result<Self, DocumentPathError> {
        Self::parse_existing(&key.replace(GIVEN_UP, "/"))
    }
}

pub(crate) fn key(path: &str) -> String {
    path.replace('/', GIVEN_UP.encode_utf8(&mut [0; 4]))
}

impl fmt::Display for DocumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl DocumentDirectory {
    /// Reads the path of a directory; empty, or `/`, is the root.
    ///
    /// # Errors
    /// When it leads out of the root or cannot be a directory. That it holds none is no error.
    pub fn parse(text: &str) -> Result<Self, DocumentPathError> {
        Ok(Self(names(text)?.join("/")))
    }

    /// The bounds of the keys of all that is in it, neither of which is one itself; `None` for all
    /// there are.
    pub(crate) fn keys(&self) -> Option<(String, String)> {
        let key = key(&self.0);
        let after = char::from_u32(GIVEN_UP as u32 + 1).expect("is a character");
        (!key.is_empty()).then(|| (format!("{key}{GIVEN_UP}"), format!("{key}{after}")))
    }
}

/// Whether a file that nobody here has written counts as a document.
pub(crate) fn can_be_made_by_hand(path: &DocumentPath) -> bool {
    let ending = path.name().rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| BY_HAND.contains(&ending))
}

fn names(text: &str) -> Result<Vec<&str>, DocumentPathError> {
    if text.len() > DocumentPath::MAX_BYTES {
        return Err(DocumentPathError::TooLong { bytes: text.len() });
    }
    if text.chars().any(char::is_control) {
        return Err(DocumentPathError::Control);
    }
    let names: Vec<&str> = text
        .split('/')
        .filter(|name| !matches!(*name, "" | "."))
        .collect();
    if names.contains(&"..") {
        return Err(DocumentPathError::Parent);
    }
    if names.len() > DocumentPath::MAX_NAMES {
        return Err(DocumentPathError::TooDeep { names: names.len() });
    }
    if let Some(name) = names
        .iter()
        .find(|name| name.len() > DocumentPath::MAX_NAME_BYTES)
    {
        return Err(DocumentPathError::NameTooLong { bytes: name.len() });
    }
    Ok(names)
}

/// Whose a path is, if it is no document's.
fn reserved(first: &str, second: Option<&str>, names: &[&str]) -> Option<&'static str> {
    let alike: Vec<String> = names.iter().map(|name| folded(name)).collect();
    if alike.iter().any(|name| name == ".git") {
        return Some("it is git's");
    }
    if alike
        .iter()
        .any(|name| ENDINGS.iter().any(|ending| name.ends_with(ending)))
    {
        return Some(
            "this ending is reserved; choose a name that does not end in .conflict, .orchestra-tmp or .version",
        );
    }
    let top = folded(first);
    if TOP.contains(&top.as_str()) {
        return Some("it is the program's own");
    }
    let is_project = Slug::parse(&top).is_ok();
    match second.map(folded) {
        None if is_project => {
            Some("a project of this name would have its directory there; add an ending such as .md")
        }
        Some(second) if is_project && BOARD.contains(&second.as_str()) => {
            Some("it is a file of a project's board; use the tools of the board")
        }
        _ => None,
    }
}

/// Returns why a path is refused that other programs would use.
fn of_programs(path: &str) -> Option<&'static str> {
    let path = folded(path);
    let is_used = |name: &str| {
        name.starts_with('.')
            || OF_PROGRAMS.contains(&name)
            || ENDS_OF_PROGRAMS.iter().any(|end| name.ends_with(end))
    };
    if path.split('/').any(is_used) || is_build_file(&path) {
        return Some(
            "other programs read files and directories of such a name as instructions or settings; choose a name that \
             does not begin with a dot and is not one such as CLAUDE.md or package.json",
        );
    }
    // Some file systems ignore these characters.
    let is_cut = |name: &str| name.ends_with([' ', '.']);
    if path.split('/').any(is_cut) {
        return Some("a name in it ends in a space or a dot; remove these characters");
    }
    // All that git and other programs read by a fixed name without such an ending is refused with them.
    let ending = path.rsplit('/').next().unwrap_or_default();
    let ending = ending.rsplit_once('.').map(|(_, ending)| ending);
    let is_document =
        ending.is_some_and(|ending| BY_HAND.contains(&ending) || NOT_BY_HAND.contains(&ending));
    (!is_document).then_some(
        "the name of a document ends in .adoc, .csv, .html, .json, .jsonl, .markdown, .md, .mmd, .rst, .sql, .svg, .toml, \
         .toon, .tsv, .txt, .yaml or .yml; add one of these endings",
    )
}

#[cfg(test)]
mod tests {
    use super::{DocumentDirectory, DocumentPath, DocumentPathError, can_be_made_by_hand};

    fn parsed(text: &str) -> String {
        match DocumentPath::parse(text) {
            Ok(path) => path.to_string(),
            Err(DocumentPathError::Reserved { .. }) => "reserved".to_owned(),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn paths_are_taken_as_earlier_programs_do_and_lead_nowhere_else() {
        for (text, expected) in [
            ("my-app/features/FEAT-ABC.md", "my-app/features/FEAT-ABC.md"),
            ("/my-app//./notes.md", "my-app/notes.md"),
            ("notes.md", "notes.md"),
            ("a..b.md", "a..b.md"),
            ("my-app/project.json", "my-app/project.json"),
            ("my-app/requests/REQ-ABC.md", "my-app/requests/REQ-ABC.md"),
            ("My App/été.md", "My App/été.md"),
            ("docs/.hidden/x.md", "reserved"),
            (".envrc", "reserved"),
            (".mcp.json", "reserved"),
            (".vscode/tasks.json", "reserved"),
            ("my-app/.claude/settings.json", "reserved"),
            ("\u{200d}.claude/settings.json", "reserved"),
            ("CLAUDE.md", "reserved"),
            ("my-app/docs/Agents.MD", "reserved"),
            ("orchestra.toml", "reserved"),
            ("my-app/claude.md.md", "my-app/claude.md.md"),
            ("my-app/table.TOON", "my-app/table.TOON"),
            ("my-app/schema.sql", "my-app/schema.sql"),
            ("my-app/graph.SVG", "my-app/graph.SVG"),
            ("my-app/run.sh", "reserved"),
            ("my-app/pom.xml", "reserved"),
            ("notes/HEAD", "reserved"),
            ("notes/config", "reserved"),
            ("notes/commondir", "reserved"),
            ("notes/objects/a", "reserved"),
            ("notes/refs/a", "reserved"),
            ("notes/hooks/post-checkout", "reserved"),
            ("Makefile", "reserved"),
            ("p/Makefile", "reserved"),
            ("p/a/justfile", "reserved"),
            ("p/Dockerfile", "reserved"),
            ("p/Vagrantfile", "reserved"),
            ("p/Warp.md", "reserved"),
            ("CRUSH.md", "reserved"),
            ("p/rules.mdc", "reserved"),
            ("p/x.Instructions.md", "reserved"),
            ("p/prettier.config.js", "reserved"),
            ("p/conftest.py", "reserved"),
            ("p/sitecustomize.py", "reserved"),
            ("p/mise.toml", "reserved"),
            ("p/mise.local.toml", "reserved"),
            ("p/Package.json", "reserved"),
            ("p/Cargo.toml", "reserved"),
            ("p/CMakeLists.txt", "reserved"),
            ("p/docker-compose.yml", "reserved"),
            ("p/x.code-workspace", "reserved"),
            ("p/x.desktop", "reserved"),
            ("p/x.lnk", "reserved"),
            ("p/claude.md ", "reserved"),
            ("p./x.md", "reserved"),
            ("", "Empty"),
            ("/./", "Empty"),
            ("..", "Parent"),
            ("a/../b.md", "Parent"),
            ("../../etc/passwd", "Parent"),
            ("a\0.md", "Control"),
            ("a\nb.md", "Control"),
            (".store/board.db", "reserved"),
            ("/.Store/board.db", "reserved"),
            (".\u{200c}store/board.db", "reserved"),
            (".\u{17f}tore/board.db", "reserved"),
            (".run/x", "reserved"),
            (".events/x.md", "reserved"),
            (".usage/usage.toon", "reserved"),
            (".gitignore", "reserved"),
            ("a/.git/hooks/pre-commit", "reserved"),
            ("my-app", "reserved"),
            ("my-app/project-status.toon", "reserved"),
            ("My-App/PRD.md", "reserved"),
            ("my-app/README.md", "reserved"),
            ("my-app/epics/MA-1/notes.md", "reserved"),
            ("my-app/.plans/x.md", "reserved"),
            ("my-app/.memory/chunks.toon", "reserved"),
            ("my-app/x.md.version", "reserved"),
            ("my-app/x.md.conflict", "reserved"),
            ("my-app/x.md.orchestra-tmp", "reserved"),
        ] {
            assert_eq!(parsed(text), expected, "{text:?}");
        }
        let long = |name: usize, names: usize| vec!["n".repeat(name); names].join("/") + ".md";
        assert_eq!(parsed(&long(4_094, 1)), "TooLong { bytes: 4097 }");
        assert_eq!(parsed(&long(300, 1)), "NameTooLong { bytes: 303 }");
        assert_eq!(parsed(&long(1, 33)), "TooDeep { names: 33 }");
        assert_eq!(parsed(&long(100, 32)), long(100, 32));
    }

    #[test]
    fn existing_document_may_have_a_name_of_another_program() {
        for text in [
            ".envrc",
            "docs/.hidden/x.md",
            "my-app/CLAUDE.md",
            "my-app/Makefile",
        ] {
            let path = DocumentPath::parse_existing(text).expect("a path");
            assert!(!path.may_be_created(), "{text}");
        }
        for text in [
            ".store/board.db",
            "a/.git/config",
            "my-app/epics/x.md",
            "../x.md",
        ] {
            assert!(DocumentPath::parse_existing(text).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_order_as_a_walk_through_directories_does() {
        let mut paths = ["a.md", "a/b.md", "a-b/c.md", "a/b/c.md"]
            .map(|text| DocumentPath::parse(text).expect("a path"));
        paths.sort_by_key(DocumentPath::key);
        let sorted = paths.each_ref().map(DocumentPath::as_str);
        assert_eq!(sorted, ["a/b/c.md", "a/b.md", "a-b/c.md", "a.md"]);
        for path in &paths {
            assert_eq!(DocumentPath::of_key(&path.key()).as_ref(), Ok(path));
        }
        let (first, last) = DocumentDirectory::parse("/a/")
            .expect("a directory")
            .keys()
            .expect("not all");
        let inside = paths
            .iter()
            .filter(|path| path.key() > first && path.key() < last);
        assert_eq!(inside.count(), 2);
        assert_eq!(
            DocumentDirectory::parse("/").map(|all| all.keys()),
            Ok(None)
        );
    }

    #[test]
    fn what_editors_leave_behind_is_no_document() {
        for (text, expected) in [
            ("my-app/notes.md", true),
            ("my-app/wip.json", true),
            ("my-app/notes.md~", false),
            ("my-app/4913", false),
            ("my-app/picture.png", false),
        ] {
            let path = DocumentPath::parse_existing(text).expect("a path");
            assert_eq!(can_be_made_by_hand(&path), expected, "{text}");
        }
    }
}
