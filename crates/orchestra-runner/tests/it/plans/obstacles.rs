//! What repositories and machines put in the way of plans.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    time::Duration,
};

use orchestra_plan::{
    command::{Command as Ask, Retry},
    ids::Branch,
    spec::{JobSpec, PlanSettings},
    status::{JobStatus, PlanStatus},
    work::WorkSpec,
};
use orchestra_runner::plans::{Caller, Closed, Options, Plans, PlansError};

use super::{
    rig::{PATIENCE, Rig, create, ended, job, settings, status, succeeded, told},
    witness::{nothing_is_kept, picture},
};

use crate::small_disk::SmallDisk;

async fn refused(plans: &Plans) -> PlansError {
    let jobs = vec![job("one", &[], "echo 1 > one.txt")];
    let caller = Caller::named("a test");
    let made = plans
        .create(settings("Refused"), jobs, false, &caller)
        .await;
    made.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_that_nobody_solves_fails_its_job_and_names_the_file() {
    let rig = Rig::new();
    let script = rig.home().join("script.json");
    // The agent says that it is done, and has done nothing.
    fs::write(&script, r#"{"steps": [{"do": ["complete"]}]}"#).unwrap();
    let mut options = rig.options();
    let variable = "ORCHESTRA_AGENT_SCRIPT".into();
    options.environment.insert(variable, script.into());
    let plans = Plans::new(options);
    let before = picture(&rig.root);
    let jobs = vec![
        job("left", &[], "echo left > 'same file 🎈.txt'"),
        job("right", &[], "echo right > 'same file 🎈.txt'"),
        job("both", &["left", "right"], "echo both > both.txt"),
        job("after", &["both"], "echo after > after.txt"),
    ];
    let made = create(&plans, settings("Conflict"), jobs).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(status(&plan, "both"), JobStatus::Failed, "{}", told(&plan));
    assert_eq!(status(&plan, "after"), JobStatus::Blocked);
    let words = plan.find("both").unwrap().error().unwrap().to_owned();
    assert!(words.contains("same file 🎈.txt"), "{words}");
    // Whose work it is, and where and how it is solved.
    let worktree = plan.find("both").unwrap().worktree().unwrap();
    for said in [
        "the work of job `left`",
        "the work of job `right`",
        worktree,
        "retry the job",
    ] {
        assert!(words.contains(said), "{said}: {words}");
    }
    assert_eq!(picture(&rig.root), before);
    assert!(
        !rig.try_git(&["rev-parse", "-q", "--verify", "result"])
            .status
            .success()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_changes_nothing_fails_unless_that_is_expected() {
    let rig = Rig::new();
    let plans = rig.plans();
    let mut expected = job("expected", &[], "true");
    expected.expects_no_changes = true;
    let jobs = vec![
        expected,
        job("idle", &[], "true"),
        job("after", &["expected"], "echo 1 > a.txt"),
    ];
    let mut idle = settings("Idle");
    idle.env = serde_json::from_str(r#"{"NOTHING": "1"}"#).unwrap();
    let made = create(&plans, idle, jobs).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(
        status(&plan, "expected"),
        JobStatus::Succeeded,
        "{}",
        told(&plan)
    );
    assert_eq!(status(&plan, "after"), JobStatus::Succeeded);
    assert_eq!(status(&plan, "idle"), JobStatus::Failed);
    let words = plan.find("idle").unwrap().error().unwrap().to_owned();
    assert!(words.contains("expectsNoChanges"), "{words}");
}

/// What a job says of its work is of that attempt, and excuses no other.
#[tokio::test(flavor = "multi_thread")]
async fn evidence_of_an_earlier_attempt_excuses_no_other() {
    let rig = Rig::new();
    let plans = rig.plans();
    let line = "mkdir -p .orchestrator/evidence; ID=$(basename \"$PWD\"); printf \
         '{\"version\":1,\"nodeId\":\"%s\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"summary\":\"looked\"}' \
         \"$ID\" > .orchestrator/evidence/$ID.json; echo 1 > one.txt";
    let looks = JobSpec {
        auto_heal: false,
        postchecks: Some(WorkSpec::parse("false").unwrap()),
        ..job("looks", &[], line)
    };
    let made = create(&plans, settings("Evidence"), vec![looks]).await;
    ended(&plans, made.plan).await;
    for (work, ends) in [("true", JobStatus::Failed), (line, JobStatus::Succeeded)] {
        let retry = Retry {
            work: Some(WorkSpec::parse(&work.replace("; echo 1 > one.txt", "")).unwrap()),
            postchecks: Some(None),
            clear_worktree: true,
            ..Retry::default()
        };
        let job = "looks".to_owned();
        let retry = Ask::RetryJob { job, retry };
        plans
            .command(made.plan, retry, &Caller::default())
            .await
            .unwrap();
        let plan = ended(&plans, made.plan).await;
        assert_eq!(status(&plan, "looks"), ends, "{}", told(&plan));
    }
}

/// A repository with what repositories have.
fn strange() -> Rig {
    let rig = Rig::new();
    let root = &rig.root;
    let noise: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    fs::write(root.join("noise.bin"), noise).unwrap();
    fs::create_dir(root.join("a folder 🎈")).unwrap();
    fs::write(root.join("a folder 🎈/ein Stück\tText.txt"), "é\r\n").unwrap();
    symlink("README", root.join("link")).unwrap();
    symlink("/nowhere/at/all", root.join("dangling")).unwrap();
    fs::write(root.join("Case.txt"), "upper\n").unwrap();
    fs::write(root.join("case.txt"), "lower\n").unwrap();
    fs::write(root.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(
        root.join("large.psd"),
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
    )
    .unwrap();
    fs::write(
        root.join(".gitattributes"),
        "*.psd filter=lfs diff=lfs merge=lfs -text\n*.bin -text\n",
    )
    .unwrap();
    rig.git(&["add", "-A"]);
    rig.git(&["commit", "-q", "-m", "strange"]);
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn strange_files_come_through_a_plan_as_they_are() {
    let rig = strange();
    let plans = rig.plans();
    let before = picture(&rig.root);
    let jobs = vec![
        job(
            "binary",
            &[],
            "test -s noise.bin && printf '\\001\\000\\002' >> noise.bin",
        ),
        job(
            "names",
            &[],
            "mv 'a folder 🎈/ein Stück\tText.txt' 'a folder 🎈/neu \"x\" 🚀.txt'",
        ),
        job(
            "links",
            &[],
            "test -L link && test -L dangling && ln -s case.txt other && rm dangling",
        ),
        job(
            "cases",
            &["names"],
            "test \"$(cat Case.txt case.txt)\" = \"$(printf 'upper\\nlower')\" && echo more > CASE.txt",
        ),
        job(
            "modes",
            &["links"],
            "test -x run.sh && chmod -x run.sh && echo x > new.sh && chmod +x new.sh",
        ),
        job(
            "pointers",
            &["binary", "cases"],
            "grep -q git-lfs large.psd && cp large.psd copy.psd",
        ),
    ];
    let made = create(&plans, settings("Strange"), jobs).await;
    succeeded(&plans, made.plan).await;
    let listed = rig.git(&["ls-tree", "-r", "-z", "result"]);
    let has = |mode: &str, path: &str| {
        listed
            .split('\0')
            .any(|line| line.starts_with(mode) && line.ends_with(&format!("\t{path}")))
    };
    assert!(
        has("120000", "other") && has("120000", "link") && !has("", "dangling"),
        "{listed}"
    );
    assert!(
        has("100644", "run.sh") && has("100755", "new.sh"),
        "{listed}"
    );
    for name in [
        "Case.txt",
        "case.txt",
        "CASE.txt",
        "copy.psd",
        "a folder 🎈/neu \"x\" 🚀.txt",
    ] {
        assert!(has("100644", name), "{name}: {listed}");
    }
    assert_eq!(
        rig.file("result", "copy.psd"),
        rig.file("main", "large.psd")
    );
    let size = rig.git(&["cat-file", "-s", "result:noise.bin"]);
    assert_eq!(size.trim(), "70003");
    assert_eq!(picture(&rig.root), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submodule_stays_at_its_commit() {
    let rig = Rig::new();
    let other = Rig::new();
    let from = other.root.to_str().unwrap();
    rig.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        from,
        "parts",
    ]);
    rig.git(&["commit", "-q", "-m", "with parts"]);
    let plans = rig.plans();
    let before = picture(&rig.root);
    let jobs = vec![
        job("one", &[], "echo 1 > one.txt"),
        job("two", &[], "echo 2 > two.txt"),
        job("both", &["one", "two"], "cat one.txt two.txt > both.txt"),
    ];
    let made = create(&plans, settings("Parts"), jobs).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(
        rig.git(&["ls-tree", "result", "parts"]),
        rig.git(&["ls-tree", "main", "parts"])
    );
    assert_eq!(rig.file("result", "both.txt"), "1\n2\n");
    assert_eq!(picture(&rig.root), before);
    nothing_is_kept(&rig, &["main", "result"], "parts").await;

    // A job that works in it: what it commits there is what the target names, and stays there.
    let line = "cd parts && echo more > more.txt && git add more.txt && \
                git -c user.name=J -c user.email=j@example.org commit -qm more";
    let forgets = "echo x > parts/forgotten.txt; echo 1 > three.txt";
    let mut careless = job("careless", &["deep"], forgets);
    careless.auto_heal = false;
    let settings = PlanSettings {
        target_branch: Some(Branch::parse("deep").unwrap()),
        ..settings("Deep")
    };
    let made = create(&plans, settings.clone(), vec![job("deep", &[], line)]).await;
    succeeded(&plans, made.plan).await;
    let entry = rig.git(&["ls-tree", "deep", "parts"]);
    let commit = entry.split_whitespace().nth(2).unwrap().to_owned();
    assert_ne!(entry, rig.git(&["ls-tree", "main", "parts"]));
    // Once its worktrees are gone.
    assert_eq!(plans.close(PATIENCE).await.unwrap(), Closed::Idle);
    rig.git(&["-C", "parts", "gc", "-q", "--prune=now"]);
    rig.git(&["-C", "parts", "cat-file", "-e", &commit]);
    let plans = rig.plans();
    // What it leaves there without a commit is not lost without a word.
    let jobs = vec![job("deep", &[], "echo 2 > two.txt"), careless];
    let made = create(&plans, settings, jobs).await;
    let plan = ended(&plans, made.plan).await;
    let failure = plan.find("careless").unwrap().failure().unwrap();
    assert!(failure.message.contains("parts"), "{}", failure.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_that_fail_are_not_asked() {
    let rig = Rig::new();
    let ran = rig.home().join("ran");
    let hooks = rig.root.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    let names = [
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "post-checkout",
        "pre-merge-commit",
        "post-merge",
        "pre-rebase",
        "reference-transaction",
        "post-index-change",
        "update",
    ];
    for name in names {
        let hook = hooks.join(name);
        fs::write(
            &hook,
            format!("#!/bin/sh\necho {name} >> '{}'\nexit 1\n", ran.display()),
        )
        .unwrap();
        fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let plans = rig.plans();
    let jobs = vec![
        job("one", &[], "echo 1 > one.txt"),
        job("two", &[], "echo 2 > two.txt"),
        job("both", &["one", "two"], "cat one.txt two.txt > both.txt"),
    ];
    let made = create(&plans, settings("Hooks"), jobs).await;
    succeeded(&plans, made.plan).await;
    assert_eq!(fs::read_to_string(ran).unwrap_or_default(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_git_a_plan_is_refused_and_it_is_said_what_to_do() {
    let rig = Rig::new();
    let mut options = rig.options();
    options.git.program = PathBuf::from("/nowhere/git");
    let plans = Plans::new(options);
    let error = refused(&plans).await;
    assert_eq!(error.code(), "git-missing", "{error}");
    assert!(error.to_string().contains("install"), "{error}");
    assert!(plans.list().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_bare_repository_a_plan_is_refused_and_it_is_said_what_to_do() {
    let rig = Rig::new();
    let bare = rig.home().join("bare.git");
    rig.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let storage = rig.home().join("plans");
    let plans = Plans::new(Options {
        workspace: bare,
        storage,
        ..rig.options()
    });
    let error = refused(&plans).await;
    assert_eq!(error.code(), "bare-repository", "{error}");
    assert!(error.to_string().contains("clone"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_of_any_repository_a_plan_is_refused() {
    let rig = Rig::new();
    let place = rig.home().join("nothing here");
    fs::create_dir(&place).unwrap();
    let storage = rig.home().join("plans");
    let plans = Plans::new(Options {
        workspace: place,
        storage,
        ..rig.options()
    });
    let error = refused(&plans).await;
    assert_eq!(error.code(), "not-a-repository", "{error}");
    assert!(error.to_string().contains("git init"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing_and_a_retry_goes_on() {
    let rig = Rig::new();
    let disk = rig.home().join("disk");
    let Some(_disk) = SmallDisk::mount(&disk, 24) else {
        return;
    };
    let root = disk.join("repo");
    rig.git(&["clone", "-q", "--no-hardlinks", ".", root.to_str().unwrap()]);
    // The plans are kept elsewhere; what fills up is the disk of the repository.
    let plans = Plans::new(Options {
        workspace: root.clone(),
        ..rig.options()
    });
    let before = picture(&root);
    let filler = disk.join("filler");
    let fill = format!(
        "head -c 40000000 /dev/zero > '{}'; echo 1 > one.txt",
        filler.display()
    );
    let mut first = job("first", &[], "echo 0 > zero.txt");
    first.auto_heal = false;
    let mut fills = job("fills", &["first"], &fill);
    fills.auto_heal = false;
    let jobs = vec![first, fills, job("after", &["fills"], "echo 2 > two.txt")];
    let made = create(&plans, settings("Full"), jobs).await;
    let plan = ended(&plans, made.plan).await;
    assert_eq!(
        status(&plan, "first"),
        JobStatus::Succeeded,
        "{}",
        told(&plan)
    );
    assert_ne!(plan.status(), PlanStatus::Succeeded, "{}", told(&plan));
    assert_eq!(picture(&root), before);

    fs::write(&filler, "").unwrap();
    let retry = Ask::RetryJob {
        job: "fills".to_owned(),
        retry: Retry {
            work: Some(orchestra_plan::work::WorkSpec::parse("echo 1 > one.txt").unwrap()),
            ..Retry::default()
        },
    };
    let caller = Caller::named("a test");
    plans.command(made.plan, retry, &caller).await.unwrap();
    succeeded(&plans, made.plan).await;
    let git = |words: &[&str]| {
        let mut all = vec!["-C", root.to_str().unwrap()];
        all.extend(words);
        rig.git(&all)
    };
    assert_eq!(git(&["show", "result:one.txt"]), "1\n");
    assert_eq!(git(&["show", "result:two.txt"]), "2\n");
    assert_eq!(picture(&root), before);
    // The worktree of the snapshot goes after the plan has ended.
    while git(&["worktree", "list"]).lines().count() > 1 {
        tokio::task::yield_now().await;
    }
    git(&["fsck", "--strict", "--no-dangling"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_below_the_plans_acknowledges_nothing_and_they_go_on_afterwards() {
    let rig = Rig::new();
    let disk = rig.home().join("disk");
    let Some(_disk) = SmallDisk::mount(&disk, 24) else {
        return;
    };
    let options = || Options {
        storage: disk.join("plans"),
        ..rig.options()
    };
    let plans = Plans::new(options());
    let mut paused = settings("Before");
    paused.start_paused = true;
    let made = create(&plans, paused, vec![job("one", &[], "echo 1 > one.txt")]).await;
    let filler = disk.join("filler");
    let _ = fs::write(&filler, vec![0; 40 << 20]);
    // A plan so large that its event does not fit into what is left.
    let large: Vec<_> = (0..200)
        .map(|at| {
            job(
                &format!("job-{at}"),
                &[],
                &format!("echo {}", "x".repeat(5_000)),
            )
        })
        .collect();
    let caller = Caller::named("a test");
    let error = plans
        .create(settings("Too much"), large, false, &caller)
        .await;
    assert!(error.is_err(), "it was acknowledged");
    fs::remove_file(&filler).unwrap();
    plans.close(Duration::from_secs(20)).await.unwrap();

    let plans = Plans::new(options());
    let all = plans.list().await.unwrap();
    assert_eq!(
        all.len(),
        1,
        "{:?}",
        all.iter()
            .map(|plan| plan.name().to_owned())
            .collect::<Vec<_>>()
    );
    plans
        .command(made.plan, Ask::Resume, &caller)
        .await
        .unwrap();
    succeeded(&plans, made.plan).await;
    assert_eq!(rig.file("result", "one.txt"), "1\n");
}
