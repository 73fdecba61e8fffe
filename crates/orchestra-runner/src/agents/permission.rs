//! Permission to run an agent: whether it may run here, and on whose word.
//!
//! An agent costs money and runs with the rights of the user, so it runs only where the plan, the job or the
//! user's own configuration names it, or where a person agreed to it for the workspace. This is the one place
//! that decides it: [`decide`] is asked before anything of an agent is started, its `--version` included.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use orchestra_fs::Unlisted;
use orchestra_plan::work::ProfileName;
use sha2::{Digest as _, Sha256};

use super::{Profile, ready};
use crate::hex::hex;

/// Purpose of an agent's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Work or a check that a plan gives to an agent.
    Work,
    /// Repairing what failed, conflicts of a merge included.
    Healing,
    /// Preparing a worktree by the instructions of the repository.
    Preparation,
}

/// Author of a configuration file or a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The program itself.
    Program,
    /// The user.
    User,
    /// Anyone who may write files of the workspace.
    Workspace,
}

/// An agent that a file of the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// Its name.
    pub name: ProfileName,
    /// Author of the file that names it.
    pub by: Author,
}

/// The agents that the files of the configuration name, the strongest file first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// `plans.agent`: does work that names no agent.
    pub agent: Vec<Naming>,
    /// `plans.healer`: repairs what failed.
    pub healer: Vec<Naming>,
    /// Agents that a file of the workspace defines and that no other file does, whose profile cannot be used, each with
    /// the file and the reason.
    pub unusable: BTreeMap<ProfileName, String>,
}

impl Named {
    /// The agents that the user's own file names.
    #[must_use]
    pub fn of_user(agent: Option<ProfileName>, healer: Option<ProfileName>) -> Self {
        let naming = |name: ProfileName| Naming {
            name,
            by: Author::User,
        };
        Self {
            agent: agent.map(naming).into_iter().collect(),
            healer: healer.map(naming).into_iter().collect(),
            unusable: BTreeMap::new(),
        }
    }

    /// Returns whether the user's own files name an agent for a purpose. An agent named for work may also heal
    /// and prepare; one that is named for healing, which has limits, may do nothing else.
    fn is_of_user(&self, purpose: Purpose, name: &ProfileName) -> bool {
        let healer = match purpose {
            Purpose::Healing => self.healer.as_slice(),
            Purpose::Work | Purpose::Preparation => &[],
        };
        let mut namings = self.agent.iter().chain(healer);
        namings.any(|naming| naming.by != Author::Workspace && naming.name == *name)
    }
}

/// Agreements of the user for one workspace, stored where the workspace cannot write.
pub trait Agreements: fmt::Debug + Send + Sync {
    /// The agents that the user agreed to, and the [text](Offer::agreement) that was stored then.
    fn agreed(&self) -> BTreeMap<String, String>;

    /// Stores that the user agreed to an agent as it was shown.
    ///
    /// # Errors
    /// When that cannot be stored, in words.
    fn agree(&self, agent: &ProfileName, agreement: &str) -> Result<(), String>;
}

/// Everything that permission depends on.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// Purpose of the run.
    pub purpose: Purpose,
    /// The agent that the job names for its work.
    pub job: Option<&'a ProfileName>,
    /// The agents that the configuration names.
    pub named: &'a Named,
    /// The agents that a person agreed to as they are now.
    pub agreed: &'a [ProfileName],
    /// The agents that a person agreed to and that changed since, with what changed.
    pub changed: &'a BTreeMap<ProfileName, String>,
    /// The user's own configuration file, as messages name it.
    pub user_file: &'a str,
}

/// On whose word an agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The job names it.
    Job,
    /// A key of the user's own configuration names it.
    Setting(&'static str),
    /// A person agreed to it for this workspace.
    Person,
    /// It is the scripted agent of the program, which asks no model and costs nothing.
    Program,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job => f.write_str("named by the job"),
            Self::Setting(key) => write!(f, "named by {key}"),
            Self::Person => f.write_str("agreed to for this workspace"),
            Self::Program => f.write_str("the scripted agent"),
        }
    }
}

/// An agent that may run, and on whose word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    /// The agent.
    pub name: ProfileName,
    /// On whose word.
    pub word: Word,
    /// The agent that a file of the workspace names instead, without an agreement.
    pub passed_over: Option<ProfileName>,
}

