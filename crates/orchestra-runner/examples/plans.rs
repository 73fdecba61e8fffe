//! A program for the tests of plans: supervisor, guard, scripted agent and background runner, as the
//! program itself is, and processes that take part in running plans.

#![expect(clippy::print_stdout, reason = "what it prints is what tests read")]
#![expect(clippy::unwrap_used, reason = "a fixture fails by panicking")]

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use orchestra_plan::{ids::PlanId, outcome::Policy, spec::PlanSpec, work::ProfileName};
use orchestra_process::{CHILD_COMMAND, Launcher, child_main};
use orchestra_runner::{
    agents::{Agents, Named, Prober, ready, scripted},
    git::GitSettings,
    plans::{Background, Caller, Machine, Options, Plans, Trust},
    runner,
    supervise::{JOB_COMMAND, job_main},
};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == CHILD_COMMAND {
        return child_main(arguments);
    }
    if first == JOB_COMMAND {
        return job_main();
    }
    if first == scripted::COMMAND {
        return scripted::main(arguments);
    }
    let rest: Vec<String> = arguments.map(|word| word.into_string().unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let options = options(Path::new(&rest[0]), Path::new(&rest[1]));
    runtime.block_on(async {
        match first.to_str().unwrap() {
            "__runner" => runner::background(options).await.unwrap(),
            "attend" => attend(options).await,
            "run" => run(options, Path::new(&rest[2])).await,
            "show" => show(options, &rest[2]).await,
            other => panic!("{other}?"),
        }
    });
    ExitCode::SUCCESS
}

/// Takes part until its input ends.
async fn attend(options: Options) {
    let plans = Plans::new(options);
    println!("attends {}", plans.attend().await.unwrap());
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    ended.await.unwrap().unwrap();
    println!("{:?}", plans.close(Duration::from_secs(20)).await.unwrap());
}

/// Makes the plan of a file, unless its key says that it is made, and waits for its end.
async fn run(options: Options, file: &Path) {
    let spec: PlanSpec = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let plans = Plans::new(options);
    let caller = Caller::named("run");
    let jobs = spec.jobs.into_vec();
    let made = plans.create(spec.settings, jobs, false, &caller).await;
    let made = made.unwrap();
    println!("{}", made.plan);
    let ended = plans.wait(made.plan).await.unwrap();
    println!("{}", ended.status());
    plans.close(Duration::from_secs(20)).await.unwrap();
}

/// Prints how a plan stands.
async fn show(options: Options, plan: &str) {
    let plans = Plans::new(options);
    let plan = plans.plan(PlanId::parse(plan).unwrap()).await.unwrap();
    println!("{} {}", plan.name(), plan.status());
}

/// As the tests have them.
fn options(workspace: &Path, storage: &Path) -> Options {
    let this = std::env::current_exe().unwrap();
    let var = |name: &str| std::env::var_os(name);
    let prober = Prober::new(var("PATH").unwrap(), this.clone());
    let agents = Agents::new(BTreeMap::new(), prober);
    let scripted = ProfileName::parse(ready::SCRIPTED).unwrap();
    let git = ["HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM"];
    let git = git
        .iter()
        .filter_map(|name| Some((OsString::from(name), var(name)?)));
    let machine = var("PLANS_SLOTS").map(|directory| Machine {
        directory: directory.into(),
        slots: 1,
    });
    Options {
        machine,
        agents: Arc::new(agents),
        named: Named::of_user(Some(scripted.clone()), Some(scripted)),
        supervisor: Some(Launcher::new(&this, [JOB_COMMAND])),
        background: Some(Background {
            program: PathBuf::from(&this),
            arguments: vec!["__runner".into(), workspace.into(), storage.into()],
        }),
        git: GitSettings {
            environment: git.collect(),
            ..GitSettings::default()
        },
        policy: Policy {
            // Plans of these tests fail more often than the default limit allows.
            heals_max: 4,
            plan_heals_max: u32::MAX,
            heal_cost_max: u64::MAX,
            losses_max: 1_000,
            ..Policy::default()
        },
        quiet: Duration::from_millis(300),
        trust: Trust::Any,
        ..Options::new(workspace, storage)
    }
}
