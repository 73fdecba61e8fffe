//! Models of a server: Ollama's `POST /api/embed`, and `POST /v1/embeddings` as OpenAI defined it and
//! many servers offer it.
//!
//! A key is taken from the environment by whoever makes the options; it goes into one header and
//! nowhere else. Answers are bounded and checked: each vector finite, all of one length.

mod api;
mod lane;

use orchestra_remote::shown;

use self::lane::Lane;
use super::tokens::beginning;
use super::{
    EmbedError, Embedder, MAX_DIMENSIONS, ModelError, ModelId, ModelKind, Purpose, RemoteOptions,
    TRIAL,
};

/// So much of a text is sent: what the models in use take, and no more than a server reads in one
/// go.
const MAX_TEXT: usize = 8 * 1024;
/// The most texts of one request, and the most bytes of them together.
const MAX_BATCH: usize = 32;
const MAX_BATCH_BYTES: usize = 128 * 1024;

/// A model of a server.
#[derive(Debug)]
pub struct RemoteModel {
    id: ModelId,
    dimensions: usize,
    options: RemoteOptions,
    lane: Lane,
}

impl RemoteModel {
    /// Asks the server for one vector, to know that it answers and how long they are.
    ///
    /// # Errors
    /// When the options are of no use, or the server does not answer with a vector.
    pub fn connect(options: RemoteOptions) -> Result<Self, ModelError> {
        let lane = Lane::new(&options)?;
        let mut model = Self {
            id: ModelId::of(&[]),
            dimensions: 0,
            options,
            lane,
        };
        let trial = model.embed(&[TRIAL], Purpose::Text);
        let trial = trial.map_err(|error| ModelError::Remote(error.to_string()))?;
        model.dimensions = trial.first().map_or(0, Vec::len);
        let options = &model.options;
        model.id = ModelId::of(&[
            ("kind", options.api.name().as_bytes()),
            ("url", shown(&options.url).as_bytes()),
            ("model", options.model.as_bytes()),
            ("dimensions", &model.dimensions.to_le_bytes()),
            ("query", options.query_prefix.as_bytes()),
            ("text", options.text_prefix.as_bytes()),
        ]);
        Ok(model)
    }

    /// Its texts as they are sent, in batches.
    fn batches(&self, texts: &[&str], purpose: Purpose) -> Vec<Vec<String>> {
        let prefix = match purpose {
            Purpose::Query => &self.options.query_prefix,
            Purpose::Text => &self.options.text_prefix,
        };
        let mut batches: Vec<Vec<String>> = Vec::new();
        let mut bytes = 0;
        for text in texts {
            // Some servers refuse an empty text; it means nothing, as a full stop does.
            let text = if text.trim().is_empty() { "." } else { text };
            let text = format!("{prefix}{}", beginning(text, MAX_TEXT));
            bytes += text.len();
            match batches.last_mut() {
                Some(last) if last.len() < MAX_BATCH && bytes <= MAX_BATCH_BYTES => {
                    last.push(text);
                }
                _ => {
                    bytes = text.len();
                    batches.push(vec![text]);
                }
            }
        }
        batches
    }

    /// Checks an answer.
    fn check(&self, vectors: &[Vec<f32>], wanted: usize) -> Result<(), String> {
        if vectors.len() != wanted {
            return Err(format!("{} vectors for {wanted} texts", vectors.len()));
        }
        let length = match self.dimensions {
            0 => vectors.first().map_or(0, Vec::len),
            known => known,
        };
        if length == 0 || length > MAX_DIMENSIONS {
            return Err(format!(
                "vectors of {length} numbers; expected are 1 to {MAX_DIMENSIONS}"
            ));
        }
        for vector in vectors {
            if vector.len() != length {
                return Err(format!(
                    "a vector of {} numbers; the others have {length}",
                    vector.len()
                ));
            }
            if vector.iter().any(|number| !number.is_finite()) {
                return Err("a number that is not finite".to_owned());
            }
        }
        Ok(())
    }
}

impl Embedder for RemoteModel {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn kind(&self) -> ModelKind {
        ModelKind::Remote
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Vec<f32>>, EmbedError> {
        let time = match purpose {
            Purpose::Query => self.options.query_time,
            Purpose::Text => self.options.batch_time,
        };
        let mut all = Vec::with_capacity(texts.len());
        for batch in self.batches(texts, purpose) {
            let body = api::body(self.options.api, &self.options, &batch);
            let answer = self.lane.ask(body, time)?;
            let failed = |fault| EmbedError::Answer {
                server: self.lane.server().to_owned(),
                fault,
            };
            let mut vectors = api::vectors(self.options.api, &answer).map_err(failed)?;
            self.check(&vectors, batch.len()).map_err(failed)?;
            vectors
                .iter_mut()
                .for_each(|vector| super::normalise(vector));
            all.append(&mut vectors);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Api;

    #[test]
    fn no_secret_is_shown() {
        let mut options = RemoteOptions::new(Api::OpenAi, "https://me:pw@host/v1?key=q", "m");
        options.key = Some("sk-secret".to_owned());
        let text = format!("{options:?}");
        for secret in ["sk-secret", "pw", "key=q", "me:"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(text.contains("https://host/v1"), "{text}");
    }
}