impl Permit {
    /// On whose word it runs, and which agent of the workspace is passed over for it.
    #[must_use]
    pub fn reason(&self) -> String {
        let word = self.word;
        match &self.passed_over {
            Some(other) => format!(
                "{word}; `{other}`, which a file of the workspace names, needs your agreement: `orchestra plan \
                 agents --approve {other}`"
            ),
            None => word.to_string(),
        }
    }
}

/// Reason that no agent may run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing names one.
    #[error("no agent is named for it; {}", purpose.step(user_file))]
    Unnamed {
        /// Purpose of the run.
        purpose: Purpose,
        /// The user's own configuration file.
        user_file: String,
    },
    /// A file of the workspace names one without an agreement.
    #[error(
        "agent `{name}` needs your approval, because only a file of the workspace names it as {key}; run `orchestra \
         plan agents --approve {name}`, or name it as {key} in your own {user_file}"
    )]
    Named {
        /// The agent.
        name: ProfileName,
        /// The key that names it.
        key: &'static str,
        /// The user's own configuration file.
        user_file: String,
    },
    /// The files that its command line runs where it starts differ from the approved files.
    #[error(
        "agent `{name}` is not started in {directory}: {what}. Restore the file, or copy the change into the \
         workspace and run `orchestra plan agents --approve {name}`"
    )]
    Replaced {
        /// The agent.
        name: ProfileName,
        /// The difference.
        what: String,
        /// The directory where it would start.
        directory: String,
    },
    /// Its command line names a directory with code that cannot be compared with the approved code.
    #[error(
        "agent `{name}` is not started, because orchestra cannot compare the code in the directory `{path}` of its \
         command line with the code that you approved: {why}. Change the command line, or define [agents.{name}] in \
         your own {user_file}"
    )]
    Uncompared {
        /// The agent.
        name: ProfileName,
        /// The directory, as the command line names it.
        path: String,
        /// The reason.
        why: Unlisted,
        /// The user's own configuration file.
        user_file: String,
    },
    /// A file of the workspace defines its profile without an agreement.
    #[error(
        "agent `{name}` needs your approval, because a file of the workspace defines it; check its command line and \
         run `orchestra plan agents --approve {name}`, or define [agents.{name}] in your own {user_file}"
    )]
    Defined {
        /// The agent.
        name: ProfileName,
        /// The user's own configuration file.
        user_file: String,
    },
    /// It changed after a person agreed to it.
    #[error(
        "agent `{name}` changed after you approved it: {what}; to approve it again, run `orchestra plan agents \
         --approve {name}`"
    )]
    Changed {
        /// The agent.
        name: ProfileName,
        /// What changed.
        what: String,
    },
    /// A file of the workspace defines its profile wrongly.
    #[error("agent `{name}` cannot be used: {why}; correct its profile in that file")]
    Unusable {
        /// The agent.
        name: ProfileName,
        /// The file and the reason.
        why: String,
    },
}

impl Denied {
    /// A name for the kind of denial that stays the same, for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unnamed { .. } => "agent_not_named",
            Self::Named { .. }
            | Self::Replaced { .. }
            | Self::Uncompared { .. }
            | Self::Defined { .. }
            | Self::Changed { .. } => "agent_not_approved",
            Self::Unusable { .. } => "agent_profile",
        }
    }

    /// The agent that a person may agree to.
    #[must_use]
    pub const fn agent(&self) -> Option<&ProfileName> {
        match self {
            Self::Unnamed { .. } | Self::Uncompared { .. } | Self::Unusable { .. } => None,
            Self::Named { name, .. }
            | Self::Replaced { name, .. }
            | Self::Defined { name, .. }
            | Self::Changed { name, .. } => Some(name),
        }
    }
}

impl Purpose {
    /// Setting that names an agent for it, and its file.
    fn step(self, user_file: &str) -> String {
        let setting = match self {
            Self::Work => "`agent` of the work, or `agent`",
            Self::Healing => "`healer`",
            Self::Preparation => "`agent`",
        };
        format!(
            "set {setting} of [plans] in your own {user_file}, or agree to one with `orchestra plan agents \
             --approve NAME`"
        )
    }
}

