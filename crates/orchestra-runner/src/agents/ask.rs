//! What work asks of an agent, checked against what its program can do before anything runs: nothing
//! is taken and then dropped.

use std::path::{Path, PathBuf};

use orchestra_plan::work::{AgentWork, AllowedUrl, Effort, FolderPath, ModelTier, ProfileName};

use super::{
    AgentError, Capabilities, Choice, Feature, Profile,
    profile::{MAX_MODEL_CHARS, is_model},
    promote,
};

/// What an agent is asked for, and can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The model; none leaves it to the program.
    pub model: Option<String>,
    /// The effort; none leaves it to the program.
    pub effort: Option<Effort>,
    /// How many turns it takes at most.
    pub max_turns: Option<u64>,
    /// Whether a later run goes on with the session: unless work says otherwise, where it can be.
    pub resume: bool,
    /// Whole paths of more folders, which are there.
    pub folders: Vec<PathBuf>,
    /// Addresses.
    pub urls: Vec<AllowedUrl>,
    /// Why it gets another tier or effort than none.
    pub reasons: Vec<String>,
}

impl Asked {
    /// Checks what work asks for. `instructions` is what it tells the agent, wherever that is written.
    ///
    /// # Errors
    /// When something is asked for that the program cannot do, a model that it does not know, or
    /// something that cannot be meant.
    pub fn of(
        agent: &ProfileName,
        profile: &Profile,
        able: &Capabilities,
        work: &AgentWork,
        instructions: &str,
    ) -> Result<Self, AgentError> {
        let check = Check {
            agent,
            profile,
            able,
        };
        check.features(work)?;
        let model = work.model.as_ref().map(|model| model.as_str());
        if let Some(model) = model {
            check.model(model)?;
        }
        let choice = promote(model.is_some(), work.model_tier, work.effort, instructions);
        let mut reasons = choice.reasons.clone();
        Ok(Self {
            model: check.chosen_model(model, work.model_tier, &choice, &mut reasons)?,
            effort: check.chosen_effort(work.effort, &choice, &mut reasons)?,
            max_turns: work.max_turns.map(|turns| turns.get()),
            resume: work.resume_session != Some(false) && able.has(Feature::Resume),
            folders: work
                .allowed_folders
                .iter()
                .map(folder)
                .collect::<Result<_, _>>()?,
            urls: check.urls(&work.allowed_urls)?,
            reasons,
        })
    }
}

/// Checks the folders that work asks for, which are there or not whatever agent does it.
pub(crate) fn check_folders(work: &AgentWork) -> Result<(), AgentError> {
    work.allowed_folders
        .iter()
        .try_for_each(|path| folder(path).map(drop))
}

/// The domain that an address is, when it is all of one and nothing below it.
pub(super) fn whole_domain(url: &AllowedUrl) -> Option<&str> {
    let rest = url
        .as_str()
        .split_once("://")
        .map_or(url.as_str(), |(_, rest)| rest);
    let domain = rest.strip_suffix('/').unwrap_or(rest);
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    domain.bytes().all(is_part).then_some(domain)
}

struct Check<'a> {
    agent: &'a ProfileName,
    profile: &'a Profile,
    able: &'a Capabilities,
}

