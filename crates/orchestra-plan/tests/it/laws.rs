//! What must hold at every moment.

use orchestra_plan::plan::{AttemptStatus, Plan};
use orchestra_plan::schedule::{Limits, Scheduler};
use orchestra_plan::status::{Counts, JobStatus};
use orchestra_plan::work::AdmissionClass;

/// Holds what a plan keeps incrementally against what it is worked out to be from its jobs.
pub(crate) fn check(plan: &Plan) {
    let mut counts = Counts::default();
    for job in plan.jobs() {
        counts.add(job.status());
        let name = job.producer();
        let done = |status: JobStatus| status == JobStatus::Succeeded;
        let ready = plan.dependencies(job).all(|other| done(other.status()));
        let dead = plan.dependencies(job).any(|other| other.status().is_dead());
        match job.status() {
            JobStatus::Pending => assert!(!ready && !dead, "{name} should not be pending"),
            JobStatus::Ready
            | JobStatus::Scheduled
            | JobStatus::Running
            | JobStatus::CompletedSplit
            | JobStatus::Succeeded => assert!(ready, "{name} is {} too early", job.status()),
            JobStatus::Blocked => {
                assert!(dead, "{name} should not be blocked");
                let origin = plan.job(job.blocked_by().unwrap()).unwrap();
                assert!(
                    origin.status().is_dead(),
                    "{name} is blocked by a job that is not dead"
                );
                assert!(job.error().unwrap().contains(origin.producer().as_str()));
            }
            JobStatus::Failed => assert!(job.error().is_some() && job.failure().is_some()),
            JobStatus::Canceled => assert!(job.error().is_some()),
        }
        let running = job
            .attempts()
            .iter()
            .filter(|one| one.status == AttemptStatus::Running);
        let expected = usize::from(job.status() == JobStatus::Running);
        assert_eq!(running.count(), expected, "attempts of {name} under way");
        assert_eq!(job.running().is_some(), expected == 1);
        for (at, attempt) in job.attempts().iter().enumerate() {
            assert_eq!(usize::try_from(attempt.number.get()).unwrap(), at + 1);
        }
        assert_eq!(
            job.ended_at().is_some(),
            job.status().is_terminal(),
            "{name}"
        );
    }
    assert_eq!(&counts, plan.counts());
    let of = |status: JobStatus| plan.jobs().iter().filter(move |job| job.status() == status);
    assert!(
        plan.ready()
            .map(|job| job.id())
            .eq(of(JobStatus::Ready).map(|job| job.id()))
    );
    let active = plan.jobs().iter().filter(|job| job.status().is_active());
    assert!(
        plan.active()
            .map(|job| job.id())
            .eq(active.map(|job| job.id()))
    );
    let over = counts.terminal() == counts.total() && !plan.is_scaffolding();
    assert_eq!(plan.ended_at().is_some(), over);
    groups(plan);
}

fn groups(plan: &Plan) {
    for group in plan.groups().all() {
        let mut counts = Counts::default();
        for job in plan.jobs() {
            let path = job.group().map_or("", |group| group.as_str());
            let rest = path.strip_prefix(group.path.as_str());
            if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                counts.add(job.status());
            }
        }
        assert_eq!(counts, group.counts, "{}", group.path);
    }
}

/// Nothing that was just started is over a limit.
pub(crate) fn within_limits(scheduler: &Scheduler, limits: &Limits, plan: &Plan) {
    let holds = |used: u32, limit: u32| limit == 0 || used <= limit;
    assert!(holds(scheduler.active(), limits.total));
    assert!(holds(plan.counts().active(), plan.max_parallel()));
    for class in AdmissionClass::ALL {
        assert!(holds(scheduler.active_of(*class), limits.of(*class)));
    }
}
