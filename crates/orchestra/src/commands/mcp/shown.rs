//! What is asked consent for: a server of a workspace, in lines.

use std::{borrow::Cow, collections::HashSet, iter, path::Path};

use orchestra_gateway::{
    approval::{Content, Covered, Waits},
    config::{
        Auth, Budget, Effect, Grant, HttpConfig, InheritEnv, Limits, OAuth, PluginConfig, PluginId,
        ProcessLimits, Sandbox, SecretSource, ServerConfig, StdioConfig, Template, ToolFilter,
        Transport, loads_code,
    },
    discovery::Server,
    expand::{self, Reference},
};
use orchestra_mcp::client::ascii_address;
use orchestra_secret::{Masker, is_secret_name};

use super::words::target;
use crate::env::program_in_path;

/// Length from which a value that begins with a slash and leads nowhere is no path, but a text of Base64: one of 64
/// random texts begins so, and keys have 40 characters at least.
const MAX_PATH_CHARS: usize = 39;

/// Characters of keys and tokens beside letters and digits. A shell reads no second word in a text of them.
const KEY_SIGNS: &str = "_-./+=:~";

/// Schemes of credentials in front of a key.
const SCHEMES: [&str; 2] = ["Bearer ", "Basic "];

/// What a server would do and may do, in lines. Arguments are shown as they were written, and so are variables of
/// the environment, unless their names mean a secret and they do not run. Of secrets, headers and settings of plugins
/// only the variables are shown that they refer to.
pub(crate) fn shown(config: &ServerConfig, covered: &Covered) -> Vec<String> {
    if let Some(gap) = covered.gap() {
        return vec![format!("no approval can cover it: {gap}")];
    }
    let mut lines = Vec::new();
    match &config.transport {
        Transport::Stdio(stdio) => process(&mut lines, config, stdio),
        Transport::Http(http) => reached(&mut lines, config, http),
        Transport::Plugin(plugin) => started(&mut lines, config, plugin),
        Transport::Orchestrator(there) => {
            lines.push(format!("reaches the orchestrator {}", target(config)));
            let certificates = there.certs_dir.as_ref().map(Template::written);
            lines.extend(certificates.map(|path| format!("with the certificates of {path}")));
        }
    }
    let variables = covered.variables().iter();
    lines.extend(variables.map(|(name, value)| {
        format!(
            "with {} of its file of variables",
            plain_variable(config, name, value)
        )
    }));
    let hides_default = known(&mut lines, config);
    let is_unclear = covered.is_unclear() || hides_default || hides_line(config, covered);
    files(&mut lines, covered, is_unclear);
    match &config.sandbox {
        Sandbox::Workspace { read, write } => {
            lines.push("in a sandbox: its directory, no network".into());
            lines.extend(paths("that may also read", read));
            lines.extend(paths("that may also write", write));
            lines.extend(covered.targets().map(|(path, target)| {
                let [path, target] = [path, target].map(|path| path.display().to_string());
                format!("where {path:?} is a link to {target:?}")
            }));
        }
        // Nobody confines what runs elsewhere.
        Sandbox::None => {}
    }
    lines.extend(paths("receives the roots", &config.roots));
    if !config.prefix {
        lines.push(
            "its tools have no prefix, so their names may resemble those of other servers".into(),
        );
    }
    if config.retry.repeat_unsafe {
        lines.push("calls that may change something are repeated".into());
    }
    limits(&mut lines, &config.limits);
    tools(&mut lines, config);
    lines
}

/// As [`shown`], with secrets masked also in arguments and other values: for readers who approve nothing.
pub(crate) fn masked(config: &ServerConfig, covered: &Covered) -> Vec<String> {
    let mut config = config.clone();
    match &mut config.transport {
        Transport::Stdio(stdio) => mask(&stdio.command, &mut stdio.args),
        Transport::Plugin(plugin) => mask(&plugin.binary, &mut plugin.args),
        Transport::Http(HttpConfig {
            auth: Some(Auth::Command { command, args }),
            ..
        }) => mask(command, args),
        Transport::Http(_) | Transport::Orchestrator(_) => {}
    }
    let lines = shown(&config, covered);
    let lines = lines.iter().map(|line| orchestra_secret::text(line));
    lines.map(Cow::into_owned).collect()
}

