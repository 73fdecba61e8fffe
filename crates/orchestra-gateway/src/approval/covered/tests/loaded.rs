//! Tests of files that a server runs without naming them.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// Checks that a server is asked for again when a file of the workspace appears, and again when it changes.
fn check_asks(server: &serde_json::Value, files: &[(&str, &str)], new: &str) {
    let workspace = Workspace::new();
    for (path, text) in files {
        workspace.write(path, text);
    }
    for text in ["1", "2"] {
        let before = workspace.fingerprint(server);
        workspace.write(new, text);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(workspace.0.path().join(new), mode).unwrap();
        let after = workspace.fingerprint(server);
        assert_ne!(before.as_str(), after.as_str(), "{server}: {new} {text}");
    }
}

fn line(line: &str) -> serde_json::Value {
    let words: Vec<&str> = line.split(' ').collect();
    json!({"command": words[0], "args": words[1..]})
}

#[test]
fn files_of_directories_that_run_are_covered() {
    for (words, new) in [
        ("run-parts hooks.d", "hooks.d/b"),
        ("find d -type f -exec sh {} ;", "d/e/b"),
        ("node --test d", "d/a.test.js"),
        ("pytest d", "d/test_a.py"),
    ] {
        check_asks(&line(words), &[("d/a", "x"), ("hooks.d/a", "x")], new);
        let shell = json!({"command": "sh", "args": ["-c", words]});
        check_asks(&shell, &[("d/a", "x"), ("hooks.d/a", "x")], new);
    }
}

#[test]
fn files_that_take_the_place_of_a_module_are_covered() {
    let files = [
        ("srv.py", "x"),
        ("pkg/__init__.py", "x"),
        ("pkg/__main__.py", "x"),
        ("lib/X.pm", "1;"),
    ];
    for (words, new) in [
        ("python3 -m srv", "__pycache__/srv.cpython-311.pyc"),
        ("python3 -m srv", "srv.abi3.so"),
        (
            "python3 -m srv",
            "srv/__init__.cpython-311-x86_64-linux-gnu.so",
        ),
        ("python3 -m pkg", "pkg/__init__.abi3.so"),
        ("python3 -m pkg", "pkg/__pycache__/__main__.cpython-312.pyc"),
        ("python3 pkg", "pkg/__pycache__/__main__.cpython-312.pyc"),
        (
            "python3 -m pkg.sub",
            "pkg/sub.cpython-311-x86_64-linux-gnu.so",
        ),
        ("perl -Ilib -MX", "lib/X.pmc"),
    ] {
        check_asks(&line(words), &files, new);
    }
    check_asks(
        &json!({"command": "python3", "args": ["-c", "import srv"]}),
        &files,
        "srv.abi3.so",
    );
}

#[test]
fn bytecode_that_python_writes_for_a_module_does_not_change_the_server() {
    let workspace = Workspace::new();
    workspace.write("srv.py", "x");
    let server = line("python3 -m srv");
    let before = workspace.fingerprint(&server);
    // Magic number, no flags, time and size of the source.
    let compiled = "\u{b}\r\r\n\0\0\0\0\u{1}\u{2}\u{3}\u{4}\u{1}\0\0\0x";
    workspace.write("__pycache__/srv.cpython-311.pyc", compiled);
    workspace.write("__pycache__/other.cpython-311.pyc", "x");
    assert_eq!(workspace.fingerprint(&server), before);
}

#[test]
fn code_of_a_module_of_go_is_covered() {
    let files = [
        ("go.mod", "module ex.com/m\n"),
        ("cmd/x/main.go", "package main"),
    ];
    for words in [
        "go run ex.com/m/cmd/x",
        "go run ./cmd/...",
        "go run ./cmd/x",
        "go tool x",
        "sh -c cd#cmd&&go#run#ex.com/m/cmd/x",
    ] {
        let words: Vec<String> = words
            .split(' ')
            .map(|word| word.replace('#', " "))
            .collect();
        let server = json!({"command": words[0], "args": words[1..]});
        check_asks(&server, &files, "cmd/x/other.go");
    }
    let below = json!({"command": "go", "args": ["run", "ex.com/m/cmd/x"], "cwd": "cmd"});
    check_asks(&below, &files, "internal/y.go");
}

#[test]
fn files_that_the_manifest_of_the_package_itself_names_are_covered() {
    let manifest = r##"{"name": "@a/me", "exports": {"./x": "./x.js", "./y/*": "./d/*.js"},
        "imports": {"#a/*": "./d/*.js"}, "directories": {"bin": "b"}}"##;
    for (words, new) in [
        ("node -r @a/me/x s.js", "x.js"),
        ("node --import=@a/me/y/z s.js", "d/z.js"),
        ("node --import #a/x s.js", "d/x.js"),
        ("npx x", "b/x"),
    ] {
        check_asks(
            &line(words),
            &[("package.json", manifest), ("b/y", ""), ("d/y", "")],
            new,
        );
    }
    let whole = r#"{"name": "me", "exports": {"import": "./x.js"}}"#;
    check_asks(
        &line("node --import me s.js"),
        &[("package.json", whole)],
        "x.js",
    );
}

