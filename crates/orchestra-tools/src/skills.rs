//! The skills that are served (MCP extension `io.modelcontextprotocol/skills`): those of the
//! workspace's `.claude/skills`, and the bundled ones that the workspace has none of the same name
//! as. Each file of a skill is a resource at `skill://{name}/{path}`.

mod contents;
mod front;
mod scan;
mod tree;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use orchestra_hub::{
    ProviderError, ResourceContents, ResourceDescriptor, ResourceResult, SkillDescriptor, SkillFile,
};

use crate::bundle::BundledSkill;
use scan::{Known, Scan};
use tree::Tree;

pub(crate) use scan::Directories;
pub(crate) use watch::Watching;

/// How the URI of every file of a skill begins.
const SCHEME: &str = "skill://";

/// The file that makes a directory a skill.
const ENTRY: &str = "SKILL.md";

/// Where the workspace keeps its skills.
const HOME: [&str; 2] = [".claude", "skills"];

/// How long the first look may take: nobody is answered before it. It is enough for the skills that
/// people have; what is not reached is found by the next look.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// Media type of `SKILL.md`.
const MARKDOWN: &str = "text/markdown";

/// The skills of a workspace, as they were when somebody last looked.
pub(crate) struct Skills {
    workspace: PathBuf,
    bundled: Vec<(SkillDescriptor, &'static str)>,
    seen: RwLock<Arc<Seen>>,
    /// Held by whoever looks; what was read before need not be read again.
    looking: Mutex<Looking>,
}

#[derive(Default)]
struct Looking {
    known: Known,
    problems: BTreeSet<String>,
}

/// What there was at one moment.
#[derive(Default)]
struct Seen {
    skills: Vec<SkillDescriptor>,
    places: HashMap<String, Place>,
    broken: HashMap<String, String>,
    directories: Directories,
}

/// Where the contents of a resource are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Bundled(&'static str),
    /// Names of directories and of the file, below the skills of the workspace.
    File(Vec<String>),
}

/// What a look has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// What is wrong since then, for people.
    pub(crate) problems: Vec<String>,
    /// URIs of files that are other than before, or gone.
    pub(crate) files: Vec<String>,
}

impl Skills {
    /// The skills of `workspace`, looked at once, for a short while.
    pub(crate) fn new(workspace: &Path, bundled: &[BundledSkill]) -> Self {
        let skills = Self {
            workspace: workspace.to_owned(),
            bundled: bundled.iter().filter_map(descriptor).collect(),
            seen: RwLock::default(),
            looking: Mutex::default(),
        };
        skills.look_until(Some(Instant::now() + FIRST_LOOK));
        skills
    }

    /// Looks at the files anew. Reads what has changed, so it is no work for a thread that must
    /// not wait.
    pub(crate) fn look(&self) -> Changes {
        self.look_until(None)
    }

    fn look_until(&self, deadline: Option<Instant>) -> Changes {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let looking = &mut *looking;
        let scan = Scan::of(
            &self.workspace,
            std::mem::take(&mut looking.known),
            deadline,
        );
        let new_problems = scan.problems.difference(&looking.problems).cloned();
        let problems: Vec<String> = new_problems.collect();
        for problem in &problems {
            tracing::warn!("a skill has a problem: {problem}");
        }
        looking.known = scan.known;
        looking.problems = scan.problems;

        let mut seen = Seen {
            skills: scan.skills,
            places: scan.places,
            broken: scan.broken,
            directories: scan.directories,
        };
        for (skill, text) in &self.bundled {
            let own = |other: &SkillDescriptor| other.root() == skill.root();
            if !seen.skills.iter().any(own) {
                seen.places
                    .insert(skill.uri().to_owned(), Place::Bundled(text));
                seen.skills.push(skill.clone());
            }
        }
        orchestra_sort::sort_by(&mut seen.skills, |a, b| a.uri().cmp(b.uri()));
        let before = self.seen();
        let changes = Changes {
            files: changed_files(&before, &seen),
            problems,
        };
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(seen);
        changes
    }

    /// What was there at the last look.
    pub(crate) fn descriptors(&self) -> Vec<SkillDescriptor> {
        self.seen().skills.clone()
    }

