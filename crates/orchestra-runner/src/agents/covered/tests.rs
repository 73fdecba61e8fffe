//! Tests of the files of the command line of an agent.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use super::*;

fn profile(program: &str, arguments: &[&str]) -> Profile {
    let text = serde_json::json!({"program": program, "arguments": [arguments]});
    serde_json::from_value(text).unwrap()
}

#[test]
fn files_of_an_agent_are_those_of_each_word_of_its_command_line() {
    let workspace = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    for name in ["rules", "run", "unnamed", "below", "{x}", "option"] {
        fs::write(workspace.path().join(name), "x").unwrap();
    }
    symlink(outside.path(), workspace.path().join("link")).unwrap();
    let line = [
        "?option",
        "cat rules|./run&link",
        "{worktree}/below",
        "{{x}}",
        "{prompt}",
    ];
    let profile = profile("sh", &line);
    let files = Covered::of(None, &profile, workspace.path())
        .unwrap()
        .lines();
    let [below, link, option, rules, run, braces, unclear] = &files[..] else {
        panic!("{files:?}");
    };
    assert_eq!(unclear, UNCLEAR);
    // Another place that it leads to makes another digest.
    let target = outside.path().canonicalize().unwrap();
    let target = target.display().to_string();
    assert!(
        link.starts_with("link ") && link.contains(&target),
        "{link}"
    );
    assert!(below.starts_with("below (SHA-256 "), "{below}");
    assert!(option.starts_with("option (SHA-256 "), "{option}");
    assert!(braces.starts_with("{x} (SHA-256 "), "{braces}");
    assert!(rules.starts_with("rules (SHA-256 "), "{rules}");
    assert!(run.starts_with("run (SHA-256 "), "{run}");
}