/// An agent that may be meant, and the key that names it and whose; none for that which the job names.
type Candidate<'a> = (&'a ProfileName, Option<(&'static str, Author)>);

fn keyed<'a>(key: &'static str, namings: &'a [Naming]) -> impl Iterator<Item = Candidate<'a>> {
    let namings = namings.iter();
    namings.map(move |naming| (&naming.name, Some((key, naming.by))))
}

/// Decides which agent may run, and who named it. `author` returns the author of the profile behind a name.
///
/// # Errors
/// When none may, with what would permit one.
pub fn decide(case: &Case<'_>, author: impl Fn(&ProfileName) -> Author) -> Result<Permit, Denied> {
    let is_scripted =
        |name: &ProfileName| name.as_str() == ready::SCRIPTED && author(name) == Author::Program;
    let job: Option<Candidate<'_>> = case.job.map(|name| (name, None));
    let agents = keyed("plans.agent", &case.named.agent);
    let healers = keyed("plans.healer", &case.named.healer);
    let wanted: Vec<Candidate<'_>> = match case.purpose {
        Purpose::Work => job.into_iter().chain(agents).collect(),
        // Work of a script is repaired by that script: no other agent knows its intent.
        Purpose::Healing if case.job.is_some_and(is_scripted) => job.into_iter().collect(),
        Purpose::Healing => healers.into_iter().chain(job).chain(agents).collect(),
        Purpose::Preparation => agents.into_iter().chain(job).collect(),
    };
    let user_file = || case.user_file.to_owned();
    let Some(first) = wanted.first() else {
        let agreed = case.agreed.first().cloned();
        let agreed = agreed.ok_or_else(|| match case.changed.first_key_value() {
            Some((name, what)) => changed(name, what),
            None => Denied::Unnamed {
                purpose: case.purpose,
                user_file: user_file(),
            },
        });
        return agreed.map(|name| Permit {
            name,
            word: Word::Person,
            passed_over: None,
        });
    };
    let is_agreed = |name: &ProfileName| case.agreed.contains(name);
    let is_of_user = |name: &ProfileName| case.named.is_of_user(case.purpose, name);
    // A naming in a file of the workspace does not switch off the agent that the job or the user names.
    let counts = |(name, by): &&Candidate<'_>| {
        let is_shared = matches!(by, Some((_, Author::Workspace)));
        !is_shared || is_agreed(name) || is_of_user(name)
    };
    let (name, by) = *wanted.iter().find(counts).unwrap_or(first);
    let passed_over = (first.0 != name).then(|| first.0.clone());
    let name = name.clone();
    if let Some(why) = case.named.unusable.get(&name) {
        let why = why.clone();
        return Err(Denied::Unusable { name, why });
    }
    let word = match (author(&name), by) {
        _ if is_scripted(&name) => Word::Program,
        (Author::Workspace, _) if is_agreed(&name) => Word::Person,
        (Author::Workspace, _) => {
            if let Some(what) = case.changed.get(&name) {
                return Err(changed(&name, what));
            }
            let user_file = user_file();
            return Err(Denied::Defined { name, user_file });
        }
        (_, None) => Word::Job,
        (_, Some((key, _))) if is_of_user(&name) => Word::Setting(key),
        (_, Some(_)) if is_agreed(&name) => Word::Person,
        (_, Some((key, _))) => {
            if let Some(what) = case.changed.get(&name) {
                return Err(changed(&name, what));
            }
            let user_file = user_file();
            return Err(Denied::Named {
                name,
                key,
                user_file,
            });
        }
    };
    Ok(Permit {
        name,
        word,
        passed_over,
    })
}

fn changed(name: &ProfileName, what: &str) -> Denied {
    let (name, what) = (name.clone(), what.to_owned());
    Denied::Changed { name, what }
}

/// Description of an agent that a person sees before agreeing to it: command line, permissions and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The agent.
    pub name: ProfileName,
    /// Lines of the description.
    pub lines: Vec<String>,
    /// Other installed agents, where nothing names one and the user may choose.
    pub others: Vec<String>,
    digest: String,
}

