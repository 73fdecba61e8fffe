//! Masks what looks like a secret in a text: the value behind the name of a secret, in whatever
//! notation (`PASSWORD=…`, `--token …`, `"password": "…"`, `password is …`), headers of
//! authorization, passwords and all values of queries in addresses, `-u name:password`, well-known
//! tokens, private keys. In doubt it masks: what is kept only tells what happened.

/// What stands in place of a secret.
pub(super) const MASK: &str = "***";

/// Parts of names whose value is a secret.
const SECRET_NAMES: [&str; 15] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "api_key",
    "api-key",
    "authorization",
    "authentication",
    "access_key",
    "private_key",
    "privatekey",
    "cookie",
    "credential",
];
/// Ends of words in names whose value is a secret: `DB_PASS`, `X-Auth`.
const SECRET_ENDS: [&str; 3] = ["pass", "auth", "pwd"];
/// Words between the header of an authorization and its secret.
const SCHEMES: [&str; 4] = ["bearer", "basic", "digest", "negotiate"];
/// Options whose value is a name, or a name and a password.
const USER_OPTIONS: [&str; 4] = ["-u", "-U", "--user", "--proxy-user"];
/// Beginnings of well-known tokens.
const SECRET_STARTS: [&str; 14] = [
    "sk-",
    "sk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
];
/// The fewest bytes of a well-known token.
const MIN_TOKEN_BYTES: usize = 12;

/// Whether what stands under this name is a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // A count of tokens is no token.
    if name.ends_with("tokens") || name.ends_with("token_count") {
        return false;
    }
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
        || name
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| SECRET_ENDS.iter().any(|end| word.ends_with(end)))
}

/// The text with its secrets masked.
pub(super) fn masked(text: &str) -> String {
    let text = without_private_keys(text);
    let mut masker = Masker {
        rest: &text,
        out: String::with_capacity(text.len()),
    };
    while !masker.rest.is_empty() {
        masker.keep_while(parts_words);
        masker.word();
    }
    masker.out
}

/// What stands between words.
fn parts_words(c: char) -> bool {
    is_quote(c) || ends_value(c) || "?=:,(){}[]".contains(c)
}

/// What opens or closes a quoted value; a backslash does so within another quotation.
fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | '\\')
}

/// What ends a value that is not quoted.
fn ends_value(c: char) -> bool {
    c.is_whitespace() || is_quote(c) || matches!(c, '&' | ';' | '|' | '<' | '>')
}

/// Goes through a text once, from its beginning.
struct Masker<'a> {
    rest: &'a str,
    out: String,
}

impl<'a> Masker<'a> {
    /// Takes from the rest up to where `ends` holds.
    fn take_until(&mut self, ends: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self
            .rest
            .split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Keeps what is as `keeps` says, and hands it out.
    fn keep_while(&mut self, keeps: impl Fn(char) -> bool) -> &'a str {
        let kept = self.take_until(|c| !keeps(c));
        self.out.push_str(kept);
        kept
    }

