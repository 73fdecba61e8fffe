//! One call of an agent: its program, arguments and input, and the files that it needs.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use orchestra_secret::{Masker, is_secret_name};

use super::{
    AgentError, Asked, Chosen, Profile, PromptBy,
    ask::whole_domain,
    place::{self, PRIVATE_DIRECTORY},
    template::{Many, One, Values},
};

/// The longest prompt that is passed as an argument: Linux takes 128 KiB in one.
const MAX_ARGUMENT_BYTES: usize = 64 * 1024;

/// The longest prompt.
const MAX_PROMPT_BYTES: usize = 4 * 1024 * 1024;

/// The longest label of a run.
const MAX_LABEL_CHARS: usize = 100;

/// What one run is about.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// Where it works.
    pub worktree: &'a Path,
    /// What it is told.
    pub prompt: &'a str,
    /// The session of an earlier run, with which it goes on where [`Asked::resume`] says so.
    pub session: Option<&'a str>,
    /// An identifier (a UUID) for a new session, for programs that are told theirs.
    pub new_session: &'a str,
    /// What its files are called by: letters, digits and hyphens, another for each run.
    pub label: &'a str,
}

/// A file to be written before the run, within the private directory of the worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateFile {
    /// Where, within the worktree.
    pub path: PathBuf,
    /// What it holds.
    pub contents: String,
}

/// How an agent is called. It holds no value of a secret, only names of variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Its program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables of ours that it may have, besides the few that all programs have.
    pub inherits: Vec<String>,
    /// Variables with values that are no secrets.
    pub variables: BTreeMap<String, String>,
    /// What is written to its standard input, which is closed then.
    pub stdin: Option<String>,
    /// Files that have to be there.
    pub files: Vec<PrivateFile>,
    /// Names, as in `.gitignore`, of what it leaves in the worktree and that is no work.
    pub leaves: Vec<String>,
    /// Its session, where that is known before it runs.
    pub session: Option<String>,
    /// Whether it goes on with an earlier session.
    pub resumes: bool,
}

impl Invocation {
    /// The call of an agent for a task.
    ///
    /// # Errors
    /// When a value does not fit the command line of its profile.
    pub fn new(chosen: &Chosen, asked: &Asked, task: &Task<'_>) -> Result<Self, AgentError> {
        let profile = &chosen.profile;
        let fault = |what: String| AgentError::Arguments {
            agent: chosen.name.to_string(),
            what,
        };
        let is_label = (1..=MAX_LABEL_CHARS).contains(&task.label.len())
            && task
                .label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_label {
            return Err(fault(
                "the label of a run has letters, digits and hyphens".to_owned(),
            ));
        }
        if task.prompt.trim().is_empty() || task.prompt.len() > MAX_PROMPT_BYTES {
            return Err(fault(format!("a prompt has 1 to {MAX_PROMPT_BYTES} bytes")));
        }
        let session = task.session.filter(|_| asked.resume);
        let resumes = session.is_some();
        let prompt = Prompt::of(profile, task);
        let values = values(asked, task, session, &prompt);
        let template = profile.template(resumes);
        let known = |option: &str| chosen.able.known.contains(option);
        let arguments = template
            .expand(&values, &known)
            .map_err(|error| fault(error.to_string()))?;
        let is_told = template.names(One::NewSession, &known);
        let new_session = is_told.then_some(task.new_session);
        Ok(Self {
            program: chosen.able.program.clone(),
            arguments,
            inherits: profile.text().environment.clone(),
            variables: profile.text().variables.clone(),
            stdin: prompt.stdin,
            files: prompt.files,
            leaves: profile.text().leaves.clone(),
            session: session.or(new_session).map(str::to_owned),
            resumes,
        })
    }

