//! Tests of the graph: what is refused, and the order of what is not.

use std::{collections::HashSet, time::Instant};

use proptest::prelude::*;
use serde_json::json;

use super::{Definition, DefinitionError, Draft, JobIx, NotFound, Problem, SnapshotValidation};
use crate::{
    ids::{JobId, ProducerId},
    spec::JobSpec,
    testing::read,
};

fn id(number: usize) -> JobId {
    JobId::of_random((number as u128).to_be_bytes())
}

fn last() -> SnapshotValidation {
    SnapshotValidation {
        id: id(1_000_000),
        verify: None,
    }
}

fn spec(name: &str, dependencies: &[&str]) -> JobSpec {
    read(&json!({
        "producerId": name, "task": "do it", "work": "make", "dependencies": dependencies,
    }))
    .unwrap()
}

fn build(jobs: &[(&str, &[&str])]) -> Result<Definition, DefinitionError> {
    let jobs = jobs.iter().enumerate();
    Definition::build(jobs.map(|(n, (name, on))| (id(n), spec(name, on))), last())
}

fn names(definition: &Definition, jobs: impl IntoIterator<Item = JobIx>) -> String {
    let names: Vec<&str> = jobs
        .into_iter()
        .map(|job| definition.job(job).producer_id.as_str())
        .collect();
    names.join(" ")
}

fn error(jobs: &[(&str, &[&str])]) -> (String, &'static str) {
    let error = build(jobs).unwrap_err();
    (error.to_string(), error.code())
}

#[test]
fn the_last_job_stands_behind_all_others() {
    let diamond = build(&[
        ("end", &["left", "right", "left"]),
        ("right", &["start"]),
        ("left", &["start"]),
        ("start", &[]),
        ("alone", &[]),
    ])
    .unwrap();
    let show = |jobs: &[JobIx]| names(&diamond, jobs.iter().copied());
    assert_eq!(
        show(diamond.order()),
        "start right left end alone __snapshot-validation__"
    );
    assert_eq!(names(&diamond, diamond.roots()), "start alone");
    assert_eq!(show(diamond.leaves()), "end alone");
    let start = diamond.find("start").unwrap();
    assert_eq!(show(diamond.dependents(start)), "right left");
    assert_eq!(
        show(diamond.dependencies(diamond.find("end").unwrap())),
        "left right"
    );
    let end = diamond.job(diamond.snapshot_validation());
    assert!(end.is_snapshot_validation() && end.expects_no_changes && end.class().is_none());
    assert_eq!(end.id, id(1_000_000));
    assert_eq!(diamond.len(), 6);
}

#[test]
fn what_is_wrong_is_named() {
    assert_eq!(
        error(&[]),
        ("a plan needs at least one job".to_owned(), "plan-empty")
    );
    assert_eq!(
        error(&[("one", &[]), ("one", &[])]),
        (
            "two jobs have the producerId `one`; each job needs its own".to_owned(),
            "duplicate-producer-id"
        )
    );
    assert_eq!(
        error(&[("one", &["one"])]),
        ("job `one` depends on itself".to_owned(), "self-dependency")
    );
    assert_eq!(
        error(&[("one", &["two", "tree"]), ("two", &["four"])]),
        (
            "job `one` depends on `tree`, which is not a job of this plan; job `two` depends on \
             `four`, which is not a job of this plan; the plan's jobs: one, two"
                .to_owned(),
            "unknown-dependency"
        )
    );
    assert_eq!(
        error(&[
            ("dep", &["ccc"]),
            ("aaa", &["bbb"]),
            ("bbb", &["ccc"]),
            ("ccc", &["aaa"])
        ]),
        (
            "the dependencies form a cycle: `aaa` → `bbb` → `ccc` → `aaa`".to_owned(),
            "dependency-cycle"
        )
    );
    let mut reserved = spec("one", &[]);
    reserved.producer_id = ProducerId::snapshot_validation();
    let error = Draft::new().add(id(1), reserved).unwrap_err();
    assert_eq!(error.code(), "reserved-producer-id");
    let error = Definition::build([(last().id, spec("one", &[]))], last()).unwrap_err();
    assert_eq!(error.code(), "duplicate-job-id");
}