#[test]
#[cfg(target_os = "linux")]
fn agent_with_a_path_that_differs_by_process_is_never_compared() {
    let workspace = tempfile::tempdir().unwrap();
    fs::write(workspace.path().join("agent.sh"), "x").unwrap();
    symlink("x", workspace.path().join("x")).unwrap();
    for (words, is_found) in [
        (["sh", "/proc/self/cwd/agent.sh", "{prompt}"], true),
        (["-c", "sh /dev/fd/../cwd/agent.sh", "{prompt}"], true),
        (["agent.sh", "/dev/stderr", "{prompt}"], false),
        (["agent.sh", "x", "{prompt}"], false),
    ] {
        let profile = profile("sh", &words);
        let covered = Covered::of(None, &profile, workspace.path()).unwrap();
        let there = covered.at_start(None, &profile, workspace.path());
        let difference = there.unwrap().difference(&covered);
        assert_eq!(
            difference,
            is_found.then_some(Difference::Process),
            "{words:?}"
        );
        assert_eq!(covered.lines().contains(&PROCESS.to_owned()), is_found);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn program_of_an_agent_whose_path_is_not_utf_8_is_one_of_its_files() {
    use std::os::unix::ffi::OsStrExt as _;

    let workspace = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"agent-\xff");
    let program = workspace.path().join(name);
    fs::write(&program, "x").unwrap();
    let profile = profile("agent", &["{prompt}"]);
    let files = Covered::of(Some(&program), &profile, workspace.path())
        .unwrap()
        .lines();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(
        files[0].starts_with(r#""agent-\xFF" (SHA-256 "#),
        "{files:?}"
    );
}

#[test]
fn modules_and_values_of_short_options_are_files_of_an_agent() {
    let workspace = tempfile::tempdir().unwrap();
    fs::create_dir_all(workspace.path().join("pkg/sub")).unwrap();
    let names = [
        "agent.py",
        "pkg/__init__.py",
        "pkg/sub/__main__.py",
        "prog.awk",
    ];
    for name in names.into_iter().chain(["pkg/other.py"]) {
        fs::write(workspace.path().join(name), "x").unwrap();
    }
    let line = ["-magent", "-m", "pkg.sub", "-fprog.awk", "{prompt}"];
    let covered = Covered::of(None, &profile("python3", &line), workspace.path()).unwrap();
    let lines = covered.lines();
    let found: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(found, names);
}

#[test]
fn main_files_code_paths_and_spellings_are_files_of_an_agent() {
    let workspace = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("tool/package.json", r#"{"main": "lib/x"}"#),
        ("tool/lib/x.js", "x"),
        ("b.js", "x"),
        ("c.js", "x"),
        ("classes/x/Main.class", "x"),
    ] {
        let path = workspace.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for (program, words, expected) in [
        (
            "node",
            &["tool"][..],
            &["tool/lib/x.js", "tool/package.json"][..],
        ),
        ("node", &["none/../b.js"], &["b.js"]),
        ("node", &["b.js/"], &["b.js"]),
        ("node", &["b.js/."], &["b.js"]),
        ("node", &["--import", "./%63.js"], &["c.js"]),
        (
            "java",
            &["-cp", "{worktree}/classes", "x.Main"],
            &["classes", "classes/x/Main.class"],
        ),
    ] {
        let profile = profile(program, &[words, &["{prompt}"]].concat());
        let covered = Covered::of(None, &profile, workspace.path()).unwrap();
        let lines = covered.lines();
        let found = lines.iter().filter_map(|line| line.split(' ').next());
        assert_eq!(found.collect::<Vec<_>>(), expected, "{words:?}");
    }
    // The code is compared where the agent starts.
    let worktree = tempfile::tempdir().unwrap();
    let java = profile("java", &["-cp", "classes", "x.Main", "{prompt}"]);
    let of = |directory: &Path| Covered::of(None, &java, directory).unwrap();
    let difference = || of(worktree.path()).difference(&of(workspace.path()));
    assert_eq!(difference(), None);
    fs::create_dir_all(worktree.path().join("classes/x")).unwrap();
    assert_eq!(difference(), None);
    fs::write(worktree.path().join("classes/x/Main.class"), "other").unwrap();
    assert_eq!(difference(), Some(Difference::Path("classes/*".into())));
}

#[test]
fn installed_package_of_a_package_runner_is_a_file_of_an_agent() {
    let workspace = tempfile::tempdir().unwrap();
    let agent = profile("npx", &["-y", "@a/agent", "{prompt}"]);
    let of = || Covered::of(None, &agent, workspace.path()).unwrap();
    let before = of();
    let package = workspace.path().join("node_modules/@a/agent");
    fs::create_dir_all(&package).unwrap();
    assert_eq!(of().difference(&before), Some(Difference::Unclear));
    fs::write(package.join("package.json"), r#"{"bin": {"x": "x.js"}}"#).unwrap();
    fs::write(package.join("x.js"), "x").unwrap();
    let found = of().lines();
    let found = found.iter().filter_map(|line| line.split(' ').next());
    let expected = ["package.json", "x.js"].map(|name| format!("node_modules/@a/agent/{name}"));
    assert_eq!(found.take(2).collect::<Vec<_>>(), expected);
}

#[test]
fn files_that_a_server_covers_are_files_of_an_agent() {
    let none = &[][..];
    for (words, variables, agreed, path) in [
        (
            &["sh", "-c", "cd d && . ./x.sh"][..],
            none,
            "d/x.sh",
            "d/x.sh",
        ),
        (&["sh", "-c", "sh <>x.sh"], none, "x.sh", "x.sh"),
        (&["env", "-C", "d", "sh", "x.sh"], none, "d/x.sh", "d/x.sh"),
        (&["perl", "-Ilib", "-MX"], none, "lib/X.pm", "lib/X.pm"),
        (&["perl", "-Ilib", "-MX"], none, "lib/X.pm", "lib/X.pmc"),
        (
            &["python3", "-m", "x"],
            &[("PYTHONPATH", "lib")],
            "lib/x.py",
            "lib/x.py",
        ),
        (
            &["python3", "-m", "x"],
            none,
            "x.py",
            "__pycache__/x.cpython-311.pyc",
        ),
        (&["make", "-C", "d", "x"], none, "d/Makefile", "d/Makefile"),
        (&["npm", "start"], none, "package.json", ".npmrc"),
        (&["npx", "-y", "x"], none, "package.json", ".npmrc"),
        (
            &["agent", "x"],
            &[("PATH", "bin:/usr/bin")],
            "bin/y",
            "bin/x",
        ),
        (&["find", "d", "-exec", "sh", "{{}}"], none, "d/x", "d/y"),
        (&["go", "run", "ex.com/m/x"], none, "go.mod", "x/main.go"),
    ] {
        let [workspace, worktree] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let put = |top: &Path, path: &str, content: &str| {
            let path = top.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
        let text = serde_json::json!({
            "program": words[0], "arguments": [words[1..], ["{prompt}"]], "variables": variables,
        });
        let profile: Profile = serde_json::from_value(text).unwrap();
        for top in [&workspace, &worktree] {
            put(top.path(), agreed, "{}");
        }
        let difference = || difference_at_start(&profile, &worktree, &workspace);
        assert_eq!(difference(), None, "{words:?}");
        put(worktree.path(), path, "other content");
        let difference = difference();
        assert!(
            matches!(difference, Some(Difference::Path(_))),
            "{words:?}: {difference:?}"
        );
    }
}

#[test]
fn agent_whose_files_cannot_be_told_has_a_notice() {
    let workspace = tempfile::tempdir().unwrap();
    let has_notice = |words: &[&str]| {
        let profile = profile(words[0], &[&words[1..], &["{prompt}"]].concat());
        let lines = Covered::of(None, &profile, workspace.path())
            .unwrap()
            .lines();
        lines.contains(&UNCLEAR.to_owned())
    };
    for line in [
        "X=q; . ./$X.sh",
        ". ./$RUN",
        "for f in d/*; do . ./$f; done",
    ] {
        assert!(has_notice(&["sh", "-c", line]), "{line}");
    }
    for words in [
        &["sh", "./{model}"][..],
        &["sh", "./tool-{effort}"],
        &["sh", "{session}.sh"],
        &["sh", "d{worktree}{new_session}"],
        &["sh", "{worktree}.sh"],
        &["sh", "./x/{worktree}"],
        &["sh", "{private}x"],
        &["sh", "--x=./{model}"],
        &["sh", "./x={max_turns}"],
        &["sh", "--x={model}.sh"],
        &["sh", "--x={urls,}.sh"],
        &["sh", "-c", "exec ./run {prompt}"],
        &["git", "-c", "alias.x=!./ev?l.sh", "x"],
        &["agent", "--eval=require('./x')"],
        &["agent", "WebFetch(domain:{domains})"],
        &["claude", "WebFetch(url:{domains})"],
        &["agent", "Find the $X of `./y*` and make it work"],
    ] {
        assert!(has_notice(words), "{words:?}");
    }
    for words in [
        &["sh", "-c", "cd {worktree} && {private}/run"][..],
        &["agent", "--x={model}", "y.z={effort}", "-x={urls,}"],
        &["agent", "--x={worktree}", "--x={private}/x", "{model}"],
        &["claude", "WebFetch(domain:{domains})"],
        &["agent", "Run pytest, find what fails and make it work"],
    ] {
        assert!(!has_notice(words), "{words:?}");
    }
}

#[test]
fn built_in_agent_has_no_notice() {
    let workspace = tempfile::tempdir().unwrap();
    for (name, profile) in crate::agents::ready::profiles() {
        let covered = Covered::of(None, &profile, workspace.path()).unwrap();
        assert_eq!(covered.lines(), [""; 0], "{name}");
    }
}

#[test]
fn variable_and_model_with_program_text_give_a_notice() {
    let workspace = tempfile::tempdir().unwrap();
    for (value, model, has_notice) in [
        ("!./ev?l.sh", "small", true),
        ("x", "id>x", true),
        ("x", "a,b", true),
        ("a:b=1", "vendor/large-4.1:x@2+y[1m]", false),
    ] {
        for key in ["fast", "premium", "known"] {
            let model = match key {
                "known" => serde_json::json!([model]),
                _ => serde_json::json!(model),
            };
            let text = serde_json::json!({
                "program": "agent", "arguments": [["{prompt}"]], "variables": {"A": value},
                "models": {key: model},
            });
            let profile: Profile = serde_json::from_value(text).unwrap();
            let covered = Covered::of(None, &profile, workspace.path()).unwrap();
            let lines = covered.lines();
            assert_eq!(lines.contains(&UNCLEAR.to_owned()), has_notice, "{model}");
        }
    }
}

#[test]
fn files_that_models_and_efforts_name_are_files_of_an_agent() {
    for (words, path) in [
        (&["sh", "{model}"][..], "run"),
        (&["sh", "--x={model}"], "run"),
        (&["sh", "-c", "cd d; sh {model}"], "d/run"),
        (&["java", "-cp", "{model}", "x.Main"], "run/x/Main.class"),
        (&["python3", "-m", "{model}"], "run.py"),
        (&["sh", "./{model}-{effort}"], "run-high"),
        (&["sh", "./tool-{effort}"], "tool-xhigh"),
    ] {
        let [workspace, worktree] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let text = serde_json::json!({
            "program": words[0], "arguments": [words[1..], ["{prompt}"]], "models": {"fast": "run"},
        });
        let profile: Profile = serde_json::from_value(text).unwrap();
        for (top, content) in [(&workspace, "agreed"), (&worktree, "other")] {
            let path = top.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        assert_eq!(difference_at_start(&profile, &workspace, &workspace), None);
        let difference = difference_at_start(&profile, &worktree, &workspace);
        assert!(
            matches!(difference, Some(Difference::Path(_))),
            "{words:?}: {difference:?}"
        );
    }
}

#[test]
fn changed_files_of_a_prompt_and_of_a_package_do_not_stop_an_agent() {
    let [workspace, worktree] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (top, text) in [(&workspace, "{}"), (&worktree, "{ }")] {
        for name in [
            "package.json",
            "package-lock.json",
            "Makefile",
            "Cargo.toml",
        ] {
            fs::write(top.path().join(name), text).unwrap();
        }
        fs::create_dir(top.path().join("tests")).unwrap();
        fs::write(top.path().join("tests/a"), text).unwrap();
    }
    for (program, prompt) in [
        ("npx", "go and make each test with pytest in tests"),
        ("claude", "find tests -exec sh {{}}"),
    ] {
        let profile = profile(program, &["-p", prompt, "{prompt}"]);
        let difference = difference_at_start(&profile, &worktree, &workspace);
        assert_eq!(difference, None, "{program}");
    }
}

#[test]
fn file_that_differs_where_an_agent_starts_is_named() {
    let workspace = tempfile::tempdir().unwrap();
    let worktree = tempfile::tempdir().unwrap();
    let profile = profile("python3", &["run.py", "--rules=rules.txt", "{prompt}"]);
    let difference = || {
        let of = |directory: &Path| Covered::of(None, &profile, directory).unwrap();
        of(worktree.path()).difference(&of(workspace.path()))
    };
    let differs = |path: &str| Some(Difference::Path(path.to_owned()));
    let put = |name: &str, content: &str| fs::write(worktree.path().join(name), content);
    fs::write(workspace.path().join("run.py"), "agreed").unwrap();
    fs::write(workspace.path().join("other.py"), "agreed").unwrap();
    put("other.py", "agreed").unwrap();
    // Missing files run nothing.
    assert_eq!(difference(), None);
    put("run.py", "agreed").unwrap();
    assert_eq!(difference(), None);
    put("rules.txt", "new").unwrap();
    assert_eq!(difference(), differs("rules.txt"));
    fs::remove_file(worktree.path().join("rules.txt")).unwrap();
    put("run.py", "other").unwrap();
    assert_eq!(difference(), differs("run.py"));
    let run = worktree.path().join("run.py");
    fs::remove_file(&run).unwrap();
    symlink("other.py", &run).unwrap();
    assert_eq!(difference(), differs("run.py"));
    fs::remove_file(&run).unwrap();
    // An interpreter starts `__main__.py` of a directory.
    fs::create_dir(&run).unwrap();
    assert_eq!(difference(), differs("run.py"));
}

/// Difference between a directory where an agent starts and the agreed workspace.
fn difference_at_start(
    profile: &Profile,
    here: &tempfile::TempDir,
    agreed: &tempfile::TempDir,
) -> Option<Difference> {
    let agreed = Covered::of(None, profile, agreed.path()).unwrap();
    let here = agreed.at_start(None, profile, here.path()).unwrap();
    here.difference(&agreed)
}

#[test]
fn file_of_an_option_behind_a_long_prompt_is_compared() {
    let [workspace, worktree] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let prompt: Vec<String> = (0..700).map(|at| format!("w{at}")).collect();
    let prompt = prompt.join(" ");
    let option = "--append-system-prompt";
    let agent = profile(
        "agent",
        &[option, &prompt, "--mcp-config=./agent.json", "{prompt}"],
    );
    for top in [&workspace, &worktree] {
        fs::write(top.path().join("agent.json"), "agreed").unwrap();
        // Files of the last words are not looked up.
        for at in 600..700 {
            let path = top.path().join(format!("w{at}"));
            fs::write(path, top.path().to_str().unwrap()).unwrap();
        }
    }
    // Without it, more paths are looked up.
    fs::write(workspace.path().join("package.json"), "{}").unwrap();
    let lines = Covered::of(None, &agent, workspace.path()).unwrap().lines();
    assert!(lines[0].starts_with("agent.json (SHA-256 "), "{lines:?}");
    assert_eq!(lines[1..], [CUT]);
    assert_eq!(difference_at_start(&agent, &worktree, &workspace), None);
    fs::write(worktree.path().join("agent.json"), "other").unwrap();
    let differs = Some(Difference::Path("./agent.json".to_owned()));
    assert_eq!(difference_at_start(&agent, &worktree, &workspace), differs);
    // A long path counts twice, so that fewer are looked up than in the workspace.
    let far = ["n".repeat(200), "n".repeat(200), "n".repeat(200)].join("/");
    let far = worktree.path().join(far);
    fs::create_dir_all(&far).unwrap();
    let far = tempfile::tempdir_in(far).unwrap();
    let unclear = Some(Difference::Unclear);
    assert_eq!(difference_at_start(&agent, &far, &workspace), unclear);
}

#[test]
fn code_beside_a_closed_directory_and_many_other_files_is_compared() {
    let [workspace, worktree] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let other = workspace.path().join("node_modules");
    fs::create_dir(&other).unwrap();
    for number in 0..50_001 {
        fs::File::create(other.join(number.to_string())).unwrap();
    }
    let closed = workspace.path().join("pgdata");
    fs::create_dir(&closed).unwrap();
    let mode = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode));
    mode(0).unwrap();
    for top in [&workspace, &worktree] {
        fs::write(top.path().join("agent.go"), "agreed").unwrap();
    }
    let go = profile("go", &["run", ".", "{prompt}"]);
    assert_eq!(difference_at_start(&go, &worktree, &workspace), None);
    fs::write(worktree.path().join("agent.go"), "other").unwrap();
    let differs = Some(Difference::Path("./*".to_owned()));
    assert_eq!(difference_at_start(&go, &worktree, &workspace), differs);
    mode(0o700).unwrap();
}

#[test]
fn more_code_than_is_read_differs_from_every_agreed_directory() {
    let [few, many] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (workspace, count) in [(&few, 1), (&many, 4_097)] {
        let classes = workspace.path().join("classes");
        fs::create_dir(&classes).unwrap();
        for number in 0..count {
            fs::write(classes.join(format!("{number}.class")), "x").unwrap();
        }
    }
    let java = profile("java", &["-cp", "classes", "x.Main", "{prompt}"]);
    let of = |workspace: &tempfile::TempDir| Covered::of(None, &java, workspace.path()).unwrap();
    let too_much = Some(Difference::Uncompared("classes/*".into(), Unlisted::Files));
    assert_eq!(of(&few).difference(&of(&few)), None);
    for (here, agreed) in [(&many, &few), (&few, &many), (&many, &many)] {
        assert_eq!(of(here).difference(&of(agreed)), too_much);
    }
    let line = "classes/* (not compared: more than 4096 files of code; the agent is not started)";
    assert_eq!(of(&many).lines(), [line]);
}

#[test]
fn command_whose_files_are_no_longer_known_where_an_agent_starts_differs() {
    let [workspace, worktree] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let npx = profile("npx", &["tool", "{prompt}"]);
    let difference = || {
        let of = |directory: &tempfile::TempDir| Covered::of(None, &npx, directory.path());
        of(&worktree).unwrap().difference(&of(&workspace).unwrap())
    };
    assert_eq!(difference(), None);
    fs::write(worktree.path().join("package.json"), "{").unwrap();
    assert_eq!(difference(), Some(Difference::Unclear));
    // The user has agreed to a command whose files are not known.
    fs::write(workspace.path().join("package.json"), "[").unwrap();
    assert_eq!(difference(), None);
}
