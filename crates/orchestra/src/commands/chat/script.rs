//! The one server that a command line names: a script, a command or an address.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    path::Path,
    sync::Arc,
};

use orchestra_gateway::config::{
    Connections, Flavour, HttpConfig, InheritEnv, Origin, Pins, Place, Sandbox, ServerConfig,
    ServerName, Source, StdioConfig, Template, Transport, Trust,
};

use super::Talk;
use crate::{
    config::{ChatSettings, bounds_of},
    env::program_in_path,
    exit::Failure,
    output,
};

/// Flags that people put behind a script and mean for the conversation.
const OURS: [&str; 10] = [
    "--limit",
    "--sandbox",
    "--model",
    "--backend",
    "--script",
    "--query",
    "-q",
    "--yes",
    "-y",
    "--json",
];

/// The server that the command line names, if it names one.
///
/// # Errors
/// When it names more than one, or one that is not there.
pub(super) fn named(arguments: &Talk) -> Result<Option<ServerConfig>, Failure> {
    let named = [
        (!arguments.words.is_empty()).then_some("a script"),
        arguments.stdio.as_ref().map(|_| "--stdio"),
        arguments.url.as_ref().map(|_| "--url"),
        (!arguments.server.is_empty()).then_some("--server"),
    ];
    let named: Vec<&str> = named.into_iter().flatten().collect();
    if let [first, second, ..] = named.as_slice() {
        return Err(Failure::usage_text(format!(
            "{first} and {second} cannot be combined"
        )));
    }
    if !arguments.env.is_empty() && arguments.words.is_empty() && arguments.stdio.is_none() {
        return Err(Failure::usage_text(
            "--env is for a server that the command line starts: a script, or --stdio",
        ));
    }
    let is_bounded = arguments.sandbox.is_some() || !arguments.limit.is_empty();
    if is_bounded && arguments.words.is_empty() && arguments.stdio.is_none() {
        return Err(Failure::usage_text(
            "--sandbox and --limit are for a server that the command line starts: a script, or --stdio; a configured \
             server has its own `sandbox` and `limits`",
        ));
    }
    if let Some((script, rest)) = arguments.words.split_first() {
        // A flag that is none of ours is no script.
        if script.as_encoded_bytes().starts_with(b"-") {
            return Err(Failure::usage_text(format!(
                "unexpected argument `{}`; `orchestra chat --help` lists the options; to run a script of this \
                 name, write ./{}",
                script.display(),
                script.display()
            )));
        }
        let server = started(arguments, run_by(script)?, rest)?;
        if let Some(flag) = rest
            .iter()
            .find(|word| OURS.iter().any(|own| *own == word.as_os_str()))
        {
            output::complain(&format!(
                "{} is passed to the server, because it follows {}; put flags of `orchestra chat` before the script",
                flag.display(),
                script.display()
            ));
        }
        return Ok(Some(server));
    }
    if let Some(command) = &arguments.stdio {
        let words = shlex::split(command).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| {
            Failure::usage_text(format!(
                "--stdio `{command}`: not a valid command line; is a quote missing?"
            ))
        })?;
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        return started(arguments, vec![words[0].clone()], &words[1..]).map(Some);
    }
    let Some(url) = &arguments.url else {
        return Ok(None);
    };
    let transport = Transport::Http(HttpConfig {
        url: Template::literal(url),
        flavour: Flavour::Auto,
        headers: Vec::new(),
        auth: None,
        ca_file: None,
        client_cert: None,
        allow_insecure: false,
        connections: Connections::default(),
    });
    // The name is in logs, in the audit and in recordings.
    Ok(Some(server(&orchestra_secret::text(url), transport)?))
}

/// Sandbox of a server that the command line starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SandboxChoice {
    /// No restriction
    None,
    /// Access to the working directory, except its settings, and no network access (Linux only)
    Workspace,
}

/// Puts the server into the sandbox and under the limits that are set, as a configured one.
///
/// # Errors
/// When a limit is none that a server can have.
pub(super) fn bounded(
    server: ServerConfig,
    arguments: &Talk,
    settings: &ChatSettings,
) -> Result<ServerConfig, Failure> {
    if !matches!(server.transport, Transport::Stdio(_)) {
        return Ok(server);
    }
    let mut limits = settings.limits.value.clone();
    for given in &arguments.limit {
        let Some((name, value)) = given.split_once('=') else {
            let text = format!("--limit {given}: NAME=VALUE, such as files=64");
            return Err(Failure::usage_text(text));
        };
        let number = value.parse().map(toml::Value::Integer);
        let number = number.or_else(|_| value.parse().map(toml::Value::Float));
        let value = number
            .ok()
            .or_else(|| value.parse().map(toml::Value::Boolean).ok());
        let text = given[name.len() + 1..].to_owned();
        limits.insert(name.to_owned(), value.unwrap_or(toml::Value::String(text)));
    }
    let bounds = bounds_of(settings.sandbox.value, &limits);
    let (mut sandbox, limits) =
        bounds.map_err(|error| Failure::usage_text(format!("--limit: {error}")))?;
    // Its program may be one that runs it.
    if let (Sandbox::Workspace { read, .. }, Some(script)) = (&mut sandbox, arguments.words.first())
    {
        // The user names the script: it may be a link to one elsewhere.
        let script = match std::fs::canonicalize(script) {
            Ok(script) => script,
            Err(_) => std::path::absolute(script)?,
        };
        read.extend(script.to_str().map(Template::literal));
    }
    Ok(ServerConfig {
        sandbox,
        limits,
        ..server
    })
}

