//! One skill and its files, by the rules of SEP-2640 and of the Agent Skills specification.

use std::{collections::HashSet, fmt};

use orchestra_wire::RawJson;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The most files of one skill (SEP-2640, Limits).
pub const MAX_SKILL_FILES: usize = 512;

/// The most bytes of all files of one skill (SEP-2640, Limits).
pub const MAX_SKILL_BYTES: u64 = 16 * 1024 * 1024;

/// The most characters of a skill's name (Agent Skills specification).
const MAX_NAME_CHARS: usize = 64;

/// The most characters of a skill's description (Agent Skills specification).
const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// The file that makes a directory a skill.
const ENTRY: &str = "SKILL.md";

/// A SHA-256 digest; shown as `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Digest([u8; 32]);

/// One file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    /// Its URI, below the skill's.
    pub uri: String,
    /// The digest of its bytes.
    pub digest: Sha256Digest,
    /// How many bytes it has.
    pub size: u64,
    /// Media type of the contents.
    pub mime_type: Option<String>,
}

/// One skill: a directory of resources, with a complete list of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillDescriptor {
    root: String,
    uri: String,
    name: String,
    description: String,
    frontmatter: RawJson,
    files: Vec<SkillFile>,
}

/// Why something cannot be served as a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    /// A field of the front matter is missing or no text.
    #[error("the front matter needs a string `{0}`")]
    Field(&'static str),
    /// The name breaks the rule of the Agent Skills specification.
    #[error(
        "the name must have 1 to {MAX_NAME_CHARS} characters of a-z, 0-9 and -, with no - at the start or end and no two in a row"
    )]
    Name,
    /// The name is not that of the directory.
    #[error("the name must equal the name of its directory, which is `{directory}`")]
    OtherName {
        /// The directory.
        directory: String,
    },
    /// The description is empty or too long.
    #[error("the description must have 1 to {MAX_DESCRIPTION_CHARS} characters")]
    Description,
    /// The URI of its directory is none.
    #[error("`{0}` is not the URI of a directory")]
    Root(String),
    /// A file does not lie below its directory.
    #[error("`{0}` is not a file in the directory of the skill")]
    Outside(String),
    /// A file is there twice, or is a directory as well.
    #[error("`{0}` is listed twice")]
    Twice(String),
    /// `SKILL.md` is not among its files.
    #[error("the directory of the skill contains no {ENTRY}")]
    NoEntry,
    /// It has too many files.
    #[error("the skill has more than {MAX_SKILL_FILES} files")]
    TooMany,
    /// Its files are too large.
    #[error("the files of the skill have more than {MAX_SKILL_BYTES} bytes together")]
    TooLarge,
}

impl Sha256Digest {
    /// The digest with these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest of a file's contents.
    #[must_use]
    pub fn of(contents: &[u8]) -> Self {
        Self(Sha256::digest(contents).into())
    }
}

