//! Approvals end when a file changes that the command line of a server runs without its plain name.

use serde_json::{Value, json};

use crate::support::{World, states};

const FILE: &str = "workspace/.mcp.json";

/// Approves a server, changes a file of the workspace, and checks that the server waits for approval again.
fn check(server: &Value, files: &[(&str, &str)], changed: &str) {
    let world = World::new();
    let at = |path: &str| format!("workspace/{path}");
    for (path, text) in files {
        world.write(&at(path), text);
    }
    world.write(&at(changed), "before");
    // Files of the workspace by their absolute paths.
    let directory = world.path().join("workspace").display().to_string();
    let server = server.to_string().replace("WORKSPACE", &directory);
    world.write(FILE, &format!("{{\"mcpServers\": {{\"a\": {server}}}}}"));
    world.approve("a");
    assert_eq!(states(&world.find()), [("a", "enabled")], "{server}");
    world.write(&at(changed), "after");
    assert_eq!(states(&world.find()), [("a", "needs_approval")], "{server}");
}

fn server(line: &str) -> Value {
    let mut words = line.split(' ');
    json!({"command": words.next(), "args": words.collect::<Vec<_>>()})
}

#[test]
fn main_file_of_a_directory_is_covered_as_its_manifest_names_it() {
    for (line, manifest, changed) in [
        ("node .", r#"{"main": "lib/x.js"}"#, "lib/x.js"),
        ("node .", r#"{"main": "./lib/x"}"#, "lib/x.js"),
        ("node ./", r#"{"main": "lib"}"#, "lib/index.js"),
        ("node .", r#"{"main": "none/../x.js"}"#, "x.js"),
        ("npx .", r#"{"bin": {"x": "./bin/x"}}"#, "bin/x"),
        ("npx -y x", r#"{"bin": {"x": "./bin/x"}}"#, "bin/x"),
        ("npx -y x", r#"{"name": "@a/x", "bin": "y"}"#, "y"),
        ("bun .", r#"{"module": "x.mjs"}"#, "x.mjs"),
        (
            "npx .",
            r#"{"exports": {".": {"import": "./x.mjs"}}}"#,
            "x.mjs",
        ),
        ("deno run .", "{}", "index.ts"),
        ("python .", "{}", "__main__.py"),
    ] {
        check(&server(line), &[("package.json", manifest)], changed);
    }
    let files = [("tool/package.json", r#"{"main": "x.js"}"#)];
    check(&server("node tool"), &files, "tool/x.js");
    check(&server("node none/../tool"), &files, "tool/x.js");
    let manifest = r#"{"main": "lib/y", "exports": {"./x": "./lib/x.js"}}"#;
    let files = [("node_modules/@a/srv/package.json", manifest)];
    for (module, changed) in [
        ("@a/srv", "lib/y.js"),
        ("@a/srv", "index.js"),
        ("@a/srv/x", "lib/x.js"),
        ("@a/srv/z", "z.mjs"),
    ] {
        let changed = format!("node_modules/@a/srv/{changed}");
        check(
            &server(&format!("node -r {module} /opt/x.js")),
            &files,
            &changed,
        );
        let options = json!({"NODE_OPTIONS": format!("--import={module}")});
        let server = json!({"command": "node", "args": ["/opt/x.js"], "env": options});
        check(&server, &files, &changed);
    }
}

#[test]
fn classes_and_modules_of_code_paths_are_covered() {
    for (line, changed) in [
        ("java -cp lib/* com.x.Main", "lib/a.jar"),
        ("java -cp classes com.x.Main", "classes/com/x/Other.class"),
        (
            "java -classpath lib/*:classes x",
            "classes/com/x/Main.class",
        ),
        ("java --class-path=classes x", "classes/com/x/Main.class"),
        ("java -p lib -m m/com.x.Main", "lib/m.jar"),
        ("java com.x.Main", "com/x/Main.class"),
        ("java -cp . x.Main", "com/x/Other.class"),
        ("erl -pa ebin -s mod", "ebin/other.beam"),
        ("env CLASSPATH=classes java x", "classes/x.class"),
        ("go run .", "server.go"),
    ] {
        check(&server(line), &[], changed);
    }
    let server =
        json!({"command": "sh", "args": ["-c", "exec java x"], "env": {"CLASSPATH": "out"}});
    check(&server, &[], "out/com/x/Main.class");
}

#[test]
fn file_is_covered_in_each_spelling_of_its_path() {
    for line in [
        "node none/../srv.mjs",
        "node ./srv.mjs/",
        "node srv.mjs/",
        "node srv.mjs//",
        "node srv.mjs/.",
        "node srv.mjs/./",
        "node WORKSPACE/srv.mjs/",
        "node --import=srv.mjs/",
        "tclsh srv.mjs/",
        "node --import ./%73rv.mjs",
        "node --import=./%73rv.mjs",
        "node --import file://WORKSPACE/srv%2Emjs",
        "node --import=file://localhostWORKSPACE/srv.mjs",
        "node --import ./sr\tv.mjs",
        "node --import=./sr\nv.mjs",
        "node --import .\\srv.mjs",
        "node --import ./none/%2e%2e/srv.mjs?x#y",
    ] {
        check(&server(line), &[], "srv.mjs");
    }
    let options = json!({"command": "node", "env": {"NODE_OPTIONS": "--import ./s\trv.mjs"}});
    check(&options, &[], "srv.mjs");
    for line in [
        "node srv.mjs/",
        "sh \"s\"rv.mjs",
        "sh s\\rv.mjs",
        "sh <>srv.mjs",
        "sh <> 's'rv.mjs",
        "exec 3<>srv.mjs; sh <&3",
    ] {
        let shell = json!({"command": "sh", "args": ["-c", line]});
        check(&shell, &[], "srv.mjs");
    }
    let shell = json!({"command": "sh", "args": ["-c", "sh 'a b'"]});
    check(&shell, &[], "a b");
}

#[test]
fn file_is_covered_that_is_named_without_its_ending() {
    for (line, changed) in [
        ("gawk -i evil", "evil.awk"),
        ("emacs --batch -l evil", "evil.el"),
        ("nim r evil", "evil.nim"),
        ("sbcl --load evil", "evil.lisp"),
        ("groovy evil", "evil.groovy"),
        ("npx srv", "node_modules/.bin/srv"),
    ] {
        check(&server(line), &[], changed);
    }
}

#[test]
fn installed_program_of_a_package_runner_is_covered_through_its_link_and_above_its_directory() {
    for (cwd, is_link) in [(".", true), ("sub/deep", true), ("sub/deep", false)] {
        let world = World::new();
        let at = |path: &str| format!("workspace/{path}");
        let program = match is_link {
            true => "node_modules/package/cli.js",
            false => "node_modules/.bin/srv",
        };
        for path in [program, "sub/deep/file", "node_modules/.bin/file"] {
            world.write(&at(path), "before");
        }
        if is_link {
            let link = world.path().join(at("node_modules/.bin/srv"));
            std::os::unix::fs::symlink("../package/cli.js", link).unwrap();
        }
        let server = json!({"command": "npx", "args": ["srv"], "cwd": cwd});
        world.write(FILE, &json!({"mcpServers": {"a": server}}).to_string());
        world.approve("a");
        assert_eq!(states(&world.find()), [("a", "enabled")], "{server}");
        world.write(&at(program), "after");
        assert_eq!(states(&world.find()), [("a", "needs_approval")], "{server}");
    }
}

#[test]
fn installed_package_of_a_package_runner_is_covered_and_others_with_its_name_are_unclear() {
    for line in [
        "npx -y @a/srv",
        "npx -y srv@1.0.0",
        "npm exec -y -- @a/srv",
        "bunx @a/srv",
        "deno run -A npm:@a/srv",
    ] {
        let name = match line.contains('@') && !line.contains("@a") {
            true => "srv",
            false => "@a/srv",
        };
        let package = format!("workspace/node_modules/{name}");
        let world = World::new();
        let servers = json!({"mcpServers": {"a": server(line)}});
        world.write(FILE, &servers.to_string());
        world.approve("a");
        // The name of a package may differ from that of its directory.
        world.write(
            "workspace/node_modules/b/package.json",
            r#"{"name": "@a/srv"}"#,
        );
        assert_eq!(states(&world.find()), [("a", "needs_approval")], "{line}");
        let manifest = format!("{package}/package.json");
        world.write(&manifest, r#"{"bin": {"other.js": "x.js"}}"#);
        for changed in [
            &*manifest,
            &format!("{package}/x.js"),
            "workspace/node_modules/.bin/other.js",
            "workspace/node_modules/.bin/srv",
        ] {
            world.approve("a");
            assert_eq!(states(&world.find()), [("a", "enabled")], "{line}");
            world.write(changed, r#"{"bin": {"other.js": "x.js"}, "main": "y.js"}"#);
            let found = states(&world.find())[0].1.to_owned();
            assert_eq!(found, "needs_approval", "{line}: {changed}");
        }
    }
}

#[test]
fn manifest_that_cannot_be_parsed_changes_the_server_unless_its_approval_has_the_notice() {
    let world = World::new();
    let manifest = "[package]\nname = \"server\"\n";
    world.write("workspace/one/Cargo.toml", manifest);
    let servers = json!({"mcpServers": {"a": server("cargo run -p server")}});
    world.write(FILE, &servers.to_string());
    world.approve("a");
    // It may be the manifest of another package with the same name.
    world.write("workspace/two/Cargo.toml", "[");
    assert_eq!(states(&world.find()), [("a", "needs_approval")]);
    world.write("workspace/two/Cargo.toml", "");
    assert_eq!(states(&world.find()), [("a", "enabled")]);
    world.write("workspace/two/Cargo.toml", "[");
    world.approve("a");
    let before = world.find();
    world.write("workspace/two/Cargo.toml", "");
    let after = world.find();
    assert_eq!(states(&after), [("a", "enabled")]);
    let configs = [&before, &after].map(|found| found.usable().collect::<Vec<_>>());
    assert_eq!(configs[0], configs[1], "a running server is not restarted");
}
