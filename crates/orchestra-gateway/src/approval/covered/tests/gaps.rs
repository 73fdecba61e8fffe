//! Tests of servers whose files are not all covered, and of the limits for them.

use super::*;

/// Change of a server whose approval gets the notice about its files.
const NOTICE: &str = "the notice that Orchestra cannot tell which files this command runs is new";

#[test]
fn shell_line_with_a_variable_in_a_path_is_unclear() {
    let workspace = Workspace::new();
    for (line, is_unclear) in [
        ("exec ./$X.sh", true),
        ("ln -sfn sub l; sh l/x.sh", true),
        ("cp -r sub l; sh l/x.sh", true),
        ("exec ./x.sh", false),
    ] {
        let server = json!({"command": "sh", "args": ["-c", line]});
        assert_eq!(
            workspace.covered(&server).is_unclear(),
            is_unclear,
            "{line}"
        );
    }
}

#[test]
fn directory_whose_code_is_not_told_is_unclear() {
    let workspace = Workspace::new();
    workspace.write("classes/x.class", "x");
    workspace.write("options", "-cp classes");
    workspace.write("tool/package.json", "{\"main\": \"x.js\",");
    for number in 0..=4_096 {
        workspace.write(&format!("many/{number}.class"), "");
    }
    for (words, is_unclear) in [
        (&["java", "-cp", "classes", "x"][..], false),
        (&["java", "-cp", "many", "x"], true),
        (&["java", "@options", "x"], true),
        (&["node", "tool"], true),
    ] {
        let server = json!({"command": words[0], "args": words[1..]});
        let covered = workspace.covered(&server);
        assert_eq!(covered.is_unclear(), is_unclear, "{words:?}");
    }
}

#[test]
fn directory_of_an_argument_and_joined_program_text_are_unclear() {
    let workspace = Workspace::new();
    for path in [
        "sub/x",
        "docs/x",
        "pkg/__main__.py",
        "dist/index.js",
        "srv.py",
    ] {
        workspace.write(path, "x");
    }
    for (line, is_unclear) in [
        ("git --exec-path=sub srv", true),
        ("git -c core.hooksPath=sub checkout", true),
        ("gcc -Bsub/ x", true),
        ("java -Djava.ext.dirs=sub X", true),
        ("claude --plugin-dir sub", true),
        ("npx -y filesystem docs", true),
        ("docker run -v ${workspaceFolder}/sub:/x python", true),
        ("docker run -v ${workspaceFolder}:/x python", true),
        ("python3 -c exec(open('sr'+'v.py').read())", true),
        ("npx -y filesystem .", false),
        ("npx -y thing", false),
        ("uvx thing", false),
        ("uv --directory sub run x.py", false),
        ("python3 srv.py", false),
        ("python3 -m pkg", false),
        ("node dist/index.js", false),
        ("node dist", false),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let server = json!({"command": words[0], "args": words[1..]});
        let covered = workspace.covered(&server);
        assert_eq!(covered.gap(), None, "{line}");
        assert_eq!(covered.is_unclear(), is_unclear, "{line}");
    }
}

#[test]
fn directory_that_exceeds_a_limit_after_the_approval_changes_the_server() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.0.path().join("many")).unwrap();
    let servers = [
        (
            json!({"command": "java", "args": ["-cp", "many", "x"]}),
            "many",
        ),
        (json!({"command": "run-parts", "args": ["many"]}), "many/**"),
        (
            json!({"command": "dotnet", "args": ["run"], "cwd": "many"}),
            "many",
        ),
    ];
    let before = servers
        .each_ref()
        .map(|(server, _)| workspace.fingerprint(server));
    for number in 0..=4_096 {
        workspace.write(&format!("many/{number}.class"), "");
    }
    for ((server, name), before) in servers.iter().zip(before) {
        let changes = before.changes(&workspace.fingerprint(server));
        let file = format!("the file {name} is new");
        assert_eq!(changes, [file.as_str(), NOTICE], "{server}");
    }
}

#[test]
fn directory_that_makes_a_command_line_unclear_changes_the_server() {
    for server in [
        json!({"command": "git", "args": ["--exec-path=later", "x"]}),
        json!({"command": "git", "args": ["--git-dir", "later", "x"]}),
        json!({"command": "git", "args": ["-C", "later", "x"]}),
        json!({"command": "gcc", "args": ["-Blater/", "x.c"]}),
        json!({"command": "make", "args": ["-f", "mk", "-Ilater"]}),
        json!({"command": "server", "env": {"COMPILER_PATH": "later"}}),
    ] {
        let workspace = Workspace::new();
        let before = workspace.fingerprint(&server);
        workspace.write("later/other", "x");
        let after = workspace.fingerprint(&server);
        assert_eq!(before.changes(&after), [NOTICE], "{server}");
        assert_eq!(before.with_notice(), after, "{server}");
    }
    let workspace = Workspace::new();
    let prefix = json!({"command": "python3", "args": ["-X", "pycache_prefix=later", "-m", "x"]});
    let is_unclear = workspace.covered(&prefix).is_unclear();
    assert!(is_unclear, "the directory is absent");
}

