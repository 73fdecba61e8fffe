//! The service of the engine, called over gRPC.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use orchestra_board::{Slug, Timestamp};
use orchestra_memory::engine::{
    Meaning, MeaningError, NearHit, Outcome,
    generated::{
        AttendRequest, ContextRequest, DeleteChunkRequest, GetSessionRequest, ListSessionsRequest,
        NearRequest, SearchRequest, SessionEvent, StatsRequest, StoreChunkRequest,
        StoreSessionRequest,
    },
};
use tokio::time::Instant;
use tonic::{Code, Request};

use crate::in_process::{PATIENCE, Served, engines, query, text};

#[tokio::test(flavor = "multi_thread")]
async fn texts_and_sessions_are_stored_found_and_forgotten() {
    let served = Served::start(None).await;
    let mut client = served.ours().await;
    let stored = client
        .store_chunk(text("night", "the queue is drained at night"))
        .await;
    let chunk = stored.unwrap().into_inner().chunk.unwrap();
    // As tools and files have it, and to the second.
    let at = Timestamp::parse(&chunk.created_at).unwrap();
    assert_eq!(at.to_string(), chunk.created_at);
    client
        .store_chunk(text("day", "reports are written by day"))
        .await
        .unwrap();
    let found = client
        .search_memory(query("drained queue"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(found.results[0].id, chunk.id);
    assert!((found.results[0].score - 1.0).abs() < f32::EPSILON);

    let event = SessionEvent {
        r#type: "note".to_owned(),
        summary: "began".to_owned(),
        timestamp: "2026-01-31T12:00:00Z".to_owned(),
    };
    let session = StoreSessionRequest {
        project: "demo".to_owned(),
        session_id: "s1".to_owned(),
        summary: "the migration".to_owned(),
        events: vec![event.clone()],
    };
    client.store_session(session).await.unwrap();
    let get = GetSessionRequest {
        project: "demo".to_owned(),
        session_id: "s1".to_owned(),
    };
    let got = client
        .get_session(get)
        .await
        .unwrap()
        .into_inner()
        .session
        .unwrap();
    assert_eq!(
        (got.events, got.started_at.is_empty()),
        (vec![event], false)
    );
    let list = ListSessionsRequest {
        project: "demo".to_owned(),
        limit: -1,
    };
    assert_eq!(
        client
            .list_sessions(list)
            .await
            .unwrap()
            .into_inner()
            .sessions
            .len(),
        1
    );
    let context = ContextRequest {
        project: "demo".to_owned(),
        query: "migration".to_owned(),
        limit: 5,
    };
    let chunks = client
        .get_context(context)
        .await
        .unwrap()
        .into_inner()
        .chunks;
    assert_eq!(
        (chunks[0].id.as_str(), chunks[0].source.as_str()),
        ("s1", "session")
    );

    let delete = DeleteChunkRequest {
        project: "demo".to_owned(),
        id: chunk.id,
    };
    client.delete_chunk(delete.clone()).await.unwrap();
    let again = client.delete_chunk(delete).await.unwrap_err();
    assert_eq!(again.code(), Code::NotFound);
    assert!(
        client
            .search_memory(query("drained"))
            .await
            .unwrap()
            .into_inner()
            .results
            .is_empty()
    );
    let ask = StatsRequest {
        project: "demo".to_owned(),
    };
    let stats = client.stats(ask).await.unwrap().into_inner();
    assert_eq!((stats.chunks, stats.sessions, stats.clients), (1, 1, 0));
    assert!(matches!(served.end().await, Outcome::Told));
}

/// No project is made by a word that was mistyped. What is left out of an event is no reason to refuse
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_has_to_be_there() {
    let served = Served::start(None).await;
    let mut client = served.ours().await;
    let nowhere = StoreChunkRequest {
        project: "nowhere".to_owned(),
        ..text("", "lost")
    };
    let refused = client.store_chunk(nowhere).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("nowhere"), "{refused:?}");
    assert!(!served.workspace().join(".projects/nowhere").exists());
    let session = StoreSessionRequest {
        project: "demo".to_owned(),
        session_id: "s1".to_owned(),
        summary: "the migration".to_owned(),
        events: vec![SessionEvent {
            summary: "began".to_owned(),
            ..SessionEvent::default()
        }],
    };
    let stored = client.store_session(session).await.unwrap().into_inner();
    assert_eq!(stored.session.unwrap().events[0].r#type, "event");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_without_the_token() {
    let served = Served::start(None).await;
    let token = served.token();
    for wrong in [
        None,
        Some("Bearer x".to_owned()),
        Some(token.replace("Bearer", "Basic")),
    ] {
        let mut client = served.client(wrong).await;
        let refused = client.search_memory(query("x")).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(
            refused.message().contains("orchestra token --engine"),
            "{refused}"
        );
        let refused = client.attend(AttendRequest::default()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_is_refused_and_an_answer_fits_every_client() {
    let served = Served::start(None).await;
    let mut client = served.ours().await;
    let huge = client
        .store_chunk(text("huge", &"x".repeat(10_000_000)))
        .await
        .unwrap_err();
    assert_eq!(huge.code(), Code::OutOfRange, "{huge}");
    let long = client
        .store_chunk(text("long", &"x".repeat(70_000)))
        .await
        .unwrap_err();
    assert_eq!(long.code(), Code::InvalidArgument, "{long}");
    let strange = client
        .search_memory(query(&"x".repeat(100_000)))
        .await
        .unwrap_err();
    assert_eq!(strange.code(), Code::InvalidArgument, "{strange}");
    for ask in [
        "\0\u{1}",
        "\"*(",
        "AND OR NOT",
        "مرحبا 文字 🙂",
        "-- ; DROP TABLE chunk",
    ] {
        client.search_memory(query(ask)).await.unwrap();
    }
    for number in 0..70 {
        let content = format!("needle {number} {}", "hay ".repeat(15_000));
        client.store_chunk(text("needle", &content)).await.unwrap();
    }
    let all = SearchRequest {
        limit: i32::MAX,
        ..query("needle")
    };
    // Such a client reads 4 MiB, and all of them would be more.
    let found = client
        .search_memory(all)
        .await
        .unwrap()
        .into_inner()
        .results;
    assert!((40..70).contains(&found.len()), "{}", found.len());
}

/// Says that the rows it was told of are near, when it is let.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    /// Whether it holds up who asks it.
    holds: Gate,
    /// How many it has held up so far.
    asked: AtomicUsize,
}

/// Shut until it is opened.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

/// Keeps a gate shut: whoever is held up goes on however a test ends.
pub(crate) struct Shut(Arc<Fake>);

impl Drop for Shut {
    fn drop(&mut self) {
        let gate = &self.0.holds;
        *gate.is_shut.lock().unwrap_or_else(PoisonError::into_inner) = false;
        gate.opened.notify_all();
    }
}

impl Fake {
    /// Shuts the gate until what this returns is dropped.
    pub(crate) fn shut(self: &Arc<Self>) -> Shut {
        *self.holds.is_shut.lock().unwrap() = true;
        Shut(Arc::clone(self))
    }
}

impl Gate {
    fn pass(&self) {
        let shut = self.is_shut.lock().unwrap();
        drop(self.opened.wait_while(shut, |shut| *shut).unwrap());
    }
}

impl Meaning for Fake {
    fn model(&self) -> String {
        "fake".to_owned()
    }

    fn near(
        &self,
        project: &Slug,
        query: &str,
        limit: usize,
    ) -> Result<Vec<NearHit>, MeaningError> {
        if project.as_str() == "nope" {
            return Err(MeaningError::NoProject(project.clone()));
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.holds.pass();
        if query == "not now" {
            return Err(MeaningError::NotNow(
                "the model is being fetched".to_owned(),
            ));
        }
        let hits = (1..=limit).map(|place| NearHit {
            row: (1 << 32) | i64::try_from(place).unwrap(),
            similarity: 0.9,
        });
        Ok(hits.collect())
    }

    fn vectors(&self, _: &Slug) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.holds.pass();
        7
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_what_is_near_and_counts_as_long_as_it_lives() {
    let served = Served::start(Some(Arc::new(Fake::default()))).await;
    let said = Arc::default();
    let engines = engines(&served, &said);
    assert!(engines.answers(PATIENCE).await);
    let demo = Slug::parse("demo").unwrap();
    let near = engines.near("search_memory", &demo, "x", 3).await.unwrap();
    assert_eq!((near.model.as_str(), near.hits.len()), ("fake", 3));
    assert_eq!(near.hits[0].row, (1 << 32) | 1);
    let none = engines.near("search_memory", &demo, "not now", 3).await;
    assert_eq!(none, None);
    // Nothing is said of what the call itself is refused for.
    let nope = Slug::parse("nope").unwrap();
    assert_eq!(engines.near("search_memory", &nope, "x", 3).await, None);
    let mut client = served.ours().await;
    let ask = StatsRequest {
        project: "demo".to_owned(),
    };
    let stats = client.stats(ask.clone()).await.unwrap().into_inner();
    assert_eq!(
        (stats.clients, stats.vectors, stats.model.as_str()),
        (1, 7, "fake")
    );
    let many = NearRequest {
        project: "demo".to_owned(),
        query: "x".to_owned(),
        limit: u32::MAX,
    };
    assert_eq!(
        client.near(many).await.unwrap().into_inner().hits.len(),
        1_000
    );
    engines.end(Instant::now() + PATIENCE).await;
    drop(engines);
    let begin = Instant::now();
    while client
        .stats(ask.clone())
        .await
        .unwrap()
        .into_inner()
        .clients
        > 0
    {
        assert!(begin.elapsed() < PATIENCE);
    }
    let said = said.lock().unwrap();
    assert_eq!(
        *said,
        [
            "search_memory: the memory engine refused: the model is being fetched; answered without it"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_nearer_take_no_texts_place() {
    let served = Served::start(Some(Arc::new(Fake::default()))).await;
    let mut client = served.ours().await;
    for number in 0..120 {
        let session = StoreSessionRequest {
            project: "demo".to_owned(),
            session_id: format!("s-{number}"),
            summary: "made something else".to_owned(),
            events: Vec::new(),
        };
        client.store_session(session).await.unwrap();
    }
    client
        .store_chunk(text("night", "drained at night"))
        .await
        .unwrap();
    // No word of it, and its row comes last among those that are near.
    let found = client.search_memory(query("evening")).await.unwrap();
    assert_eq!(found.into_inner().results.len(), 1);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_takes_its_time_is_no_dead_engine_and_answers_who_asks_again() {
    let fake = Arc::new(Fake::default());
    let shut = fake.shut();
    let served = Served::start(Some(Arc::<Fake>::clone(&fake))).await;
    let said = Arc::default();
    let engines = engines(&served, &said);
    assert!(engines.answers(PATIENCE).await);
    let demo = Slug::parse("demo").unwrap();
    for _ in 0..40 {
        assert_eq!(engines.near("get_context", &demo, "x", 3).await, None);
    }
    // Not so many threads wait for it.
    assert!(fake.asked.load(Ordering::Relaxed) < 20);
    drop(shut);
    let begin = Instant::now();
    let near = loop {
        if let Some(near) = engines.near("get_context", &demo, "x", 3).await {
            break near;
        }
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(near.hits.len(), 3);
    let said = said.lock().unwrap();
    // A machine that is out of breath may have been late itself.
    let refused = said.iter().filter(|line| line.contains("refused")).count();
    assert_eq!(refused, 1, "{said:?}");
    assert!(said[0].contains("repeat the query"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_wait_leaves_no_threads_behind() {
    // As many as work at once.
    const MOST: usize = 32;
    let fake = Arc::new(Fake::default());
    let shut = fake.shut();
    let served = Served::start(Some(Arc::<Fake>::clone(&fake))).await;
    let begin = Instant::now();
    let mut rounds_more = 2;
    while rounds_more > 0 {
        if fake.asked.load(Ordering::Relaxed) >= MOST {
            rounds_more -= 1;
        }
        let asked = (0..MOST).map(|_| {
            let served = &served;
            async move {
                let mut client = served.ours().await;
                let mut ask = Request::new(StatsRequest {
                    project: "demo".to_owned(),
                });
                ask.set_timeout(Duration::from_millis(200));
                client.stats(ask).await.is_err()
            }
        });
        assert!(join_all(asked).await.into_iter().all(|failed| failed));
        assert!(begin.elapsed() < PATIENCE);
    }
    assert_eq!(fake.asked.load(Ordering::Relaxed), MOST);
    drop(shut);
    let mut client = served.ours().await;
    let ask = StatsRequest {
        project: "demo".to_owned(),
    };
    assert_eq!(client.stats(ask).await.unwrap().into_inner().vectors, 7);
}

/// The earlier engine did everything behind one lock, on the threads that answer; here there is one of
/// these.
#[tokio::test]
async fn w40_calls_that_block_hold_up_no_others() {
    const CALLS: usize = 4;
    let fake = Arc::new(Fake::default());
    let shut = fake.shut();
    let served = Served::start(Some(Arc::<Fake>::clone(&fake))).await;
    let mut blocked = Vec::new();
    for _ in 0..CALLS {
        let mut client = served.ours().await;
        let request = NearRequest {
            project: "demo".to_owned(),
            query: "x".to_owned(),
            limit: 1,
        };
        blocked.push(tokio::spawn(async move { client.near(request).await }));
    }
    let begin = Instant::now();
    while fake.asked.load(Ordering::Relaxed) < CALLS {
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut client = served.ours().await;
    client
        .store_chunk(text("night", "drained at night"))
        .await
        .unwrap();
    let ask = ListSessionsRequest {
        project: "demo".to_owned(),
        limit: 1,
    };
    client.list_sessions(ask).await.unwrap();
    assert!(blocked.iter().all(|call| !call.is_finished()));
    drop(shut);
    for call in blocked {
        call.await.unwrap().unwrap();
    }
    assert!(matches!(served.end().await, Outcome::Told));
}
