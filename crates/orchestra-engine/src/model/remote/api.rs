//! What is sent to a server and what it answers, on the wire.

use serde::{Deserialize, Serialize};

use crate::model::{Api, RemoteOptions};

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

/// Where below the address it is asked.
pub(super) const fn path(api: Api) -> &'static [&'static str] {
    match api {
        Api::Ollama => &["api", "embed"],
        Api::OpenAi => &["embeddings"],
    }
}

pub(super) fn body(api: Api, options: &RemoteOptions, input: &[String]) -> Vec<u8> {
    let model = options.model.as_str();
    let dimensions = options.dimensions;
    let body = match api {
        Api::Ollama => serde_json::to_vec(&OllamaRequest {
            model,
            input,
            truncate: true,
            dimensions,
        }),
        Api::OpenAi => serde_json::to_vec(&OpenAiRequest {
            model,
            input,
            encoding_format: "float",
            dimensions,
        }),
    };
    body.unwrap_or_default()
}

/// The vectors of an answer, in the order of the texts.
pub(super) fn vectors(api: Api, answer: &[u8]) -> Result<Vec<Vec<f32>>, String> {
    match api {
        Api::Ollama => {
            let answer: OllamaAnswer = serde_json::from_slice(answer)
                .map_err(|error| format!("{error}; expected is `embeddings`"))?;
            Ok(answer.embeddings)
        }
        Api::OpenAi => {
            let mut answer: OpenAiAnswer = serde_json::from_slice(answer)
                .map_err(|error| format!("{error}; expected is `data` with `embedding`s"))?;
            answer.data.sort_by_key(|item| item.index);
            let places = answer.data.iter().map(|item| item.index);
            if !places.eq(0..answer.data.len()) {
                return Err("the fields `index` of its vectors do not number the texts".to_owned());
            }
            Ok(answer.data.into_iter().map(|item| item.embedding).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_in_the_order_of_the_texts() {
        let answer = br#"{"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0]}]}"#;
        let found = vectors(Api::OpenAi, answer).expect("an answer");
        assert_eq!(found, [[1.0, 0.0], [0.0, 1.0]]);
        let twice = br#"{"data":[{"index":0,"embedding":[0]},{"index":0,"embedding":[1]}]}"#;
        assert!(vectors(Api::OpenAi, twice).is_err());
        assert!(vectors(Api::Ollama, br#"{"embeddings":[[1,"a"]]}"#).is_err());
        assert!(vectors(Api::Ollama, br#"{"error":"no"}"#).is_err());
    }
}
