//! Static models: a table of one vector for each token. A text's vector is the mean of its tokens',
//! so it takes microseconds.

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::layout::{Files, Weights, read_weights};
use super::tokens::Tokens;
use super::{EmbedError, Embedder, MAX_DIMENSIONS, ModelError, ModelId, ModelKind, Purpose};

/// The most tokens of a text that are added up, as in model2vec.
const MAX_TOKENS: usize = 512;
/// The names of the tensor with the vectors: of model2vec, sentence-transformers and wordllama.
const TABLES: &[&str] = &["embeddings", "embedding.weight", "0"];
/// The largest table, in numbers: as much memory as the largest file of 16-bit ones takes.
const MAX_NUMBERS: usize = 1 << 30;

/// A table of one vector for each token.
#[derive(Debug)]
pub struct StaticModel {
    id: ModelId,
    tokens: Tokens,
    table: Table,
}

/// The vectors, with the weight of each token multiplied in.
#[derive(Debug)]
struct Table {
    dimensions: usize,
    numbers: Vec<f32>,
    /// The row and the weight of each token, where they are not the token itself and 1.
    rows: Option<Vec<(u32, f32)>>,
}

impl StaticModel {
    pub(super) fn read(files: &Files) -> Result<Self, ModelError> {
        let (Weights::Table(path) | Weights::Network(path)) = &files.weights;
        let tokenizer = files.read_tokenizer()?;
        let weights = read_weights(path)?;
        let tokens = Tokens::new(files, &tokenizer, MAX_TOKENS, false)?;
        let table = Table::parse(&weights, tokens.end() as usize);
        let table = table.map_err(|fault| ModelError::Unfit {
            path: path.clone(),
            fault,
        })?;
        let id = ModelId::of(&[
            ("kind", b"static"),
            ("tokenizer", &tokenizer),
            ("weights", &weights),
        ]);
        Ok(Self { id, tokens, table })
    }

    fn embed_one(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let mut sum = vec![0.0; self.table.dimensions];
        for token in self.tokens.of(text)? {
            if Some(token) != self.tokens.unknown() {
                self.table.add(token, &mut sum);
            }
        }
        // Whether it is the sum or the mean, its direction is the same.
        super::normalise(&mut sum);
        Ok(sum)
    }
}

impl Embedder for StaticModel {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn kind(&self) -> ModelKind {
        ModelKind::Static
    }

    fn dimensions(&self) -> usize {
        self.table.dimensions
    }

    fn embed(&self, texts: &[&str], _: Purpose) -> Result<Vec<Vec<f32>>, EmbedError> {
        texts.iter().map(|text| self.embed_one(text)).collect()
    }
}

impl Table {
    /// Reads a table for the tokens below `end`.
    fn parse(content: &[u8], end: usize) -> Result<Self, String> {
        let tensors = SafeTensors::deserialize(content)
            .map_err(|error| format!("{error}; expected is a file in safetensors form"))?;
        let table = TABLES.iter().find_map(|name| tensors.tensor(name).ok());
        let Some(table) = table else {
            let names = tensors.names();
            let names: Vec<_> = names.iter().take(8).collect();
            return Err(format!(
                "it contains the tensors {names:?}; expected one named `embeddings` or \
                 `embedding.weight`"
            ));
        };
        let &[rows, dimensions] = table.shape() else {
            return Err(format!(
                "its table has the shape {:?}; expected rows and columns",
                table.shape()
            ));
        };
        let count = rows.checked_mul(dimensions);
        if rows == 0 || dimensions == 0 || dimensions > MAX_DIMENSIONS {
            return Err(format!(
                "its table has {rows} rows of {dimensions} numbers; expected are some, of 1 to \
                 {MAX_DIMENSIONS}"
            ));
        }
        if count.is_none_or(|count| count > MAX_NUMBERS) {
            return Err(format!(
                "its table has {rows} rows of {dimensions} numbers, which are too many"
            ));
        }
        let numbers = numbers(&table)?;
        let weights = tensors.tensor("weights").ok();
        let weights = weights.map(|tensor| numbers_of(&tensor)).transpose()?;
        let mapping = tensors.tensor("mapping").ok();
        let mapping = mapping.map(|tensor| places(&tensor)).transpose()?;
        let rows = Self::rows(end, rows, weights, mapping)?;
        Ok(Self {
            dimensions,
            numbers,
            rows,
        })
    }