/// Masks secrets in the arguments of a program.
fn mask(program: &Template, arguments: &mut [Template]) {
    let words = iter::once(program)
        .chain(&*arguments)
        .map(Template::written);
    let masked = Masker::default().arguments(&words.collect::<Vec<_>>());
    for (argument, masked) in arguments.iter_mut().zip(masked.into_iter().skip(1)) {
        *argument = Template::new(masked);
    }
}

fn words<'a>(words: impl IntoIterator<Item = &'a Template>) -> String {
    let words = words
        .into_iter()
        .map(|word| format!("{:?}", word.written()));
    words.collect::<Vec<_>>().join(" ")
}

fn paths(what: &str, paths: &[Template]) -> Option<String> {
    (!paths.is_empty()).then(|| format!("{what} {}", words(paths)))
}

/// A variable with its value.
fn variable(config: &ServerConfig, name: &str, value: &Template) -> String {
    seen(config, name, value.written()).unwrap_or_else(|| hidden(name, value))
}

/// A variable of a file, in which nothing refers to anything.
fn plain_variable(config: &ServerConfig, name: &str, value: &str) -> String {
    seen(config, name, value).unwrap_or_else(|| format!("{}=…", name.escape_debug()))
}

/// A variable with its value, unless its name means a secret. A value that may run is always shown: whole where the
/// variable loads code or the command line refers to it, and else with forms of tokens masked.
fn seen(config: &ServerConfig, name: &str, value: &str) -> Option<String> {
    let is_whole = loads_code(name) || is_in_command(config, name);
    let value = match is_whole {
        true => Cow::Borrowed(value),
        false if is_secret_name(name) && !may_run(config, value) => return None,
        false => Masker::table().text(value),
    };
    Some(format!("{}={value:?}", name.escape_debug()))
}

/// Returns whether a variable has a value that is not shown, and that a shell may read as a command line.
fn hides_line(config: &ServerConfig, covered: &Covered) -> bool {
    let env = match &config.transport {
        Transport::Stdio(stdio) => Some(&stdio.env),
        Transport::Plugin(plugin) => Some(&plugin.env),
        Transport::Http(_) | Transport::Orchestrator(_) => None,
    };
    let mut written = env.into_iter().flatten();
    let mut read = covered.variables().iter();
    written.any(|(name, value)| {
        let value = value.written();
        seen(config, name, value).is_none() && !is_key(&expand::with_defaults(value))
    }) || read.any(|(name, value)| seen(config, name, value).is_none() && !is_key(value))
}

/// Returns whether a text has the form of a key or a URL, alone or behind the scheme of a header. A password with other
/// characters may be a command line as well.
fn is_key(text: &str) -> bool {
    let mut schemes = SCHEMES.iter();
    let key = schemes.find_map(|scheme| text.strip_prefix(*scheme));
    let key = key.unwrap_or(text);
    let is_url = key.contains("://");
    let is_sign = |char: char| KEY_SIGNS.contains(char) || is_url && "@%?,".contains(char);
    key.chars()
        .all(|char| char.is_ascii_alphanumeric() || is_sign(char))
}

/// Returns whether a text that decides what a server runs has the name of a variable in it.
fn is_in_command(config: &ServerConfig, name: &str) -> bool {
    let is_letter = |char: char| char.is_ascii_alphanumeric() || char == '_';
    command(config).into_iter().any(|text| {
        let mut all = text.match_indices(name);
        all.any(|(at, _)| {
            !text[..at].ends_with(is_letter) && !text[at + name.len()..].starts_with(is_letter)
        })
    })
}

/// Texts that decide what a server runs: its command line, and the values of its variables that load code.
fn command(config: &ServerConfig) -> Vec<&str> {
    let (program, arguments, env) = match &config.transport {
        Transport::Stdio(stdio) => (&stdio.command, &stdio.args, Some(&stdio.env)),
        Transport::Plugin(plugin) => (&plugin.binary, &plugin.args, Some(&plugin.env)),
        Transport::Http(HttpConfig {
            auth: Some(Auth::Command { command, args }),
            ..
        }) => (command, args, None),
        Transport::Http(_) | Transport::Orchestrator(_) => return Vec::new(),
    };
    let env = env.into_iter().flatten();
    let loaded = env.filter(|(name, _)| loads_code(name));
    let loaded = loaded.map(|(_, value)| value);
    let texts = iter::once(program).chain(arguments).chain(loaded);
    texts.map(Template::written).collect()
}