#[test]
fn messages_are_bounded() {
    let name = |n: usize| format!("{n:-<60}");
    let on = [name(2), name(3), name(4)];
    let on: Vec<&str> = on.iter().map(String::as_str).collect();
    let wrong = (10..2_000).map(|n| (id(n), spec(&name(n), &on)));
    let error = Definition::build(wrong, last()).unwrap_err();
    assert_eq!(error.problems().len(), DefinitionError::MAX_PROBLEMS);
    let text = error.to_string();
    assert!(
        text.contains("; and 5950 more; ") && text.ends_with(" and 1960 more"),
        "{text}"
    );
    assert!(text.len() < 8_000, "{}", text.len());
    let ring = (0..2_000).map(|n| (id(n), spec(&name(n), &[&name((n + 1) % 2_000)])));
    let text = Definition::build(ring, last()).unwrap_err().to_string();
    assert!(
        text.contains("… 1984 more …") && text.len() < 3_000,
        "{text}"
    );
}

#[test]
fn a_draft_takes_jobs_in_any_order_and_all_or_none() {
    let mut draft = Draft::new();
    draft
        .add_all([(id(1), spec("two", &["one"])), (id(2), spec("one", &[]))])
        .unwrap();
    let before = draft.clone();
    let more = [
        (id(3), spec("three", &[])),
        (id(4), spec("one", &[])),
        (id(1), spec("four", &[])),
    ];
    let error = draft.add_all(more).unwrap_err();
    let codes: Vec<&str> = error.problems().iter().map(Problem::code).collect();
    assert_eq!(codes, ["duplicate-producer-id", "duplicate-job-id"]);
    assert_eq!(draft, before);
    draft.finish(last()).unwrap();

    draft.add(id(3), spec("three", &["nowhere"])).unwrap();
    assert_eq!(
        draft.finish(last()).unwrap_err().code(),
        "unknown-dependency"
    );
    draft
        .set_dependencies(id(3), vec!["two".parse().unwrap()])
        .unwrap();
    let graph = draft.finish(last()).unwrap();
    assert_eq!(
        names(&graph, graph.order().to_vec()),
        "one two three __snapshot-validation__"
    );
    draft
        .set_dependencies(id(2), vec!["three".parse().unwrap()])
        .unwrap();
    assert_eq!(draft.finish(last()).unwrap_err().code(), "dependency-cycle");
    let own = vec!["one".parse().unwrap()];
    assert_eq!(
        draft.set_dependencies(id(2), own).unwrap_err().code(),
        "self-dependency"
    );
    assert_eq!(draft.remove(id(9)).unwrap_err().code(), "job-unknown");
    draft.remove(id(3)).unwrap();
    assert!(draft.by_id(id(3)).is_none() && draft.by_id(id(2)).is_some());
}

#[test]
fn a_change_keeps_id_and_name() {
    let graph = build(&[("one", &[]), ("two", &["one"])]).unwrap();
    let mut draft = graph.edit();
    draft
        .change(id(0), |job| {
            job.id = id(5);
            job.producer_id = "other".parse().unwrap();
            job.auto_heal = false;
        })
        .unwrap();
    let changed = draft.finish(graph.last()).unwrap();
    let job = changed.job(changed.find("one").unwrap());
    assert!(job.id == id(0) && !job.auto_heal);
    assert_eq!(graph.edit().finish(graph.last()).unwrap(), graph);
}

