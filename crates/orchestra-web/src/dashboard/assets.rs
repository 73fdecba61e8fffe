//! The scripts, styles and pictures of the dashboard, as they were built in.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher as _},
    io::{self, Read as _},
    path::Path,
    sync::{Arc, OnceLock},
};

use axum::{
    Router, extract,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};

use crate::app::Site;

/// Names and compressed contents of the files. A build with debug assertions reads them from their directory for each
/// request, so that a change needs no new build.
type Files = &'static [(&'static str, &'static [u8])];

#[cfg(not(debug_assertions))]
macro_rules! embedded {
    ($name:literal) => {
        (
            $name,
            include_bytes!(concat!(env!("OUT_DIR"), "/assets/", $name)),
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

/// Content of a file.
#[derive(Debug, Hash)]
enum Content {
    /// As it is in the directory.
    Plain(Vec<u8>),
    /// Compressed with gzip, as it was built in.
    Gzip(&'static [u8]),
}

/// Returns the content of a file, if there is one of this name.
fn content(name: &str) -> Option<Content> {
    let at = FILES.binary_search_by(|(file, _)| (*file).cmp(name)).ok()?;
    match cfg!(debug_assertions) {
        true => fs::read(Path::new(DIRECTORY).join(name))
            .ok()
            .map(Content::Plain),
        false => Some(Content::Gzip(FILES[at].1)),
    }
}

impl Content {
    /// Answers a request with these headers. A client that does not accept gzip gets the plain content.
    fn answer(self, asked: &HeaderMap) -> io::Result<Response> {
        let varies = (header::VARY, HeaderValue::from_static("accept-encoding"));
        Ok(match self {
            Self::Plain(content) => content.into_response(),
            Self::Gzip(content) if accepts_gzip(asked) => {
                let coding = (header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                ([varies, coding], content).into_response()
            }
            Self::Gzip(content) => {
                let mut plain = Vec::new();
                flate2::read::GzDecoder::new(content).read_to_end(&mut plain)?;
                ([varies], plain).into_response()
            }
        })
    }
}

/// Returns whether a client accepts gzip (RFC 9110, section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let codings = values.filter_map(|value| value.to_str().ok());
    let codings = codings.flat_map(|value| value.split(','));
    let mut codings = codings.map(|coding| coding.split_once(';').unwrap_or((coding, "")));
    codings.any(|(name, weight)| {
        let weight = weight.trim().trim_start_matches(['q', 'Q', '=', ' ']);
        name.trim().eq_ignore_ascii_case("gzip") && weight.parse() != Ok(0.0)
    })
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

async fn asset(
    extract::Path((asked, file)): extract::Path<(String, String)>,
    request: HeaderMap,
) -> Response {
    let Some(found) = content(&file) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Ok(answer) = found.answer(&request) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
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
    (headers, answer).into_response()
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write as _, io::Write as _};

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

    #[tokio::test]
    async fn compressed_file_is_sent_as_it_is_to_clients_that_accept_gzip() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(b"text").unwrap();
        let compressed: &'static [u8] = encoder.finish().unwrap().leak();
        for (accepted, is_compressed) in [
            (None, false),
            (Some("gzip, deflate, br"), true),
            (Some("br;q=1.0, GZIP;q=0.5"), true),
            (Some("gzip;q=0"), false),
            (Some("br, gzip; q=0.000"), false),
            (Some("identity"), false),
        ] {
            let mut headers = HeaderMap::new();
            let accepted = accepted.map(HeaderValue::from_static);
            headers.extend(accepted.map(|value| (header::ACCEPT_ENCODING, value)));
            let answer = Content::Gzip(compressed).answer(&headers).unwrap();
            let coding = answer.headers().get(header::CONTENT_ENCODING).cloned();
            assert_eq!(coding.is_some(), is_compressed, "{headers:?}");
            assert_eq!(answer.headers()[header::VARY], "accept-encoding");
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
            let wanted = if is_compressed { compressed } else { b"text" };
            assert_eq!(body.unwrap(), wanted, "{headers:?}");
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