impl SkillFile {
    /// The file with these contents.
    #[must_use]
    pub fn of(uri: String, mime_type: Option<String>, contents: &[u8]) -> Self {
        Self {
            uri,
            digest: Sha256Digest::of(contents),
            size: contents.len() as u64,
            mime_type,
        }
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Whether a text may be the name of a skill (Agent Skills specification, `name`).
#[must_use]
pub fn is_skill_name(text: &str) -> bool {
    let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    (1..=MAX_NAME_CHARS).contains(&text.len())
        && text.bytes().all(legal)
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--")
}

impl SkillDescriptor {
    /// The skill whose directory is at the URI `root` (without a slash at its end) and whose
    /// `SKILL.md` opens with `frontmatter`. The files come in any order and are kept sorted.
    ///
    /// # Errors
    /// When it breaks a rule of SEP-2640 or of the Agent Skills specification.
    pub fn new(
        root: &str,
        frontmatter: &Map<String, Value>,
        mut files: Vec<SkillFile>,
    ) -> Result<Self, SkillError> {
        let text = |key| {
            let value = frontmatter.get(key).and_then(Value::as_str);
            value.map(str::to_owned).ok_or(SkillError::Field(key))
        };
        let (name, description) = (text("name")?, text("description")?);
        if !is_skill_name(&name) {
            return Err(SkillError::Name);
        }
        let directory = directory_name(root).ok_or_else(|| SkillError::Root(root.to_owned()))?;
        if name != directory {
            let directory = directory.to_owned();
            return Err(SkillError::OtherName { directory });
        }
        let characters = description.chars().count();
        if description.trim().is_empty() || characters > MAX_DESCRIPTION_CHARS {
            return Err(SkillError::Description);
        }
        orchestra_sort::sort_by(&mut files, |a, b| a.uri.cmp(&b.uri));
        check_files(root, &files)?;
        let frontmatter = RawJson::of(frontmatter).expect("a map of JSON values has a JSON form");
        Ok(Self {
            root: root.to_owned(),
            uri: format!("{root}/{ENTRY}"),
            name,
            description,
            frontmatter,
            files,
        })
    }

    /// The URI of its directory.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The URI of its `SKILL.md`.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does and when to use it.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The front matter of its `SKILL.md`: an object with every field of it.
    #[must_use]
    pub const fn frontmatter(&self) -> &RawJson {
        &self.frontmatter
    }

    /// All its files, `SKILL.md` included, by URI.
    #[must_use]
    pub fn files(&self) -> &[SkillFile] {
        &self.files
    }

    /// One of its files.
    #[must_use]
    pub fn file(&self, uri: &str) -> Option<&SkillFile> {
        let find = |file: &SkillFile| file.uri.as_str().cmp(uri);
        let at = self.files.binary_search_by(find).ok()?;
        Some(&self.files[at])
    }
}

/// The last segment of a directory's URI.
fn directory_name(root: &str) -> Option<&str> {
    let (scheme, path) = root.split_once("://")?;
    if scheme.is_empty() || root.contains(['?', '#']) || path.split('/').any(is_no_name) {
        return None;
    }
    path.rsplit('/').next()
}

fn check_files(root: &str, files: &[SkillFile]) -> Result<(), SkillError> {
    if files.len() > MAX_SKILL_FILES {
        return Err(SkillError::TooMany);
    }
    let sizes = files.iter().map(|file| file.size);
    if sizes.fold(0, u64::saturating_add) > MAX_SKILL_BYTES {
        return Err(SkillError::TooLarge);
    }
    let mut paths = HashSet::with_capacity(files.len());
    for file in files {
        let path = file.uri.strip_prefix(root);
        let path = path.and_then(|path| path.strip_prefix('/'));
        let is_path = |path: &&str| !path.contains(['?', '#']) && !path.split('/').any(is_no_name);
        let path = path
            .filter(is_path)
            .ok_or_else(|| SkillError::Outside(file.uri.clone()))?;
        if !paths.insert(path) {
            return Err(SkillError::Twice(file.uri.clone()));
        }
    }
    if !paths.contains(ENTRY) {
        return Err(SkillError::NoEntry);
    }
    for path in &paths {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        if let Some(file) = above.into_iter().find(|above| paths.contains(above)) {
            return Err(SkillError::Twice(format!("{root}/{file}")));
        }
    }
    Ok(())
}

/// Whether a segment of a path leads elsewhere or nowhere.
fn is_no_name(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    matches!(plain.as_str(), "" | "." | "..")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(uri: &str) -> SkillFile {
        SkillFile {
            uri: uri.to_owned(),
            digest: Sha256Digest::new([0xab; 32]),
            size: 3,
            mime_type: None,
        }
    }

    fn skill(root: &str, front: &Value, files: &[&str]) -> Result<SkillDescriptor, SkillError> {
        let files = files.iter().map(|uri| file(uri)).collect();
        SkillDescriptor::new(root, front.as_object().unwrap(), files)
    }

    #[test]
    fn names_follow_the_agent_skills_specification() {
        for name in ["a", "pdf-processing", "3d", &"x".repeat(64)] {
            assert!(is_skill_name(name), "{name}");
        }
        for name in [
            "",
            "-a",
            "a-",
            "a--b",
            "A",
            "a_b",
            "a b",
            "é",
            "a/b",
            &"x".repeat(65),
        ] {
            assert!(!is_skill_name(name), "{name}");
        }
    }

    #[test]
    fn a_skill_is_complete_or_refused() {
        let front = json!({"name": "a", "description": "Does.", "license": "MIT"});
        let whole = skill(
            "skill://x/a",
            &front,
            &["skill://x/a/z/1", "skill://x/a/SKILL.md"],
        )
        .unwrap();
        assert_eq!(whole.uri(), "skill://x/a/SKILL.md");
        assert_eq!(whole.files()[0].uri, whole.uri());
        assert!(whole.file("skill://x/a/z/1").is_some());
        assert!(whole.file("skill://x/a/z").is_none());
        assert_eq!(
            whole.files()[0].digest.to_string(),
            format!("sha256:{}", "ab".repeat(32))
        );

        let entry = "skill://a/SKILL.md";
        for (root, files, expected) in [
            ("skill://a", vec![], SkillError::NoEntry),
            (
                "skill://a",
                vec![entry, entry],
                SkillError::Twice(entry.into()),
            ),
            (
                "skill://a/",
                vec![entry],
                SkillError::Root("skill://a/".into()),
            ),
            ("a", vec![entry], SkillError::Root("a".into())),
            (
                "skill://b",
                vec![entry],
                SkillError::OtherName {
                    directory: "b".into(),
                },
            ),
            (
                "skill://a",
                vec![entry, "skill://ab/x"],
                SkillError::Outside("skill://ab/x".into()),
            ),
            (
                "skill://a",
                vec![entry, "skill://a/x/%2E./y"],
                SkillError::Outside("skill://a/x/%2E./y".into()),
            ),
            (
                "skill://a",
                vec![entry, "skill://a/x", "skill://a/x/y"],
                SkillError::Twice("skill://a/x".into()),
            ),
        ] {
            assert_eq!(
                skill(root, &front, &files),
                Err(expected),
                "{root} {files:?}"
            );
        }
    }

    #[test]
    fn front_matter_that_does_not_conform_is_refused() {
        let entry = ["skill://a/SKILL.md"];
        for (front, expected) in [
            (json!({"description": "x"}), SkillError::Field("name")),
            (json!({"name": "a"}), SkillError::Field("description")),
            (
                json!({"name": 1, "description": "x"}),
                SkillError::Field("name"),
            ),
            (json!({"name": "A", "description": "x"}), SkillError::Name),
            (
                json!({"name": "a", "description": " "}),
                SkillError::Description,
            ),
            (
                json!({"name": "a", "description": "x".repeat(1_025)}),
                SkillError::Description,
            ),
        ] {
            assert_eq!(skill("skill://a", &front, &entry), Err(expected), "{front}");
        }
    }

    #[test]
    fn the_limits_of_the_extension_hold() {
        let front = json!({"name": "a", "description": "x"});
        let front = front.as_object().unwrap();
        let many = |count: usize| {
            let others = (1..count).map(|number| file(&format!("skill://a/{number}")));
            others.chain([file("skill://a/SKILL.md")]).collect()
        };
        assert!(SkillDescriptor::new("skill://a", front, many(MAX_SKILL_FILES)).is_ok());
        let refused = SkillDescriptor::new("skill://a", front, many(MAX_SKILL_FILES + 1));
        assert_eq!(refused, Err(SkillError::TooMany));
        let mut large = file("skill://a/SKILL.md");
        large.size = MAX_SKILL_BYTES;
        assert!(SkillDescriptor::new("skill://a", front, vec![large.clone()]).is_ok());
        large.size += 1;
        let refused = SkillDescriptor::new("skill://a", front, vec![large]);
        assert_eq!(refused, Err(SkillError::TooLarge));
    }
}
