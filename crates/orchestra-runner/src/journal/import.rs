//! Reads the plans that the earlier system left below the same storage root, to be shown and cloned. They
//! are never written, and never run.
//!
//! What is read was written by others: every file is bounded, links lead nowhere outside of the plan's
//! directory, and what is odd is left out and noted rather than refused, as long as a plan is left.

mod model;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

pub use model::{OriginalJob, OriginalPlan};

use super::PlanKey;

/// The longest file of a plan.
const MAX_PLAN: u64 = 32 * 1024 * 1024;
/// The longest file of one job's work.
const MAX_WORK: u64 = 1024 * 1024;
/// The most plans that are looked for.
const MAX_PLANS: usize = 10_000;
/// The most jobs of a plan.
const MAX_JOBS: usize = 10_000;
/// The most dependencies of a job.
const MAX_DEPENDENCIES: usize = 1_000;
/// The longest text that is taken over, in bytes.
const MAX_TEXT: usize = 100_000;
/// The most notes; whoever reads more has seen enough.
const MAX_NOTES: usize = 100;

/// Where a plan of the earlier system lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// Its id.
    pub plan: PlanKey,
    /// Its file.
    pub path: PathBuf,
}

/// Why a plan of the earlier system cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Its file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is no plan.
    #[error("{} is not a plan of the earlier system: {why}", .path.display())]
    NoPlan {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

/// The producer id of the job that every plan of the earlier system had added to it.
const ADDED: &str = "__snapshot-validation__";

/// The plans of the earlier system below a storage root, in the order of their ids.
///
/// # Errors
/// When the directory cannot be read.
pub fn originals(root: &Path) -> io::Result<Vec<Original>> {
    let mut found = candidates(root)?;
    found.retain(|original| is_original(&original.path));
    Ok(found)
}

/// What may be a plan of the earlier system by where it lies: our own readable files lie there too.
pub(crate) fn candidates(root: &Path) -> io::Result<Vec<Original>> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = BTreeMap::new();
    for entry in entries.flatten().take(MAX_PLANS) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let file = name
            .strip_prefix("plan-")
            .and_then(|name| name.strip_suffix(".json"));
        let (id, path) = match file {
            Some(id) => (id, entry.path()),
            None => (name, entry.path().join("plan.json")),
        };
        let Ok(plan) = PlanKey::parse(&id.to_ascii_lowercase()) else {
            continue;
        };
        // A directory says more than the file of old.
        let is_better = file.is_none() || !found.contains_key(&plan);
        if is_better && path.is_file() {
            found.insert(plan, path);
        }
    }
    let found = found.into_iter();
    Ok(found.map(|(plan, path)| Original { plan, path }).collect())
}

/// Whether it is not one of our own readable files, which begin with their schema.
pub(crate) fn is_original(path: &Path) -> bool {
    read(path, MAX_PLAN).is_ok_and(|text| {
        serde_json::from_slice::<Map<String, Value>>(&text)
            .is_ok_and(|plan| !plan.contains_key("schema") && plan.contains_key("jobs"))
    })
}

fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let content = orchestra_fs::read(path, limit).map_err(orchestra_fs::Error::into_cause)?;
    content.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Reads a plan of the earlier system.
///
/// # Errors
/// When its file cannot be read, or holds no plan.
pub fn read_original(original: &Original) -> Result<OriginalPlan, ImportError> {
    let path = &original.path;
    let text = read(path, MAX_PLAN).map_err(|source| ImportError::Read {
        path: path.clone(),
        source,
    })?;
    let no_plan = |why: String| ImportError::NoPlan {
        path: path.clone(),
        why,
    };
    let plan: Map<String, Value> =
        serde_json::from_slice(&text).map_err(|error| no_plan(error.to_string()))?;
    let jobs = match plan.get("jobs") {
        Some(Value::Array(jobs)) => jobs.iter().collect::<Vec<_>>(),
        Some(Value::Object(jobs)) => jobs.values().collect(),
        _ => return Err(no_plan("it has no jobs".to_owned())),
    };
    let mut importer = Importer {
        directory: path.parent().and_then(|path| path.canonicalize().ok()),
        plan: &plan,
        notes: Vec::new(),
    };
    if jobs.len() > MAX_JOBS {
        importer.note(format!(
            "of its {} jobs the first {MAX_JOBS} are shown",
            jobs.len()
        ));
    }
    let jobs: Vec<OriginalJob> = jobs
        .into_iter()
        .take(MAX_JOBS)
        .filter_map(|job| importer.job(job))
        .collect();
    Ok(importer.whole(jobs))
}

