//! What is sent to a server and what it answers, on the wire.

use serde::{Deserialize, Serialize};

use super::{Api, RemoteOptions};

#[derive(Serialize)]
struct OllamaRequest<'a> {
    model: &'a str,
    input: &'a [String],
    truncate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct OllamaAnswer {
    embeddings: Vec<Vec<f32>>,
}

#[derive(Serialize)]
struct OpenAiRequest<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct OpenAiAnswer {
    data: Vec<OpenAiItem>,
}

#[derive(Deserialize)]
struct OpenAiItem {
    index: usize,
    embedding: Vec<f32>,
}

impl Api {
    pub(in crate::model) const fn name(self) -> &'static str {
        match self {
            Self::Ollama => "ollama",
            Self::OpenAi => "openai",
        }
    }

    /// Where below the address it is asked.
    pub(super) const fn path(self) -> &'static [&'static str] {
        match self {
            Self::Ollama => &["api", "embed"],
            Self::OpenAi => &["embeddings"],
        }
    }

    pub(super) fn body(self, options: &RemoteOptions, input: &[String]) -> Vec<u8> {
        let model = options.model.as_str();
        let dimensions = options.dimensions;
        let body = match self {
            Self::Ollama => serde_json::to_vec(&OllamaRequest {
                model,
                input,
                truncate: true,
                dimensions,
            }),
            Self::OpenAi => serde_json::to_vec(&OpenAiRequest {
                model,
                input,
                encoding_format: "float",
                dimensions,
            }),
        };
        body.unwrap_or_default()
    }

    /// The vectors of an answer, in the order of the texts.
    pub(super) fn vectors(self, answer: &[u8]) -> Result<Vec<Vec<f32>>, String> {
        match self {
            Self::Ollama => {
                let answer: OllamaAnswer = serde_json::from_slice(answer)
                    .map_err(|error| format!("{error}; expected is `embeddings`"))?;
                Ok(answer.embeddings)
            }
            Self::OpenAi => {
                let mut answer: OpenAiAnswer = serde_json::from_slice(answer)
                    .map_err(|error| format!("{error}; expected is `data` with `embedding`s"))?;
                answer.data.sort_by_key(|item| item.index);
                let places = answer.data.iter().map(|item| item.index);
                if !places.eq(0..answer.data.len()) {
                    return Err("its `index`es do not count the texts".to_owned());
                }
                Ok(answer.data.into_iter().map(|item| item.embedding).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_in_the_order_of_the_texts() {
        let answer = br#"{"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0]}]}"#;
        let vectors = Api::OpenAi.vectors(answer).expect("an answer");
        assert_eq!(vectors, [[1.0, 0.0], [0.0, 1.0]]);
        let twice = br#"{"data":[{"index":0,"embedding":[0]},{"index":0,"embedding":[1]}]}"#;
        assert!(Api::OpenAi.vectors(twice).is_err());
        assert!(Api::Ollama.vectors(br#"{"embeddings":[[1,"a"]]}"#).is_err());
        assert!(Api::Ollama.vectors(br#"{"error":"no"}"#).is_err());
    }
}
