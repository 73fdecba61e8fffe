//! All agents that can be named: built-in and configured ones.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use orchestra_plan::work::ProfileName;

use super::{AgentError, Author, Capabilities, Prober, Profile, ready};

/// Profiles by name, and what asks their programs.
#[derive(Debug)]
pub struct Agents {
    configured: BTreeMap<ProfileName, (Profile, Author)>,
    /// The built-in profiles with the configured ones, read when one is asked for.
    all: OnceLock<BTreeMap<ProfileName, (Profile, Author)>>,
    prober: Arc<Prober>,
}

/// An agent that can be run.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// Its name.
    pub name: ProfileName,
    /// Its profile.
    pub profile: Profile,
    /// Author of the profile.
    pub author: Author,
    /// Capabilities of its program.
    pub able: Arc<Capabilities>,
}

impl Agents {
    /// The built-in profiles, with those of the user's configuration, which win by their names.
    #[must_use]
    pub fn new(configured: BTreeMap<ProfileName, Profile>, prober: Prober) -> Self {
        Self::asked_by(configured, Arc::new(prober))
    }

    /// Agents of a configuration that may have changed: profiles of the user, and profiles that a file of the workspace
    /// defines. What programs answered is still known.
    #[must_use]
    pub fn with_profiles(
        self: &Arc<Self>,
        configured: BTreeMap<ProfileName, Profile>,
        of_workspace: BTreeMap<ProfileName, Profile>,
    ) -> Arc<Self> {
        let renewed = Self::asked_by(configured, Arc::clone(&self.prober));
        let renewed = renewed.of_workspace(of_workspace);
        match renewed.configured == self.configured {
            true => Arc::clone(self),
            false => Arc::new(renewed),
        }
    }

    fn asked_by(configured: BTreeMap<ProfileName, Profile>, prober: Arc<Prober>) -> Self {
        let configured = configured.into_iter();
        Self {
            configured: configured
                .map(|(name, profile)| (name, (profile, Author::User)))
                .collect(),
            all: OnceLock::new(),
            prober,
        }
    }

    /// The same, with profiles that a file of the workspace defines. They take no name of another.
    #[must_use]
    pub fn of_workspace(mut self, profiles: BTreeMap<ProfileName, Profile>) -> Self {
        for (name, profile) in profiles {
            if !ready::is_ready(name.as_str()) {
                let of_workspace = (profile, Author::Workspace);
                self.configured.entry(name).or_insert(of_workspace);
            }
        }
        self
    }

    fn profiles(&self) -> &BTreeMap<ProfileName, (Profile, Author)> {
        self.all.get_or_init(|| {
            let ready = ready::profiles().into_iter();
            let mut all: BTreeMap<_, _> = ready
                .map(|(name, profile)| (name, (profile, Author::Program)))
                .collect();
            all.extend(self.configured.clone());
            all
        })
    }

    /// The user's own configuration file, as messages name it.
    pub(crate) fn user_file(&self) -> &str {
        self.prober.user_file()
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &ProfileName> {
        self.profiles().keys()
    }

    /// A profile.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        let name = ProfileName::parse(name).ok()?;
        self.profiles().get(&name).map(|(profile, _)| profile)
    }

    /// Author of the profile of a name; the program where there is none.
    #[must_use]
    pub fn author(&self, name: &ProfileName) -> Author {
        let found = self.profiles().get(name);
        found.map_or(Author::Program, |(_, author)| *author)
    }

    /// The program of an agent, if it is there.
    pub(crate) fn program(&self, name: &ProfileName) -> Option<PathBuf> {
        let (profile, _) = self.profiles().get(name)?;
        self.prober.find(profile)
    }

    /// All agents by name, and whether the program of each is installed.
    #[must_use]
    pub fn availability(&self) -> Vec<(&ProfileName, bool)> {
        let profiles = self.profiles().iter();
        profiles
            .map(|(name, (profile, _))| (name, self.prober.find(profile).is_some()))
            .collect()
    }

    /// Agents whose programs are installed, without the scripted agent, which is part of this program.
    #[must_use]
    pub fn installed(&self) -> Vec<String> {
        let others = self
            .profiles()
            .iter()
            .filter(|(name, _)| name.as_str() != ready::SCRIPTED);
        let installed = others.filter(|(_, (profile, _))| self.prober.find(profile).is_some());
        installed.map(|(name, _)| name.to_string()).collect()
    }

    /// The first agent, in the order of [`ready::ORDER`], whose program is there: a person may agree to it.
    #[must_use]
    pub fn first_installed(&self) -> Option<&ProfileName> {
        let ready = ready::ORDER.iter().filter_map(|name| self.named(name).ok());
        let configured = self
            .configured
            .iter()
            .filter_map(|(name, (profile, author))| {
                let is_own = !ready::is_ready(name.as_str()) && *author != Author::Workspace;
                is_own.then_some((name, profile))
            });
        let mut all = ready.chain(configured);
        let found = all.find(|(_, profile)| self.prober.find(profile).is_some());
        found.map(|(name, _)| name)
    }

    /// Reason that a named agent cannot run. Its program is looked for and not started.
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
                    user_file: self.user_file().to_owned(),
                }),
            },
        }
    }

    /// The agent of a name that may run: its program is asked what it can do.
    ///
    /// # Errors
    /// When there is none of this name, its program is not there, or it does not answer.
    pub async fn choose(&self, name: &str) -> Result<Chosen, AgentError> {
        let (name, profile) = self.named(name)?;
        let able = self
            .prober
            .probe(name, profile, || self.installed())
            .await?;
        Ok(Chosen {
            name: name.clone(),
            profile: profile.clone(),
            author: self.author(name),
            able,
        })
    }

    fn named(&self, name: &str) -> Result<(&ProfileName, &Profile), AgentError> {
        let parsed = ProfileName::parse(name).ok();
        let found = parsed.and_then(|name| self.profiles().get_key_value(&name));
        let found = found.map(|(name, (profile, _))| (name, profile));
        found.ok_or_else(|| AgentError::Unknown {
            name: name.chars().take(100).collect(),
            agents: self.profiles().keys().map(ToString::to_string).collect(),
        })
    }
}