#[test]
fn groups_nest() {
    let job = |name: &str, group: Option<&str>| -> JobSpec {
        read(&json!({"producerId": name, "task": "t", "work": "w", "group": group})).unwrap()
    };
    let jobs = [
        job("one", Some("a/b")),
        job("two", None),
        job("three", Some("a")),
        job("four", Some("c")),
        job("five", Some("a/b")),
    ];
    let jobs = jobs.into_iter().enumerate().map(|(n, job)| (id(n), job));
    let graph = Definition::build(jobs, last()).unwrap();
    let paths: Vec<&str> = graph
        .groups()
        .iter()
        .map(|group| group.path.as_str())
        .collect();
    assert_eq!(paths, ["a", "a/b", "c", "Snapshot Validation"]);
    let group = graph.group_of(graph.find("five").unwrap()).unwrap();
    let parent = graph.group(group).parent.unwrap();
    assert_eq!(graph.group(parent).children, [group]);
    assert_eq!(names(&graph, graph.group(group).jobs.clone()), "one five");
    assert_eq!(names(&graph, graph.jobs_below(parent)), "one three five");
    assert_eq!(graph.group_of(graph.find("two").unwrap()), None);
}

#[test]
fn jobs_are_found_by_id_producer_id_and_name() {
    let mut one = spec("one", &[]);
    one.name = Some("Build it".parse().unwrap());
    let mut two = spec("two", &[]);
    two.name = Some("Test".parse().unwrap());
    let mut three = spec("three", &[]);
    three.name = Some("TEST".parse().unwrap());
    let jobs = [(id(1), one), (id(2), two), (id(3), three)];
    let graph = Definition::build(jobs, last()).unwrap();
    let find = |text: &str| graph.find(text).map(JobIx::get);
    assert_eq!(find("one"), Ok(0));
    assert_eq!(find(&id(2).to_string().to_uppercase()), Ok(1));
    assert_eq!(find(" build IT "), Ok(0));
    assert_eq!(find("__snapshot-validation__"), Ok(3));
    let candidates = "two, three".to_owned();
    assert_eq!(
        find("test"),
        Err(NotFound::Ambiguous {
            asked: "test".to_owned(),
            candidates
        })
    );
    let error = find("four").unwrap_err();
    assert_eq!(error.code(), "job-unknown");
    assert_eq!(
        error.to_string(),
        "the plan has no job `four`; its jobs: one, two, three, __snapshot-validation__"
    );
}

#[test]
fn a_definition_is_kept_as_its_jobs() {
    let graph = build(&[("one", &[]), ("two", &["one"])]).unwrap();
    let text = serde_json::to_string(&graph).unwrap();
    assert_eq!(serde_json::from_str::<Definition>(&text).unwrap(), graph);
    let draft = graph.edit();
    let text = serde_json::to_string(&draft).unwrap();
    assert_eq!(serde_json::from_str::<Draft>(&text).unwrap(), draft);
    assert!(
        serde_json::from_str::<Definition>(&text).is_err(),
        "the last job is missing"
    );
}

#[test]
fn warnings_name_what_they_are_about() {
    let mut checked = spec("checked", &[]);
    checked.postchecks = Some("make test".parse().unwrap());
    let mut much = spec("much", &["checked"]);
    much.work =
        "@agent write tls.rs aes.rs rsa.rs a1.rs a2.rs a3.rs a4.rs a5.rs a6.rs a7.rs a8.rs \
        a9.rs in 900 lines, the protocol and its handshake"
            .parse()
            .unwrap();
    let graph = Definition::build([(id(1), checked), (id(2), much)], last()).unwrap();
    let warnings = graph.warnings();
    let codes: Vec<&str> = warnings.iter().map(super::Warning::code).collect();
    assert_eq!(codes, ["no-postchecks", "complex"]);
    assert_eq!(
        warnings[0].to_string(),
        "no postchecks verify the results of these jobs: much"
    );
}

