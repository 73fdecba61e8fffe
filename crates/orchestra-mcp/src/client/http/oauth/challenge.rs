//! What a refusal asks for (RFC 9110, section 11.6.1; RFC 6750, section 3; RFC 9728, section 5.1).

/// The challenge of a refusal that is about tokens.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Where the server says what it is.
    pub(super) resource_metadata: Option<String>,
    /// The rights that are needed.
    pub(super) scope: Option<String>,
    /// Why it was refused.
    pub(super) error: Option<String>,
}

impl Challenge {
    /// The first challenge that is about tokens.
    pub(super) fn of(values: &[String]) -> Self {
        let mut found = Self::default();
        for value in values {
            for (scheme, name, text) in parameters(value) {
                if !scheme.eq_ignore_ascii_case("bearer") && !scheme.eq_ignore_ascii_case("dpop") {
                    continue;
                }
                let place = match name.to_ascii_lowercase().as_str() {
                    "resource_metadata" => &mut found.resource_metadata,
                    "scope" => &mut found.scope,
                    "error" => &mut found.error,
                    _ => continue,
                };
                place.get_or_insert(text);
            }
        }
        found
    }

    /// The rights that are needed, one by one.
    pub(super) fn scopes(&self) -> Vec<String> {
        let scopes = self
            .scope
            .iter()
            .flat_map(|scope| scope.split_ascii_whitespace());
        scopes.map(str::to_owned).collect()
    }
}

/// The parameters of a header's challenges, each with its scheme.
fn parameters(value: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut scheme = String::new();
    let mut rest = value.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let end = rest
            .find(|letter: char| letter.is_ascii_whitespace() || matches!(letter, '=' | ','))
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let after = rest[end..].trim_start_matches([' ', '\t']);
        let assigned = after.strip_prefix('=').filter(|_| !word.is_empty());
        rest = match assigned {
            Some(after) => {
                let (text, after) = text(after.trim_start_matches([' ', '\t']));
                found.push((scheme.clone(), word.to_owned(), text));
                after
            }
            // A word that nothing is assigned to is the scheme of what follows.
            None => {
                if !word.is_empty() {
                    word.clone_into(&mut scheme);
                }
                match after.strip_prefix('=') {
                    Some(after) => after,
                    None => after,
                }
            }
        };
        rest = rest.trim_start_matches([' ', '\t', ',']);
    }
    found
}

/// A token or a quoted string, and what follows it.
fn text(value: &str) -> (String, &str) {
    let Some(quoted) = value.strip_prefix('"') else {
        let end = value
            .find(|letter: char| letter.is_ascii_whitespace() || letter == ',')
            .unwrap_or(value.len());
        return (value[..end].to_owned(), &value[end..]);
    };
    let mut text = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (text, &quoted[at + 1..]),
            '\\' => text.extend(letters.next().map(|(_, letter)| letter)),
            _ => text.push(letter),
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_whatever_stands_beside_them() {
        let challenge = |error: &str, scope: &str, place: &str| Challenge {
            error: (!error.is_empty()).then(|| error.to_owned()),
            scope: (!scope.is_empty()).then(|| scope.to_owned()),
            resource_metadata: (!place.is_empty()).then(|| place.to_owned()),
        };
        for (value, expected) in [
            ("Bearer", challenge("", "", "")),
            ("", challenge("", "", "")),
            (
                r#"Bearer error="insufficient_scope", scope="a b",resource_metadata="https://x/y?a=b""#,
                challenge("insufficient_scope", "a b", "https://x/y?a=b"),
            ),
            (
                r#"Basic realm="a, b", dpop algs="ES256", error=use_dpop_nonce"#,
                challenge("use_dpop_nonce", "", ""),
            ),
            (r#"Basic error="no", scope="c""#, challenge("", "", "")),
            (r#"Bearer scope="quo\"te"#, challenge("", "quo\"te", "")),
            ("=,= ,,==", challenge("", "", "")),
            ("bearer scope = x , error = y", challenge("y", "x", "")),
        ] {
            assert_eq!(Challenge::of(&[value.to_owned()]), expected, "{value}");
        }
    }
}
