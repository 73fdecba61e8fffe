//! The engine by itself.

use orchestra_plan::{
    command::{Command, NewPlan},
    event::What,
    ids::ProducerId,
    spec::{IdempotencyKey, JobSpec, Name, PlanSettings, Task},
    work::WorkSpec,
};
use serde_json::Value;

use super::*;
use crate::{journal, plans::Options};

fn order() -> Box<Order> {
    let job = JobSpec::of(
        ProducerId::parse("one").unwrap(),
        Task::parse("Do one").unwrap(),
        WorkSpec::parse("true").unwrap(),
    );
    let mut settings = PlanSettings::of(Name::parse("Once").unwrap());
    settings.start_paused = true;
    let new = NewPlan {
        id: PlanId::of_random([7; 16]),
        settings,
        jobs: vec![job],
        scaffolding: false,
        source: None,
        mark: None,
        sandboxed: false,
    };
    Box::new(Order::Create {
        new: Box::new(new),
        by: None,
    })
}

fn about(command: Command) -> Order {
    Order::Change {
        plan: PlanId::of_random([7; 16]),
        request: Box::new(Request::of(command)),
    }
}

/// Has the engine do this, one after the other, and then `rests`; what it answers, and the engine.
async fn done(
    mut engine: Engine,
    orders: Vec<Order>,
    rests: impl AsyncFnOnce(watch::Receiver<bool>),
) -> (Vec<Value>, Engine) {
    let (events, live) = (engine.events.clone(), engine.live.subscribe());
    let running = tokio::spawn(async move {
        let end = engine.turns(Turn::default()).await;
        (engine, end)
    });
    let mut answers = Vec::new();
    for order in orders {
        let (answer, answered) = oneshot::channel();
        let asked = Event::Asked {
            order: Box::new(order),
            once: None,
            answer,
        };
        events.send(asked).await.unwrap();
        answers.push(answered.await.unwrap().unwrap());
    }
    rests(live).await;
    let (end, _ended) = oneshot::channel();
    events.send(Event::End(end)).await.unwrap();
    let (engine, end) = running.await.unwrap();
    assert!(end.is_some());
    (answers, engine)
}

#[tokio::test]
async fn an_archived_plan_is_in_memory_only_while_it_is_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), journal::Options::default()).unwrap();
    let host = Arc::new(Host::new(Arc::new(Options::new(root.path(), root.path()))));
    let folded = Folded::new(root.path());
    let engine = Engine::new(host, journal, folded, Policy::default(), None);
    let make = || {
        let mut order = *order();
        if let Order::Create { new, .. } = &mut order {
            new.settings.idempotency_key = Some(IdempotencyKey::parse("k").unwrap());
        }
        order
    };
    let archive = || about(Command::Archive { force: true });
    // It begins to be put away, and is.
    let put_away = async |mut live: watch::Receiver<bool>| {
        live.changed().await.unwrap();
        live.wait_for(|live| !live).await.unwrap();
    };
    let (_, engine) = done(engine, vec![make(), archive()], put_away).await;
    assert!(engine.plans.is_empty());
    assert_eq!(engine.on_shelf(), [PlanId::of_random([7; 16])]);
    let (answers, engine) = done(engine, vec![make(), archive()], async |_| {}).await;
    assert_eq!(answers[0]["repeated"], true);
    assert_eq!(answers[1]["changed"], false);
    assert_eq!((engine.plans.len(), engine.on_shelf().len()), (0, 1));
    let (_, engine) = done(engine, vec![about(Command::Delete)], async |_| {}).await;
    assert!(engine.on_shelf().is_empty());
}

#[tokio::test]
async fn what_is_asked_again_before_it_was_answered_is_done_once() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), journal::Options::default()).unwrap();
    let host = Arc::new(Host::new(Arc::new(Options::new(root.path(), root.path()))));
    let folded = Folded::new(root.path());
    let engine = Engine::new(host, journal.clone(), folded, Policy::default(), None);
    let events = engine.events.clone();
    let ask = || {
        let (answer, answered) = oneshot::channel();
        let asked = Event::Asked {
            order: order(),
            once: OnceKey::parse("0123456789abcdef0123456789abcdef"),
            answer,
        };
        events.try_send(asked).unwrap();
        answered
    };
    // In one turn, and in a later one.
    let (first, second) = (ask(), ask());
    let running = tokio::spawn(engine.run(Turn::default()));
    let first = first.await.unwrap().unwrap();
    assert_eq!(second.await.unwrap().unwrap(), first);
    let third = ask();
    assert_eq!(third.await.unwrap().unwrap(), first);
    let (end, ended) = oneshot::channel();
    events.send(Event::End(end)).await.unwrap();
    ended.await.unwrap();
    running.await.unwrap();
    assert_eq!(journal.reader().last().unwrap(), 1);
}

#[tokio::test]
async fn an_event_that_does_not_fit_is_not_kept() {
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::open(root.path(), journal::Options::default()).unwrap();
    let host = Arc::new(Host::new(Arc::new(Options::new(root.path(), root.path()))));
    let folded = Folded::new(root.path());
    let mut engine = Engine::new(host, journal.clone(), folded, Policy::default(), None);
    let mut turn = Turn::default();
    let (answer, answered) = oneshot::channel();
    engine.asked(*order(), None, answer, &mut turn);
    engine.finish(turn).await;
    answered.await.unwrap().unwrap();
    let plan = PlanId::of_random([7; 16]);
    let what = What::JobScheduled {
        job: crate::runner::host::new_job_id(),
    };
    let mut turn = Turn::default();
    let misfit = [PlanEvent::new(now(), what)];
    engine.take_in(plan, &misfit, None, &mut turn).unwrap_err();
    let (answer, answered) = oneshot::channel();
    turn.answers.push((answer, Ok(serde_json::Value::Null)));
    engine.finish(turn).await;
    // Whoever waited is refused, and whoever holds next begins from what is kept.
    answered.await.unwrap().unwrap_err();
    assert!(engine.is_lost);
    assert_eq!(journal.reader().last().unwrap(), 1);
}
