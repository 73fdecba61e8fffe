//! Packages of Node.js that a command line runs or loads by their names.

/// Programs whose first argument is a package.
const RUNNERS: [&str; 3] = ["bunx", "npx", "npx-cli.js"];

/// Programs with [`COMMANDS`] that are followed by a package.
const PROGRAMS: [&str; 3] = ["bun", "npm", "npm-cli.js"];

/// Commands that run a package. Those with a prefix run a package whose name has the prefix.
const COMMANDS: [(&str, &str); 5] = [
    ("exec", ""),
    ("x", ""),
    ("init", "create-"),
    ("create", "create-"),
    ("innit", "create-"),
];

/// Options without a value.
const FLAGS: [&str; 13] = [
    "--",
    "--bun",
    "--ignore-existing",
    "--no",
    "--no-install",
    "--offline",
    "--prefer-offline",
    "--quiet",
    "--silent",
    "--yes",
    "-n",
    "-q",
    "-y",
];

/// Options that name the package or give a line of a shell: the next argument is the name of a program.
const NAMED: [&str; 4] = ["--call", "--package", "-c", "-p"];

/// Returns the packages that the runners among the [words](super::command_words) of a command line look for, first in
/// the installed packages. A word behind an unknown option may be its value, or the package.
#[must_use]
pub fn node_packages(words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let rest = &words[at + 1..];
        let name = word.rsplit('/').next().unwrap_or(word);
        if RUNNERS.contains(&name) {
            found.extend(packages(rest, ""));
        } else if PROGRAMS.contains(&name) {
            let command = rest.iter().enumerate().find_map(|(at, word)| {
                let (_, prefix) = COMMANDS.iter().find(|(name, _)| name == word)?;
                Some((at, prefix))
            });
            if let Some((at, prefix)) = command {
                found.extend(packages(&rest[at + 1..], prefix));
            }
        } else if name == "deno" {
            let packages = rest.iter().filter_map(|word| word.strip_prefix("npm:"));
            found.extend(packages.map(str::to_owned));
        }
    }
    found
}

/// Options of Node.js, and of programs that pass them on, with a module that is loaded first.
const PRELOADS: [&str; 6] = [
    "--experimental-loader",
    "--import",
    "--loader",
    "--preload",
    "--require",
    "-r",
];

/// Returns the modules that the options among words load from the installed packages.
#[must_use]
pub fn preloaded_modules<'l>(words: &[&'l str]) -> Vec<&'l str> {
    let values = words.iter().enumerate().filter_map(|(at, word)| {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (*word, words.get(at + 1).copied()),
        };
        value.filter(|_| PRELOADS.contains(&option))
    });
    // Others are paths and addresses.
    let is_name = |value: &&str| {
        let is_plain = value.starts_with(|first: char| first.is_alphanumeric() || first == '@');
        is_plain && !value.contains(':')
    };
    values.filter(is_name).collect()
}

fn packages(words: &[&str], prefix: &str) -> Vec<String> {
    let (mut found, mut may_be_value) = (Vec::new(), false);
    for word in words {
        let option = word.split('=').next().unwrap_or(word);
        if NAMED.contains(&option) {
            return Vec::new();
        }
        if word.starts_with('-') {
            may_be_value = option == *word && !FLAGS.contains(word);
            continue;
        }
        found.push(match word.rsplit_once('/') {
            Some((scope, name)) => format!("{scope}/{prefix}{name}"),
            None => format!("{prefix}{word}"),
        });
        if !std::mem::take(&mut may_be_value) {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preloaded_module_is_the_value_of_an_option() {
        for (line, expected) in [
            (
                "node -r srv --import=@a/srv/x y.js",
                &["srv", "@a/srv/x"][..],
            ),
            ("mocha --require srv", &["srv"]),
            ("node -r ./srv --import=/srv --import node:test x.js", &[]),
            ("node server.js", &[]),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(preloaded_modules(&words), expected, "{line}");
        }
    }

    #[test]
    fn package_is_the_first_argument_of_a_runner() {
        for (line, expected) in [
            ("npx -y @a/srv data", &["@a/srv"][..]),
            ("/usr/bin/npx srv@1.0.0 data", &["srv@1.0.0"]),
            ("node lib/npx-cli.js -- srv", &["srv"]),
            ("bunx --bun @a/srv", &["@a/srv"]),
            ("npm exec -y -- @a/srv x", &["@a/srv"]),
            ("npm --silent x srv", &["srv"]),
            ("npm init @a/srv", &["@a/create-srv"]),
            ("bun x srv", &["srv"]),
            ("npx --registry url srv x", &["url", "srv"]),
            ("npx --registry=url srv x", &["srv"]),
            ("deno run -A npm:@a/srv x", &["@a/srv"]),
            ("npx -y --package=@a/srv srv", &[]),
            ("npx -p @a/srv srv", &[]),
            ("npx -c srv", &[]),
            ("npm run start", &[]),
            ("node server.js", &[]),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(node_packages(&words), expected, "{line}");
        }
    }
}
