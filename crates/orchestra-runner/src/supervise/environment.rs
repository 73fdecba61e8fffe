//! The environment of a command: a few variables of ours, then those of the plan, then its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fmt,
};

use orchestra_process::{Environment, PROXIES};
use orchestra_secret::{is_secret_name, is_secret_value, url_passwords};

/// Last words of names of variables that describe where and how something runs.
const PLACES: [&str; 18] = [
    "home", "dir", "path", "root", "env", "sha", "ref", "branch", "version", "name", "host",
    "port", "level", "mode", "user", "shell", "editor", "display",
];

/// Minimum length of a secret in a variable whose name means none.
const MIN_UNNAMED_BYTES: usize = 8;

/// The environment of a command, and what of it is on no log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    /// All of it.
    pub values: BTreeMap<OsString, OsString>,
    /// Values, and parts of values, that are to be on no log.
    pub secrets: Vec<String>,
}

impl fmt::Debug for Variables {
    /// Names alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.keys()).finish()
    }
}

/// The whole environment of a command: of `host` what [`Environment::Default`] lets through, then
/// `plan`, then `own`, which wins. In the values of both, `$NAME`, `${NAME}` and `%NAME%` stand for
/// variables of `host`, all of them; what names none stays as it is written.
///
/// Secrets are the values of variables of all three that are named like one, what was put in of `host` unless it is
/// known to be something else, and the passwords of addresses.
#[must_use]
pub fn environment(
    host: &BTreeMap<OsString, OsString>,
    plan: &BTreeMap<String, String>,
    own: &BTreeMap<String, String>,
) -> Variables {
    let inherited = host
        .iter()
        .filter(|(name, _)| Environment::Default.inherits(name));
    let mut values: BTreeMap<OsString, OsString> = inherited
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut put_in = BTreeMap::new();
    for (name, value) in plan.iter().chain(own) {
        values.insert(name.into(), expand(value, host, &mut put_in));
    }
    // A command may read a secret of the host from elsewhere than its environment.
    let secrets = secrets(host.iter().chain(&values), &put_in);
    Variables { values, secrets }
}

/// What is to be on no log: of all variables, and of the variables of the host that were put into others.
fn secrets<'v>(
    values: impl Iterator<Item = (&'v OsString, &'v OsString)>,
    put_in: &BTreeMap<OsString, OsString>,
) -> Vec<String> {
    let texts = |(name, value): (&OsString, &OsString)| {
        Some((
            name.to_string_lossy().into_owned(),
            value.to_str()?.to_owned(),
        ))
    };
    let mut secrets = BTreeSet::new();
    for (name, value) in values.filter_map(texts) {
        secrets.extend(url_passwords(&value).map(str::to_owned));
        if is_secret_name(&name) && is_secret_value(&value) {
            secrets.insert(value);
        }
    }
    for (name, value) in put_in.iter().filter_map(texts) {
        if is_hidden(&name, &value) {
            secrets.insert(value);
        }
    }
    secrets.into_iter().collect()
}

/// Returns whether the value of a variable of the host, which a plan has put into a value of its own, is masked:
/// where its name means a secret, or does not mean something else.
fn is_hidden(name: &str, value: &str) -> bool {
    if is_secret_name(name) {
        return is_secret_value(value);
    }
    let is_known = Environment::Default.inherits(OsStr::new(name)) && !PROXIES.contains(&name);
    let last = name
        .rsplit('_')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let is_place = value.starts_with('/') || PLACES.contains(&last.as_str()) || name == "PWD";
    value.len() >= MIN_UNNAMED_BYTES && !is_known && !is_place && !value.contains("://")
}

/// A value with variables of the host put in, of which note is taken.
fn expand(
    value: &str,
    host: &BTreeMap<OsString, OsString>,
    put_in: &mut BTreeMap<OsString, OsString>,
) -> OsString {
    let mut out = OsString::new();
    let mut rest = value;
    while let Some(at) = rest.find(['$', '%']) {
        out.push(&rest[..at]);
        rest = &rest[at..];
        let named = named(rest).and_then(|(name, length)| {
            let value = host.get(OsStr::new(name))?;
            put_in.insert(name.into(), value.clone());
            Some((value, length))
        });
        let length = match named {
            Some((value, length)) => {
                out.push(value);
                length
            }
            None => {
                out.push(&rest[..1]);
                1
            }
        };
        rest = &rest[length..];
    }
    out.push(rest);
    out
}