impl Offer {
    /// An offer of an agent; `files` are the lines of the files of the workspace that its command line
    /// names, and `limits` bounds how often it may repair and at which cost.
    #[must_use]
    pub fn of(
        name: &ProfileName,
        profile: &Profile,
        author: Author,
        files: &[String],
        limits: &str,
    ) -> Self {
        let text = profile.text();
        let line = |groups: &[Vec<String>]| {
            let words = std::iter::once(&text.program).chain(groups.iter().flatten());
            let words: Vec<Cow<'_, str>> = words.map(|word| quoted(word)).collect();
            words.join(" ")
        };
        let mut lines = vec![
            format!(
                "profile: {}",
                match author {
                    Author::Program => "comes with orchestra",
                    Author::User => "your own configuration",
                    Author::Workspace => "a file of the workspace",
                }
            ),
            format!("command line: {}", line(&text.arguments)),
        ];
        if let Some(groups) = &text.resume_arguments {
            lines.push(format!("to resume a session: {}", line(groups)));
        }
        let probe = &text.probe;
        for (what, words) in [
            ("version", &probe.version),
            ("options", &probe.help),
            ("models", &probe.models),
        ] {
            if !words.is_empty() {
                let words = line(std::slice::from_ref(words));
                lines.push(format!("to ask for its {what}: {words}"));
            }
        }
        let models = &text.models;
        let tiers = [
            ("fast", &models.fast),
            ("standard", &models.standard),
            ("premium", &models.premium),
        ];
        for (tier, model) in tiers {
            if let Some(model) = model {
                lines.push(format!("model of the tier {tier}: {}", quoted(model)));
            }
        }
        if !models.known.is_empty() {
            let known: Vec<_> = models.known.iter().map(|model| quoted(model)).collect();
            lines.push(format!("models: {}", known.join(" ")));
        }
        if !text.efforts.is_empty() {
            let efforts: Vec<_> = text.efforts.iter().map(ToString::to_string).collect();
            lines.push(format!("efforts: {}", efforts.join(" ")));
        }
        lines.push(format!("prompt: {}", text.prompt));
        lines.extend(
            files
                .iter()
                .map(|file| format!("file of the workspace: {file}")),
        );
        lines.push(
            "permissions: your rights, your network and no sandbox; what it may do without asking is what its \
             command line allows"
                .to_owned(),
        );
        let variables = text.variables.iter();
        let variables = variables.map(|(name, value)| format!("{name}={}", quoted(value)));
        let environment: Vec<String> = text.environment.iter().cloned().chain(variables).collect();
        if !environment.is_empty() {
            lines.push(format!("environment: {}", environment.join(", ")));
        }
        lines.push(
            "runs: work that names no agent, repairs of what fails, and instructions of the repository that \
             prepare worktrees"
                .to_owned(),
        );
        lines.push(format!("limit of repairs: {limits}"));
        lines.push(
            "limit of other work: one run per attempt; only the `budget` of a plan bounds its cost"
                .to_owned(),
        );
        let mut digest = Sha256::new();
        // Also of the profile what is not shown: how its output is read.
        let profile = serde_json::to_vec(text).unwrap_or_default();
        for part in std::iter::once(name.as_str()).chain(lines.iter().map(String::as_str)) {
            digest.update(part);
            digest.update([0]);
        }
        digest.update(profile);
        Self {
            name: name.clone(),
            lines,
            others: Vec::new(),
            digest: hex(&digest.finalize()),
        }
    }

