//! Values of variables that look like secrets and are written out in a plan, where the name of a variable of
//! the host would do.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
};

use orchestra_plan::{
    command::{Command, Operation},
    definition::JobDefinition,
    event::Check,
    spec::{JobSpec, PlanSettings},
    value::Env,
    work::WorkSpec,
};
use orchestra_secret::{is_secret_name, is_secret_value, url_passwords};

use crate::supervise::named_in;

/// The most names that are told.
const TOLD: usize = 10;

/// What is to be said of a plan in which secrets are written out: they are kept with it, in `plans.db`. A value
/// is taken for one by the name of its variable, or where it has an address with a password; what names a
/// variable of the host (`$NAME`, `${NAME}`, `%NAME%`) is none. `None` where there is nothing to say.
#[must_use]
pub fn literal_secrets<'a>(
    settings: &PlanSettings,
    jobs: impl IntoIterator<Item = &'a JobDefinition>,
) -> Option<String> {
    let mut names = BTreeSet::new();
    of_settings(settings, &mut names);
    for job in jobs {
        let specs = [&job.work, &job.prechecks, &job.postchecks];
        of_job(&job.env, specs.into_iter().flatten(), &mut names);
    }
    said(&names)
}

/// The same of jobs that are to be made, and of settings where these are given.
pub(crate) fn literal_secrets_of<'a>(
    settings: Option<&'a PlanSettings>,
    jobs: &'a [JobSpec],
) -> Option<String> {
    let mut names = BTreeSet::new();
    let envs = envs_of(settings, jobs).into_iter();
    envs.for_each(|env| add(env, &mut names));
    said(&names)
}

/// All variables of jobs that are to be made, and of settings where these are given.
fn envs_of<'a>(settings: Option<&'a PlanSettings>, jobs: &'a [JobSpec]) -> Vec<&'a Env> {
    let mut envs = Vec::new();
    if let Some(settings) = settings {
        let works = settings.worktree_init.iter().chain(&settings.verify_ri);
        envs.push(&settings.env);
        envs.extend(works.map(|work| &work.env));
    }
    for job in jobs {
        let checks = job.prechecks.iter().chain(&job.postchecks);
        envs.push(&job.env);
        envs.extend(
            std::iter::once(&job.work)
                .chain(checks)
                .map(|work| &work.env),
        );
    }
    envs
}

/// What is to be said of values that name variables which the host has not: they are left as they are written,
/// which is rarely meant. `None` where there is nothing to say.
pub(crate) fn unset_in(
    settings: &PlanSettings,
    jobs: &[JobSpec],
    host: &BTreeMap<OsString, OsString>,
) -> Option<String> {
    let unset: BTreeSet<&str> = envs_of(Some(settings), jobs)
        .into_iter()
        .flat_map(Env::iter)
        .flat_map(|(_, value)| named_in(value))
        .filter(|name| !host.contains_key(OsStr::new(name)))
        .collect();
    if unset.is_empty() {
        return None;
    }
    Some(format!(
        "values of variables name {}, which {} not set here: such a name stays in the value as it is written",
        some_of(&unset),
        if unset.len() == 1 { "is" } else { "are" }
    ))
}

/// The same of what a command brings to a plan.
pub(crate) fn literal_secrets_in(command: &Command) -> Option<String> {
    let mut names = BTreeSet::new();
    let mut works: Vec<&WorkSpec> = Vec::new();
    let mut env = None;
    match command {
        Command::AddJobs(jobs) => jobs.iter().for_each(|job| of_spec(job, &mut names)),
        Command::Reshape(operations) => operations.iter().for_each(|operation| match operation {
            Operation::Add(job)
            | Operation::AddBefore { job, .. }
            | Operation::AddAfter { job, .. } => of_spec(job, &mut names),
            Operation::Remove { .. } | Operation::UpdateDependencies { .. } => {}
        }),
        Command::Update(patch) => env = patch.env.as_ref(),
        Command::BulkUpdate { patch, .. } => env = patch.env.as_ref(),
        Command::UpdateJob { change, .. } => {
            env = change.env.as_ref();
            let checks = change.prechecks.iter().chain(&change.postchecks);
            works.extend(change.work.iter().chain(checks.filter_map(Check::spec)));
        }
        Command::RetryPlan { retry, .. } | Command::RetryJob { retry, .. } => {
            let checks = retry.prechecks.iter().chain(&retry.postchecks).flatten();
            works.extend(retry.work.iter().chain(checks));
        }
        _ => {}
    }
    let envs = env
        .into_iter()
        .chain(works.into_iter().map(|work| &work.env));
    envs.for_each(|env| add(env, &mut names));
    said(&names)
}