    /// Writes its files. No link of the worktree is followed.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write_files(&self, worktree: &Path) -> Result<(), AgentError> {
        self.files
            .iter()
            .try_for_each(|PrivateFile { path, contents }| {
                let written = place::write(worktree, path, contents.as_bytes());
                written.map_err(|source| AgentError::Write {
                    path: path.clone(),
                    source,
                })
            })
    }

    /// Whether the value of a variable is hidden where this agent prints it: its name says that it is
    /// a secret, or the agent has it from us and it is no place or switch.
    #[must_use]
    pub fn is_secret(&self, name: &str) -> bool {
        is_secret_name(name) || (self.inherits.iter().any(|own| own == name) && is_hidden(name))
    }

    /// What hides the secrets of an environment in a text.
    pub fn mask<'a>(&self, variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Masker {
        let secrets = variables
            .into_iter()
            .filter(|(name, _)| self.is_secret(name));
        Masker::new(secrets.map(|(_, value)| value))
    }

    /// Its command line as it may be recorded: the prompt cut short, nothing secret.
    #[must_use]
    pub fn shown(&self) -> Vec<String> {
        const MAX_SHOWN_CHARS: usize = 200;
        let arguments: Vec<_> = self
            .arguments
            .iter()
            .map(|argument| argument.to_string_lossy())
            .collect();
        let words: Vec<&str> = arguments.iter().map(|argument| &**argument).collect();
        let arguments = Masker::default()
            .arguments(&words)
            .into_iter()
            .map(|argument| {
                let mut shown: String = argument.chars().take(MAX_SHOWN_CHARS).collect();
                if shown.len() < argument.len() {
                    shown.push('…');
                }
                shown
            });
        [self.program.display().to_string()]
            .into_iter()
            .chain(arguments)
            .collect()
    }
}

/// Whether a variable is neither a place nor a switch.
fn is_hidden(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let ends = [
        "_URL",
        "_HOME",
        "_HOST",
        "_MODEL",
        "_DIR",
        "_REGION",
        "_PROVIDER",
        "_PROJECT",
        "_LOCATION",
        "_SCRIPT",
    ];
    !(ends.iter().any(|end| name.ends_with(end)) || name.contains("_USE_"))
}

/// How the prompt comes to the program.
struct Prompt {
    argument: Option<String>,
    file: Option<PathBuf>,
    stdin: Option<String>,
    files: Vec<PrivateFile>,
}

impl Prompt {
    fn of(profile: &Profile, task: &Task<'_>) -> Self {
        let path = Path::new(PRIVATE_DIRECTORY)
            .join("agent")
            .join(format!("{}.md", task.label));
        let file = || PrivateFile {
            path: path.clone(),
            contents: task.prompt.to_owned(),
        };
        let mut prompt = Self {
            argument: None,
            file: None,
            stdin: None,
            files: Vec::new(),
        };
        match profile.text().prompt {
            PromptBy::Stdin => prompt.stdin = Some(task.prompt.to_owned()),
            PromptBy::File => {
                prompt.files.push(file());
                prompt.file = Some(task.worktree.join(&path));
            }
            PromptBy::Argument if task.prompt.len() <= MAX_ARGUMENT_BYTES => {
                prompt.argument = Some(task.prompt.to_owned());
            }
            PromptBy::Argument => {
                prompt.files.push(file());
                prompt.argument = Some(format!(
                    "Read the file {} of this directory and do what it says, all of it.",
                    path.display()
                ));
            }
        }
        prompt
    }
}

fn values(asked: &Asked, task: &Task<'_>, session: Option<&str>, prompt: &Prompt) -> Values {
    let mut values = Values::default();
    let worktree = task.worktree.as_os_str().to_owned();
    let private = task.worktree.join(PRIVATE_DIRECTORY).join("agent");
    let ones = [
        (One::Prompt, prompt.argument.clone().map(OsString::from)),
        (One::PromptFile, prompt.file.clone().map(OsString::from)),
        (One::Model, asked.model.clone().map(OsString::from)),
        (One::Session, session.map(OsString::from)),
        (One::NewSession, Some(OsString::from(task.new_session))),
        (One::Worktree, Some(worktree)),
        (One::Private, Some(private.into())),
        (
            One::Effort,
            asked.effort.map(|effort| effort.to_string().into()),
        ),
        (
            One::MaxTurns,
            asked.max_turns.map(|turns| turns.to_string().into()),
        ),
    ];
    values.one.extend(
        ones.into_iter()
            .filter_map(|(one, value)| Some((one, value?))),
    );
    let urls = asked.urls.iter().map(|url| OsString::from(url.as_str()));
    let domains = asked
        .urls
        .iter()
        .filter_map(whole_domain)
        .map(OsString::from);
    values.many = BTreeMap::from([
        (
            Many::Folders,
            asked.folders.iter().map(OsString::from).collect(),
        ),
        (Many::Urls, urls.collect()),
        (Many::Domains, domains.collect()),
    ]);
    values
}
