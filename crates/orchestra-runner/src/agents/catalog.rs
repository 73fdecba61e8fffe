//! All agents that can be named: those that come along, and those of the configuration.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use orchestra_plan::work::ProfileName;

use super::{AgentError, Capabilities, Prober, Profile, ready};

/// Profiles by name, and what asks their programs.
#[derive(Debug)]
pub struct Agents {
    configured: BTreeMap<ProfileName, Profile>,
    /// The built-in profiles with the configured ones, read when one is asked for.
    all: OnceLock<BTreeMap<ProfileName, Profile>>,
    default: Option<ProfileName>,
    prober: Prober,
}

/// An agent that can be run.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// Its name.
    pub name: ProfileName,
    /// Its profile.
    pub profile: Profile,
    /// What its program can do.
    pub able: Arc<Capabilities>,
}

impl Agents {
    /// Those that come along, with those of the configuration, which win by their names.
    #[must_use]
    pub fn new(configured: BTreeMap<ProfileName, Profile>, prober: Prober) -> Self {
        Self {
            configured,
            all: OnceLock::new(),
            default: None,
            prober,
        }
    }

    /// Which agent does work that names none. Unless said, it is the first, in the order of
    /// [`ready::ORDER`], whose program is installed.
    #[must_use]
    pub fn default_agent(mut self, name: ProfileName) -> Self {
        self.default = Some(name);
        self
    }

    fn profiles(&self) -> &BTreeMap<ProfileName, Profile> {
        self.all.get_or_init(|| {
            let mut all = ready::profiles();
            all.extend(self.configured.clone());
            all
        })
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &ProfileName> {
        self.profiles().keys()
    }

    /// A profile.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        let name = ProfileName::parse(name).ok()?;
        self.profiles().get(&name)
    }

    /// Agents whose programs are there. The scripted one, which is ours, is not told.
    #[must_use]
    pub fn installed(&self) -> Vec<String> {
        let others = self
            .profiles()
            .iter()
            .filter(|(name, _)| name.as_str() != ready::SCRIPTED);
        let installed = others.filter(|(_, profile)| self.prober.find(profile).is_some());
        installed.map(|(name, _)| name.to_string()).collect()
    }

    /// Why an agent that is named cannot be run; its program is looked for and not asked.
    #[must_use]
    pub fn lacks(&self, name: &str) -> Option<AgentError> {
        match self.named(name) {
            Err(error) => Some(error),
            // It is ours, and there.
            Ok((name, _)) if name.as_str() == ready::SCRIPTED => None,
            Ok((name, profile)) => match self.prober.find(profile) {
                Some(_) => None,
                None => Some(AgentError::NotInstalled {
                    agent: name.to_string(),
                    program: profile.text().program.clone(),
                    installed: self.installed(),
                }),
            },
        }
    }

    /// Which agent is said to do work that names none.
    #[must_use]
    pub const fn usual_name(&self) -> Option<&ProfileName> {
        self.default.as_ref()
    }

    /// The agent for work that names one, or none.
    ///
    /// # Errors
    /// When there is none of this name, its program is not there, or it does not answer.
    pub async fn choose(&self, name: Option<&str>) -> Result<Chosen, AgentError> {
        let (name, profile) = match name {
            Some(name) => self.named(name)?,
            None => self.usual()?,
        };
        let able = self
            .prober
            .probe(name, profile, || self.installed())
            .await?;
        Ok(Chosen {
            name: name.clone(),
            profile: profile.clone(),
            able,
        })
    }

    fn named(&self, name: &str) -> Result<(&ProfileName, &Profile), AgentError> {
        let parsed = ProfileName::parse(name).ok();
        let found = parsed.and_then(|name| self.profiles().get_key_value(&name));
        found.ok_or_else(|| AgentError::Unknown {
            name: name.chars().take(100).collect(),
            agents: self.profiles().keys().map(ToString::to_string).collect(),
        })
    }

    fn usual(&self) -> Result<(&ProfileName, &Profile), AgentError> {
        if let Some(name) = &self.default {
            return self.named(name.as_str());
        }
        let ready = ready::ORDER.iter().filter_map(|name| self.named(name).ok());
        let configured = self
            .profiles()
            .iter()
            .filter(|(name, _)| !ready::is_ready(name.as_str()));
        let mut all = ready.chain(configured);
        match all.find(|(_, profile)| self.prober.find(profile).is_some()) {
            Some(found) => Ok(found),
            None => Err(AgentError::NotInstalled {
                agent: "(any)".to_owned(),
                program: ready::ORDER.join(", "),
                installed: Vec::new(),
            }),
        }
    }
}
