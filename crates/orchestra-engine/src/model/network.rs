//! Networks in ONNX form that read the whole text, as the small sentence transformers are.
//!
//! They are run by `rten`, in Rust alone: as quick as the usual runtime on one core, with the same
//! numbers, and memory-safe whatever the file says. What it does not bound is how much a network
//! computes: a model is chosen by the user, as a program is.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value};
use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, NdTensorView};

use super::layout::{Files, Weights, read_weights};
use super::tokens::Tokens;
use super::{EmbedError, Embedder, MAX_DIMENSIONS, ModelError, ModelId, ModelKind, Purpose, TRIAL};

/// The most tokens of a text, as in the sentence transformers: time grows with their square.
const MAX_TOKENS: usize = 256;

/// A network that makes one vector for each token of a text; the text's is their mean.
pub struct OnnxModel {
    id: ModelId,
    tokens: Tokens,
    network: Model,
    inputs: Inputs,
    output: NodeId,
    dimensions: usize,
    /// A thread for texts, and one for queries, so that who waits for an answer does not wait for
    /// an index.
    pools: [Arc<ThreadPool>; 2],
}

/// Where the tokens go.
#[derive(Debug)]
struct Inputs {
    ids: NodeId,
    mask: NodeId,
    kinds: Option<NodeId>,
}

/// What is wrong with a network.
enum Fault {
    Unfit(String),
    /// It is whole, and takes something else than a text's tokens.
    Other(String),
}

impl From<String> for Fault {
    fn from(fault: String) -> Self {
        Self::Unfit(fault)
    }
}

impl fmt::Debug for OnnxModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnnxModel")
            .field("id", &self.id)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

impl OnnxModel {
    pub(super) fn read(files: &Files) -> Result<Self, ModelError> {
        let (Weights::Table(path) | Weights::Network(path)) = &files.weights;
        let tokenizer = files.read_tokenizer()?;
        let weights = read_weights(path)?;
        let tokens = Tokens::new(files, &tokenizer, MAX_TOKENS, true)?;
        let id = ModelId::of(&[
            ("kind", b"onnx"),
            ("tokenizer", &tokenizer),
            ("weights", &weights),
        ]);
        let path = path.clone();
        Self::build(weights, tokens, id).map_err(|fault| match fault {
            Fault::Unfit(fault) => ModelError::Unfit { path, fault },
            Fault::Other(fault) => ModelError::OtherNetwork { path, fault },
        })
    }

    fn build(weights: Vec<u8>, tokens: Tokens, id: ModelId) -> Result<Self, Fault> {
        let load = || ModelOptions::with_all_ops().load(weights);
        let network = panic::catch_unwind(AssertUnwindSafe(load))
            .map_err(|_| "the library fails on it".to_owned())?
            .map_err(|error| format!("{error}; expected is a network in ONNX form"))?;
        let find = |name: &str| network.find_node(name);
        let expected = "expected are `input_ids`, `attention_mask` and perhaps `token_type_ids`";
        let (Some(ids), Some(mask)) = (find("input_ids"), find("attention_mask")) else {
            let fault = format!("it does not take the tokens of a text: {expected}");
            return Err(Fault::Other(fault));
        };
        let inputs = Inputs {
            ids,
            mask,
            kinds: find("token_type_ids"),
        };
        if network.input_ids().len() != 2 + usize::from(inputs.kinds.is_some()) {
            let fault = format!("it takes more than the tokens of a text: {expected}");
            return Err(Fault::Other(fault));
        }
        let named = find("last_hidden_state").filter(|node| network.output_ids().contains(node));
        let Some(output) = named.or_else(|| network.output_ids().first().copied()) else {
            return Err("it gives nothing out".to_owned().into());
        };
        let mut model = Self {
            id,
            tokens,
            network,
            inputs,
            output,
            dimensions: 0,
            pools: [1, 1].map(|threads| Arc::new(ThreadPool::with_num_threads(threads))),
        };
        let trial = model
            .embed_one(TRIAL, Purpose::Text)
            .map_err(|error| error.to_string())?;
        if trial.len() > MAX_DIMENSIONS || trial.iter().all(|&number| number == 0.0) {
            return Err(format!(
                "it gives {} numbers for a text; expected are 1 to {MAX_DIMENSIONS}, not all zero",
                trial.len()
            )
            .into());
        }
        model.dimensions = trial.len();
        // The first query of a person finds its threads started and its memory there.
        model
            .embed_one(TRIAL, Purpose::Query)
            .map_err(|error| error.to_string())?;
        Ok(model)
    }

    fn embed_one(&self, text: &str, purpose: Purpose) -> Result<Vec<f32>, EmbedError> {
        let tokens = self.tokens.of(text)?;
        let ids = tokens.iter().map(|&token| token as i32).collect();
        if tokens.is_empty() {
            return Ok(vec![0.0; self.dimensions]);
        }
        let run = || self.run(ids, purpose);
        let failed = |why: String| EmbedError::Model(why);
        panic::catch_unwind(AssertUnwindSafe(run))
            .map_err(|_| failed("the library fails on its network".to_owned()))?
            .map_err(failed)
    }

    fn run(&self, ids: Vec<i32>, purpose: Purpose) -> Result<Vec<f32>, String> {
        let shape = [1, ids.len()];
        let all = |value: i32| NdTensor::from_data(shape, vec![value; shape[1]]);
        let mut inputs = vec![
            (self.inputs.mask, all(1).into()),
            (self.inputs.ids, NdTensor::from_data(shape, ids).into()),
        ];
        if let Some(kinds) = self.inputs.kinds {
            inputs.push((kinds, all(0).into()));
        }
        let mut options = RunOptions::default();
        let [for_texts, for_queries] = &self.pools;
        options.thread_pool = Some(Arc::clone(match purpose {
            Purpose::Text => for_texts,
            Purpose::Query => for_queries,
        }));
        let [output] = self
            .network
            .run_n(inputs, [self.output], Some(options))
            .map_err(|error| error.to_string())?;
        Self::mean(&output)
    }

    /// The mean of the tokens' vectors, or the text's own where the network gives that.
    fn mean(output: &Value) -> Result<Vec<f32>, String> {
        let shape = output.shape();
        let numbers: Result<NdTensorView<'_, f32, 3>, _> = output.try_into();
        let mut mean = match numbers {
            Ok(numbers) => {
                let mut sum = vec![0.0_f32; numbers.size(2)];
                for token in 0..numbers.size(1) {
                    for (place, sum) in sum.iter_mut().enumerate() {
                        *sum += numbers[[0, token, place]];
                    }
                }
                sum
            }
            Err(_) => {
                let numbers: NdTensorView<'_, f32, 2> = output.try_into().map_err(|_| {
                    format!(
                        "its output has the shape {shape:?}; expected one vector for each token"
                    )
                })?;
                (0..numbers.size(1))
                    .map(|place| numbers[[0, place]])
                    .collect()
            }
        };
        super::normalise(&mut mean);
        Ok(mean)
    }
}

impl Embedder for OnnxModel {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn kind(&self) -> ModelKind {
        ModelKind::Network
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    // One by one: padding texts to one length costs more on one core than it saves.
    fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Vec<f32>>, EmbedError> {
        let one = |text: &&str| self.embed_one(text, purpose);
        texts.iter().map(one).collect()
    }
}
