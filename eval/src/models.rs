//! Models to judge: real ones, which packages ship, and one that knows nothing.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use orchestra_engine::index::{Index, Phase};
use orchestra_engine::model::{self, EmbedError, Embedder, ModelId, ModelKind, Purpose};
use orchestra_store::Store;

/// The real models, by the directories they lie in and what they are called in the tables.
const REAL: &[&str] = &["wordllama", "minilm"];
/// How long a model may take for all texts.
const LONG: Duration = Duration::from_secs(600);

/// A model, and an index of everything that is remembered.
pub(crate) struct Model {
    /// What it is called.
    pub(crate) name: String,
    /// What sort of model it is taken for.
    pub(crate) kind: ModelKind,
    /// What it finds.
    pub(crate) index: Index,
    _directory: tempfile::TempDir,
}

/// All models: those that lie in `directory`, if any, and two that know nothing.
pub(crate) fn all(store: &Store, directory: Option<&Path>) -> Result<Vec<Model>> {
    let mut models = Vec::new();
    for name in REAL {
        if let Some(directory) = directory {
            let embedder = model::open(&directory.join(name))
                .with_context(|| format!("opening the model {name}"))?;
            models.push(Model::start(name, store, embedder)?);
        }
    }
    for (name, kind) in [
        ("noise", ModelKind::Static),
        ("network noise", ModelKind::Network),
    ] {
        models.push(Model::start(name, store, Arc::new(Noise::new(kind)?))?);
    }
    Ok(models)
}

impl Model {
    /// Makes the vectors of everything that is remembered, and waits until they are there.
    fn start(name: &str, store: &Store, embedder: Arc<dyn Embedder>) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let kind = embedder.kind();
        let index = Index::start(store.clone(), directory.path(), embedder)?;
        let progress = index.wait(LONG, |progress| {
            matches!(progress.phase, Phase::Ready | Phase::Failing(_))
        });
        if progress.phase != Phase::Ready {
            bail!("{name} has no vectors: {:?}", progress.phase);
        }
        Ok(Self {
            name: name.to_owned(),
            kind,
            index,
            _directory: directory,
        })
    }
}

/// A model whose vectors have nothing to do with what a text says: the worst that anybody can
/// configure.
#[derive(Debug)]
struct Noise {
    id: ModelId,
    kind: ModelKind,
}

impl Noise {
    const DIMENSIONS: usize = 256;

    fn new(kind: ModelKind) -> Result<Self> {
        let id = "00000000000000000000000000000000".parse()?;
        Ok(Self { id, kind })
    }
}

impl Embedder for Noise {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn kind(&self) -> ModelKind {
        self.kind
    }

    fn dimensions(&self) -> usize {
        Self::DIMENSIONS
    }

    fn embed(&self, texts: &[&str], _: Purpose) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vector = |text: &&str| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let mut state = hasher.finish() | 1;
            let mut numbers: Vec<f32> = Vec::with_capacity(Self::DIMENSIONS);
            for _ in 0..Self::DIMENSIONS {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let share = f32::from(u16::try_from(state >> 48).unwrap_or_default()) / 65_536.0;
                numbers.push(share - 0.5);
            }
            let length = numbers.iter().map(|x| x * x).sum::<f32>().sqrt();
            numbers.iter_mut().for_each(|x| *x /= length);
            numbers
        };
        Ok(texts.iter().map(vector).collect())
    }
}
