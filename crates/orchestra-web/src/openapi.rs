//! The OpenAPI document, generated from the routes: what is described is routed by the same macro.

use axum::Router;
use serde_json::Value;
use utoipa::openapi::{
    OpenApi,
    security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
};
use utoipa_axum::router::OpenApiRouter;

/// The name of the security scheme.
const BEARER: &str = "token";

/// Takes routes and their descriptions apart.
pub(crate) fn described<S>(routes: OpenApiRouter<S>) -> (Router<S>, OpenApi)
where
    S: Clone + Send + Sync + 'static,
{
    routes.split_for_parts()
}

/// As [`described`], with the descriptions added to others.
pub(crate) fn with<S>(mut document: OpenApi, routes: OpenApiRouter<S>) -> (Router<S>, OpenApi)
where
    S: Clone + Send + Sync + 'static,
{
    let (routes, more) = routes.split_for_parts();
    document.merge(more);
    (routes, document)
}

/// The document for readers.
pub(crate) fn finished(mut document: OpenApi, version: &str) -> Value {
    "Orchestra".clone_into(&mut document.info.title);
    version.clone_into(&mut document.info.version);
    let text = "Tools, resources and prompts over plain HTTP. The Model Context Protocol itself \
                is served at /mcp.";
    document.info.description = Some(text.to_owned());
    document.info.contact = None;
    document.info.license = None;
    let components = document.components.get_or_insert_default();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme(BEARER, bearer);
    // A token is only asked for where one is set.
    let optional = [
        SecurityRequirement::default(),
        SecurityRequirement::new(BEARER, [] as [&str; 0]),
    ];
    document.security = Some(optional.into());
    serde_json::to_value(&document).expect("the document's types have a JSON form")
}