fn of_spec<'a>(job: &'a JobSpec, names: &mut BTreeSet<&'a str>) {
    let checks = job.prechecks.iter().chain(&job.postchecks);
    of_job(&job.env, std::iter::once(&job.work).chain(checks), names);
}

fn of_settings<'a>(settings: &'a PlanSettings, names: &mut BTreeSet<&'a str>) {
    let specs = settings.worktree_init.iter().chain(&settings.verify_ri);
    of_job(&settings.env, specs, names);
}

fn of_job<'a>(
    env: &'a Env,
    specs: impl Iterator<Item = &'a WorkSpec>,
    names: &mut BTreeSet<&'a str>,
) {
    add(env, names);
    specs.for_each(|spec| add(&spec.env, names));
}

fn said(names: &BTreeSet<&str>) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    Some(format!(
        "the values of {} look like secrets and are stored with the plan as they are; use an environment variable instead, as in `$NAME`",
        some_of(names)
    ))
}

/// Some of the names, in a sentence.
fn some_of(names: &BTreeSet<&str>) -> String {
    let mut named: Vec<&str> = names.iter().take(TOLD).copied().collect();
    if names.len() > TOLD {
        named.push("…");
    }
    named.join(", ")
}

fn add<'a>(env: &'a Env, names: &mut BTreeSet<&'a str>) {
    let is_secret = |(name, value): &(&str, &str)| {
        let by_name = is_secret_name(name) && is_secret_value(value) && !value.contains(['$', '%']);
        by_name || url_passwords(value).any(|password| !password.contains(['$', '%']))
    };
    names.extend(env.iter().filter(is_secret).map(|(name, _)| name));
}

#[cfg(test)]
mod tests {
    use orchestra_plan::spec::Name;

    use super::*;

    #[test]
    fn secrets_that_are_written_out_are_told_by_their_names() {
        let said = |env: &str| {
            let settings = PlanSettings {
                env: serde_json::from_str(env).unwrap(),
                ..PlanSettings::of(Name::parse("p").unwrap())
            };
            literal_secrets(&settings, [])
        };
        let fine = [
            r#"{"API_KEY": "$API_KEY", "HDR_TOKEN": "Bearer ${TOKEN}", "CI": "true", "MODE": "fast-and-loose"}"#,
            r#"{"DB": "postgres://app:$DB_PASSWORD@db/x", "X_TOKEN": "%TOKEN%", "TOKENS": "100"}"#,
        ];
        for env in fine {
            assert_eq!(said(env), None, "{env}");
        }
        let told = said(r#"{"API_KEY": "sk-0123456789", "DB": "postgres://app:hunter22@db/x"}"#);
        let told = told.unwrap();
        assert!(told.contains("API_KEY, DB look like secrets"), "{told}");
        assert!(!told.contains("sk-0123456789") && !told.contains("hunter22"));
    }

    #[test]
    fn variables_that_are_not_set_are_told() {
        let host = BTreeMap::from([("SET".into(), "1".into())]);
        let said = |value: &str| {
            let env = serde_json::json!({ "A": value });
            let settings = PlanSettings {
                env: serde_json::from_value(env).unwrap(),
                ..PlanSettings::of(Name::parse("p").unwrap())
            };
            unset_in(&settings, &[], &host)
        };
        for fine in ["$SET", "${SET}x%SET%", "100% of $5", "$"] {
            assert_eq!(said(fine), None, "{fine}");
        }
        for unset in ["$UNSET", "x${UNSET}", "$SET-%UNSET%"] {
            let told = said(unset).unwrap();
            assert!(told.contains("name UNSET, which is not set"), "{told}");
        }
    }
}
