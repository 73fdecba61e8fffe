//! The engine by itself.

use orchestra_plan::{
    command::NewPlan,
    ids::ProducerId,
    spec::{JobSpec, Name, PlanSettings, Task},
    work::WorkSpec,
};

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
    };
    Box::new(Order::Create {
        new: Box::new(new),
        by: None,
    })
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
