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
      certs        Manage the certificates of plugins, orchestrators and bridges
      engine       Start `orchestra-engine`, which serves the memory of the workspace over gRPC
      hook         Store one hook event that a client sends to stdin as JSON
      doctor       Check the board, plans, configurations, git and certificates, and repair them
      board        Manage the board that all worktrees share
      sync         Exchange the board with other clones through a git remote
      log          Show who changed what on the board, and when
      audit        Verify the log of calls
      import       Import the YAML files of orchestra-mcp from .projects
      config       Show the configuration
      completions  Print the completion script of a shell
      man          Print the manual page in roff format
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
      ORCHESTRATOR_STORAGE   path of plan data from the workspace, else in its git directory
      ORCHESTRA_SOCKET       file descriptor of the board in a sandboxed job
      CLAUDE_PROJECT_DIR     workspace of `orchestra hook`
      XDG_CONFIG_HOME        directory of the user's orchestra/orchestra.toml
      HOME                   parent of .config, if XDG_CONFIG_HOME is not set
      SUDO_UID               user whose workspaces root may use; set by `sudo`
      PATH                   search path of clients; `orchestra init` warns if orchestra is not in it
      XDG_STATE_HOME         directory of approvals and of your token, else ~/.local/state
      ORCHESTRA_MCP_PATH     additional files of MCP servers, and directories of such files
      SDEK_MCP_PATH          same, if ORCHESTRA_MCP_PATH is not set
      ORCHESTRA_SYSTEM       directory of the system's mcp.json, else /etc/orchestra
      ORCHESTRA_ENGINE       use of the memory engine; see --engine
      ORCHESTRA_ENGINE_PORT  port of the memory engine if it is free, else 50051
      ORCHESTRA_MODEL        model for search by meaning; see memory.model
      XDG_DATA_HOME          directory of installed models, else ~/.local/share
      HF_ENDPOINT            address of the model hub, else https://huggingface.co
      OLLAMA_HOST            address of Ollama for `orchestra chat`; see --host
      OLLAMA_API_KEY         key for Ollama, if it requires one
      OPENAI_BASE_URL        address of the server of `orchestra chat --backend openai`; see --host
      OPENAI_API_KEY         key for that server
      NO_COLOR               turns colours off, with any value
      TERM                   terminal type; on `dumb`, `plan watch` and `chat` print plain lines
      TERM_PROGRAM           terminal program; some can show images
      KITTY_WINDOW_ID        window of Kitty, which can show images
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
        eprintln!("not checked, this system gives no namespaces: {}", may.err);
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
    # which built-in tools a client sees: all, lean, search, or a list of groups; server:NAME in it leaves of the servers of others only those named
    # from: WORKSPACE/orchestra.toml
    tools = "lean"

    # how tool results are written as text: json or toon
    # from: HOME/.config/orchestra/orchestra.toml
    format = "toon"

    # where `orchestra up` listens; the next free port when it is taken
    # from: default
    # http = "127.0.0.1:7420"

    # where `orchestra up` listens for plugins and bridges, or off; the next free port when it is taken
    # from: default
    # quic = "127.0.0.1:7421"

    # directory of the certificates by which plugins, bridges and orchestrators authenticate each other
    # from: default
    # certs_dir = "~/.orchestra/certs"

    # ids of plugins that may connect without being started by Orchestra
    # from: default
    # admit = []

    # whether plugins and bridges that name no provider of models reach the tools of `claude` before others of the same name
    # from: default
    # claude_first = false

    # whether there is a memory engine, a process that programs of the workspace share: auto, always or off
    # from: environment ORCHESTRA_ENGINE
    engine = "off"

    # what is logged to stderr: a level, or PART=LEVEL, separated by commas
    # from: command line
    log = "debug"

    # directory that is served; set by --workspace or ORCHESTRATOR_WORKSPACE, not by a file
    # from: default
    # workspace = "WORKSPACE"

    # workspaces that are used although they, or files in them, belong to other users or can be written by them, or whose git directory names no working tree; * for every directory; only for your own file to set
    # from: default
    # safe_directories = []

    # directories whose workspaces may bring servers that are started without approval; only for your own file to set
    # from: default
    # trusted_directories = []

    # directory of plans and other private state of a workspace: repository (inside its git directory, or your state directory where there is none) or state (your state directory always); only for your own file to set
    # from: default
    # place = "repository"

    # where the board is: repository (one for all worktrees of a repository, inside `place`; .projects is its readable mirror in the main checkout, which git ignores) or checkout (in .projects of each checkout, to be committed); where nothing is set, as the workspace has it
    # from: default
    # board = "repository"

    [limits]
    # how long one tool call may take, 1 to 86400 seconds
    # from: HOME/.config/orchestra/orchestra.toml
    call_timeout_seconds = 9

    # how many calls of one connection run at once, 1 to 1024; more wait
    # from: default
    # concurrent_calls = 64

    # how long one message may be, 4096 to 268435456 bytes
    # from: default
    # line_bytes = 10485760

    [audit]
    # days after which a file of call records is rotated, and days after its last record until it is removed; sooner because of max_bytes and keep_files; 1 to 3650
    # from: default
    # keep_days = 7

    # size in bytes at which a file of call records is rotated, 65536 to 1073741824
    # from: default
    # max_bytes = 4194304

    # how many files that were put aside are kept, 0 to 1000; older ones are removed; all together hold at most 256 MiB, or what the user's file says, where a workspace's file asks for more
    # from: default
    # keep_files = 2

    # when records of calls are synced to the disk: never, interval (every 5 seconds) or always
    # from: default
    # fsync = "interval"

    [memory]
    # how many memories a project may have, and how many sessions, 1 to 10000000 (a workspace's file: 1000000); what has expired or is superseded goes first when it is full
    # from: default
    # max_items = 100000

    # how many bytes the texts and summaries of the memories of a project may come to, and those of its sessions, 65536 to 68719476736 (a workspace's file: 1073741824)
    # from: default
    # max_bytes = 268435456

    # the model that finds by meaning: the name of an installed one, a directory, ollama:NAME, openai:NAME, or none
    # from: default
    # model = "none"

    # where its server is; one of another machine is for your own file to say
    # from: default
    # model_url = ""

    # the environment variable that holds the key of the server; for your own file to say
    # from: default
    # model_key_env = ""

    # what the model of a server wants before what is looked for
    # from: default
    # model_query_prefix = ""

    # what it wants before what is remembered
    # from: default
    # model_text_prefix = ""

    # how many numbers its vectors shall have, where it can shorten them; 0 for its own
    # from: default
    # model_dimensions = 0

    [plans]
    # where plans are kept: in the place of the workspace, unless ORCHESTRATOR_STORAGE names a directory; said by no file
    # from: default
    # storage = "WORKSPACE/.git/.orchestra/_/plans"

    # how many jobs of all plans of the workspace are at work at once, 0 to 1024; 0 sets no limit, here and below
    # from: default
    # max_jobs = CORES

    # how many of them agents may be
    # from: default
    # max_agents = 16

    # how many of them command lines may be
    # from: default
    # max_shells = 0

    # how many of them programs without a shell may be
    # from: default
    # max_processes = 0

    # how many jobs of all your workspaces are at work at once on this machine; not for a workspace's file
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

    # what becomes of a job whose process is lost: resume goes on from there, retry-once does so once, manual fails it
    # from: default
    # restart = "resume"

    # how long the work of a job may take unless it says so itself, 0 to 604800 seconds; 0 sets no limit
    # from: default
    # timeout_seconds = 3600

    # for how long it may print nothing, 0 to 604800 seconds; 0 sets no limit
    # from: default
    # idle_timeout_seconds = 0

    # how much of what it prints is kept, its beginning and its end, 65536 to 1073741824 bytes
    # from: default
    # log_bytes = 12582912

    # what the names of branches begin with that are made up for plans
    # from: default
    # branch_prefix = "orchestra/"

    # the agent of jobs that name none; empty starts none. One that a workspace's file names runs once you have agreed to it (orchestra plan agents), and until then that of your own file does
    # from: default
    # agent = ""

    # the agent that heals what failed; empty takes that of plans.agent, and without either nothing is healed
    # from: default
    # healer = ""

    # how much memory a run of a job and all that it starts may have at once, in bytes; 0 sets no limit
    # from: default
    # memory_bytes = MEMORY

    # how many processes it may have at once, 0 to 1000000; 0 sets no limit
    # from: default
    # pids_limit = PIDS

    # how long each of its processes may compute, 0 to 100000000 seconds; 0 sets no limit
    # from: default
    # cpu_seconds = 0

    # how much it may print, in bytes; 0 sets no limit
    # from: default
    # output_bytes = 1073741824

    # what shell lines and programs may reach: none is no sandbox, workspace is their worktree and no network (Linux)
    # from: default
    # sandbox = "none"

    [plans.context_pressure]
    # whether an agent whose context is nearly full is asked to leave the rest of its work to further jobs
    # from: default
    # enabled = false

    # from how many percent on a context is shown to be rather full, 20 to 90
    # from: default
    # elevated_percent = 50

    # from how many percent on an agent is asked, 40 to 95
    # from: default
    # critical_percent = 75

    # how often what was left is left again to others, 1 to 5
    # from: default
    # max_depth = 3

    # to how many further jobs the rest of one is left at most, 2 to 20
    # from: default
    # max_jobs = 8

    [chat]
    # which kind of server has the model: ollama or openai
    # from: default
    # backend = "ollama"

    # where it is, else where it usually is; one of another machine is for your own file to say
    # from: default
    # host = ""

    # the model, else the first that is installed and takes tools
    # from: default
    # model = ""

    # the environment variable that holds the key of the server; for your own file to say
    # from: default
    # key_env = ""

    # what the model is told first, in place of the usual
    # from: default
    # system = ""

    # how often tools may be called in a turn, 1 to 1000; then the model answers without
    # from: default
    # max_turns = 10

    # how many tokens a turn may use up, 0 for any number; for your own file to say
    # from: default
    # max_tokens = 0

    # how long a turn may take, 1 to 86400 seconds, 0 for any time; for your own file to say
    # from: default
    # max_seconds = 0

    # what a turn may cost, in the money of the prices, 0.0 for anything; for your own file to say
    # from: default
    # max_cost = 0.0

    # what a million tokens cost that are read; for your own file to say
    # from: default
    # price_input = 0.0

    # what a million tokens cost that are written; for your own file to say
    # from: default
    # price_output = 0.0

    # how many tokens the model is given at once at most, 2048 to 10000000, 0 for what it can take
    # from: default
    # context = 0

    # what a script or --stdio may reach: none is no sandbox, workspace is that of configured servers (Linux)
    # from: default
    # sandbox = "none"

    # limits of a script or --stdio, with the keys that limits of configured servers have; for your own file to say
    # from: default
    # limits = {}

    [access]
    # file with the tokens that callers over HTTP must show, one a line
    # from: default
    # token_file = ""

    # names under which other machines reach this one
    # from: default
    # hosts = []

    # origins whose pages may call over HTTP
    # from: default
    # origins = []

    # how many requests a second each caller may make, and twice as many at once after a pause; 0 for any number; 200 beyond this machine unless it is set
    # from: default
    # requests_per_second = 0

    # certificates in PEM, the server's own first; with them HTTP is over TLS
    # from: default
    # tls_cert = ""

    # the certificate's private key in PEM
    # from: default
    # tls_key = ""

    [access.oauth]
    # OAuth issuers whose access tokens let callers over HTTP in
    # from: default
    # issuers = []

    # URL under which clients reach MCP here, the audience of such tokens
    # from: default
    # resource = ""

    # what else such tokens may name as their audience
    # from: default
    # audiences = []

    # scopes that such tokens must have, all of them
    # from: default
    # scopes = []

    # where the keys of the one issuer are; it says so itself unless it is set
    # from: default
    # jwks_url = ""

    # how far the clocks of issuers may differ, 0 to 600 seconds
    # from: default
    # leeway_seconds = 60

    [mcp]
    # servers of others, as docs/servers.md tells; `orchestra mcp list` lists those of all files
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