struct Importer<'a> {
    /// The plan's own, within which all of its files are.
    directory: Option<PathBuf>,
    plan: &'a Map<String, Value>,
    notes: Vec<String>,
}

impl Importer<'_> {
    fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(cut(&note));
        }
    }

    /// The plan, and what ties its jobs to each other.
    fn whole(mut self, mut jobs: Vec<OriginalJob>) -> OriginalPlan {
        let mut producers = BTreeMap::new();
        for job in &jobs {
            producers.insert(job.id.clone(), job.producer_id.clone());
            producers.insert(job.producer_id.clone(), job.producer_id.clone());
        }
        for job in &mut jobs {
            let named = std::mem::take(&mut job.dependencies);
            for name in named {
                match producers.get(&name) {
                    Some(producer) => job.dependencies.push(producer.clone()),
                    None => self.note(format!(
                        "job {} waits for {name}, which is not there",
                        job.producer_id
                    )),
                }
            }
        }
        let spec = self.plan.get("spec").and_then(Value::as_object);
        let of_spec = |name: &str| spec.and_then(|spec| spec.get(name));
        let either = |name: &str| text(self.plan.get(name)).or_else(|| text(of_spec(name)));
        let env = self.plan.get("env").or_else(|| of_spec("env"));
        OriginalPlan {
            id: text(self.plan.get("id")).unwrap_or_default(),
            name: text(of_spec("name"))
                .or_else(|| text(self.plan.get("name")))
                .unwrap_or_default(),
            is_scaffolding: of_spec("status").and_then(Value::as_str) == Some("scaffolding"),
            is_paused: is_true(self.plan.get("isPaused")),
            is_deleted: is_true(self.plan.get("deleted")),
            base_branch: either("baseBranch"),
            target_branch: either("targetBranch"),
            max_parallel: number(self.plan.get("maxParallel"))
                .or_else(|| number(of_spec("maxParallel"))),
            created_at: number(self.plan.get("createdAt")),
            started_at: number(self.plan.get("startedAt")),
            ended_at: number(self.plan.get("endedAt")),
            env_names: env.and_then(Value::as_object).map_or_else(Vec::new, |env| {
                env.keys().take(1_000).map(|name| cut(name)).collect()
            }),
            jobs,
            notes: self.notes,
        }
    }

    fn job(&mut self, job: &Value) -> Option<OriginalJob> {
        let Some(job) = job.as_object() else {
            self.note("skipped a job that is not an object".to_owned());
            return None;
        };
        let id = text(job.get("id")).or_else(|| text(job.get("producerId")));
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            self.note("skipped a job without an id".to_owned());
            return None;
        };
        let producer_id = text(job.get("producerId")).unwrap_or_else(|| id.clone());
        if producer_id == ADDED {
            return None;
        }
        let state = self
            .plan
            .get("nodeStates")
            .and_then(|states| states.get(&id));
        let state = state.and_then(Value::as_object);
        let of_state = |name: &str| state.and_then(|state| state.get(name));
        let dependencies = job.get("dependencies").and_then(Value::as_array);
        let dependencies = dependencies.into_iter().flatten().take(MAX_DEPENDENCIES);
        let dependencies = dependencies.filter_map(|name| text(Some(name))).collect();
        let names = [id.clone(), producer_id.clone()];
        Some(OriginalJob {
            name: text(job.get("name")).unwrap_or_else(|| producer_id.clone()),
            task: text(job.get("task")).unwrap_or_default(),
            dependencies,
            group: text(job.get("group")),
            work: self.spec(job, &names, "work"),
            prechecks: self.spec(job, &names, "prechecks"),
            postchecks: self.spec(job, &names, "postchecks"),
            auto_heal: job
                .get("autoHeal")
                .is_none_or(|heals| heals != &Value::Bool(false)),
            expects_no_changes: is_true(job.get("expectsNoChanges")),
            status: text(of_state("status")),
            error: text(of_state("error")),
            attempts: number(of_state("attempts")),
            base_commit: text(of_state("baseCommit")),
            completed_commit: text(of_state("completedCommit")),
            id,
            producer_id,
        })
    }

    /// What a job does in a phase: written in the plan, or in a file of its own. The earlier system wrote
    /// some of those under the producer id, and looked for them under the other.
    fn spec(
        &mut self,
        job: &Map<String, Value>,
        names: &[String; 2],
        phase: &str,
    ) -> Option<Value> {
        if let Some(inline) = job
            .get(phase)
            .filter(|spec| spec.is_string() || spec.is_object())
        {
            return Some(inline.clone());
        }
        let told = job.get(&format!("{phase}Ref")).and_then(Value::as_str);
        let told = told.map(PathBuf::from);
        let usual = names.iter().map(|name| {
            Path::new("specs")
                .join(name)
                .join("current")
                .join(format!("{phase}.json"))
        });
        let paths: Vec<PathBuf> = told.into_iter().chain(usual).collect();
        let found = paths.iter().find_map(|path| self.within(path));
        let Some(path) = found else {
            let has = format!("has{}{}", phase[..1].to_ascii_uppercase(), &phase[1..]);
            if is_true(job.get(&has)) {
                self.note(format!(
                    "the file of the {phase} of job {} is not there",
                    names[1]
                ));
            }
            return None;
        };
        let mut spec = match read(&path, MAX_WORK).map(|text| serde_json::from_slice(&text)) {
            Ok(Ok(spec @ (Value::Object(_) | Value::String(_)))) => spec,
            _ => {
                self.note(format!("the {phase} of job {} cannot be read", names[1]));
                return None;
            }
        };
        self.add_instructions(&mut spec, &path, phase);
        Some(spec)
    }

    /// Long text for an agent lies in a file beside it.
    fn add_instructions(&self, spec: &mut Value, path: &Path, phase: &str) {
        let Some(spec) = spec.as_object_mut() else {
            return;
        };
        let is_agent = spec.get("type").and_then(Value::as_str) == Some("agent");
        if !is_agent || spec.get("instructions").is_some_and(Value::is_string) {
            return;
        }
        let beside = path.with_file_name(format!("{phase}_instructions.md"));
        let text = self
            .within(&beside)
            .and_then(|path| read(&path, MAX_WORK).ok());
        if let Some(text) = text.and_then(|text| String::from_utf8(text).ok()) {
            spec.remove("instructionsFile");
            spec.insert("instructions".to_owned(), cut(&text).into());
        }
    }

    /// Where a path leads, if that is a file within the plan's directory.
    fn within(&self, path: &Path) -> Option<PathBuf> {
        let directory = self.directory.as_ref()?;
        let real = directory.join(path).canonicalize().ok()?;
        (real.starts_with(directory) && real.is_file()).then_some(real)
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(cut)
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

fn number(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    let whole = value
        .as_f64()
        .filter(|number| (0.0..9.0e15).contains(number));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "its range was just looked at"
    )]
    value.as_u64().or_else(|| whole.map(|number| number as u64))
}

fn is_true(value: Option<&Value>) -> bool {
    value == Some(&Value::Bool(true))
}
