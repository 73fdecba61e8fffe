//! The command line: help, exit codes, configuration, the earlier name.

use std::{
    fs,
    path::{Path, PathBuf},
};

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{Session, Workspace, program, said};

/// The program under its earlier name.
fn earlier(workspace: &Workspace) -> PathBuf {
    let link = workspace.home().join("orchestra-mcp");
    std::os::unix::fs::symlink(program(), &link).unwrap();
    link
}

#[test]
fn the_help_tells_commands_exit_codes_and_environment() {
    let workspace = Workspace::new();
    let said = workspace.run(["--help"]);
    assert_eq!(said.code, Some(0));
    assert_snapshot!(said.out, @r"
    A board for coding agents and people, served over the Model Context Protocol

    Usage: orchestra [OPTIONS] <COMMAND>

    Commands:
      up           Serve the workspace over HTTP and print how to connect
      stdio        Serve MCP over stdin and stdout
      init         Set up a workspace: board, client configurations, hooks, skills, agents, guides
      top          Watch the board, the plans and the servers in the terminal
      tool         List, describe and call tools
      memory       Search, save and manage memories
      plan         Create, run and manage plans of jobs in git worktrees
      mcp          Manage upstream MCP servers
      chat         Chat with a model that can call every tool
      plugin       Create, inspect and run plugins
      token        Print a token for clients of `orchestra up`
      certs        Manage the TLS certificates of plugins, orchestrators and bridges
      engine       Start `orchestra-engine`, which serves the memory of the workspace over gRPC
      hook         Store a hook event of a coding agent, read as JSON from stdin
      doctor       Check the board, plans, configurations, git and certificates, and repair them
      board        Move or merge boards, or accept a board that you did not create
      sync         Exchange the board with other clones through a git remote
      log          Show the commits of the board: who changed what, and when
      audit        Check the audit log of tool calls for manipulation
      import       Import the board of orchestra-mcp from its YAML files in .projects
      config       Show the configuration
      completions  Print a script that completes commands and options in a shell
      man          Print a manual page in roff format, for `man`
      help         Print this message or the help of the given subcommand(s)

    Options:
          --workspace <DIR>  Workspace directory [default: ORCHESTRATOR_WORKSPACE, else the nearest
                             directory upwards with .projects or .git, else the current directory]
          --log <FILTER>     Log filter for stderr, such as `info` or `orchestra_store=debug`
      -h, --help             Print help
      -V, --version          Print version

    Exit codes:
      0  success
      1  operation failed: a file, an address, the database; or a server failed its check
      2  invalid command line or configuration; nothing was done
      3  a tool refused the call, or a file that cannot be parsed was skipped
      4  doctor or audit verify found problems, or a server cannot be reached
      5  not permitted: not approved, or forbidden by a rule
      6  the awaited plan failed
      7  the awaited plan was canceled
      8  the awaited plan is paused, or continues in the background

    Environment:
      RUST_LOG               log filter; see --log
      ORCHESTRA_TOKEN        token that clients of `orchestra up` must send; see --token-file
      ORCHESTRATOR_WORKSPACE workspace directory, if --workspace is not given
      ORCHESTRATOR_STORAGE   directory of the plans (relative to the workspace), else the git directory
      ORCHESTRA_SOCKET       file descriptor through which a sandboxed job reaches the board
      CLAUDE_PROJECT_DIR     workspace directory of `orchestra hook`
      XDG_CONFIG_HOME        directory that contains the user's orchestra/orchestra.toml
      HOME                   parent of .config, if XDG_CONFIG_HOME is not set
      SUDO_UID               user whose workspaces root may use; set by `sudo`
      PATH                   search path of clients; `orchestra init` warns if orchestra is not in it
      XDG_STATE_HOME         directory of approvals and of your token, else ~/.local/state
      ORCHESTRA_MCP_PATH     additional files of MCP servers, and directories of such files
      SDEK_MCP_PATH          used instead of ORCHESTRA_MCP_PATH if that is not set
      ORCHESTRA_SYSTEM       directory of the system's mcp.json, else /etc/orchestra
      ORCHESTRA_ENGINE       when to use the memory engine; see --engine
      ORCHESTRA_ENGINE_PORT  port of the memory engine if it is free, else 50051
      ORCHESTRA_MODEL        model for search by meaning; see memory.model
      XDG_DATA_HOME          directory of installed models, else ~/.local/share
      HF_ENDPOINT            address of the model hub, else https://huggingface.co
      OLLAMA_HOST            address of Ollama for `orchestra chat`; see --host
      OLLAMA_API_KEY         key for Ollama, if it requires one
      OPENAI_BASE_URL        address of the server of `orchestra chat --backend openai`; see --host
      OPENAI_API_KEY         key for the server of `orchestra chat --backend openai`
      NO_COLOR               turns colours off, with any value
      TERM                   terminal type; on `dumb`, `plan watch` and `chat` print plain lines
      TERM_PROGRAM           name of the terminal program; some can show images
      KITTY_WINDOW_ID        set in Kitty, a terminal program that can show images
    ");
}

/// In many containers the session began outside of the process namespace, and has no number.
#[cfg(target_os = "linux")]
#[test]
fn it_runs_in_a_process_namespace_of_its_own() {
    let within = [
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
    ];
    let workspace = Workspace::board();
    let program = Path::new("unshare");
    let may = said(
        workspace.command_as(program, within.into_iter().chain(["true"])),
        "",
    );
    if may.code != Some(0) {
        crate::skip::skip(&format!("this system gives no namespaces: {}", may.err));
        return;
    }
    let served = [
        env!("CARGO_BIN_EXE_orchestra"),
        "tool",
        "call",
        "list_projects",
    ];
    let served = said(
        workspace.command_as(program, within.into_iter().chain(served)),
        "",
    );
    assert_eq!(served.code, Some(0), "{served:?}");
}

#[test]
fn the_version_is_reported() {
    assert_eq!(Workspace::new().run(["--version"]).out, "orchestra 1.0.0\n");
}

#[test]
fn what_is_not_understood_is_an_error_and_does_nothing() {
    let workspace = Workspace::new();
    for arguments in [
        &["--wrokspace", "."][..],
        &["stdio", "--nope"],
        &["serve"],
        &["init", "--client", "emacs"],
        &["tool", "call"],
        &["up", "--http", "here"],
        &["stdio", "--workspace", "/no/such/place"],
        &["stdio", "--tools", "nope"],
        &["stdio", "--log", "=,"],
    ] {
        let said = workspace.run(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(
            !said.err.is_empty() && said.out.is_empty(),
            "{arguments:?}: {said:?}"
        );
    }
}

#[test]
fn a_wrong_configuration_is_named_with_its_place() {
    let workspace = Workspace::new();
    workspace.write("orchestra.toml", "tools = \"lean\"\ncolour = 3\n");
    let said = workspace.run(["config", "show"]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("orchestra.toml") && said.err.contains("line 2"),
        "{}",
        said.err
    );
}

#[test]
fn the_configuration_is_shown_with_its_origin() {
    let workspace = Workspace::git();
    workspace.write("orchestra.toml", "tools = \"lean\"\n");
    fs::create_dir_all(workspace.home().join(".config/orchestra")).unwrap();
    let users = workspace.home().join(".config/orchestra/orchestra.toml");
    fs::write(
        &users,
        "tools = \"all\"\nformat = \"toon\"\n[limits]\ncall_timeout_seconds = 9\n",
    )
    .unwrap();
    let said = workspace.run(["config", "show", "--origin", "--log", "debug"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let shown = said
        .out
        .replace(&workspace.path().display().to_string(), "WORKSPACE")
        .replace(&workspace.home().display().to_string(), "HOME");
    let cores = std::thread::available_parallelism().unwrap().get();
    let usual = format!("_jobs = {}\n", (cores * 2).clamp(4, 64));
    let shown = shown.replace(&usual, "_jobs = CORES\n");
    // What there is of memory, and whether processes can be counted, is the machine's.
    let of_machine = |line: &str| match line.split_once(" = ") {
        Some((key @ "# memory_bytes", _)) => format!("{key} = MEMORY\n"),
        Some((key @ "# pids_limit", _)) => format!("{key} = PIDS\n"),
        _ => format!("{line}\n"),
    };
    let shown: String = shown.lines().map(of_machine).collect();
    assert_snapshot!(shown, @r#"
    # built-in tools that a client sees: all, lean, search, or a list of groups; with server:NAME in the list, only the named upstream servers are offered
    # from: WORKSPACE/orchestra.toml
    tools = "lean"

    # text format of tool results: json or toon
    # from: HOME/.config/orchestra/orchestra.toml
    format = "toon"

    # address on which `orchestra up` listens; if the port is in use, the next free port
    # from: default
    # http = "127.0.0.1:7420"

    # address on which `orchestra up` listens for plugins and bridges, or off; if the port is in use, the next free port
    # from: default
    # quic = "127.0.0.1:7421"

    # directory of the certificates with which plugins, bridges and orchestrators authenticate each other
    # from: default
    # certs_dir = "~/.orchestra/certs"

    # ids of plugins that may connect without being started by Orchestra
    # from: default
    # admit = []

    # whether plugins and bridges that name no model provider reach the tools of `claude` before other tools of the same name
    # from: default
    # claude_first = false

    # when to use the memory engine, a background process that all Orchestra processes of the workspace share: auto, always or off
    # from: environment ORCHESTRA_ENGINE
    engine = "off"

    # log filter for stderr: a level, or PART=LEVEL, separated by commas
    # from: command line
    log = "debug"

    # workspace directory; set by --workspace or ORCHESTRATOR_WORKSPACE, not in a file
    # from: default
    # workspace = "WORKSPACE"

    # workspaces that are accepted although they, or files in them, belong to other users or are writable by them, or whose git directory names no working tree; * for every directory; only in your own file
    # from: default
    # safe_directories = []

    # directories whose workspaces may define servers that start without approval; only in your own file
    # from: default
    # trusted_directories = []

    # location of plans and other private state of a workspace: repository (inside its git directory, or your state directory if there is none) or state (always your state directory); only in your own file
    # from: default
    # place = "repository"

    # location of the board: repository (one for all worktrees of a repository, inside `place`; .projects is its readable mirror in the main checkout, which git ignores) or checkout (in .projects of each checkout, to be committed); if it is not set, the workspace's current mode
    # from: default
    # board = "repository"

    [limits]
    # time limit of a tool call, 1 to 86400 seconds
    # from: HOME/.config/orchestra/orchestra.toml
    call_timeout_seconds = 9

    # maximum number of concurrent calls of a connection, 1 to 1024; further calls wait
    # from: default
    # concurrent_calls = 64

    # maximum size of a message, 4096 to 268435456 bytes
    # from: default
    # line_bytes = 10485760

    [audit]
    # days after which a file of call records is rotated, and days after its last record until it is removed; max_bytes and keep_files may remove it sooner; 1 to 3650
    # from: default
    # keep_days = 7

    # size in bytes at which a file of call records is rotated, 65536 to 1073741824
    # from: default
    # max_bytes = 4194304

    # maximum number of rotated files, 0 to 1000; older ones are removed; if a workspace's file sets more, all files together have at most 256 MiB or the size that the user's file allows
    # from: default
    # keep_files = 2

    # time at which records of calls are synced to the disk: never, interval (every 5 seconds) or always
    # from: default
    # fsync = "interval"

    [memory]
    # maximum number of memories of a project, and of its sessions, 1 to 10000000 (a workspace's file may only raise it, up to 1000000); at the limit, expired and superseded ones are removed first
    # from: default
    # max_items = 100000

    # maximum total size in bytes of the texts and summaries of a project's memories, and of its sessions, 65536 to 68719476736 (a workspace's file may only raise it, up to 1073741824)
    # from: default
    # max_bytes = 268435456

    # model for search by meaning: the name of an installed model, a directory, ollama:NAME, openai:NAME, or none
    # from: default
    # model = "none"

    # address of its server; a server on another machine only in your own file
    # from: default
    # model_url = ""

    # name of the environment variable with the key of the server; only in your own file
    # from: default
    # model_key_env = ""

    # prefix that the model of a server requires before a query
    # from: default
    # model_query_prefix = ""

    # prefix that it requires before a stored text
    # from: default
    # model_text_prefix = ""

    # number of dimensions of its vectors, if the model can shorten them; 0 for its default
    # from: default
    # model_dimensions = 0

    [plans]
    # directory of plans: inside `place`, unless ORCHESTRATOR_STORAGE names a directory; not set in a file
    # from: default
    # storage = "WORKSPACE/.git/.orchestra/_/plans"

    # maximum number of concurrent jobs of all plans of the workspace, 0 to 1024; 0 sets no limit, here and below
    # from: default
    # max_jobs = CORES

    # maximum number of them that run agents
    # from: default
    # max_agents = 16

    # maximum number of them that run shell lines
    # from: default
    # max_shells = 0

    # maximum number of them that run programs without a shell
    # from: default
    # max_processes = 0

    # maximum number of concurrent jobs of all your workspaces on this machine; not in a workspace's file
    # from: default
    # machine_jobs = CORES

    # maximum number of automatic attempts of a job, heals and reruns together, 0 to 20; 0 turns them off. A workspace's file may lower it
    # from: default
    # heal_attempts = 2

    # maximum number of heals by agents in a plan, 0 to 1000. A workspace's file may lower it
    # from: default
    # plan_heal_attempts = 6

    # maximum cost of all heals of a plan in USD, where the agent reports its cost, 0.01 to 10000. A workspace's file may lower it
    # from: default
    # heal_cost_usd = 2.0

    # handling of a job whose process is lost: resume continues it, retry-once continues it once, manual fails it
    # from: default
    # restart = "resume"

    # time limit of the work of a job, unless the job sets its own, 0 to 604800 seconds; 0 sets no limit
    # from: default
    # timeout_seconds = 3600

    # maximum time without output, 0 to 604800 seconds; 0 sets no limit
    # from: default
    # idle_timeout_seconds = 0

    # maximum size of its stored output, of which the beginning and the end are stored, 65536 to 1073741824 bytes
    # from: default
    # log_bytes = 12582912

    # prefix of generated names of plan branches
    # from: default
    # branch_prefix = "orchestra/"

    # agent of jobs that name none; empty starts none. An agent that a workspace's file names runs after you agree to it (orchestra plan agents); until then, the one of your own file runs
    # from: default
    # agent = ""

    # agent that heals failed jobs; if it is empty, plans.agent; without either, no job is healed
    # from: default
    # healer = ""

    # maximum memory of a run of a job with all its processes, in bytes; 0 sets no limit. A workspace's file may lower it
    # from: default
    # memory_bytes = MEMORY

    # maximum number of its processes, 0 to 1000000; 0 sets no limit. A workspace's file may lower it
    # from: default
    # pids_limit = PIDS

    # maximum CPU time of each of its processes, 0 to 100000000 seconds; 0 sets no limit. A workspace's file may lower it
    # from: default
    # cpu_seconds = 0

    # maximum size of its output, in bytes; 0 sets no limit. A workspace's file may lower it
    # from: default
    # output_bytes = 1073741824

    # sandbox of shell lines and programs: none, or workspace (access to their worktree, no network; Linux)
    # from: default
    # sandbox = "none"

    [plans.context_pressure]
    # whether an agent whose context is nearly full is asked to hand over the rest of its work to further jobs
    # from: default
    # enabled = false

    # percentage from which a context is shown as elevated, 20 to 90
    # from: default
    # elevated_percent = 50

    # percentage from which an agent is asked, 40 to 95
    # from: default
    # critical_percent = 75

    # maximum number of times that work is handed over again, 1 to 5
    # from: default
    # max_depth = 3

    # maximum number of jobs among which the rest of a job is divided, 2 to 20
    # from: default
    # max_jobs = 8

    [chat]
    # kind of server that runs the model: ollama or openai
    # from: default
    # backend = "ollama"

    # address of that server; if it is empty, the usual address; a server on another machine only in your own file
    # from: default
    # host = ""

    # name of the model; if it is empty, the first installed model that supports tools
    # from: default
    # model = ""

    # name of the environment variable with the key of the server; only in your own file
    # from: default
    # key_env = ""

    # system prompt, instead of the default one
    # from: default
    # system = ""

    # maximum number of times that tools are called in a turn, 1 to 1000; then the model must answer. A workspace's file may lower it
    # from: default
    # max_turns = 10

    # maximum number of tokens of a turn, 0 for no limit; only in your own file
    # from: default
    # max_tokens = 0

    # time limit of a turn, 1 to 86400 seconds, 0 for no limit; only in your own file
    # from: default
    # max_seconds = 0

    # maximum cost of a turn, in the currency of the prices, 0.0 for no limit; only in your own file
    # from: default
    # max_cost = 0.0

    # price of a million input tokens; only in your own file
    # from: default
    # price_input = 0.0

    # price of a million output tokens; only in your own file
    # from: default
    # price_output = 0.0

    # maximum context size in tokens, 2048 to 10000000, 0 for the limit of the model, at most 32768. A workspace's file may lower it
    # from: default
    # context = 0

    # sandbox for the server that SCRIPT or --stdio starts: none, or workspace (the one of configured servers; Linux)
    # from: default
    # sandbox = "none"

    # resource limits for the server that SCRIPT or --stdio starts, with the same keys as limits of configured servers; only in your own file
    # from: default
    # limits = {}

    [sync]
    # name or URL of the git remote with which `up` and `stdio` exchange the board in the background, and `orchestra sync` if it names none; empty for no background exchange; for your own file, or a workspace in trusted_directories, to set
    # from: default
    # remote = ""

    # branch on the remote in which to store the board, for git servers that accept no references other than branches
    # from: default
    # branch = ""

    # time between two exchanges in the background, 60 to 86400 seconds, or a text such as "5m"; longer after failures
    # from: default
    # interval = 300

    [access]
    # file with the tokens that HTTP clients must send, one per line
    # from: default
    # token_file = ""

    # host names under which other machines reach this one
    # from: default
    # hosts = []

    # web origins whose pages may send requests over HTTP
    # from: default
    # origins = []

    # maximum number of requests per second of each caller, and twice as many at once after a pause; 0 for no limit; if it is not set, 200 when other machines can connect
    # from: default
    # requests_per_second = 0

    # file with the certificate chain in PEM, starting with the server's own certificate; turns TLS on
    # from: default
    # tls_cert = ""

    # file with the private key of tls_cert, in PEM
    # from: default
    # tls_key = ""

    [access.oauth]
    # OAuth issuers whose access tokens are accepted over HTTP
    # from: default
    # issuers = []

    # URL under which clients reach MCP; it must be the audience of their access tokens
    # from: default
    # resource = ""

    # additional audiences that are accepted in access tokens
    # from: default
    # audiences = []

    # scopes that access tokens must have
    # from: default
    # scopes = []

    # URL of the issuer's public keys (JWKS), if there is one issuer; by default the issuer's metadata names it
    # from: default
    # jwks_url = ""

    # tolerated clock difference of issuers, 0 to 600 seconds
    # from: default
    # leeway_seconds = 60

    [mcp]
    # upstream MCP servers, as described in docs/servers.md; `orchestra mcp list` shows those of all files
    # from: default
    # servers = {}
    "#);

    // What is shown is a configuration file that says the same.
    let plain = workspace.run(["config", "show"]).out;
    workspace.write("orchestra.toml", &plain);
    assert_eq!(workspace.run(["config", "show"]).out, plain);

    let rows: Value =
        serde_json::from_str(&workspace.run(["config", "show", "--json"]).out).unwrap();
    assert_eq!(rows[0]["key"], "tools");
}

/// Whoever shares a repository does not say how soon what was called is forgotten.
#[test]
fn a_workspace_does_not_weaken_the_audit() {
    let workspace = Workspace::new();
    let shown = |text: &str| {
        workspace.write("orchestra.toml", text);
        let said = workspace.run(["config", "show", "--origin"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        let audit = said.out.find("[audit]").unwrap()..said.out.find("[access]").unwrap();
        said.out[audit].replace(&workspace.path().display().to_string(), "WORKSPACE")
    };
    let weak =
        shown("[audit]\nkeep_days = 1\nmax_bytes = 65536\nkeep_files = 0\nfsync = \"never\"\n");
    for expected in [
        "keep_days = 7",
        "max_bytes = 4194304",
        "keep_files = 2",
        "fsync = \"interval\"",
    ] {
        let expected = format!("# from: default\n# {expected}\n");
        assert!(weak.contains(&expected), "{weak}");
    }
    let strong = shown("[audit]\nkeep_days = 30\nfsync = \"always\"\n");
    for expected in ["keep_days = 30", "fsync = \"always\""] {
        let expected = format!("# from: WORKSPACE/orchestra.toml\n{expected}\n");
        assert!(strong.contains(&expected), "{strong}");
    }
}

/// With where they stand, and without what may be a secret.
#[test]
fn the_servers_of_the_configuration_are_shown_without_secrets() {
    let workspace = Workspace::new();
    workspace.write(
        "orchestra.toml",
        r#"
[mcp]
max_concurrent = 7
[mcp.servers.files]
command = "server-files"
args = ["--root", ".", "--api-key", "s3cret"]
env = { TOKEN = "${TOKEN:-s3cret}", PLAIN = "s3cret" }
timeout = "5s"
[mcp.servers.odd]
command = 1
"#,
    );
    let users = workspace.home().join(".config/orchestra/orchestra.toml");
    fs::create_dir_all(users.parent().unwrap()).unwrap();
    let text = r#"
[mcp.servers.files]
command = "weaker"
[mcp.servers.docs]
url = "https://me:s3cret@example.com/mcp?key=s3cret"
headers = { Authorization = "Bearer ${TOKEN}" }
auth = { type = "bearer", token = "s3cret" }
"#;
    fs::write(&users, text).unwrap();
    workspace.write(".mcp.json", r#"{"mcpServers": {"x": {"command": "x"}}}"#);
    let said = workspace.run(["config", "show", "--origin"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.err.contains("mcp.servers.odd.command: must be"),
        "{said:?}"
    );
    let shown = said
        .out
        .replace(&workspace.path().display().to_string(), "WORKSPACE")
        .replace(&workspace.home().display().to_string(), "HOME");
    assert_snapshot!(&shown[shown.find("[mcp").unwrap()..], @r#"
    [mcp.servers.files]
    # the server files
    # from: WORKSPACE/orchestra.toml:4:14
    command = "server-files"

    # secrets are left out
    # from: WORKSPACE/orchestra.toml:4:14
    # args = ["--root", ".", "--api-key", "***"]

    # secrets are left out
    # from: WORKSPACE/orchestra.toml:4:14
    # env = { PLAIN = "***", TOKEN = "${TOKEN:-***}" }

    # from: WORKSPACE/orchestra.toml:4:14
    timeout = "5s"

    # from: WORKSPACE/orchestra.toml:4:14
    limits = { concurrency = 7 }

    [mcp.servers.docs]
    # the server docs; secrets are left out
    # from: HOME/.config/orchestra/orchestra.toml:4:14
    # url = "https://example.com/mcp"

    # from: HOME/.config/orchestra/orchestra.toml:4:14
    headers = { Authorization = "Bearer ${TOKEN}" }

    # secrets are left out
    # from: HOME/.config/orchestra/orchestra.toml:4:14
    # auth = { token = "***", type = "bearer" }
    "#);
    let plain = workspace.run(["config", "show"]).out;
    let json = workspace.run(["config", "show", "--json"]).out;
    for text in [&said.out, &plain, &json] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    let rows: Value = serde_json::from_str(&json).unwrap();
    let keys = rows.as_array().unwrap().iter().map(|row| &row["key"]);
    assert!(
        keys.into_iter()
            .any(|key| key == "mcp.servers.docs.headers")
    );
    // What is shown is a configuration file: what is set and no secret stands in it.
    let sound = toml::from_str::<toml::Table>(&plain).unwrap();
    let files = &sound["mcp"]["servers"]["files"];
    assert_eq!(files["command"].as_str(), Some("server-files"));
    assert_eq!(files.get("args"), None);
}

#[test]
fn completions_and_the_manual_are_printed() {
    let workspace = Workspace::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = workspace.run(["completions", shell]);
        assert!(
            said.code == Some(0) && said.out.contains("orchestra"),
            "{shell}: {said:?}"
        );
    }
    assert!(workspace.run(["man"]).out.contains(".TH orchestra"));
    assert!(workspace.run(["man", "init"]).out.contains("dry"));
    let page = workspace.run(["man", "tool-call"]).out;
    assert!(page.contains("create_project creates one"), "{page}");
    for names in [&["tool", "call"][..], &["orchestra-tool-call"]] {
        assert_eq!(workspace.run(["man"].iter().chain(names)).out, page);
    }
    assert_eq!(workspace.run(["man", "tool-nope"]).code, Some(2));
    assert_eq!(workspace.run(["man", "nope"]).code, Some(2));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let workspace = Workspace::new();
    let mut command = workspace.command(["man"]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn under_its_earlier_name_it_serves_and_initialises() {
    let workspace = Workspace::git();
    let program = earlier(&workspace);
    let path = workspace.path();
    let path = path.to_str().unwrap();
    let run = |arguments: &[&str]| said(workspace.command_as(&program, arguments), "");
    assert_eq!(run(&["-v"]).out, "orchestra-mcp 1.0.0\n");
    assert_eq!(run(&["--version"]).out, "orchestra-mcp 1.0.0\n");
    assert!(run(&["-h"]).out.contains("--workspace"));
    assert_eq!(run(&["--wrokspace", path]).code, Some(2));

    assert_eq!(run(&["init", "--workspace", path]).code, Some(0));
    assert!(workspace.join(".mcp.json").exists());
    assert!(workspace.join(".projects").is_dir());

    let mut session = Session::start(workspace.command_as(&program, ["--workspace", path]));
    let tools = session.request("tools/list", &serde_json::json!({}));
    assert!(tools["result"]["tools"].as_array().unwrap().len() > 50);
    assert!(session.process.end().success());
}

/// The guide "Connect a client" and the help name every group of tools.
#[test]
fn the_groups_of_tools_are_named() {
    let workspace = Workspace::new();
    let listing: Value =
        serde_json::from_str(&workspace.run(["tool", "list", "--json"]).out).unwrap();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/connect.md");
    let guide = fs::read_to_string(guide).unwrap();
    let start = guide.find("The groups are").unwrap();
    let sentence = &guide[start..start + guide[start..].find('.').unwrap()];
    for command in [
        &["up", "--help"][..],
        &["stdio", "-h"],
        &["tool", "list", "-h"],
    ] {
        let help = workspace.run(command).out;
        let start = help.find("--tools").unwrap();
        for tool in listing["items"].as_array().unwrap() {
            let group = tool["group"].as_str().unwrap();
            assert!(help[start..].contains(group), "{command:?}: {group}");
            assert!(sentence.contains(&format!("`{group}`")), "{group}");
        }
    }
}
