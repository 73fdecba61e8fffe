//! Paths in URIs.

use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Bytes that are escaped: all but unreserved characters (RFC 3986, section 2.3) and the separator of directories.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_')
    .remove(b'~');

/// Returns the `file:` URI of a path, as SQLite reads it (<https://www.sqlite.org/uri.html>). A relative path stays
/// relative. A query can be appended.
#[must_use]
pub fn file_uri(path: &Path) -> String {
    let path = percent_encode(path.as_os_str().as_encoded_bytes(), ESCAPED);
    format!("file:{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_with_a_meaning_in_uris_are_escaped() {
        let uri = file_uri(Path::new("/a b/c?d#e%f/g-h_i.db~"));
        assert_eq!(uri, "file:/a%20b/c%3Fd%23e%25f/g-h_i.db~");
    }
}
