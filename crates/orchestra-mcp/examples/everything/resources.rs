//! The resources.

use orchestra_hub::{Outcome, ProviderError, ResourceContents, ResourceResult};
use serde_json::json;

use crate::{Answer, IMAGE, skills};

pub(crate) fn read(uri: String) -> Answer {
    let id = uri
        .strip_prefix("test://template/")
        .and_then(|rest| rest.strip_suffix("/data"));
    let (mime_type, data, binary) = match (uri.as_str(), id) {
        ("test://static-text", _) => (
            "text/plain",
            "Content of the static text.".to_owned(),
            false,
        ),
        ("test://static-binary", _) => ("image/png", IMAGE.to_owned(), true),
        ("test://watched-resource", _) => ("text/plain", "Content to watch.".to_owned(), false),
        (_, Some(id)) => {
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for {id}")});
            ("application/json", data.to_string(), false)
        }
        _ => match skills::read(&uri) {
            Some((mime_type, text)) => (mime_type, text.to_owned(), false),
            None => {
                return Err(ProviderError::Unknown {
                    kind: "resource",
                    name: uri,
                });
            }
        },
    };
    let mime_type = Some(mime_type.to_owned());
    Ok(Outcome::Resource(ResourceResult {
        contents: vec![ResourceContents {
            uri,
            mime_type,
            data,
            binary,
        }],
    }))
}
