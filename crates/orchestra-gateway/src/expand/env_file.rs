//! Files of `NAME=VALUE` lines.

use std::{collections::HashSet, path::Path};

use orchestra_mcp::files;

use super::ExpandError;

/// The largest file; environments are bounded by the system not far above.
const MAX_BYTES: u64 = 256 * 1024;

pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>, ExpandError> {
    let wrong = |what: String| ExpandError::EnvFile {
        path: path.to_owned(),
        what,
    };
    let text = files::read_text(path, MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else {
            return Err(wrong(format!("line {}: no =", number + 1)));
        };
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) || line.contains('\0') {
            return Err(wrong(format!("line {}: no name", number + 1)));
        }
        pairs.push((name.to_owned(), value_of(value.trim())));
    }
    // The last value of a name counts.
    let mut names = HashSet::new();
    pairs.reverse();
    pairs.retain(|(name, _)| names.insert(name.clone()));
    pairs.reverse();
    Ok(pairs)
}

/// A value in quotes is what stands between them; `\n`, `\"` and `\\` are known in double ones.
fn value_of(text: &str) -> String {
    let between = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inner) = between('\'') {
        return inner.to_owned();
    }
    let Some(inner) = between('"') else {
        // A comment begins behind a space.
        let end = text.find(" #").unwrap_or(text.len());
        return text[..end].trim_end().to_owned();
    };
    let mut value = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match (c, chars.clone().next()) {
            ('\\', Some(next)) => {
                chars.next();
                match next {
                    'n' => value.push('\n'),
                    '"' | '\\' => value.push(next),
                    _ => value.extend(['\\', next]),
                }
            }
            _ => value.push(c),
        }
    }
    value
}