/// A server that is started: by what runs it, with what comes behind.
fn started(
    arguments: &Talk,
    by: Vec<OsString>,
    rest: &[OsString],
) -> Result<ServerConfig, Failure> {
    let mut words = by.into_iter().chain(rest.iter().cloned());
    let shown = match &arguments.stdio {
        Some(_) => words.clone().next(),
        None => arguments.words.first().cloned(),
    };
    let text = |word: OsString| {
        let text = word.into_string();
        text.map(|text| Template::literal(&text))
            .map_err(|word| Failure::usage_text(format!("`{}` is no UTF-8 text", word.display())))
    };
    let Some(command) = words.next() else {
        return Err(Failure::usage_text(
            "missing the command that starts the server",
        ));
    };
    let transport = Transport::Stdio(StdioConfig {
        command: text(command)?,
        args: words.map(text).collect::<Result<_, _>>()?,
        cwd: None,
        env: environment(&arguments.env)?,
        env_file: None,
        inherit_env: InheritEnv::Default,
    });
    let shown = shown.unwrap_or_default();
    let stem = Path::new(&shown).file_stem().unwrap_or(&shown);
    server(&stem.to_string_lossy(), transport)
}

/// Variables of the server: with their values, or as they are here.
fn environment(given: &[String]) -> Result<BTreeMap<String, Template>, Failure> {
    let variables = given.iter().map(|given| match given.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), Template::literal(value))),
        Some(_) => Err(Failure::usage_text(format!(
            "--env {given}: it has no name"
        ))),
        // What is not set here is not set there.
        None => {
            let value = env::var(given).map_err(|_| {
                Failure::usage_text(format!("--env {given}: not set, or not UTF-8 text"))
            })?;
            Ok((given.clone(), Template::literal(&value)))
        }
    });
    variables.collect()
}

fn server(name: &str, transport: Transport) -> Result<ServerConfig, Failure> {
    let directory = env::current_dir()?;
    let origin = Origin {
        file: Arc::from(Path::new("the command line")),
        place: Place { line: 1, column: 1 },
        source: Source::CommandLine,
        trust: Trust::Trusted,
        directory,
    };
    let mut server = ServerConfig::new(ServerName::of_text(name), origin, transport);
    // There is no other whose tools could have the same names.
    server.prefix = false;
    // Whoever names it has chosen it.
    server.trust = true;
    // The user names the file with each command, and edits it in between.
    server.pins = Pins::Follow;
    Ok(server)
}

/// What runs a script, with the script, by its extension.
fn run_by(script: &OsStr) -> Result<Vec<OsString>, Failure> {
    let path = Path::new(script);
    let extension = path
        .extension()
        .and_then(OsStr::to_str)
        .map(str::to_ascii_lowercase);
    let runner = match extension.as_deref() {
        Some("js" | "mjs" | "cjs") => vec!["node"],
        Some("py") => vec![if cfg!(windows) { "python" } else { "python3" }],
        Some("jar") => vec!["java", "-jar"],
        Some("ts" | "mts" | "cts") => typescript(script)?,
        Some("exe") if !cfg!(windows) && program_in_path("mono").is_some() => vec!["mono"],
        _ => return Ok(vec![program(path)]),
    };
    if !path.is_file() {
        return Err(Failure::usage_text(format!(
            "there is no file `{}`",
            path.display()
        )));
    }
    if program_in_path(runner[0]).is_none() {
        return Err(Failure::usage_text(format!(
            "`{}` requires {}, which is not on PATH",
            path.display(),
            runner[0]
        )));
    }
    let words = runner.into_iter().map(OsString::from);
    Ok(words.chain([script.to_owned()]).collect())
}

/// What runs TypeScript here: the first of the usual runners that there is.
fn typescript(script: &OsStr) -> Result<Vec<&'static str>, Failure> {
    let runners: [&[&'static str]; 5] = [
        &["tsx"],
        &["bun", "run"],
        &["deno", "run", "--allow-all"],
        &["ts-node"],
        // It knows the flag from 22.6 on, and needs it until 22.18.
        &["node", "--experimental-strip-types"],
    ];
    let found = runners
        .into_iter()
        .find(|words| program_in_path(words[0]).is_some());
    found.map(<[&str]>::to_vec).ok_or_else(|| {
        Failure::usage_text(format!(
            "no installed program can run `{}`: install tsx, bun, deno, or Node.js 22.6 or newer",
            script.display()
        ))
    })
}

/// A program as it is started: one of this directory is not looked for in `PATH`.
fn program(path: &Path) -> OsString {
    let is_bare = path.components().count() == 1 && !path.is_absolute();
    match is_bare && path.is_file() {
        true => Path::new(".").join(path).into_os_string(),
        false => path.as_os_str().to_owned(),
    }
}