    /// Where a change may matter, as it was at the last look.
    pub(crate) fn directories(&self) -> Directories {
        self.seen().directories.clone()
    }

    /// What was wrong at the last look with the skill whose `SKILL.md` has this URI.
    pub(crate) fn problem(&self, uri: &str) -> Option<String> {
        self.seen().broken.get(uri).cloned()
    }

    /// Whether a URI names a file of a skill, or could.
    pub(crate) fn has_form_of(uri: &str) -> bool {
        uri.starts_with(SCHEME)
    }

    /// Whether a URI named a file of a skill at the last look.
    pub(crate) fn is_there(&self, uri: &str) -> bool {
        self.seen().places.contains_key(uri)
    }

    /// Reads a file of a skill as it is now.
    ///
    /// # Errors
    /// `Unknown` when it was not there at the last look, or is gone; `Unreachable` when it cannot
    /// be read.
    pub(crate) fn read(&self, uri: &str) -> Result<ResourceResult, ProviderError> {
        let unknown = || ProviderError::Unknown {
            kind: "resource",
            name: uri.chars().take(200).collect(),
        };
        let place = self.seen().places.get(uri).cloned().ok_or_else(unknown)?;
        let (name, bytes) = match &place {
            Place::Bundled(text) => (ENTRY, text.as_bytes().to_vec()),
            Place::File(path) => {
                let tree = Tree::open(&self.workspace).map_err(|error| broken(uri, &error))?;
                let read = tree.ok_or_else(unknown)?.read(path);
                let bytes = read.map_err(|error| broken(uri, &error))?;
                let name = path.last().map_or(ENTRY, String::as_str);
                (name, bytes.ok_or_else(unknown)?)
            }
        };
        let mime_type = Some(contents::mime_type(name, &bytes).to_owned());
        let (data, binary) = contents::data(bytes);
        Ok(ResourceResult {
            contents: vec![ResourceContents {
                uri: uri.to_owned(),
                mime_type,
                data,
                binary,
            }],
        })
    }

    fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The `SKILL.md` of each skill, as a list of resources shows it.
pub(crate) fn resources(skills: &[SkillDescriptor]) -> Vec<ResourceDescriptor> {
    let resource = |skill: &SkillDescriptor| ResourceDescriptor {
        uri: skill.uri().to_owned(),
        name: skill.name().to_owned(),
        title: None,
        description: Some(skill.description().to_owned()),
        mime_type: Some(MARKDOWN.to_owned()),
        definition: None,
    };
    skills.iter().map(resource).collect()
}

fn descriptor(bundled: &BundledSkill) -> Option<(SkillDescriptor, &'static str)> {
    let BundledSkill { name, text } = *bundled;
    let root = format!("{SCHEME}{name}");
    let mime_type = Some(MARKDOWN.to_owned());
    let file = SkillFile::of(format!("{root}/{ENTRY}"), mime_type, text.as_bytes());
    let front = front::parse(text.as_bytes()).map_err(|error| error.to_string());
    let skill = front.and_then(|front| {
        SkillDescriptor::new(&root, &front, vec![file]).map_err(|error| error.to_string())
    });
    skill
        .map_err(|problem| tracing::error!("the bundled skill {name} is not served: {problem}"))
        .ok()
        .map(|skill| (skill, text))
}

fn changed_files(before: &Seen, after: &Seen) -> Vec<String> {
    fn files(seen: &Seen) -> HashMap<&str, &SkillFile> {
        let files = seen.skills.iter().flat_map(SkillDescriptor::files);
        files.map(|file| (file.uri.as_str(), file)).collect()
    }
    let after = files(after);
    let changed = files(before)
        .into_iter()
        .filter(|(uri, file)| after.get(uri) != Some(file));
    changed.map(|(uri, _)| uri.to_owned()).collect()
}

fn broken(uri: &str, error: &std::io::Error) -> ProviderError {
    let shown: String = uri.chars().take(200).collect();
    ProviderError::Unreachable(format!("cannot read {shown}: {}", error.kind()))
}

#[cfg(test)]
mod tests;
