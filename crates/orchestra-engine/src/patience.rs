//! Queries that the model of a server is asked for: nobody waits long for it, and what it answers late is
//! there when the same is asked again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use orchestra_remote::with_causes;

use crate::index::{Index, QueryVector};
use orchestra_memory::engine::MeaningError;

/// How long a query waits for a server: less than a client waits for the engine.
const PATIENCE: Duration = Duration::from_millis(100);
/// How many wait for the server at once.
const AT_ONCE: usize = 8;

/// The queries that wait for a server. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queries(Arc<AtomicUsize>);

/// One of them, until it is dropped.
struct UnderWay(Queries);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queries {
    /// The vector of a query by the model that answers, if that is there in time; `None` where there is no
    /// model yet.
    pub(crate) fn vector(
        &self,
        index: &Arc<Index>,
        query: &str,
    ) -> Result<Option<QueryVector>, MeaningError> {
        if let Some(known) = index.known_query(query) {
            return Ok(Some(known));
        }
        let Some(under_way) = self.enter() else {
            return Err(late());
        };
        let (sender, receiver) = mpsc::sync_channel(1);
        let (index, text) = (Arc::clone(index), query.to_owned());
        let asking = thread::Builder::new().name("memory-query".to_owned());
        let asked = asking.spawn(move || {
            let vector = index.query(&text);
            drop(under_way);
            // Who asked may have gone.
            let _ = sender.send(vector);
        });
        asked.map_err(|error| MeaningError::NotNow(error.to_string()))?;
        let answer = receiver.recv_timeout(PATIENCE).map_err(|_| late())?;
        answer.map_err(|error| MeaningError::NotNow(with_causes(&error)))
    }

    fn enter(&self) -> Option<UnderWay> {
        let under_way = UnderWay(self.clone());
        // Whoever is one too many leaves at once.
        (self.0.fetch_add(1, Ordering::Relaxed) < AT_ONCE).then_some(under_way)
    }
}

fn late() -> MeaningError {
    MeaningError::NotNow(format!(
        "the server of the model takes longer than {} ms; the same query is answered by meaning once it \
         has answered",
        PATIENCE.as_millis()
    ))
}
