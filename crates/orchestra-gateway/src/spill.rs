//! Results that are too large for their caller: kept as a file of ours, offered as a resource, with
//! their beginning and end in the answer.

use std::{
    collections::VecDeque,
    fs, io,
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use orchestra_fs::{Access, Directory};
use orchestra_hub::{
    BoxFuture, Catalog, Content, Outcome, Provider, ProviderError, ProviderId, Request,
    ResourceContents, ResourceResult, Target, TemplateDescriptor, ToolResult,
};
use orchestra_wire::RawJson;
use tokio::{sync::watch, task::spawn_blocking};

use crate::names::hex;

/// Files that are kept, and how much they may hold together.
const MAX_FILES: usize = 256;
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// How long one is kept at most; those of programs that ended are removed by the next.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// How much of a file one part holds.
const PART_BYTES: u64 = 64 * 1024;

/// How much of the beginning and of the end is told.
const SHOWN_BYTES: usize = 2 * 1024;

const SCHEME: &str = "orchestra://spill/";

/// Where large results are kept. Clones are the same place.
#[derive(Debug, Clone)]
pub(crate) struct Spill(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: ProviderId,
    directory: PathBuf,
    files: Mutex<VecDeque<Spilled>>,
    catalog: watch::Sender<Arc<Catalog>>,
}

#[derive(Debug, Clone)]
struct Spilled {
    name: String,
    bytes: u64,
    is_text: bool,
}

impl Spill {
    /// A place below a state directory. What is too old there is removed.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let directory = state.join("mcp").join("spill");
        Directory::private(&directory)?;
        for entry in fs::read_dir(&directory)?.flatten() {
            let modified = entry.metadata().and_then(|about| about.modified());
            let age = modified.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
            if age.is_ok_and(|age| age > MAX_AGE) {
                let _ = fs::remove_file(entry.path());
            }
        }
        let template = |uri_template: &str, name: &str, description: &str| TemplateDescriptor {
            uri_template: uri_template.to_owned(),
            name: name.to_owned(),
            title: None,
            description: Some(description.to_owned()),
            mime_type: None,
            definition: None,
        };
        let catalog = Catalog {
            templates: vec![
                template(
                    "orchestra://spill/{id}",
                    "large-result",
                    "A result too large to be answered whole.",
                ),
                template(
                    "orchestra://spill/{id}/{part}",
                    "large-result-part",
                    "A part of it, counted from 1.",
                ),
            ],
            ..Catalog::default()
        };
        Ok(Self(Arc::new(Inner {
            id: ProviderId::parse("spill").expect("a legal provider id"),
            directory,
            files: Mutex::default(),
            catalog: watch::Sender::new(Arc::new(catalog)),
        })))
    }

    /// Keeps a tool's result and answers what is told instead.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) async fn keep(&self, result: RawJson, is_error: bool) -> io::Result<Outcome> {
        let inner = Arc::clone(&self.0);
        let kept = spawn_blocking(move || inner.keep(&result, is_error)).await;
        kept.unwrap_or_else(|_| Err(io::Error::other("the thread that wrote it broke")))
    }
}

impl Inner {
    fn keep(&self, result: &RawJson, is_error: bool) -> io::Result<Outcome> {
        let read = ToolResult::of_verbatim(result, is_error);
        let texts = read.content.iter().map(|content| match content {
            Content::Text(text) => Some(text.as_str()),
            Content::Raw(_) => None,
        });
        let texts: Option<Vec<&str>> = texts.collect();
        let joined = texts
            .filter(|_| read.structured.is_none())
            .map(|texts| texts.join("\n"));
        let is_text = joined.is_some();
        let text = joined.unwrap_or_else(|| result.as_str().to_owned());
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = hex(&random);
        let mut file = orchestra_fs::create_new(&self.directory.join(&name), Access::Private)?;
        file.write_all(text.as_bytes())?;
        let spilled = Spilled {
            bytes: text.len() as u64,
            name,
            is_text,
        };
        let told = spilled.told(&text);
        self.enter(spilled);
        Ok(Outcome::Tool(ToolResult {
            content: vec![Content::Text(told)],
            structured: None,
            is_error,
            meta: read.meta,
        }))
    }

    fn enter(&self, spilled: Spilled) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push_back(spilled);
        let mut removed = Vec::new();
        let bytes = |files: &VecDeque<Spilled>| files.iter().map(|file| file.bytes).sum::<u64>();
        while files.len() > 1 && (files.len() > MAX_FILES || bytes(&files) > MAX_BYTES) {
            removed.extend(files.pop_front());
        }
        drop(files);
        for file in removed {
            let _ = fs::remove_file(self.directory.join(file.name));
        }
    }

    fn read(&self, uri: String) -> Result<Outcome, ProviderError> {
        let gone = || ProviderError::Unknown {
            kind: "resource",
            name: uri.clone(),
        };
        let rest = uri.strip_prefix(SCHEME).ok_or_else(gone)?;
        let (name, part) = match rest.split_once('/') {
            None => (rest, None),
            Some((name, part)) => (name, Some(part.parse::<u64>().map_err(|_| gone())?)),
        };
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let found = files.iter().find(|file| file.name == name).cloned();
        drop(files);
        let found = found.ok_or_else(gone)?;
        let broken =
            |error: io::Error| ProviderError::Unreachable(format!("cannot read {uri}: {error}"));
        let path = self.directory.join(&found.name);
        let file = orchestra_fs::open(&path).map_err(|error| broken(error.into()))?;
        let mut file = file.ok_or_else(|| broken(io::ErrorKind::NotFound.into()))?;
        let mut bytes = Vec::new();
        match part {
            None => file
                .take(MAX_BYTES)
                .read_to_end(&mut bytes)
                .map_err(broken)?,
            Some(part) => {
                let from = part
                    .checked_sub(1)
                    .and_then(|part| part.checked_mul(PART_BYTES));
                let from = from.filter(|from| *from < found.bytes).ok_or_else(gone)?;
                file.seek(io::SeekFrom::Start(from)).map_err(broken)?;
                file.take(PART_BYTES)
                    .read_to_end(&mut bytes)
                    .map_err(broken)?
            }
        };
        let mime_type = if found.is_text {
            "text/plain"
        } else {
            "application/json"
        };
        Ok(Outcome::Resource(ResourceResult {
            contents: vec![ResourceContents {
                mime_type: Some(mime_type.to_owned()),
                // A part may begin and end inside a character.
                data: String::from_utf8_lossy(&bytes).into_owned(),
                binary: false,
                uri: uri.clone(),
            }],
        }))
    }
}