/// Returns whether a program may run the value of a variable, as it is written or with the defaults of its references.
fn may_run(config: &ServerConfig, value: &str) -> bool {
    let texts = [value, &expand::with_defaults(value)];
    texts.into_iter().any(|text| is_run(config, text))
}

/// Returns whether a program may run a text: it begins with a program of `PATH` and has further words, has signs of a
/// shell, or a word of it is a path. A passphrase has several words, too.
///
/// Passwords have any symbols, so a `$` alone is no sign: `$(…)` and backticks run a command, and a variable of the shell
/// beside a path (`sh$IFS./x`) may be part of a command.
fn is_run(config: &ServerConfig, text: &str) -> bool {
    let is_sign = |char: char| "`(;|&<>\n".contains(char);
    let is_assignment = |word: &&str| word.contains('=') && !word.starts_with('-');
    let program = text.split_whitespace().find(|word| !is_assignment(word));
    let is_line = text.trim().contains(char::is_whitespace);
    let plain = text.replace("${", "");
    let mut words = iter::once(text).chain(text.split_whitespace());
    text.contains(is_sign)
        || is_line && program.is_some_and(|program| program_in_path(program).is_some())
        || plain.contains('$') && plain.contains('/')
        || words.any(|word| has_path(config, word))
}

/// Returns whether a word is a path, or an option or an assignment with one.
fn has_path(config: &ServerConfig, word: &str) -> bool {
    let assigned = word.split_once('=').map(|(_, value)| value);
    let option = word.strip_prefix('-').into_iter();
    // The value may follow the letters of short options.
    let attached = option.filter_map(|letters| Some(&letters[letters.find(['.', '/', '~'])?..]));
    let mut paths = iter::once(word).chain(assigned).chain(attached);
    paths.any(|path| is_path(config, path))
}

/// Returns whether a text is a path: it begins with a dot or `~/`, is absolute, or leads to an existing entry. Random texts
/// of Base64 have slashes, too.
fn is_path(config: &ServerConfig, text: &str) -> bool {
    let is_base64 = |char: char| char.is_ascii_alphanumeric() || "+/=".contains(char);
    let is_encoded =
        text.chars().all(is_base64) && (text.contains(['+', '=']) || text.len() > MAX_PATH_CHARS);
    let mut starts = ["./", "../", "~/"].iter();
    // direct: only whether there is such an entry.
    let exists = || config.directory().join(text).symlink_metadata().is_ok();
    !text.is_empty()
        && (starts.any(|start| text.starts_with(start))
            || text.starts_with('/') && !is_encoded
            || exists())
}

/// A header, a setting or a secret with the variables that its value refers to.
fn hidden(name: &str, value: &Template) -> String {
    let value = expand::references_alone(value);
    format!("{}={}", name.escape_debug(), value.escape_debug())
}

/// The reason for which a server is asked for again.
pub(super) fn reason(why: &Waits) -> Option<String> {
    match why {
        Waits::New => None,
        Waits::Changed(changes) => {
            let changes = changes.iter().map(|change| change.escape_debug().to_string());
            let changes = changes.collect::<Vec<_>>().join(", ");
            Some(format!("it changed since it was approved: {changes}"))
        }
        Waits::OlderForm => Some(
            "it needs a new approval: it was approved by a version that did not cover files of the workspace"
                .to_owned(),
        ),
        Waits::OtherDirectory => Some(
            "it needs a new approval: it was approved for another directory at this path".to_owned(),
        ),
    }
}

/// The servers of the user and of the system that a server of the workspace replaces.
pub(super) fn replaced(server: &Server) -> impl Iterator<Item = String> {
    server.replaced.iter().map(|replaced| {
        let (name, file) = (server.display_name(), replaced.file.display());
        match replaced.restrictions.join(", ") {
            restrictions if restrictions.is_empty() => {
                format!("replaces your server {name} in {file}")
            }
            restrictions => {
                format!("replaces your server {name} in {file} with its {restrictions}")
            }
        }
    })
}

