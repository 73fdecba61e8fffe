//! Permissions of agents by what the files of the workspace are now, and descriptions of agents for a person.
//!
//! All of it reads the files that the command lines of agents name, and may block.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use orchestra_plan::{budget::Micros, work::ProfileName};

use crate::{
    agents::{Author, Case, Covered, Denied, Difference, Offer, Permit, Profile, Purpose, decide},
    plans::Options,
};

/// Permissions of agents: the configuration, and agreements of the user as they were read.
#[derive(Debug)]
pub(crate) struct Permits {
    options: Arc<Options>,
    /// The agents that the user agreed to as they are now, in the order of their names.
    agreed: Vec<ProfileName>,
    /// The agents that the user agreed to and that changed since, with what changed.
    changed: BTreeMap<ProfileName, String>,
}

impl Permits {
    /// Permissions without any agreement of the user.
    pub(super) const fn without_agreements(options: Arc<Options>) -> Self {
        Self {
            options,
            agreed: Vec::new(),
            changed: BTreeMap::new(),
        }
    }

    /// Permissions now.
    pub(super) fn read(options: Arc<Options>) -> Self {
        let mut permits = Self::without_agreements(options);
        for (name, agreement) in agreed(&permits.options) {
            if let Some(offer) = offer(&permits.options, &name) {
                match offer.check(&agreement) {
                    Ok(()) => permits.agreed.push(offer.name),
                    Err(what) => {
                        permits.changed.insert(offer.name, what);
                    }
                }
            }
        }
        permits
    }

    /// Decides which agent may run for a purpose; `job` is the agent that the job names for its work.
    pub(crate) fn of(&self, purpose: Purpose, job: Option<&ProfileName>) -> Result<Permit, Denied> {
        let agents = &self.options.agents;
        let case = Case {
            purpose,
            job,
            named: &self.options.named,
            agreed: &self.agreed,
            changed: &self.changed,
            user_file: agents.user_file(),
        };
        decide(&case, |name| agents.author(name))
    }
}

/// Checks, directly before an agent starts in a directory, that its command line runs there what the user agreed to: a
/// job or a branch may have brought other files.
///
/// # Errors
/// When it does not.
pub(super) fn check_start(
    options: &Options,
    name: &ProfileName,
    profile: &Profile,
    directory: &Path,
) -> Result<(), Denied> {
    let agents = &options.agents;
    let user_file = || agents.user_file().to_owned();
    let Some(agreement) = agreed(options).remove(name.as_str()) else {
        return Err(Denied::Defined {
            name: name.clone(),
            user_file: user_file(),
        });
    };
    let approved = covered(options, name, profile);
    let offer = offer_of(options, name, profile, &approved);
    if let Err(what) = offer.check(&agreement) {
        return Err(Denied::Changed {
            name: name.clone(),
            what,
        });
    }
    let program = agents.program(name);
    let what = match approved.at_start(program.as_deref(), profile, directory) {
        Ok(here) => match here.difference(&approved) {
            None => return Ok(()),
            Some(Difference::Uncompared(path, why)) => {
                return Err(Denied::Uncompared {
                    name: name.clone(),
                    path,
                    why,
                    user_file: user_file(),
                });
            }
            Some(difference) => difference.to_string(),
        },
        Err(error) => error.to_string(),
    };
    Err(Denied::Replaced {
        name: name.clone(),
        what,
        directory: directory.display().to_string(),
    })
}

/// Description of an agent for a person; `None` where no agent has this name.
pub(super) fn offer(options: &Options, name: &str) -> Option<Offer> {
    let name = ProfileName::parse(name).ok()?;
    let profile = options.agents.profile(name.as_str())?;
    let covered = covered(options, &name, profile);
    Some(offer_of(options, &name, profile, &covered))
}

/// Limits of heals: number and cost.
pub(super) fn heal_limits(options: &Options) -> String {
    let policy = &options.policy;
    format!(
        "at most {} heals per job and {} per plan, up to {} USD per plan where the agent reports its cost",
        policy.heals_max,
        policy.plan_heals_max,
        Micros(policy.heal_cost_max)
    )
}

fn offer_of(options: &Options, name: &ProfileName, profile: &Profile, covered: &Covered) -> Offer {
    let (author, limits) = (options.agents.author(name), heal_limits(options));
    Offer::of(name, profile, author, &covered.lines(), &limits)
}

/// Agents that the user agreed to, and what was agreed to.
fn agreed(options: &Options) -> BTreeMap<String, String> {
    let agreements = options.agreements.as_ref();
    agreements.map(|all| all.agreed()).unwrap_or_default()
}

/// Files of the workspace that the command line of an agent names. Those of the user's own profiles and of the built-in
/// ones need no agreement; the author of a profile of the workspace may write them as well.
fn covered(options: &Options, name: &ProfileName, profile: &Profile) -> Covered {
    let agents = &options.agents;
    if agents.author(name) != Author::Workspace {
        return Covered::default();
    }
    let program = agents.program(name);
    let covered = Covered::of(program.as_deref(), profile, &options.workspace);
    // A workspace that cannot be read has no file that could run.
    covered.unwrap_or_default()
}
