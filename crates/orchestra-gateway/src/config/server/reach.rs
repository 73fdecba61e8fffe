//! How a server is reached, out of its object.

use super::{
    super::{
        Auth, Connections, Flavour, HttpConfig, InheritEnv, OrchestratorConfig, StdioConfig,
        Template, Transport,
        fields::Fields,
        node::{Member, Value},
        plugin::host_and_port,
    },
    DAY, MILLISECOND, SECOND, access,
};

/// What `type` or `transport` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http(Flavour),
}

const KINDS: [(&str, Kind); 8] = [
    ("stdio", Kind::Stdio),
    ("local", Kind::Stdio),
    ("http", Kind::Http(Flavour::Streamable)),
    ("streamable-http", Kind::Http(Flavour::Streamable)),
    ("streamable", Kind::Http(Flavour::Streamable)),
    ("remote", Kind::Http(Flavour::Auto)),
    ("sse", Kind::Http(Flavour::Sse)),
    ("rpc", Kind::Http(Flavour::Rpc)),
];

const FLAVOURS: [(&str, Flavour); 4] = [
    ("auto", Flavour::Auto),
    ("streamable", Flavour::Streamable),
    ("rpc", Flavour::Rpc),
    ("sse", Flavour::Sse),
];

/// The names of an address, and how it is spoken to where nothing else is said.
const ADDRESSES: [(&str, Flavour); 4] = [
    ("url", Flavour::Auto),
    ("serverUrl", Flavour::Auto),
    ("httpUrl", Flavour::Streamable),
    ("baseURL", Flavour::Rpc),
];

/// Reads how it is reached; `None` when that cannot be told.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<Transport> {
    let kind = fields.choice(&["type", "transport"], &KINDS);
    let flavour = fields.choice(&["flavour", "flavor"], &FLAVOURS);
    let command = fields.take(&["command"]);
    let mut addresses = ADDRESSES
        .iter()
        .filter_map(|(name, flavour)| Some((fields.take(&[name])?, *flavour)))
        .collect::<Vec<_>>()
        .into_iter();
    let address = addresses.next();
    if let Some(member) = fields.take(&["orchestrator"]) {
        if kind.is_some() || command.is_some() || address.is_some() {
            let message = "a server has one transport: remove `type`, `command` and `url`";
            fields.wrong(member, message);
            return None;
        }
        return orchestrator(fields, member);
    }
    if let Some((member, _)) = addresses.next() {
        fields.wrong(
            member,
            "the server has another address already; remove one of them",
        );
        return None;
    }
    match (kind, command, address) {
        (None | Some(Kind::Stdio), Some(command), None) => stdio(fields, command),
        (None | Some(Kind::Http(_)), None, Some((member, usual))) => {
            let flavour = flavour.unwrap_or(match kind {
                // [B4] says `http` for what is plain JSON-RPC.
                Some(Kind::Http(_)) if usual == Flavour::Rpc => usual,
                Some(Kind::Http(flavour)) => flavour,
                _ => usual,
            });
            http(fields, member, flavour)
        }
        (_, Some(command), Some(_)) => {
            let message =
                "there is an address as well; a server has either a command or an address";
            fields.wrong(command, message);
            None
        }
        (Some(Kind::Stdio), None, Some((member, _))) => {
            fields.wrong(member, "the transport is stdio, which requires `command`");
            None
        }
        (Some(Kind::Http(_)), Some(command), None) => {
            fields.wrong(command, "the transport is http, which requires `url`");
            None
        }
        (_, None, None) => {
            fields.missing(
                "no transport: set `command` for a program, `url` for an address, or `orchestrator` for the host and port of one",
            );
            None
        }
    }
}

/// What is set of a server on the network alone.
const OF_HTTP: [&str; 7] = [
    "headers",
    "auth",
    "caFile",
    "clientCert",
    "clientKey",
    "allowInsecure",
    "connections",
];

/// What is set of a process alone.
const OF_STDIO: [&str; 5] = ["args", "env", "cwd", "envFile", "inheritEnv"];

fn stdio(fields: &mut Fields<'_>, command: &Member) -> Option<Transport> {
    fields.elsewhere(&OF_HTTP);
    fields.elsewhere(&OF_ORCHESTRATOR);
    let mut words = words(fields, command)?.into_iter();
    let program = words.next().filter(|program| !program.written().is_empty());
    let Some(program) = program else {
        fields.wrong(command, "must name a program");
        return None;
    };
    let mut args: Vec<Template> = words.collect();
    args.extend(fields.templates(&["args"]).unwrap_or_default());
    let env = environment(fields);
    Some(Transport::Stdio(StdioConfig {
        command: program,
        args,
        cwd: fields.template(&["cwd"]),
        env: env
            .into_iter()
            .map(|(name, value)| (name, Template::new(value)))
            .collect(),
        env_file: fields.template(&["envFile"]),
        inherit_env: inherit(fields),
    }))
}

/// Variables of a process.
pub(super) fn environment(fields: &mut Fields<'_>) -> Vec<(String, String)> {
    let env = fields.pairs(&["env", "environment"]).unwrap_or_default();
    if let Some((name, _)) = env
        .iter()
        .find(|(name, _)| name.is_empty() || name.contains(['=', '\0']))
    {
        fields.unusable(format!(
            "env: `{}` is not a valid variable name",
            name.escape_debug()
        ));
    }
    env
}

