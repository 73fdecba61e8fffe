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

/// As [`described`], with the descriptions added to others, of what everybody may call.
pub(crate) fn with_public<S>(
    mut document: OpenApi,
    routes: OpenApiRouter<S>,
) -> (Router<S>, OpenApi)
where
    S: Clone + Send + Sync + 'static,
{
    let (routes, mut more) = routes.split_for_parts();
    let paths = more.paths.paths.values_mut();
    for operation in paths
        .flat_map(|path| [path.get.as_mut(), path.post.as_mut()])
        .flatten()
    {
        operation.security = Some(Vec::new());
    }
    document.merge(more);
    (routes, document)
}

/// Whether callers must show a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// Everybody must.
    Needed,
    /// None is set; one that is shown does no harm.
    Unset,
}

/// The document for readers.
pub(crate) fn finished(mut document: OpenApi, version: &str, tokens: Tokens) -> Value {
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
    let bearer = SecurityRequirement::new(BEARER, [] as [&str; 0]);
    document.security = Some(match tokens {
        Tokens::Needed => vec![bearer],
        Tokens::Unset => vec![SecurityRequirement::default(), bearer],
    });
    serde_json::to_value(&document).expect("the document's types have a JSON form")
}