#[test]
fn argument_or_variable_that_is_not_plain_is_unclear() {
    let workspace = Workspace::new();
    for (words, is_unclear) in [
        (&["BEGIN{system(\"./a\" \"b\")}"][..], true),
        (&["X=$$(shell ./ab)"], true),
        (&["${A:-./a?b}"], true),
        (&["--title", "a b"], false),
        // The value is the user's.
        (&["--header", "Authorization: Bearer ${A}"], false),
    ] {
        let server = json!({"command": "server", "args": words});
        let covered = workspace.covered(&server);
        assert_eq!(covered.is_unclear(), is_unclear, "{words:?}");
    }
    for (name, value, is_unclear) in [
        ("GIT_CONFIG_PARAMETERS", r"'alias.x=!./a'\''b'\'''", true),
        ("GIT_SSH_COMMAND", "./a?b", true),
        ("GIT_SSH_COMMAND", r#"{"./a": 1}"#, true),
        ("PERL5OPT", "-Mstrict;do(q(./a).q(b))", true),
        ("NODE_OPTIONS", "--import data:text/javascript,x", true),
        ("PYTHONBREAKPOINT", "a.b", true),
        ("PYTHONBREAKPOINT", "0", false),
        ("PATTERN", "a*b", true),
        ("TITLE", "a  b", true),
        ("TITLE", "a b", false),
        ("SERVICE", "https://example.com/a?b=c&d", false),
        ("SETTINGS", r#"{"a": [1]}"#, false),
        ("DEBUG", "app:*", false),
        ("API_TOKEN", "a$b!", false),
    ] {
        let server = json!({"command": "server", "env": {name: value}});
        let covered = workspace.covered(&server);
        assert_eq!(covered.is_unclear(), is_unclear, "{name}={value}");
    }
}

#[test]
fn code_behind_too_much_code_of_a_server_is_unclear() {
    let workspace = Workspace::new();
    for directory in ["a", "b"] {
        workspace.write(&format!("{directory}/x.class"), "x");
    }
    let config = workspace.config(&json!({"command": "java", "args": ["-cp", "a:b", "x"]}));
    let scope = Scope::new(workspace.0.path(), None, |_| None);
    for (effort, is_unclear) in [(MAX_CODE_EFFORT, false), (MAX_CODE_EFFORT + 1, true)] {
        let mut shared = SharedWork::default();
        let directory = (Loads::Code, "a".into());
        let read = ReadCode {
            code: Code::None,
            effort,
            has_process_link: false,
            shared: BTreeSet::new(),
        };
        shared.code.insert(directory, read);
        let covered = Covered::of_one(&config, &scope, &mut shared);
        assert_eq!(covered.is_unclear(), is_unclear, "{effort}");
    }
}

#[test]
fn more_words_than_are_looked_at_are_reported() {
    let workspace = Workspace::new();
    let few = json!({"command": "sh", "args": ["-c", "a b c"]});
    assert_eq!(workspace.covered(&few).gap(), None);
    let words: Vec<String> = (0..=MAX_WORDS).map(|word| word.to_string()).collect();
    let many = json!({"command": "sh", "args": words});
    assert_eq!(workspace.covered(&many).gap(), Some(Gap::Words));
}

#[test]
fn empty_words_count_as_words() {
    let workspace = Workspace::new();
    let variables = (0..=MAX_WORDS).map(|number| (format!("V{number}"), json!("")));
    let env = serde_json::Map::from_iter(variables);
    let server = json!({"command": "sh", "env": env});
    assert_eq!(workspace.covered(&server).gap(), Some(Gap::Words));
    let paths = vec!["."; MAX_WORDS + 1];
    let server = json!({"command": "sh", "sandbox": {"mode": "workspace", "read": paths}});
    assert_eq!(workspace.covered(&server).gap(), Some(Gap::Words));
}

#[test]
fn word_that_is_too_long_is_reported() {
    let workspace = Workspace::new();
    for (length, gap) in [(60_000, None), (70_000, Some(Gap::Length))] {
        for server in [
            json!({"command": "sh", "args": ["x".repeat(length)]}),
            json!({"command": "sh", "env": {"A": "x".repeat(length)}}),
        ] {
            assert_eq!(workspace.covered(&server).gap(), gap, "{length}");
        }
    }
    let text = json!({"command": "sh", "args": ["${LONG}".repeat(1_000_000 / 7)]});
    let scope = Scope::new(workspace.0.path(), None, |_| Some("x".repeat(100_000)));
    let covered = Covered::of(&workspace.config(&text), &scope);
    assert_eq!(covered.gap(), None, "such a server cannot be started");
}

#[test]
fn more_paths_than_are_looked_up_are_reported() {
    let workspace = Workspace::new();
    let mut words = Vec::new();
    for number in 0..100 {
        words.push(format!("w{number}"));
        words.push(format!("-m{number}.a.b"));
    }
    for directory in 0..MAX_DIRECTORIES - 1 {
        workspace.write(&format!("d{directory}/x"), "x");
    }
    let server = |directories: usize, words: &[String]| {
        let directories = (0..directories).map(|number| format!("d{number}"));
        let path = directories.collect::<Vec<_>>().join(":");
        json!({"command": "sh", "args": words, "env": {"PYTHONPATH": path}})
    };
    let many = server(MAX_DIRECTORIES - 1, &words);
    assert_eq!(workspace.covered(&many).gap(), Some(Gap::Paths));
    let few = server(4, &words[..10]);
    assert_eq!(workspace.covered(&few).gap(), None);
    let manifest = format!(r#"{{"exports": {:?}}}"#, vec!["./x"; 128]);
    workspace.write("package.json", &manifest);
    let dots = Vec::from_iter((1..100).map(|dots| "./".repeat(dots)));
    let manifests = json!({"command": "node", "args": dots});
    assert_eq!(workspace.covered(&manifests).gap(), Some(Gap::Paths));
}

#[test]
fn more_compiled_modules_than_are_listed_are_reported() {
    for (stem, count, gap) in [
        ("b", 100, None),
        ("b", 513, Some(Gap::Paths)),
        ("other", 513, None),
        ("other", 10_002, Some(Gap::Paths)),
    ] {
        let workspace = Workspace::new();
        workspace.write("b.py", "x");
        for number in 0..count {
            workspace.write(&format!("__pycache__/{stem}.{number}.pyc"), "");
        }
        let server = json!({"command": "python3", "args": ["b.py"]});
        assert_eq!(workspace.covered(&server).gap(), gap, "{stem} {count}");
    }
}

#[test]
fn more_directories_and_files_than_are_covered_are_reported() {
    let workspace = Workspace::new();
    let mut directories = Vec::new();
    for directory in 0..MAX_DIRECTORIES {
        let directory = format!("d{directory}");
        workspace.write(&format!("{directory}/x"), "x");
        directories.push(directory);
    }
    let server = json!({"command": "sh", "env": {"PYTHONPATH": directories.join(":")}});
    let gap = workspace.covered(&server).gap();
    assert_eq!(gap, Some(Gap::Directories));
    let mut words = Vec::new();
    for word in 0..=MAX_FILES / 2 {
        let word = format!("w{word}");
        workspace.write(&format!("{word}.js"), "x");
        workspace.write(&format!("{word}.py"), "x");
        words.push(word);
    }
    let server = json!({"command": "sh", "args": words});
    assert_eq!(workspace.covered(&server).gap(), Some(Gap::Files));
}

#[test]
#[cfg(target_os = "linux")]
fn path_through_a_link_that_differs_by_process_is_reported() {
    let workspace = Workspace::new();
    workspace.write("sub/x.sh", "x");
    let link = |name: &str, target: &str| {
        std::os::unix::fs::symlink(target, workspace.0.path().join(name)).unwrap();
    };
    link("sub/link.sh", "/proc/self/cwd/x.sh");
    link("sub/root", "/proc/self/root");
    for server in [
        json!({"command": "sh", "args": ["/proc/self/cwd/x.sh"], "cwd": "sub"}),
        json!({"command": "sh", "args": ["/dev/fd/../cwd/x.sh"]}),
        json!({"command": "sh", "args": ["-c", "cd sub; exec sh /proc/thread-self/cwd/x.sh"]}),
        json!({"command": "sh", "args": ["link.sh"], "cwd": "sub"}),
        json!({"command": "sh", "args": ["sub/root/etc/passwd"]}),
        json!({"command": "sh", "cwd": "/proc/self/cwd"}),
    ] {
        let gap = workspace.covered(&server).gap();
        assert_eq!(gap, Some(Gap::Process), "{server}");
    }
    for word in ["/dev/stderr", "/dev/fd/2", "/proc", "/proc/self/status"] {
        let server = json!({"command": "sh", "args": ["x.sh", word], "cwd": "sub"});
        assert_eq!(workspace.covered(&server).gap(), None, "{word}");
    }
}

#[test]
fn workspace_that_cannot_be_read_is_reported() {
    let workspace = Workspace::new();
    let server = json!({"command": "sh"});
    let config = workspace.config(&server);
    let scope = Scope::new(&workspace.0.path().join("absent"), None, |_| None);
    assert_eq!(Covered::of(&config, &scope).gap(), Some(Gap::Workspace));
}
