//! From the JSON object of a call to a typed struct; what does not fit is named.

use orchestra_wire::RawJson;
use serde::Deserialize;

/// The most characters of an error's text; the rest would only repeat the caller's own input.
const MAX_ERROR_CHARS: usize = 600;

/// Parses the arguments of a tool.
///
/// # Errors
/// A text for the caller that names the argument and says what was expected.
pub fn parse_arguments<'a, T: Deserialize<'a>>(arguments: &'a RawJson) -> Result<T, String> {
    // A struct would be read from an array just as well.
    if !arguments.as_bytes().trim_ascii_start().starts_with(b"{") {
        return Err("the arguments must be an object".to_owned());
    }
    let mut json = serde_json::Deserializer::from_slice(arguments.as_bytes());
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        cut(&sentence(&path, &reason(error.inner())))
    })
}

/// What is wrong, without the position in a text that the caller never saw.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

fn sentence(path: &str, reason: &str) -> String {
    let reason = reason.replace(" field `", " argument `");
    if path == "." {
        return reason;
    }
    // An unknown or missing argument is named already.
    if reason.contains(" argument `") && !path.contains(['.', '[']) {
        return reason;
    }
    format!("argument `{path}`: {reason}")
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_ERROR_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