impl Check<'_> {
    fn features(&self, work: &AgentWork) -> Result<(), AgentError> {
        let AgentWork {
            brief: _,
            agent: _,
            model,
            model_tier,
            effort,
            max_turns,
            resume_session,
            allowed_folders,
            allowed_urls,
        } = work;
        let resumes = *resume_session == Some(true);
        let asked = [
            (Feature::Model, model.is_some(), "be told a model", "model"),
            (
                Feature::Model,
                model_tier.is_some(),
                "be told a model",
                "modelTier",
            ),
            (
                Feature::Effort,
                effort.is_some(),
                "be told an effort",
                "effort",
            ),
            (
                Feature::MaxTurns,
                max_turns.is_some(),
                "be told how many turns",
                "maxTurns",
            ),
            (
                Feature::Resume,
                resumes,
                "resume a session",
                "resumeSession",
            ),
            (
                Feature::Folders,
                !allowed_folders.is_empty(),
                "be given more folders",
                "allowedFolders",
            ),
            (
                Feature::Urls,
                !allowed_urls.is_empty(),
                "be limited to addresses",
                "allowedUrls",
            ),
        ];
        let mut refused = asked
            .iter()
            .filter(|(feature, is_asked, ..)| *is_asked && !self.able.has(*feature));
        match refused.next() {
            Some((feature, _, what, field)) => {
                Err(self.unsupported(*feature, what, field, self.why()))
            }
            None => Ok(()),
        }
    }

    fn why(&self) -> String {
        match &self.able.version {
            Some(version) => format!("neither its profile nor its program ({version}) offers it"),
            None => "neither its profile nor its program offers it".to_owned(),
        }
    }

    fn unsupported(
        &self,
        feature: Feature,
        what: &'static str,
        field: &'static str,
        why: String,
    ) -> AgentError {
        AgentError::Unsupported {
            agent: self.agent.to_string(),
            feature,
            what,
            field,
            why,
        }
    }

    fn chosen_model(
        &self,
        model: Option<&str>,
        asked: Option<ModelTier>,
        choice: &Choice,
        reasons: &mut Vec<String>,
    ) -> Result<Option<String>, AgentError> {
        let (None, Some(tier)) = (model, choice.tier) else {
            return Ok(model.map(str::to_owned));
        };
        let found = self.profile.text().models.of(tier);
        match found.filter(|_| self.able.has(Feature::Model)) {
            Some(model) => Ok(Some(model.to_owned())),
            None if asked.is_some() => Err(AgentError::Tier {
                agent: self.agent.to_string(),
                tier,
            }),
            None => {
                reasons.push(format!(
                    "{} has no model of the {tier} tier: its own is left",
                    self.agent
                ));
                Ok(None)
            }
        }
    }

    fn chosen_effort(
        &self,
        asked: Option<Effort>,
        choice: &Choice,
        reasons: &mut Vec<String>,
    ) -> Result<Option<Effort>, AgentError> {
        let Some(effort) = choice.effort else {
            return Ok(None);
        };
        let levels = &self.profile.text().efforts;
        let is_level = levels.is_empty() || levels.contains(&effort);
        if is_level && self.able.has(Feature::Effort) {
            return Ok(Some(effort));
        }
        if asked.is_some() {
            let levels: Vec<String> = levels.iter().map(ToString::to_string).collect();
            let why = format!("it knows {}", levels.join(", "));
            return Err(self.unsupported(Feature::Effort, "think that much", "effort", why));
        }
        reasons.push(format!(
            "{} does not support an effort of {effort}; its default is used",
            self.agent
        ));
        Ok(None)
    }

    fn model(&self, model: &str) -> Result<(), AgentError> {
        if !is_model(model) {
            let what = format!(
                "must be a name of 1 to {MAX_MODEL_CHARS} characters without spaces, not an option"
            );
            return Err(AgentError::Value {
                field: "model",
                what,
            });
        }
        let Some(known) = &self.able.models else {
            return Ok(());
        };
        let tiers = &self.profile.text().models;
        let mut own = [&tiers.fast, &tiers.standard, &tiers.premium]
            .into_iter()
            .flatten();
        if known.iter().any(|known| known == model) || own.any(|own| own == model) {
            return Ok(());
        }
        Err(AgentError::Model {
            agent: self.agent.to_string(),
            model: model.to_owned(),
            known: known.clone(),
        })
    }

    fn urls(&self, urls: &[AllowedUrl]) -> Result<Vec<AllowedUrl>, AgentError> {
        let mut others = urls.iter().filter(|url| whole_domain(url).is_none());
        if let Some(url) = others.next().filter(|_| self.able.domains_only) {
            let why =
                format!("{url} is not exactly one domain, and the agent accepts only domains");
            let what = "be limited to such an address";
            return Err(self.unsupported(Feature::Urls, what, "allowedUrls", why));
        }
        Ok(urls.to_vec())
    }
}

/// The folder without links, which is what the program is told: a link that is changed later leads
/// nowhere else.
fn folder(path: &FolderPath) -> Result<PathBuf, AgentError> {
    let path = Path::new(path.as_str());
    let fault = |what: &str| AgentError::Folder {
        folder: path.to_owned(),
        what: what.to_owned(),
    };
    let whole = path.canonicalize().map_err(|_| fault("is not there"))?;
    match whole.is_dir() {
        true => Ok(whole),
        false => Err(fault("is no directory")),
    }
}

#[cfg(test)]
mod tests;