/// The files of the workspace that the approval covers.
fn files(lines: &mut Vec<String>, covered: &Covered, is_unclear: bool) {
    let file = |(path, content): (&Path, &Content)| {
        let path = path.to_string_lossy();
        let path = path.escape_debug();
        match content {
            Content::Digest(_) => path.to_string(),
            Content::Long(_) => format!("{path} (too long to be read)"),
            Content::Outside(target) => {
                let target = target.to_string_lossy();
                format!(
                    "{path} (a link out of the workspace, to {})",
                    target.escape_debug()
                )
            }
            Content::Unreadable(why) => format!("{path} (cannot be read: {why})"),
        }
    };
    let files: Vec<String> = covered.files().map(file).collect();
    if is_unclear {
        lines.push("Orchestra cannot tell which files this command runs".into());
    }
    if !files.is_empty() {
        let files = files.join(", ");
        lines.push(format!(
            "needs a new approval when one of these files changes: {files}"
        ));
    }
}

fn process(lines: &mut Vec<String>, config: &ServerConfig, stdio: &StdioConfig) {
    let command = iter::once(&stdio.command).chain(&stdio.args);
    lines.push(format!("runs {}", words(command)));
    let cwd = stdio.cwd.as_ref().map(Template::written);
    let directory = config.directory().display().to_string();
    lines.push(format!("in {}", cwd.unwrap_or(&directory)));
    let env = stdio.env.iter();
    lines.extend(env.map(|(name, value)| format!("with {}", variable(config, name, value))));
    let file = stdio.env_file.as_ref().map(Template::written);
    lines.extend(file.map(|file| format!("with the variables of {file}")));
    if stdio.inherit_env == InheritEnv::All {
        lines.push("with all of your environment".into());
    }
}

fn started(lines: &mut Vec<String>, config: &ServerConfig, plugin: &PluginConfig) {
    let command = iter::once(&plugin.binary).chain(&plugin.args);
    lines.push(format!("runs {}", words(command)));
    let beside = plugin.directory.display();
    lines.push(format!("as the plugin {}, from {beside}", plugin.id));
    let cwd = plugin.cwd.as_ref().map(Template::written);
    let directory = config.directory().display().to_string();
    lines.push(format!("in {}", cwd.unwrap_or(&directory)));
    let env = plugin.env.iter();
    lines.extend(env.map(|(name, value)| format!("with {}", variable(config, name, value))));
    if plugin.inherit_env == InheritEnv::All {
        lines.push("with all of your environment".into());
    }
    if plugin.is_legacy {
        lines.push("has the key of the certificate authority that old plugins share".into());
    }
    let settings = plugin.config.iter();
    lines.extend(settings.map(|(name, value)| format!("with the setting {}", hidden(name, value))));
    for (what, names) in [
        ("stores documents of kind", &plugin.provides_storage),
        ("provides the models of", &plugin.provides_ai),
    ] {
        if !names.is_empty() {
            lines.push(format!("{what} {}", names.join(", ")));
        }
    }
    for (kind, names) in plugin.permit.kinds() {
        let names = match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        lines.push(format!("permitted {kind}: {names}"));
    }
    let needed: Vec<&str> = plugin.depends_on.iter().map(PluginId::as_str).collect();
    if !needed.is_empty() {
        lines.push(format!("is started after {}", needed.join(", ")));
    }
}

fn reached(lines: &mut Vec<String>, config: &ServerConfig, http: &HttpConfig) {
    lines.push(format!("reaches {}", target(config)));
    let headers = http.headers.iter();
    lines.extend(headers.map(|(name, value)| format!("sends {}", hidden(name, value))));
    match &http.auth {
        Some(Auth::Command { command, args }) => {
            let command = words(iter::once(command).chain(args));
            lines.push(format!("runs {command} for a token"));
        }
        Some(Auth::Env(variable)) => lines.push(format!("sends the token in {variable}")),
        Some(Auth::Bearer(_)) => lines.push("sends a token".into()),
        Some(Auth::OAuth(oauth)) => signs_in(lines, oauth),
        None => {}
    }
    let file = http.ca_file.as_ref().map(Template::written);
    lines.extend(file.map(|file| format!("trusts the certificates of {file}")));
    if let Some((certificate, key)) = &http.client_cert {
        let files = words(iter::once(certificate).chain(key));
        lines.push(format!("signs in with the certificate {files}"));
    }
    if http.allow_insecure {
        lines.push("also connects without encryption".into());
    }
}