impl Spilled {
    /// What is told instead of the text.
    fn told(&self, text: &str) -> String {
        let (name, bytes) = (&self.name, self.bytes);
        let parts = bytes.div_ceil(PART_BYTES);
        let head = floor(text, SHOWN_BYTES);
        let tail = floor(text, text.len().saturating_sub(SHOWN_BYTES)).max(head);
        let kind = if self.is_text { "" } else { " (as JSON)" };
        format!(
            "The result has {bytes} bytes, more than is answered at once. It is kept for a while as \
             the resource {SCHEME}{name}{kind}, and in parts of {} KiB as {SCHEME}{name}/1 to /{parts}. \
             It begins:\n{}\n[… {} bytes left out …]\n{}",
            PART_BYTES / 1024,
            &text[..head],
            tail - head,
            &text[tail..],
        )
    }
}

/// The last boundary of a character that is not behind `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl Provider for Spill {
    fn id(&self) -> &ProviderId {
        &self.0.id
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.0.catalog.subscribe()
    }

    fn serve(&self, request: Request) -> BoxFuture<Result<Outcome, ProviderError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let Target::Resource { uri } = request.target else {
                return Err(ProviderError::InvalidParams(
                    "only resources are here".to_owned(),
                ));
            };
            let read = spawn_blocking(move || inner.read(uri)).await;
            read.unwrap_or_else(|_| Err(ProviderError::Unreachable("the read broke".to_owned())))
        })
    }

    fn can_watch(&self, _uri: &str) -> bool {
        false
    }
}

impl Drop for Inner {
    /// Nobody finds the files any more.
    fn drop(&mut self) {
        let files = self.files.get_mut().unwrap_or_else(PoisonError::into_inner);
        for file in files.iter() {
            let _ = fs::remove_file(self.directory.join(&file.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn read(spill: &Spill, uri: &str) -> Option<String> {
        match spill.0.read(uri.to_owned()).ok()? {
            Outcome::Resource(result) => Some(result.contents[0].data.clone()),
            _ => None,
        }
    }

    #[tokio::test]
    async fn a_large_result_is_kept_for_its_reader_and_for_nobody_else() {
        let state = tempfile::tempdir().unwrap();
        let spill = Spill::open(state.path()).unwrap();
        let text = "é0123456".repeat(20_000);
        let result = serde_json::json!({"content": [{"type": "text", "text": text}]});
        let kept = spill
            .keep(RawJson::of(&result).unwrap(), false)
            .await
            .unwrap();
        let Outcome::Tool(ToolResult { content, .. }) = kept else {
            panic!("a tool's result")
        };
        let [Content::Text(told)] = &content[..] else {
            panic!("one text")
        };
        assert!(
            told.len() < 3 * SHOWN_BYTES && told.contains("é0123456é") && told.contains("/1 to /3")
        );
        let from = told.find(SCHEME).unwrap();
        let uri = &told[from..from + SCHEME.len() + 32];
        assert_eq!(read(&spill, uri).unwrap(), text);
        let parts = (1..=3).map(|part| read(&spill, &format!("{uri}/{part}")).unwrap());
        let parts: Vec<String> = parts.collect();
        assert!(parts[0].starts_with("é0123456é") && parts[2].ends_with("é0123456"));
        for uri in [
            &format!("{uri}/4"),
            &format!("{uri}/0"),
            "orchestra://spill/../x",
            "orchestra://spill/",
        ] {
            assert_eq!(read(&spill, uri), None, "{uri}");
        }
        let file = fs::read_dir(state.path().join("mcp/spill"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(spill);
        assert_eq!(
            fs::read_dir(state.path().join("mcp/spill"))
                .unwrap()
                .count(),
            0
        );
    }

    #[tokio::test]
    async fn only_so_many_are_kept() {
        let state = tempfile::tempdir().unwrap();
        let spill = Spill::open(state.path()).unwrap();
        for _ in 0..MAX_FILES + 10 {
            let result = RawJson::of(&serde_json::json!({"content": []})).unwrap();
            spill.keep(result, false).await.unwrap();
        }
        assert_eq!(
            fs::read_dir(state.path().join("mcp/spill"))
                .unwrap()
                .count(),
            MAX_FILES
        );
    }
}