#[test]
fn programs_in_directories_of_path_are_covered_when_they_appear() {
    let env = json!({"PATH": "${workspaceFolder}/bin:/usr/bin", "GIT_EXEC_PATH": "g"});
    for (words, new) in [
        ("./run", "bin/node"),
        ("npx -y x", "bin/node"),
        ("npm start", "bin/node"),
        ("git x", "g/git-x"),
    ] {
        let mut server = line(words);
        server["env"] = env.clone();
        for files in [
            &[("run", "#!/usr/bin/env node\n")][..],
            &[("bin/z", ""), ("g/z", "")],
        ] {
            check_asks(&server, files, new);
        }
    }
    let shell = json!({"command": "sh", "args": ["-c", "PATH=bin:$PATH npx x"]});
    check_asks(&shell, &[], "bin/node");
    let workspace = Workspace::new();
    workspace.write("bin/notes", "1");
    let mut server = line("npx x");
    server["env"] = env;
    let before = workspace.fingerprint(&server);
    workspace.write("bin/notes", "2");
    assert_eq!(workspace.fingerprint(&server), before, "it is no program");
}

#[test]
fn programs_of_a_command_line_in_directories_of_the_inherited_path_are_covered() {
    let workspace = Workspace::new();
    for path in ["bin/tool", "bin/other", "lib/tool", "own/tool"] {
        workspace.write(path, "x");
    }
    let path = ["/usr/bin".into(), workspace.0.path().join("bin")];
    let path = std::env::join_paths(path).unwrap().into_string().unwrap();
    let path = move |name: &str| (name == "PATH").then(|| path.clone());
    let scope = Scope::new(workspace.0.path(), None, path);
    let files = |server: &serde_json::Value| -> Vec<String> {
        let covered = Covered::of(&workspace.config(server), &scope);
        let files = covered.files();
        files.map(|(path, _)| path.display().to_string()).collect()
    };
    for (server, expected) in [
        (line("tool other/x"), &["bin/tool"][..]),
        (line("env tool"), &["bin/tool"]),
        (line("./tool"), &[]),
        (
            json!({"command": "sh", "args": ["-c", "exec tool"]}),
            &["bin/tool"],
        ),
    ] {
        assert_eq!(files(&server), expected, "{server}");
    }
    let own = json!({"command": "tool", "env": {"PATH": "${workspaceFolder}/own"}});
    assert!(!files(&own).contains(&"bin/tool".to_owned()));
}

#[test]
fn libraries_in_directories_of_a_variable_are_covered_when_they_appear() {
    let mut server = line("server");
    server["env"] =
        json!({"LD_LIBRARY_PATH": "lib:", "GIT_TEMPLATE_DIR": "t", "GCONV_PATH": "conv"});
    for new in [
        "lib/libc.so.6",
        "libc.so.6",
        "lib/glibc-hwcaps/x86-64-v2/libdemo.so",
        "lib/tls/haswell/x86_64/libdemo.so",
        "conv/deep/x.so",
        "conv/gconv-modules.d/x.conf",
        "t/hooks/post-checkout",
    ] {
        check_asks(&server, &[("lib/notes", ""), ("t/notes", "")], new);
    }
}

#[test]
fn startup_files_of_a_home_in_the_workspace_are_covered_and_unclear() {
    let mut server = json!({"command": "bash", "args": ["-lc", "true"]});
    server["env"] = json!({"HOME": "${workspaceFolder}"});
    check_asks(&server, &[], ".bash_profile");
    let workspace = Workspace::new();
    assert!(workspace.covered(&server).is_unclear());
    server["env"] = json!({"HOME": "/home/ann"});
    assert!(!workspace.covered(&server).is_unclear());
}

#[test]
fn variable_that_may_load_code_covers_its_files_or_is_unclear() {
    let workspace = Workspace::new();
    for path in ["x.txt", "x.db", "lib/y", "memory/z"] {
        workspace.write(path, "x");
    }
    let covered = |name: &str, value: &str| {
        workspace.covered(&json!({"command": "server", "env": {name: value}}))
    };
    for (name, value, file) in [
        ("MAKEFILES", "x.txt", "x.txt"),
        ("AWS_CONFIG_FILE", "./x.txt", "x.txt"),
        ("SBT_OPTS", "-javaagent:x.db", "x.db"),
        ("GUNICORN_CMD_ARGS", "-c x.txt", "x.txt"),
    ] {
        let covered = covered(name, value);
        assert_eq!(covered.files().count(), 1, "{name}");
        assert!(
            covered.files().any(|(path, _)| path == Path::new(file)),
            "{name}"
        );
        assert!(!covered.is_unclear(), "{name}");
    }
    for (name, value) in [
        ("BASH_ENV", "$PWD/x.sh"),
        ("LD_PRELOAD", "./$LIB/x.so"),
        ("LD_LIBRARY_PATH", "./$PLATFORM"),
        ("GCONV_PATH", "conv"),
        ("PYTHONPATH", "lib"),
        ("PYTHONPATH", "/usr:absent"),
        ("PYTHONUSERBASE", "lib"),
        ("PYTHONHOME", "lib"),
        ("ODBCSYSINI", "lib"),
        ("PLUGINS", "lib"),
        ("ROOT", "${workspaceFolder}"),
        ("EXTRA", "./x.txt"),
    ] {
        assert!(covered(name, value).is_unclear(), "{name}");
    }
    for (name, value) in [
        ("PATH", "lib"),
        ("LD_LIBRARY_PATH", "lib"),
        ("JAVA_OPTS", "-cp lib"),
        ("MEMORY_FILE_PATH", "memory/z"),
        ("DATA_DIR", "lib"),
        ("DB_PATH", "x.db"),
        ("API", "https://example.com/a?lib"),
        ("PYTHONPATH", "/usr/lib"),
        ("MODE", "fast"),
    ] {
        assert!(!covered(name, value).is_unclear(), "{name}");
    }
}