fn signs_in(lines: &mut Vec<String>, oauth: &OAuth) {
    lines.push(match &oauth.grant {
        Grant::Person => "signs in by OAuth".into(),
        Grant::Client => "signs in as the client itself".into(),
        Grant::Workload { .. } => "signs in as the workload that it runs in".into(),
        Grant::Enterprise(enterprise) => {
            let idp = ascii_address(enterprise.token_endpoint.written());
            format!("signs in as the user of the identity provider {idp}")
        }
    });
    for secret in oauth.secrets() {
        if let SecretSource::File(path) = &secret.source {
            lines.push(format!("sends the secret in {}", path.written()));
        }
    }
}

/// Shows the variables of the user that a server receives, and the defaults of its inputs. Returns whether a default is
/// not shown that a shell may read as a command line.
fn known(lines: &mut Vec<String>, config: &ServerConfig) -> bool {
    let references = expand::references(config);
    let variables: Vec<String> = references.iter().filter_map(Reference::variable).collect();
    if !variables.is_empty() {
        lines.push(format!("receives the values of {}", variables.join(", ")));
    }
    let texts = command(config);
    let (is_started, mut is_line_hidden) = (!texts.is_empty(), false);
    let texts = texts.into_iter();
    let in_command = texts.flat_map(|text| text.split("${input:").skip(1));
    let in_command = in_command.filter_map(|rest| rest.split('}').next()?.split(":-").next());
    let in_command: HashSet<&str> = in_command.collect();
    for reference in &references {
        let Reference::Input(id) = reference else {
            continue;
        };
        let input = config.inputs.get(id);
        if let Some((input, default)) =
            input.and_then(|input| Some((input, input.default.as_ref()?)))
        {
            let is_run = in_command.contains(id.as_str()) || may_run(config, default);
            let is_hidden = input.is_secret && !is_run;
            is_line_hidden |= is_hidden && is_started && !is_key(default);
            let default = match is_hidden {
                true => "…".into(),
                false => format!("{default:?}"),
            };
            lines.push(format!("where ${{input:{id}}} is {default} by default"));
        }
    }
    is_line_hidden
}

fn limits(lines: &mut Vec<String>, limits: &Limits) {
    let ProcessLimits {
        address_space,
        open_files,
        processes,
        cpu_time,
    } = limits.process;
    let Budget {
        requests_per_second,
        concurrency,
        daily_quota,
        ..
    } = limits.budget;
    let all = [
        address_space.map(|most| format!("{most} bytes of address space")),
        open_files.map(|most| format!("{most} open files")),
        processes.map(|most| format!("{most} processes")),
        cpu_time.map(|most| format!("{}s of CPU time", most.as_secs())),
        requests_per_second.map(|most| format!("{most} calls a second")),
        concurrency.map(|most| format!("{most} calls at once")),
        daily_quota.map(|most| format!("{most} calls a day")),
    ];
    let set: Vec<String> = all.into_iter().flatten().collect();
    if !set.is_empty() {
        lines.push(format!("has at most {}", set.join(", ")));
    }
}

fn tools(lines: &mut Vec<String>, config: &ServerConfig) {
    let ToolFilter { allow, deny } = &config.tools;
    if !allow.is_empty() {
        lines.push(format!("offers only the tools {}", allow.join(", ")));
    }
    if !deny.is_empty() {
        lines.push(format!("does not offer the tools {}", deny.join(", ")));
    }
    for rule in &config.rules {
        let effect = done(rule.effect);
        let with = rule.arguments.iter();
        let with: Vec<String> = with
            .map(|(path, value)| format!("{path}={value:?}"))
            .collect();
        let with = match with.is_empty() {
            true => String::new(),
            false => format!(" with {}", with.join(", ")),
        };
        lines.push(format!("rule: calls of {}{with} are {effect}", rule.tool));
    }
    if let Some(default) = config.default {
        lines.push(format!("calls without a rule are {}", done(default)));
    }
    let effects = config.rules.iter().map(|rule| rule.effect);
    if effects
        .chain(config.default)
        .any(|effect| effect < config.usual)
    {
        let usual = done(config.usual);
        lines.push(format!(
            "but your own `default` applies where it is stricter: calls are then {usual}"
        ));
    }
}

const fn done(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allowed",
        Effect::Deny => "denied",
        Effect::Ask => "asked for",
    }
}
