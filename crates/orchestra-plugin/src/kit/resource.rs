//! Resources: what is read by its URI. Only our own orchestrators ask for them.

use std::{future::Future, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{answer::ToolError, cx::Cx};
use crate::quic::BoxFuture;

type Function = dyn Fn(Cx) -> BoxFuture<'static, Result<String, ToolError>> + Send + Sync;

/// The number of the error for a resource that is not there.
const NOT_FOUND: i32 = -32602;
const FAILED: i32 = -32603;

/// A text that a plugin offers under a URI.
#[must_use]
pub struct Resource {
    uri: String,
    name: String,
    description: String,
    mime_type: String,
    function: Arc<Function>,
}

impl Resource {
    /// A resource by its URI, its name, what it is, and the function that reads it.
    pub fn new<F, Fut>(uri: &str, name: &str, description: &str, function: F) -> Self
    where
        F: Fn(Cx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, ToolError>> + Send + 'static,
    {
        Self {
            uri: uri.to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
            mime_type: "text/plain".to_owned(),
            function: Arc::new(move |cx| Box::pin(function(cx))),
        }
    }

    /// The media type, where it is not plain text.
    pub fn mime_type(mut self, mime_type: &str) -> Self {
        mime_type.clone_into(&mut self.mime_type);
        self
    }
}

#[derive(Deserialize)]
struct Params {
    uri: String,
}

/// The result of `resources/list`.
pub(super) fn listed(resources: &[Resource]) -> Value {
    let resources: Vec<Value> = resources
        .iter()
        .map(|resource| {
            json!({
                "uri": resource.uri,
                "name": resource.name,
                "description": resource.description,
                "mimeType": resource.mime_type,
            })
        })
        .collect();
    json!({ "resources": resources })
}

/// The result of `resources/read`, or a number and a message.
pub(super) async fn read(
    resources: &[Resource],
    params: &[u8],
    cx: Cx,
) -> Result<Value, (i32, String)> {
    let params: Params = serde_json::from_slice(params)
        .map_err(|error| (NOT_FOUND, format!("invalid params: {error}")))?;
    let Some(resource) = resources.iter().find(|one| one.uri == params.uri) else {
        return Err((NOT_FOUND, format!("resource not found: {}", params.uri)));
    };
    match (resource.function)(cx).await {
        Ok(text) => Ok(json!({"contents": [
            {"uri": resource.uri, "mimeType": resource.mime_type, "text": text}
        ]})),
        Err(error) => Err((FAILED, error.message().to_owned())),
    }
}