    fn keep_blanks(&mut self) -> &'a str {
        self.keep_while(char::is_whitespace)
    }

    fn word(&mut self) {
        let before = self.rest;
        let word = self.take_until(parts_words);
        if self.rest.starts_with("://") {
            self.rest = before;
            self.address();
        } else if word.starts_with("-u") && self.rest.starts_with(':') {
            // `-uname:password`
            self.out.push_str("-u");
            self.out.push_str(MASK);
            self.take_until(ends_value);
        } else {
            without_tokens(word, &mut self.out);
            if USER_OPTIONS.contains(&word) {
                self.user();
            } else if is_scheme(word) {
                if !self.keep_blanks().is_empty() {
                    self.value(word);
                }
            } else if is_secret_name(word) && self.leads_to_value(word) {
                self.value(word);
            }
        }
    }

    /// Keeps what stands between a secret's name and its value; `false` when no value follows.
    fn leads_to_value(&mut self, name: &str) -> bool {
        let behind_quote = self.rest.trim_start_matches(|c| is_quote(c) || c == ']');
        let behind_blanks = behind_quote.trim_start_matches([' ', '\t']);
        let value = if behind_blanks.starts_with("::") {
            // A path in code.
            None
        } else if behind_blanks.starts_with(['=', ':']) {
            Some(behind_blanks.trim_start_matches(['=', ':', '>', '~']))
        } else if name.starts_with('-') && self.rest.starts_with(char::is_whitespace) {
            Some(self.rest)
        } else {
            behind_blanks
                .strip_prefix("is")
                .filter(|rest| rest.starts_with(char::is_whitespace))
        };
        let Some(value) = value else { return false };
        let value = value.trim_start();
        self.out
            .push_str(&self.rest[..self.rest.len() - value.len()]);
        self.rest = value;
        true
    }

    /// Masks the value of `name` that follows.
    fn value(&mut self, name: &str) {
        let opening = self.keep_while(is_quote);
        let value = match opening.chars().next_back() {
            Some(quote) if opening.len() == 1 => self.take_quoted(quote),
            Some(_) => self.take_until(is_quote),
            None if self.rest.starts_with(['[', '{']) => self.take_nested(),
            None if name.to_ascii_lowercase().contains("cookie") => {
                self.take_until(|c| is_quote(c) || c == '\n')
            }
            None => self.take_until(ends_value),
        };
        if is_scheme(value) && self.rest.starts_with(char::is_whitespace) {
            self.out.push_str(value);
            self.keep_blanks();
            if !self.take_until(ends_value).is_empty() {
                self.out.push_str(MASK);
            }
        } else if let Some((scheme, _)) = value
            .split_once(char::is_whitespace)
            .filter(|(scheme, _)| is_scheme(scheme))
        {
            self.out.push_str(scheme);
            self.out.push(' ');
            self.out.push_str(MASK);
        } else if !value.is_empty() {
            self.out.push_str(MASK);
        }
    }

    /// Takes up to the quote that closes; one behind a backslash does not.
    fn take_quoted(&mut self, quote: char) -> &'a str {
        let mut escaped = false;
        let end = self.rest.find(|c| {
            let closes = c == quote && !escaped;
            escaped = c == '\\' && !escaped;
            closes
        });
        let (taken, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Takes a list or an object up to its end.
    fn take_nested(&mut self) -> &'a str {
        let mut depth = 0_usize;
        let end = self.rest.find(|c| {
            match c {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        });
        let end = end.map_or(self.rest.len(), |end| end + 1);
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Masks the value of an option that names a user, if it has a password too.
    fn user(&mut self) {
        if !self
            .rest
            .starts_with(|c: char| c == '=' || c.is_whitespace())
        {
            return;
        }
        self.keep_while(|c| c == '=' || c.is_whitespace());
        self.keep_while(is_quote);
        let before = self.rest;
        if self.take_until(ends_value).contains(':') {
            self.out.push_str(MASK);
        } else {
            self.rest = before;
        }
    }

    /// Masks the passwords and the values of the query in an address.
    fn address(&mut self) {
        let address = self
            .take_until(|c| c.is_whitespace() || is_quote(c) || matches!(c, '<' | '>' | '|' | ')'));
        let (scheme, rest) = address.split_once("://").unwrap_or((address, ""));
        self.out.push_str(scheme);
        self.out.push_str("://");
        let (place, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
        let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
        let host = match authority.rsplit_once('@') {
            Some((user, host)) if user.contains(':') || !scheme.contains("ssh") => {
                self.out.push_str(MASK);
                self.out.push('@');
                host
            }
            _ => authority,
        };
        without_tokens(host, &mut self.out);
        without_tokens(path, &mut self.out);
        for pair in query.split_inclusive(['?', '#', '&', ';']) {
            let pair_end = pair.trim_end_matches(['?', '#', '&', ';']);
            match pair_end.split_once('=') {
                Some((name, value)) if !value.is_empty() => {
                    self.out.push_str(name);
                    self.out.push('=');
                    self.out.push_str(MASK);
                }
                _ => without_tokens(pair_end, &mut self.out),
            }
            self.out.push_str(&pair[pair_end.len()..]);
        }
    }
}

fn is_scheme(word: &str) -> bool {
    SCHEMES
        .iter()
        .any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Appends a word, with the well-known tokens in it masked.
fn without_tokens(word: &str, out: &mut String) {
    let mut rest = word;
    let mut before = None;
    while let Some(first) = rest.chars().next() {
        let opens = before.is_none_or(|c: char| !c.is_alphanumeric());
        if opens && SECRET_STARTS.iter().any(|start| rest.starts_with(start)) {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
                .unwrap_or(rest.len());
            if end >= MIN_TOKEN_BYTES {
                out.push_str(MASK);
                before = Some('*');
                rest = &rest[end..];
                continue;
            }
        }
        out.push(first);
        before = Some(first);
        rest = &rest[first.len_utf8()..];
    }
}

fn without_private_keys(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN ";
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let end = rest[at + BEGIN.len()..]
            .find("-----END")
            .map(|end| at + BEGIN.len() + end);
        out.push_str(&rest[..at]);
        out.push_str(MASK);
        let Some(end) = end else { return out };
        let line = rest[end..].find('\n').map_or(rest.len(), |line| end + line);
        rest = &rest[line..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::masked;

    #[test]
    fn secrets_are_masked_in_texts() {
        let check = |text: &str, expected: &str| assert_eq!(masked(text), expected, "{text}");
        check(
            "curl -H 'Authorization: Bearer abc.def'",
            "curl -H 'Authorization: Bearer ***'",
        );
        check("export API_KEY=12345 && run", "export API_KEY=*** && run");
        check("login --password hunter2 now", "login --password *** now");
        check(
            "git clone https://me:pw@host/x.git",
            "git clone https://***@host/x.git",
        );
        check("key sk-abcdefghijklmnop.", "key ***");
        check("(ghp_0123456789abcdef)", "(***)");
        check(
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nok",
            "***\nok",
        );
    }

    #[test]
    fn secrets_are_masked_in_whatever_notation() {
        for text in [
            "https://x/cb?token=LEAK",
            "https://x/cb?access_token=LEAK",
            "https://x/cb?a=b&state=LEAK#access_token=LEAK",
            "curl https://x/cb?code=LEAK&x=y",
            "x/cb?token=LEAK",
            "https://LEAK@host/x",
            "curl -d '{\"password\":\"LEAK\"}' https://x",
            "curl -d \"{\\\"password\\\": \\\"LEAK LEAK\\\"}\"",
            "{\"password\": \"a\\\"LEAK\"}",
            "{\"tokens\": 3, \"secrets\": [\"LEAK\", \"LEAK\"]}",
            "curl -u me:LEAK https://x",
            "curl -ume:LEAK https://x",
            "curl --user \"me:LEAK\" https://x",
            "DB_PASS=LEAK ./run",
            "DB_PASS='two LEAK' ./run",
            "env PGPASSWORD=a:b=LEAK psql",
            "X-Auth: LEAK",
            "curl -H \"X-Auth-Key: LEAK\"",
            "the password is LEAK",
            "password LEAK".replace(' ', " = ").as_str(),
            "Server=x;Uid=me;Pwd=LEAK;",
            "--token='LEAK'",
            "--token \"one LEAK\"",
            "Cookie: a=LEAK; b=LEAK",
            "os.environ['DB_PASSWORD'] = 'LEAK'",
            "authorization: Basic LEAK",
            "\"Authorization\": \"Bearer LEAK\"",
            "password:\n  LEAK",
        ] {
            let safe = masked(text);
            assert!(
                !safe.contains("LEAK") && safe.contains("***"),
                "{text}: {safe}"
            );
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "the token was lost",
            "cargo test -p wire",
            "Überraschung: 12 €",
            "sort -u names.txt",
            "sudo -u postgres psql -c 'select 1'",
            "ssh://git@host:22/x.git",
            "https://host:8080/a/@scope/b",
            "rg 'Token::new' src",
            "src/author.rs: 12 passed",
            "output_tokens: 12",
            "",
        ] {
            assert_eq!(masked(text), text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in any::<String>(), noise in "[ \"'\\\\=:{}\\[\\]?&@/#u-]{0,40}") {
            masked(&text);
            masked(&format!("https://{noise}password{noise}{text}{noise}-u{noise}"));
        }
    }
}