/// The names of variables that a value refers to.
pub(crate) fn named_in(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = value;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[rest.find(['$', '%'])?..];
            match named(rest) {
                Some((name, length)) => {
                    rest = &rest[length..];
                    return Some(name);
                }
                None => rest = &rest[1..],
            }
        }
    })
}

/// The name of a variable that a text begins with, and how long the whole is.
fn named(text: &str) -> Option<(&str, usize)> {
    let until = |rest: &'_ str, end: char| rest.find(end);
    if let Some(rest) = text.strip_prefix("${") {
        let end = until(rest, '}')?;
        return is_name(&rest[..end]).then(|| (&rest[..end], end + 3));
    }
    if let Some(rest) = text.strip_prefix('%') {
        let end = until(rest, '%')?;
        return is_name(&rest[..end]).then(|| (&rest[..end], end + 2));
    }
    let rest = text.strip_prefix('$')?;
    let end = rest.find(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
    let name = &rest[..end.unwrap_or(rest.len())];
    is_name(name).then(|| (name, name.len() + 1))
}

fn is_name(name: &str) -> bool {
    let first = name.bytes().next();
    let begins = first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    begins
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_host_are_put_in_and_few_are_inherited() {
        let host = BTreeMap::from(
            [("PATH", "/bin"), ("GH", "s3cret"), ("AWS_SECRET", "no")]
                .map(|(name, value)| (name.into(), value.into())),
        );
        let plan = BTreeMap::from([("A".to_owned(), "plan".to_owned())]);
        let own = BTreeMap::from(
            [
                ("A", "own"),
                ("PATH", "/opt:${PATH}"),
                ("TOKEN", "$GH"),
                ("B", "%GH%-$GHOST-${GH}x-100%-$5-$"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let all = environment(&host, &plan, &own);
        let shown: Vec<_> = all
            .values
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(
            shown,
            [
                "A=own",
                "B=s3cret-$GHOST-s3cretx-100%-$5-$",
                "PATH=/opt:/bin",
                "TOKEN=s3cret"
            ]
        );
        assert_eq!(all.secrets, ["s3cret"]);
        assert_eq!(format!("{all:?}"), r#"["A", "B", "PATH", "TOKEN"]"#);
    }

    #[test]
    fn value_of_the_host_is_hidden_unless_its_name_means_something_else() {
        for (name, value) in [
            ("VAULT", "aB3dE5gH"),
            ("DB_PASSWORD", "hunt"),
            ("X", "a-long-value"),
        ] {
            assert!(is_hidden(name, value), "{name}");
        }
        for (name, value) in [
            ("PATH", "bin:usr/bin:sbin"),
            ("HOME", "/home/somebody"),
            ("NODE_ENV", "production"),
            ("CACHE", "/var/cache/x"),
            ("X", "short"),
            ("API_URL", "https://example.org"),
        ] {
            assert!(!is_hidden(name, value), "{name}");
        }
    }

    #[test]
    fn secrets_of_the_host_inside_of_values_are_secrets() {
        let pairs = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = all.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let host = [
            ("DB_PASSWORD", "hunter2"),
            ("GH_TOKEN", "abcd"),
            ("VAULT", "opaque-value"),
            ("NODE_ENV", "production"),
            ("HTTPS_PROXY", "http://me:proxy-pass@proxy:1"),
            ("UNUSED_TOKEN", "not-named"),
        ];
        let host = host.map(|(name, value)| (name.into(), value.into()));
        let plan = pairs(&[("DATABASE_URL", "postgres://app:${DB_PASSWORD}@db/x")]);
        let own = pairs(&[("HDR", "Bearer $GH_TOKEN"), ("V", "<%VAULT%> in $NODE_ENV")]);
        let secrets = environment(&BTreeMap::from(host), &plan, &own).secrets;
        assert_eq!(
            secrets,
            ["abcd", "hunter2", "not-named", "opaque-value", "proxy-pass"]
        );
    }
}