#[test]
fn ten_thousand_jobs_take_no_time() {
    let jobs: Vec<(JobId, JobSpec)> = (0..Definition::MAX_JOBS)
        .map(|n| {
            let name = |n: usize| format!("job-{n}");
            let on: Vec<String> = (1..=8)
                .filter_map(|back| n.checked_sub(back * 7))
                .map(name)
                .collect();
            let on: Vec<&str> = on.iter().map(String::as_str).collect();
            (id(n), spec(&name(n), &on))
        })
        .collect();
    let mut draft = Draft::new();
    draft.add_all(jobs).unwrap();
    let start = Instant::now();
    let graph = draft.finish(last()).unwrap();
    let took = start.elapsed();
    assert_eq!(graph.len(), 10_001);
    assert!(took.as_millis() < 2_000, "{took:?}");
    println!("10 000 jobs: {took:?}");
    let error = draft.add(id(20_000), spec("one-more", &[])).unwrap_err();
    assert_eq!(error.code(), "plan-too-large");
}

/// A graph of jobs in any order; each edge goes from a higher to a lower rank, so that no job waits
/// for itself.
fn dag() -> impl Strategy<Value = Vec<(String, Vec<String>)>> {
    (1..40_usize)
        .prop_flat_map(|count| {
            let edges = prop::collection::vec((0..count, 0..count), 0..3 * count);
            let ranks = Just((0..count).collect::<Vec<usize>>()).prop_shuffle();
            (ranks, edges)
        })
        .prop_map(|(ranks, edges)| {
            let name = |rank: usize| format!("job-{rank}");
            let on = |rank: usize| {
                edges
                    .iter()
                    .filter(|(from, to)| from.max(to) == &rank && from != to)
                    .map(|(from, to)| name(*from.min(to)))
                    .collect()
            };
            ranks.iter().map(|rank| (name(*rank), on(*rank))).collect()
        })
}

fn built(jobs: &[(String, Vec<String>)]) -> Result<Definition, DefinitionError> {
    let jobs = jobs.iter().enumerate().map(|(n, (name, on))| {
        let on: Vec<&str> = on.iter().map(String::as_str).collect();
        (id(n), spec(name, &on))
    });
    Definition::build(jobs, last())
}

proptest! {
    #[test]
    fn the_order_is_topological(jobs in dag()) {
        let graph = built(&jobs).unwrap();
        let mut done = HashSet::new();
        for job in graph.order() {
            prop_assert!(graph.dependencies(*job).iter().all(|on| done.contains(on)));
            prop_assert!(done.insert(*job));
        }
        prop_assert_eq!(done.len(), graph.len());
        for job in graph.all() {
            let is_last = job == graph.snapshot_validation();
            prop_assert_eq!(graph.dependents(job).is_empty(), is_last);
            for on in graph.dependencies(job) {
                prop_assert!(graph.dependents(*on).contains(&job));
            }
        }
        let text = serde_json::to_string(&graph).unwrap();
        prop_assert_eq!(serde_json::from_str::<Definition>(&text).unwrap(), graph);
    }

    #[test]
    fn cycles_are_found(jobs in dag(), at: prop::sample::Index, to: prop::sample::Index) {
        let graph = built(&jobs).unwrap();
        let (from, to) = (at.index(jobs.len()), to.index(jobs.len()));
        let closes = {
            let mut open = vec![JobIx::new(from)];
            let mut seen = HashSet::new();
            while let Some(job) = open.pop() {
                if seen.insert(job) {
                    open.extend(graph.dependents(job));
                }
            }
            seen.contains(&JobIx::new(to))
        };
        // `from` is made to depend on `to`, which may depend on `from`.
        let mut changed = jobs.clone();
        let name = changed[to].0.clone();
        changed[from].1.push(name);
        match built(&changed) {
            Ok(_) => prop_assert!(!closes),
            Err(error) => {
                prop_assert!(closes);
                let [Problem::Cycle { jobs: cycle }] = error.problems() else {
                    prop_assert_eq!(error.code(), "self-dependency");
                    return Ok(());
                };
                for (at, job) in cycle.iter().enumerate() {
                    let next = &cycle[(at + 1) % cycle.len()];
                    let (_, on) = changed.iter().find(|(name, _)| name == job.as_str()).unwrap();
                    prop_assert!(on.iter().any(|on| on == next.as_str()));
                }
            }
        }
    }
}
