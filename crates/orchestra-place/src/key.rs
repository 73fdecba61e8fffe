//! Name of a workspace inside the git directory of its repository.

use std::{
    fmt::Write as _,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path},
};

use sha2::{Digest as _, Sha256};

/// Name of the top of the working tree. No encoded path begins with `_`.
const TOP: &str = "_";
/// Prefix of the digest of a path whose encoded form is too long.
const DIGEST: &str = "_sha256-";
/// Most bytes of an encoded path.
const MAX_BYTES: usize = 100;

/// Encodes a path below the top of the working tree as one file name. Different paths have different names.
pub(crate) fn key(below_top: &Path) -> String {
    let parts: Vec<&[u8]> = below_top
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.as_bytes()),
            _ => None,
        })
        .collect();
    if parts.is_empty() {
        return TOP.to_owned();
    }
    let bytes = parts.join(&b'/');
    let mut name = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let is_special = matches!(letter, '/' | '%') || letter.is_control();
            match is_special || (name.is_empty() && matches!(letter, '.' | '_')) {
                true => percent(&mut name, letter.encode_utf8(&mut [0; 4]).as_bytes()),
                false => name.push(letter),
            }
        }
        percent(&mut name, chunk.invalid());
    }
    match name.len() > MAX_BYTES {
        true => format!("{DIGEST}{}", hex(&Sha256::digest(&bytes))),
        false => name,
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn percent(name: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(name, "%{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_have_readable_names() {
        let long = "a".repeat(101);
        for (path, name) in [
            ("", "_"),
            ("apps/web", "apps%2Fweb"),
            (".hidden", "%2Ehidden"),
            ("_", "%5F"),
            ("a_b.c", "a_b.c"),
            ("100%", "100%25"),
            ("ä", "ä"),
            ("a\nb", "a%0Ab"),
        ] {
            assert_eq!(key(Path::new(path)), name);
        }
        assert_eq!(key(Path::new(OsStr::from_bytes(b"\xff"))), "%FF");
        assert_eq!(key(Path::new(&long[1..])), long[1..]);
        let digest = key(Path::new(&long));
        assert!(digest.starts_with("_sha256-") && digest.len() == 72);
    }

    proptest! {
        #[test]
        fn different_paths_have_different_names(
            a in proptest::collection::vec(prop_oneof![Just(b'%'), Just(b'_'), Just(b'.'), Just(b'2'), Just(b'F'), Just(b'/'), any::<u8>()], 0..8),
            b in proptest::collection::vec(prop_oneof![Just(b'%'), Just(b'_'), Just(b'.'), Just(b'2'), Just(b'F'), Just(b'/'), any::<u8>()], 0..8),
        ) {
            let (a, b) = (Path::new(OsStr::from_bytes(&a)), Path::new(OsStr::from_bytes(&b)));
            let normal = |path: &Path| path.components().filter(|part| matches!(part, Component::Normal(_))).collect::<std::path::PathBuf>();
            prop_assert_eq!(key(a) == key(b), normal(a) == normal(b));
        }

        #[test]
        fn every_name_is_one_component(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let name = key(Path::new(OsStr::from_bytes(&bytes)));
            prop_assert!(name.len() <= MAX_BYTES && !name.contains('/') && !name.starts_with('.'));
            prop_assert!(!name.is_empty());
        }
    }
}
