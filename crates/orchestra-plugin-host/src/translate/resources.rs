//! Documents of an orchestrator as resources.
//!
//! Storage keeps `<project>/features/<id>.md`, where older bridges look for `features/<id>.md`
//! alone. Both are shown: `orchestra://<project>/features/<id>` and `orchestra://features/<id>`.

use orchestra_mcp::client::Answer;
use orchestra_plugin::{
    envelope::Response,
    generated::{StorageListRequest, StorageListResponse, StorageReadRequest, StorageReadResponse},
};
use orchestra_wire::{ErrorCode, RawJson, RpcError, shown};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Reading, Step, Terms, ask, failure, text};

const SCHEME: &str = "orchestra://";
const EXTENSION: &str = ".md";
/// Bytes that are escaped in the path of a URI (RFC 3986, section 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// Kinds of documents, and what one of each is called.
const KINDS: [(&str, &str); 3] = [
    ("features", "Project Features"),
    ("notes", "Project Notes"),
    ("docs", "Project Documentation"),
];

pub(super) fn list() -> Step {
    ask(&StorageListRequest::default(), Reading::Documents)
}

pub(super) fn read(params: Option<&RawJson>) -> Result<Step, RpcError> {
    let uri = params.and_then(|params| text::text_member(params, "uri"));
    let uri = uri.filter(|uri| !uri.is_empty());
    let uri = uri.ok_or_else(|| RpcError::invalid_params("missing required parameter: uri"))?;
    let request = StorageReadRequest {
        path: path(&uri)?,
        storage_type: String::new(),
    };
    Ok(ask(&request, Reading::Document { uri }))
}

pub(super) fn templates() -> RawJson {
    let template = |before: &str, kind: &str, name: String| {
        serde_json::json!({
            "uriTemplate": format!("{SCHEME}{before}{kind}/{{id}}"),
            "name": name,
            "description": format!("Access {name} by ID"),
            "mimeType": "text/markdown",
        })
    };
    let plain = KINDS.map(|(kind, name)| template("", kind, name.to_owned()));
    let of_project =
        KINDS.map(|(kind, name)| template("{project}/", kind, format!("{name} of one project")));
    let all: Vec<_> = plain.into_iter().chain(of_project).collect();
    let result = serde_json::json!({ "resourceTemplates": all });
    RawJson::of(&result).unwrap_or_else(|_| RawJson::empty_object())
}

impl Terms {
    pub(super) fn listed_documents(&self, response: &Response) -> Answer {
        let listed: StorageListResponse = self.message("storage_list", response)?;
        if let Some(problem) = listed.problem {
            return Err(failure::internal(
                self.failure("storage_list", &shown(&problem.message)),
            ));
        }
        let mut shown: Vec<(String, &str)> = listed
            .entries
            .iter()
            .filter_map(|entry| document(&entry.path))
            .collect();
        shown.sort_unstable();
        shown.dedup();
        let mut out = String::from("{\"resources\":[");
        for (index, (uri, name)) in shown.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str("{\"uri\":");
            text::string(&mut out, uri);
            out.push_str(",\"name\":");
            text::string(&mut out, name);
            out.push_str(",\"mimeType\":\"text/markdown\"}");
        }
        out.push_str("]}");
        text::raw(out)
    }

    pub(super) fn read_document(&self, response: &Response, uri: &str) -> Answer {
        let read: StorageReadResponse = self
            .message("storage_read", response)
            .map_err(|error| failure::internal(format!("storage read failed: {error}")))?;
        let is_missing = match &read.problem {
            Some(problem) if problem.code != "not_found" => {
                let what = shown(&problem.message);
                return Err(failure::internal(format!("storage read failed: {what}")));
            }
            Some(_) => true,
            // An empty answer is all that older peers have to say.
            None => read.content.is_empty() && read.metadata.is_none() && read.version == 0,
        };
        if is_missing {
            let what = format!("resource not found: {}", shown(uri));
            return Err(RpcError::new(ErrorCode::RESOURCE_NOT_FOUND, what));
        }
        let mut out = String::from("{\"contents\":[{\"uri\":");
        text::string(&mut out, uri);
        out.push_str(",\"mimeType\":\"text/markdown\",\"text\":");
        text::string(&mut out, &String::from_utf8_lossy(&read.content));
        out.push_str("}]}");
        text::raw(out)
    }
}

/// The URI and name of a document that is a resource.
fn document(path: &str) -> Option<(String, &str)> {
    let whole = path.strip_suffix(EXTENSION)?;
    let (project, rest) = match KINDS.iter().any(|(kind, _)| is_below(whole, kind)) {
        true => (None, whole),
        false => {
            let (project, rest) = whole.split_once('/')?;
            (Some(project), rest)
        }
    };
    let (kind, name) = rest.split_once('/')?;
    if name.is_empty() || !KINDS.iter().any(|(known, _)| *known == kind) {
        return None;
    }
    let mut uri = String::from(SCHEME);
    for part in project.into_iter().chain([kind]) {
        uri.extend(utf8_percent_encode(part, ESCAPED));
        uri.push('/');
    }
    uri.extend(utf8_percent_encode(name, ESCAPED));
    Some((uri, name))
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// The path of the document that a URI names.
fn path(uri: &str) -> Result<String, RpcError> {
    let refuse = |what: &str, end: &str| {
        RpcError::invalid_params(format!("{what}: \"{}\"{end}", shown(uri)))
    };
    let rest = uri
        .strip_prefix(SCHEME)
        .ok_or_else(|| refuse("unsupported URI scheme", " (expected orchestra://)"))?;
    let invalid = || refuse("invalid resource URI", "");
    let rest = decode(rest).ok_or_else(invalid)?;
    let (first, after) = rest.split_once('/').ok_or_else(invalid)?;
    let is_kind = |name: &str| KINDS.iter().any(|(kind, _)| *kind == name);
    let id = match is_kind(first) {
        true => after,
        false => {
            let (kind, id) = after
                .split_once('/')
                .filter(|(kind, _)| is_kind(kind))
                .ok_or_else(|| refuse("unknown resource type", ""))?;
            let _ = kind;
            id
        }
    };
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    if id.is_empty() || !rest.split('/').all(is_plain) || rest.contains('\0') {
        return Err(invalid());
    }
    Ok(format!("{rest}{EXTENSION}"))
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}
