//! The scripts, styles and pictures of the dashboard, as they were built in.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    extract::Path,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use rust_embed::Embed;

use crate::app::Site;

/// The files. A build without optimisation reads them anew for each request.
#[derive(Embed)]
#[folder = "assets/"]
struct Assets;

pub(super) fn routes() -> Router<Arc<Site>> {
    Router::new().route("/assets/{version}/{*file}", get(asset))
}

/// Another one whenever a file is another, so that a file can be kept for as long as it is wanted.
pub(super) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        let mut names: Vec<_> = Assets::iter().collect();
        names.sort_unstable();
        for name in names {
            let file = Assets::get(&name);
            (name, file.map(|file| file.metadata.sha256_hash())).hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    })
}

async fn asset(Path((asked, file)): Path<(String, String)>) -> Response {
    let Some(found) = Assets::get(&file) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let kind = match file.rsplit_once('.').map(|(_, extension)| extension) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    // A page of before the program was replaced gets what there is, and soon loads itself anew.
    let kept = match asked == version() && !cfg!(debug_assertions) {
        true => "public, max-age=31536000, immutable",
        false => "no-store",
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static(kept)),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (headers, found.data.into_owned()).into_response()
}