    /// Where each token's vector stands and what it weighs; that all are there.
    fn rows(
        end: usize,
        rows: usize,
        weights: Option<Vec<f32>>,
        mapping: Option<Vec<u64>>,
    ) -> Result<Option<Vec<(u32, f32)>>, String> {
        for (what, found) in [
            ("rows", mapping.is_none().then_some(rows)),
            ("places in `mapping`", mapping.as_ref().map(Vec::len)),
            ("`weights`", weights.as_ref().map(Vec::len)),
        ] {
            if found.is_some_and(|found| found < end) {
                let found = found.unwrap_or_default();
                return Err(format!(
                    "it has {found} {what}; its tokenizer has {end} tokens, so they are not of one \
                     model"
                ));
            }
        }
        if weights.is_none() && mapping.is_none() {
            return Ok(None);
        }
        let row = |token: usize| {
            let place = match &mapping {
                Some(mapping) => mapping.get(token).copied().unwrap_or(u64::MAX),
                None => token as u64,
            };
            let weight = weights
                .as_ref()
                .map_or(Some(1.0), |all| all.get(token).copied());
            let place = u32::try_from(place)
                .ok()
                .filter(|&place| (place as usize) < rows);
            place.zip(weight).ok_or_else(|| {
                format!("`mapping` sends the token {token} to a row that is not there ({rows} are)")
            })
        };
        (0..end).map(row).collect::<Result<_, _>>().map(Some)
    }

    /// Adds a token's vector.
    fn add(&self, token: u32, sum: &mut [f32]) {
        let place = match &self.rows {
            None => Some((token, 1.0)),
            Some(rows) => rows.get(token as usize).copied(),
        };
        let Some((row, weight)) = place else { return };
        let start = row as usize * self.dimensions;
        let row = self.numbers.get(start..start + self.dimensions);
        for (sum, number) in sum.iter_mut().zip(row.unwrap_or_default()) {
            *sum += number * weight;
        }
    }
}

/// The numbers of a table; all are finite.
fn numbers(table: &TensorView<'_>) -> Result<Vec<f32>, String> {
    let numbers = numbers_of(table)?;
    match numbers.iter().position(|number| !number.is_finite()) {
        Some(place) => Err(format!("its number {place} is not finite")),
        None => Ok(numbers),
    }
}

/// The numbers of a tensor, whatever they are kept as.
fn numbers_of(tensor: &TensorView<'_>) -> Result<Vec<f32>, String> {
    let data = tensor.data();
    Ok(match tensor.dtype() {
        Dtype::F64 => each(data, |bytes| f64::from_le_bytes(bytes) as f32),
        Dtype::F32 => each(data, f32::from_le_bytes),
        Dtype::F16 => each(data, |bytes| f16::from_le_bytes(bytes).to_f32()),
        Dtype::BF16 => each(data, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        // The scale is the same for the whole table, and is lost with the length of what comes out.
        Dtype::I8 => each(data, |bytes| f32::from(i8::from_le_bytes(bytes))),
        other => {
            return Err(format!(
                "it holds numbers of the kind {other:?}; expected are F32, F16, BF16 or I8"
            ));
        }
    })
}

/// The places of a tensor; a negative one is none.
fn places(tensor: &TensorView<'_>) -> Result<Vec<u64>, String> {
    let place = |place: i64| u64::try_from(place).unwrap_or(u64::MAX);
    let data = tensor.data();
    Ok(match tensor.dtype() {
        Dtype::I64 => each(data, |bytes| place(i64::from_le_bytes(bytes))),
        Dtype::I32 => each(data, |bytes| place(i32::from_le_bytes(bytes).into())),
        other => {
            return Err(format!(
                "`mapping` holds {other:?}; expected are I64 or I32"
            ));
        }
    })
}

fn each<const N: usize, T>(data: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (parts, _) = data.as_chunks::<N>();
    parts.iter().map(|part| number(*part)).collect()
}
