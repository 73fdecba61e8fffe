//! What is found while the engine is there, gone and back: what the words find is found all the time,
//! and what is found by meaning comes and goes.

use std::sync::Arc;

use orchestra_board::Slug;
use orchestra_memory::{
    engine::Engines,
    search::{Found, Near, Search, search},
};
use orchestra_store::{ContextItem, MemoryFilter, Store};
use tokio::time::Instant;

use crate::{
    in_process::{PATIENCE, Served, engines, text},
    served::Fake,
};

/// What a search in this program finds, as a tool makes it.
async fn found(engines: &Engines, store: &Store, query: &str) -> (bool, Vec<Found>) {
    let project = Slug::parse("demo").unwrap();
    let answer = engines.near("search_memory", &project, query, 10).await;
    let is_near = answer.is_some();
    let hits = answer.into_iter().flat_map(|answer| answer.hits);
    let near: Vec<Near> = hits
        .map(|hit| Near {
            row: hit.row,
            similarity: f64::from(hit.similarity),
        })
        .collect();
    let filter = MemoryFilter::default();
    let ask = Search {
        project: &project,
        query,
        filter: &filter,
        limit: 10,
        sessions: true,
        now: store.now(),
        near: &near,
        weight: 0.5,
    };
    (is_near, store.read(|reader| search(reader, &ask)).unwrap())
}

fn texts(found: &[Found]) -> Vec<&str> {
    let texts = found.iter().map(|found| match &found.item {
        ContextItem::Chunk(chunk) => chunk.content.as_str(),
        ContextItem::Session(session) => session.summary.as_str(),
    });
    texts.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn w29_what_words_find_is_found_whatever_becomes_of_an_engine_with_a_model() {
    let (words, meaning) = ("the queue is drained", "nothing waits by then");
    let fake = Arc::new(Fake::default());
    let served = Served::start(Some(Arc::<Fake>::clone(&fake))).await;
    let mut client = served.ours().await;
    for content in [words, meaning] {
        client.store_chunk(text("", content)).await.unwrap();
    }
    let store = Store::open(&served.workspace(), orchestra_store::Options::default()).unwrap();
    let said = Arc::default();
    let engines = engines(&served, &said);
    assert!(engines.answers(PATIENCE).await);
    let (is_near, both) = found(&engines, &store, "queue").await;
    assert!(is_near);
    assert_eq!(texts(&both), [words, meaning]);
    // Its model takes its time.
    let shut = fake.shut();
    let (is_near, slow) = found(&engines, &store, "queue").await;
    assert!(!is_near);
    assert_eq!(texts(&slow), [words]);
    assert_eq!(slow[0].item, both[0].item);
    drop(shut);
    // It has gone.
    let served = served.restart(None).await;
    let (is_near, alone) = found(&engines, &store, "queue").await;
    assert!(!is_near);
    assert_eq!(alone, slow);
    // There is one with a model again.
    let served = served.restart(Some(fake)).await;
    let begin = Instant::now();
    loop {
        let (is_near, again) = found(&engines, &store, "queue").await;
        if is_near {
            assert_eq!(again, both);
            break;
        }
        assert_eq!(again, slow);
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    engines.end(Instant::now() + PATIENCE).await;
    store.close(PATIENCE);
    served.end().await;
}
