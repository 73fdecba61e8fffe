//! The vectors of queries that were asked a moment ago. Whoever did not wait for a model that takes its
//! time, and asks again, is answered.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::lock;
use crate::model::{EmbedError, Embedder, ModelId, Purpose};

/// So many are kept: at the longest that vectors may be, some megabytes.
const MOST: usize = 64;

/// Which model, and of what text: its hash, since texts may be long.
type Key = (ModelId, [u8; 32]);

fn key(embedder: &dyn Embedder, query: &str) -> Key {
    (embedder.id().clone(), Sha256::digest(query).into())
}

/// The vectors of queries.
#[derive(Debug, Default)]
pub(super) struct Queries {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The one that was used last at the end.
    known: VecDeque<(Key, Vec<f32>)>,
    /// Those that somebody waits for the model for.
    making: Vec<Key>,
}

impl State {
    fn find(&mut self, key: &Key) -> Option<Vec<f32>> {
        let place = self.known.iter().position(|(known, _)| known == key)?;
        let found = self.known.remove(place)?;
        let vector = found.1.clone();
        self.known.push_back(found);
        Some(vector)
    }
}

impl Queries {
    /// The vector of a query that was asked a moment ago.
    pub(super) fn known(&self, embedder: &dyn Embedder, query: &str) -> Option<Vec<f32>> {
        lock(&self.state).find(&key(embedder, query))
    }

    /// The vector of a query, which is made once however many wait for it. Blocks for as long as the
    /// model takes.
    pub(super) fn vector(
        &self,
        embedder: &dyn Embedder,
        query: &str,
    ) -> Result<Vec<f32>, EmbedError> {
        let key = key(embedder, query);
        let mut state = lock(&self.state);
        loop {
            if let Some(vector) = state.find(&key) {
                return Ok(vector);
            }
            if !state.making.contains(&key) {
                break;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.making.push(key.clone());
        drop(state);
        let making = Making {
            queries: self,
            key: &key,
        };
        let vectors = embedder.embed(&[query], Purpose::Query)?;
        let vector = vectors.into_iter().next().unwrap_or_default();
        {
            let mut state = lock(&self.state);
            if state.known.len() >= MOST {
                state.known.pop_front();
            }
            state.known.push_back((key.clone(), vector.clone()));
        }
        drop(making);
        Ok(vector)
    }
}

/// Somebody waits for the model; others may when this is dropped, whatever became of it.
struct Making<'a> {
    queries: &'a Queries,
    key: &'a Key,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.queries.state);
        state.making.retain(|making| making != self.key);
        self.queries.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread,
        time::Duration,
    };

    use super::*;
    use crate::model::ModelKind;

    /// How long anything may take here.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Counts what it is asked, and answers when it is let.
    #[derive(Debug)]
    struct Slow {
        id: ModelId,
        asked: AtomicUsize,
        begun: mpsc::Sender<()>,
        let_go: Mutex<mpsc::Receiver<()>>,
    }

    impl Embedder for Slow {
        fn id(&self) -> &ModelId {
            &self.id
        }

        fn kind(&self) -> ModelKind {
            ModelKind::Remote
        }

        fn dimensions(&self) -> usize {
            1
        }

        fn embed(&self, texts: &[&str], _: Purpose) -> Result<Vec<Vec<f32>>, EmbedError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            // Who does not ask for it goes on.
            let _ = self.begun.send(());
            let _ = lock(&self.let_go).recv_timeout(PATIENCE);
            Ok(texts.iter().map(|_| vec![1.0]).collect())
        }
    }

    fn slow(name: &str) -> (Slow, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let (begun, begins) = mpsc::channel();
        let (go, let_go) = mpsc::channel();
        let model = Slow {
            id: ModelId::of(&[("name", name.as_bytes())]),
            asked: AtomicUsize::new(0),
            begun,
            let_go: Mutex::new(let_go),
        };
        (model, begins, go)
    }

    #[test]
    fn a_query_is_understood_once_however_many_ask_it() {
        let (queries, (model, begins, go)) = (Queries::default(), slow("a"));
        thread::scope(|scope| {
            let ask = || scope.spawn(|| queries.vector(&model, "night").unwrap());
            let all = [ask(), ask(), ask()];
            begins.recv_timeout(PATIENCE).unwrap();
            go.send(()).unwrap();
            for asked in all {
                assert_eq!(asked.join().unwrap(), [1.0]);
            }
        });
        assert_eq!(queries.vector(&model, "night").unwrap(), [1.0]);
        assert_eq!(model.asked.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn another_model_understands_it_anew_and_only_some_are_kept() {
        let queries = Queries::default();
        let ((first, _, go), (second, _, other)) = (slow("a"), slow("b"));
        // Nobody holds them up.
        drop((go, other));
        for number in 0..=MOST {
            queries.vector(&first, &format!("query {number}")).unwrap();
        }
        queries.vector(&second, "query 1").unwrap();
        assert_eq!(second.asked.load(Ordering::Relaxed), 1);
        assert_eq!(lock(&queries.state).known.len(), MOST);
        queries.vector(&first, &format!("query {MOST}")).unwrap();
        assert_eq!(first.asked.load(Ordering::Relaxed), MOST + 1);
    }
}