    /// A digest of the whole profile and of everything shown; an agreement is void when it changes.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// A word of a command line: in quotes with escapes unless it is plain, so that its end is seen.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,@%+{}?".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("{word:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ProfileName {
        ProfileName::parse(text).unwrap()
    }

    /// `claude` and `codex` come with the program, `mine` is the user's, `theirs` is the workspace's.
    fn author(name: &ProfileName) -> Author {
        match name.as_str() {
            "mine" => Author::User,
            "theirs" => Author::Workspace,
            _ => Author::Program,
        }
    }

    /// Decides a case. A key may have several names, the strongest first; one with `!` is of a file of the
    /// workspace.
    fn decided(
        purpose: Purpose,
        [job, agent, healer]: [&str; 3],
        agreed: &[&str],
    ) -> Result<(String, Word), String> {
        let naming = |text: &str| {
            let by = match text.ends_with('!') {
                true => Author::Workspace,
                false => Author::User,
            };
            Naming {
                name: name(text.trim_end_matches('!')),
                by,
            }
        };
        let namings = |text: &str| text.split_whitespace().map(naming).collect();
        let named = Named {
            agent: namings(agent),
            healer: namings(healer),
            unusable: BTreeMap::new(),
        };
        let job = (!job.is_empty()).then(|| name(job));
        let agreed: Vec<ProfileName> = agreed.iter().map(|text| name(text)).collect();
        let case = Case {
            purpose,
            job: job.as_ref(),
            named: &named,
            agreed: &agreed,
            changed: &BTreeMap::new(),
            user_file: "orchestra.toml",
        };
        let permit = decide(&case, author).map_err(|denied| {
            let agent = denied.agent().map_or("none", ProfileName::as_str);
            format!("{} {agent}", denied.code())
        });
        permit.map(|permit| (permit.name.to_string(), permit.word))
    }

    #[test]
    fn agent_runs_only_on_the_word_of_the_job_the_user_or_a_person() {
        use Purpose::{Healing, Preparation, Work};
        const AGENT: Word = Word::Setting("plans.agent");
        const HEALER: Word = Word::Setting("plans.healer");
        type Expected = Result<(&'static str, Word), &'static str>;
        let none: Expected = Err("agent_not_named none");
        let unapproved: Expected = Err("agent_not_approved claude");
        // Purpose; job, plans.agent, plans.healer; agreed; expected.
        let cases: [(Purpose, [&str; 3], &[&str], Expected); 39] = [
            (Work, ["", "", ""], &[], none),
            (Healing, ["", "", ""], &[], none),
            (Preparation, ["", "", ""], &[], none),
            (Work, ["claude", "", ""], &[], Ok(("claude", Word::Job))),
            (Healing, ["claude", "", ""], &[], Ok(("claude", Word::Job))),
            (
                Preparation,
                ["claude", "", ""],
                &[],
                Ok(("claude", Word::Job)),
            ),
            (Work, ["", "claude", ""], &[], Ok(("claude", AGENT))),
            (Healing, ["", "claude", ""], &[], Ok(("claude", AGENT))),
            (Preparation, ["", "claude", ""], &[], Ok(("claude", AGENT))),
            (Work, ["", "", "claude"], &[], none),
            (Preparation, ["", "", "claude"], &[], none),
            (
                Healing,
                ["", "codex", "claude"],
                &[],
                Ok(("claude", HEALER)),
            ),
            (
                Healing,
                ["mine", "codex", "claude"],
                &[],
                Ok(("claude", HEALER)),
            ),
            (Work, ["mine", "codex", ""], &[], Ok(("mine", Word::Job))),
            // Of a file of the workspace alone.
            (Work, ["", "claude!", ""], &[], unapproved),
            (Healing, ["", "", "claude!"], &[], unapproved),
            (Preparation, ["", "claude!", ""], &[], unapproved),
            (Healing, ["", "", "claude!"], &["codex"], unapproved),
            (
                Healing,
                ["", "", "claude!"],
                &["claude"],
                Ok(("claude", Word::Person)),
            ),
            // The user names it as well.
            (
                Healing,
                ["", "claude", "claude!"],
                &[],
                Ok(("claude", HEALER)),
            ),
            (
                Healing,
                ["", "claude!", "claude"],
                &[],
                Ok(("claude", HEALER)),
            ),
            (Work, ["", "claude! claude", ""], &[], Ok(("claude", AGENT))),
            // The user names it for healing, which has limits, and for nothing else.
            (Work, ["", "claude!", "claude"], &[], unapproved),
            (Preparation, ["", "claude!", "claude"], &[], unapproved),
            (
                Work,
                ["", "claude!", "claude"],
                &["claude"],
                Ok(("claude", Word::Person)),
            ),
            // A file of the workspace does not switch off what the user or the job names.
            (Work, ["", "claude! codex", ""], &[], Ok(("codex", AGENT))),
            (
                Preparation,
                ["", "scripted! codex", ""],
                &[],
                Ok(("codex", AGENT)),
            ),
            (Work, ["", "theirs! codex", ""], &[], Ok(("codex", AGENT))),
            (
                Healing,
                ["", "", "claude! codex"],
                &[],
                Ok(("codex", HEALER)),
            ),
            (Healing, ["", "codex", "claude!"], &[], Ok(("codex", AGENT))),
            (
                Healing,
                ["codex", "", "claude!"],
                &[],
                Ok(("codex", Word::Job)),
            ),
            (
                Work,
                ["", "claude! codex", ""],
                &["claude"],
                Ok(("claude", Word::Person)),
            ),
            // A profile of the workspace, named anywhere.
            (
                Work,
                ["theirs", "", ""],
                &[],
                Err("agent_not_approved theirs"),
            ),
            (
                Healing,
                ["", "", "theirs"],
                &[],
                Err("agent_not_approved theirs"),
            ),
            (
                Work,
                ["theirs", "", ""],
                &["theirs"],
                Ok(("theirs", Word::Person)),
            ),
            // Nothing is named, and a person agreed.
            (
                Work,
                ["", "", ""],
                &["claude"],
                Ok(("claude", Word::Person)),
            ),
            (
                Preparation,
                ["", "", ""],
                &["claude"],
                Ok(("claude", Word::Person)),
            ),
            // The scripted agent costs nothing, and repairs what it did itself.
            (
                Healing,
                ["", "", "scripted!"],
                &[],
                Ok(("scripted", Word::Program)),
            ),
            (
                Healing,
                ["scripted", "", "claude"],
                &[],
                Ok(("scripted", Word::Program)),
            ),
        ];
        for (purpose, named, agreed, expected) in cases {
            let found = decided(purpose, named, agreed);
            let expected = expected
                .map(|(name, word)| (name.to_owned(), word))
                .map_err(str::to_owned);
            assert_eq!(found, expected, "{purpose:?} {named:?} {agreed:?}");
        }
    }

    #[test]
    fn offer_shows_every_command_line_with_its_words_apart() {
        let text = serde_json::json!({
            "program": "sh",
            "arguments": [["-c", "one \u{202e}two\n", "{prompt}"], ["--model", "{model}"]],
            "resume_arguments": [["-c", "x y", "{prompt}"]],
            "probe": {"version": ["-c", "date > 1"], "help": ["-h"], "models": ["a", "b c", "d\"e"]},
            "variables": {"A": "1, B=2"},
            "models": {"fast": "id>x;true", "premium": "large", "known": ["a", "\u{202e}b"]},
            "efforts": ["low", "high"],
        });
        let profile: Profile = serde_json::from_value(text).unwrap();
        let offer = Offer::of(&name("mine"), &profile, Author::Workspace, &[], "none");
        for line in [
            r#"command line: sh -c "one \u{202e}two\n" {prompt} --model {model}"#,
            r#"to resume a session: sh -c "x y" {prompt}"#,
            r#"to ask for its version: sh -c "date > 1""#,
            "to ask for its options: sh -h",
            r#"to ask for its models: sh a "b c" "d\"e""#,
            r#"environment: A="1, B=2""#,
            r#"model of the tier fast: "id>x;true""#,
            "model of the tier premium: large",
            r#"models: a "\u{202e}b""#,
            "efforts: low high",
            "prompt: argument",
        ] {
            assert!(
                offer.lines.contains(&line.to_owned()),
                "{line}: {:?}",
                offer.lines
            );
        }
    }

    #[test]
    fn agreement_is_void_when_the_profile_or_the_limits_change() {
        let offer = |program: &str, limits: &str| {
            let text =
                serde_json::json!({"program": program, "arguments": [["--fast", "{prompt}"]]});
            let profile: Profile = serde_json::from_value(text).unwrap();
            Offer::of(&name("mine"), &profile, Author::Workspace, &[], limits)
        };
        let shown = offer("agent", "2 USD");
        assert!(
            shown
                .lines
                .contains(&"command line: agent --fast {prompt}".to_owned())
        );
        assert!(shown.lines.contains(&"limit of repairs: 2 USD".to_owned()));
        assert_eq!(shown.digest(), offer("agent", "2 USD").digest());
        assert_ne!(shown.digest(), offer("other", "2 USD").digest());
        assert_ne!(shown.digest(), offer("agent", "9 USD").digest());
    }
}