/// What a process inherits.
pub(super) fn inherit(fields: &mut Fields<'_>) -> InheritEnv {
    let inherit = [
        ("default", InheritEnv::Default),
        ("all", InheritEnv::All),
        ("none", InheritEnv::None),
    ];
    fields.choice(&["inheritEnv"], &inherit).unwrap_or_default()
}

/// What is set of an orchestrator elsewhere alone.
const OF_ORCHESTRATOR: [&str; 1] = ["certsDir"];

fn orchestrator(fields: &mut Fields<'_>, address: &Member) -> Option<Transport> {
    fields.elsewhere(&OF_STDIO);
    fields.elsewhere(&OF_HTTP);
    let Some(text) = address.node.text() else {
        let kind = address.node.value.kind();
        fields.wrong(address, format!("must be a text, not {kind}"));
        return None;
    };
    if host_and_port(text).is_none() && !text.contains("${") {
        fields.wrong(
            address,
            "must be a host and a port, such as `hub.example:7421`",
        );
        return None;
    }
    Some(Transport::Orchestrator(OrchestratorConfig {
        address: Template::new(text),
        certs_dir: fields.template(&["certsDir"]),
    }))
}

/// A program, or a program with its arguments.
fn words(fields: &mut Fields<'_>, command: &Member) -> Option<Vec<Template>> {
    match &command.node.value {
        Value::Text(text) => Some(match split(text) {
            Some(words) => words.map(Template::new).collect(),
            None => vec![Template::new(text)],
        }),
        Value::List(items) if items.iter().all(|item| item.text().is_some()) => {
            let texts = items.iter().filter_map(|item| item.text());
            Some(texts.map(Template::new).collect())
        }
        other => {
            let message = format!("must be a text or a list of texts, not {}", other.kind());
            fields.wrong(command, message);
            None
        }
    }
}

/// The words of a whole command line in the place of a program (`npx -y server`). A path may have
/// blanks of its own, and a quotation needs a shell to read it: those are taken as they are.
fn split(text: &str) -> Option<impl Iterator<Item = &str>> {
    let mut words = text.split_ascii_whitespace();
    let program = words.next()?;
    let is_plain =
        |word: &str| !word.contains(['"', '\'', '`', '\\', '$', '|', '&', ';', '<', '>']);
    let is_line = words.next().is_some() && !program.contains('/') && is_plain(text);
    is_line.then(|| text.split_ascii_whitespace())
}

fn http(fields: &mut Fields<'_>, address: &Member, flavour: Flavour) -> Option<Transport> {
    fields.elsewhere(&OF_STDIO);
    fields.elsewhere(&OF_ORCHESTRATOR);
    let Some(url) = address.node.text() else {
        let kind = address.node.value.kind();
        fields.wrong(address, format!("must be a text, not {kind}"));
        return None;
    };
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    if !matches!(scheme, Some("http" | "https")) && !url.contains("${") {
        fields.wrong(address, "must begin with http:// or https://");
        return None;
    }
    let allow_insecure = fields.flag(&["allowInsecure"]).unwrap_or(false);
    if !allow_insecure && is_readable_on_the_way(url) {
        fields.wrong(
            address,
            "http to another machine can be read and changed on the way; use https, or set \
             `allowInsecure`",
        );
        return None;
    }
    let names = ["headers", "http_headers"];
    let mut headers: Vec<(String, Template)> = Vec::new();
    for (name, value) in fields.pairs(&names).unwrap_or_default() {
        if is_header_name(&name) {
            headers.push((name, Template::new(value)));
        } else {
            fields.unusable(format!(
                "headers: `{}` is no name of a header",
                name.escape_debug()
            ));
        }
    }
    for (name, variable) in fields.pairs(&["env_http_headers"]).unwrap_or_default() {
        headers.push((name, Template::new(format!("${{{variable}}}"))));
    }
    let token = fields.text(&["bearer_token_env_var"]).map(Auth::Env);
    let certificate = fields.template(&["clientCert"]);
    let key = fields.template(&["clientKey"]);
    Some(Transport::Http(HttpConfig {
        url: Template::new(url),
        flavour,
        headers,
        auth: access::auth(fields).or(token),
        ca_file: fields.template(&["caFile"]),
        client_cert: certificate.map(|certificate| (certificate, key)),
        allow_insecure,
        connections: connections(fields),
    }))
}

/// How long connections may take, and how many are kept.
fn connections(fields: &mut Fields<'_>) -> Connections {
    let default = Connections::default();
    let Some(mut inner) = fields.object(&["connections"]) else {
        return default;
    };
    let mut time = |name, most| inner.duration(&[name], MILLISECOND..=most);
    let (connect, first_byte, idle) = (
        time("connect", 600 * SECOND),
        time("first_byte", DAY),
        time("idle", DAY),
    );
    let kept = inner.number(&["kept"], 0..=1_024);
    fields.fail_within("connections", inner.end());
    Connections {
        connect: connect.unwrap_or(default.connect),
        first_byte: first_byte.unwrap_or(default.first_byte),
        idle: idle.unwrap_or(default.idle),
        kept: kept.map_or(default.kept, |kept| {
            usize::try_from(kept).expect("the range fits")
        }),
    }
}

/// Whether an address leads to another machine, unencrypted, as far as that can be told before its
/// variables are put in.
fn is_readable_on_the_way(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let host = host.to_ascii_lowercase();
    let is_local = match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    };
    !is_local && !authority.contains("${")
}

/// The characters of a token (RFC 9110, 5.6.2).
fn is_header_name(name: &str) -> bool {
    let permitted = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(permitted)
}
