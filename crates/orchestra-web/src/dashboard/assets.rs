//! The scripts, styles and pictures of the dashboard, as they were built in.

use std::{
    borrow::Cow,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::Path,
    sync::{Arc, OnceLock},
};

use axum::{
    Router, extract,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};

use crate::app::Site;

/// Names and contents of the files. A build without optimisation reads them from their directory for each
/// request, so that a change needs no new build.
type Files = &'static [(&'static str, &'static [u8])];

#[cfg(not(debug_assertions))]
macro_rules! embedded {
    ($name:literal) => {
        (
            $name,
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/", $name)),
        )
    };
}

#[cfg(debug_assertions)]
macro_rules! embedded {
    ($name:literal) => {
        ($name, &[])
    };
}

mod generated;

use generated::FILES;

/// Returns the content of a file, if there is one of this name.
fn content(name: &str) -> Option<Cow<'static, [u8]>> {
    let at = FILES.binary_search_by(|(file, _)| (*file).cmp(name)).ok()?;
    match cfg!(debug_assertions) {
        true => fs::read(Path::new(DIRECTORY).join(name))
            .ok()
            .map(Cow::Owned),
        false => Some(Cow::Borrowed(FILES[at].1)),
    }
}

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");

pub(super) fn routes() -> Router<Arc<Site>> {
    Router::new().route("/assets/{version}/{*file}", get(asset))
}

/// Another one whenever a file is another, so that a file can be kept for as long as it is wanted.
pub(super) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        for (name, _) in FILES {
            (name, content(name)).hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    })
}

async fn asset(extract::Path((asked, file)): extract::Path<(String, String)>) -> Response {
    let Some(found) = content(&file) else {
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
    (headers, found).into_response()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const HEADER: &str = "\
// @generated from the files in `assets/`: do not edit.
//! The files of the dashboard, by name. `cargo xtask codegen` rewrites this file after one was added or removed.

use super::Files;

pub(super) const FILES: Files = &[
";

    fn collect(directory: &Path, prefix: &str, names: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            match entry.file_type().unwrap().is_dir() {
                true => collect(&entry.path(), &format!("{name}/"), names),
                false => names.push(name),
            }
        }
    }

    #[test]
    fn generated_list_matches_the_directory() {
        let mut names = Vec::new();
        collect(Path::new(DIRECTORY), "", &mut names);
        names.sort_unstable();
        let mut wanted = HEADER.to_owned();
        for name in names {
            writeln!(wanted, "    embedded!(\"{name}\"),").unwrap();
        }
        wanted.push_str("];\n");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard/assets/generated.rs");
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            // direct: it is a file of this crate's source.
            fs::write(&path, &wanted).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap();
        assert!(
            found == wanted,
            "src/dashboard/assets/generated.rs differs from the directory: run `cargo xtask codegen`"
        );
    }
}