#[test]
fn file_below_a_directory_of_cdpath_is_covered() {
    let server = json!({"command": "bash", "args": ["-c", "cd y && ./x"], "env": {"CDPATH": "d"}});
    check_asks(&server, &[("d/y/z", "")], "d/y/x");
}

#[test]
fn files_of_build_tools_are_covered_for_these_tools() {
    for (words, new) in [
        ("ninja", "build.ninja"),
        ("scons", "SConstruct"),
        ("invoke -l", "tasks.py"),
        ("doit list", "dodo.py"),
        ("python3 -m pytest d", "conftest.py"),
        ("npm start", "server.js"),
        ("bazel run x", "MODULE.bazel"),
        ("sbt run", "project/plugins.sbt"),
        ("cmake -P x", "CMakeLists.txt"),
        ("meson compile", "meson.build"),
        ("rake", "rakefile.rb"),
        ("docker compose up", "docker-compose.override.yml"),
        ("./mvnw exec:java", ".mvn/jvm.config"),
        ("bundle exec x", "gems.rb"),
        ("gradle run", "buildSrc/build.gradle.kts"),
        ("gradle run", "buildSrc/src/main/kotlin/x.kt"),
        ("perl -d x.pl", ".perldb"),
        ("perl -Ilib -d:Foo x.pl", "lib/Devel/Foo.pm"),
        ("ld.so --library-path lib /bin/cat", "lib/libc.so.6"),
        ("php -c conf x.php", "conf/php-cli.ini"),
        ("dotnet run", "Properties/launchSettings.json"),
        ("dotnet run", "Directory.Build.rsp"),
        ("dotnet tool run x", ".config/dotnet-tools.json"),
        ("dotnet app.dll", "app.runtimeconfig.json"),
        ("just serve", "JustFile"),
        ("mise exec -- x", "mise.local.toml"),
        ("mise run x", "mise-tasks/x"),
        ("server", ".tool-versions"),
        ("uv run x", ".python-version"),
        ("pdm run x", ".pdm-python"),
        ("pipenv run x", ".env"),
        ("gunicorn server:app", "gunicorn.conf.py"),
        ("flask run", "app.py"),
        ("npx ts-node x.ts", "tsconfig.json"),
        ("npx vite-node x.ts", "vite.config.ts"),
        ("yarn node x.js", ".pnp.cjs"),
        ("nim r x.nim", "config.nims"),
        ("runghc x.hs", ".ghci"),
        ("cabal run", "cabal.project.local"),
        ("bb serve", "bb.edn"),
        ("docker compose run x", ".env"),
        ("ansible-playbook x.yml", "ansible.cfg"),
        ("foreman start", "Procfile"),
        ("rackup", "config.ru"),
        ("pnpm run x", ".pnpmfile.mjs"),
        ("swift run", "Package@swift-5.9.swift"),
        ("dart run", "pubspec_overrides.yaml"),
        ("iex -S mix", ".iex.exs"),
    ] {
        check_asks(
            &line(words),
            &[("buildSrc/src/x", ""), ("project/x", "")],
            new,
        );
    }
    let workspace = Workspace::new();
    for path in ["server.js", "tasks.py", "conftest.py", "build.ninja"] {
        workspace.write(path, "x");
    }
    for words in [
        "npx -y thing",
        "uvx thing",
        "python3 -m thing",
        "node dist/index.js",
    ] {
        assert_eq!(workspace.files(&line(words)), [""; 0], "{words}");
    }
}

#[test]
fn directories_of_code_that_may_appear_are_no_part_of_an_approval() {
    let workspace = Workspace::new();
    let covered = workspace.covered(&line("java -cp out Main"));
    let lookups: Vec<(&Path, bool)> = covered.lookups().collect();
    assert_eq!(lookups, [(Path::new("out"), true)]);
    assert_eq!(covered.approved(false).lookups().count(), 0);
}
