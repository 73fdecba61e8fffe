//! Names of package manifests, lock files and files of build tools, by the programs that read them.

use std::{collections::BTreeSet, path::Path};

/// Programs with the names of their files.
type Tool = (&'static [&'static str], &'static [&'static str]);

/// Rule for names of files.
type Rule = fn(&Path) -> bool;

const NODE: &[&str] = &[
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    ".pnpmfile.cjs",
    ".pnpmfile.mjs",
    "pnpmfile.js",
    "yarn.lock",
    ".yarnrc",
    ".yarnrc.yml",
    ".npmrc",
    "bun.lock",
    "bun.lockb",
    "bunfig.toml",
    "deno.json",
    "deno.jsonc",
    "deno.lock",
    ".pnp.cjs",
    ".pnp.js",
    ".pnp.loader.mjs",
    "ecosystem.config.cjs",
    "ecosystem.config.js",
];

const PYTHON: &[&str] = &[
    "pyproject.toml",
    "uv.lock",
    "uv.toml",
    "requirements.txt",
    "poetry.lock",
    "pdm.lock",
    "Pipfile",
    "Pipfile.lock",
    "setup.py",
    "setup.cfg",
    "noxfile.py",
    "tox.ini",
    ".pdm-python",
    "hatch.toml",
    "pdm.toml",
    "poetry.toml",
];

/// Files by which version managers choose the program that runs under the name of a program of `PATH`.
const VERSIONS: &[&str] = &[
    ".node-version",
    ".python-version",
    ".ruby-version",
    ".tool-versions",
];

const RUST: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    ".cargo/config",
    ".cargo/config.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
];

const GO: &[&str] = &["go.mod", "go.sum", "go.work", "go.work.sum"];

/// Files of Node.js that decide what a package runner downloads, and from where.
const NODE_SETTINGS: &[&str] = &[
    ".npmrc",
    ".pnpmfile.cjs",
    ".pnpmfile.mjs",
    "pnpmfile.js",
    ".yarnrc",
    ".yarnrc.yml",
    "bunfig.toml",
];

/// Tools that an unknown program may run: their files belong to it.
const COMMON: &[Tool] = &[
    (
        &["bundle", "bundler"],
        &[
            "Gemfile",
            "Gemfile.lock",
            "gems.rb",
            "gems.locked",
            ".bundle/config",
        ],
    ),
    (&["composer", "php"], &["composer.json", "composer.lock"]),
    (
        &["mvn", "mvnw"],
        &[
            "pom.xml",
            ".mvn/extensions.xml",
            ".mvn/jvm.config",
            ".mvn/maven.config",
            ".mvn/wrapper/maven-wrapper.jar",
            ".mvn/wrapper/maven-wrapper.properties",
        ],
    ),
    (
        &["gradle", "gradlew"],
        &[
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle.properties",
            "gradle/wrapper/gradle-wrapper.jar",
            "gradle/wrapper/gradle-wrapper.properties",
            "buildSrc/build.gradle",
            "buildSrc/build.gradle.kts",
            "buildSrc/settings.gradle",
            "buildSrc/settings.gradle.kts",
        ],
    ),
    (
        &["make", "gmake", "bmake"],
        &["Makefile", "makefile", "GNUmakefile", "BSDmakefile"],
    ),
    (&["just"], &["justfile", "Justfile", ".justfile"]),
    (
        &["rake"],
        &["Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"],
    ),
    (
        &["task", "go-task"],
        &[
            "Taskfile.yml",
            "Taskfile.yaml",
            "taskfile.yml",
            "taskfile.yaml",
            "Taskfile.dist.yml",
            "Taskfile.dist.yaml",
        ],
    ),
    (
        &["docker", "docker-compose", "podman", "podman-compose"],
        &[
            "Dockerfile",
            "Containerfile",
            "compose.yaml",
            "compose.yml",
            "compose.override.yaml",
            "compose.override.yml",
            "docker-compose.yaml",
            "docker-compose.yml",
            "docker-compose.override.yaml",
            "docker-compose.override.yml",
        ],
    ),
    (
        &["mix", "elixir", "iex"],
        &["mix.exs", "mix.lock", ".iex.exs"],
    ),
    (
        &["nix", "nix-shell", "nix-build"],
        &["flake.nix", "flake.lock", "default.nix", "shell.nix"],
    ),
    (&["swift"], &["Package.swift", "Package.resolved"]),
    (&["clj", "clojure"], &["deps.edn"]),
    (
        &["dart", "flutter"],
        &["pubspec.yaml", "pubspec.lock", "pubspec_overrides.yaml"],
    ),
    (&["zig"], &["build.zig", "build.zig.zon"]),
    (
        &["mise"],
        &[
            "mise.toml",
            ".mise.toml",
            ".mise/config.local.toml",
            ".mise/config.toml",
            ".config/mise.toml",
            ".config/mise/config.local.toml",
            ".config/mise/config.toml",
            "mise/config.local.toml",
            "mise/config.toml",
        ],
    ),
    (&["direnv"], &[".envrc"]),
];

/// Tools whose files have names that other files may have as well, or that servers rarely run.
const NAMED: &[Tool] = &[
    (&["npm", "pnpm", "yarn", "bun"], &["binding.gyp"]),
    (&["ninja", "samu"], &["build.ninja"]),
    (
        &["scons"],
        &["SConstruct", "Sconstruct", "sconstruct", "SConstruct.py"],
    ),
    (
        &["inv", "invoke"],
        &[
            "tasks.py",
            "invoke.json",
            "invoke.py",
            "invoke.yaml",
            "invoke.yml",
        ],
    ),
    (&["fab"], &["fabfile.py", "tasks.py"]),
    (&["doit"], &["dodo.py", "pyproject.toml", "doit.cfg"]),
    (
        &["pytest", "py.test"],
        &[
            "conftest.py",
            "pytest.ini",
            ".pytest.ini",
            "pyproject.toml",
            "tox.ini",
            "setup.cfg",
        ],
    ),
    (
        &["bazel", "bazelisk"],
        &[
            "BUILD",
            "BUILD.bazel",
            "MODULE.bazel",
            "WORKSPACE",
            "WORKSPACE.bazel",
            ".bazelrc",
            ".bazelversion",
            "tools/bazel",
        ],
    ),
    (
        &["sbt"],
        &[
            "build.sbt",
            ".jvmopts",
            ".sbtopts",
            ".sbtrc",
            "project/Build.scala",
            "project/Dependencies.scala",
            "project/build.properties",
            "project/build.sbt",
            "project/plugins.sbt",
        ],
    ),
    (&["mill"], &["build.mill", "build.sc", ".mill-version"]),
    (
        &["meson"],
        &["meson.build", "meson.options", "meson_options.txt"],
    ),
    (
        &["cmake", "ctest"],
        &[
            "CMakeLists.txt",
            "CMakePresets.json",
            "CMakeUserPresets.json",
            "CTestTestfile.cmake",
        ],
    ),
    (&["ant"], &["build.xml"]),
    (&["tox"], &["tox.ini"]),
    (&["nox"], &["noxfile.py"]),
    (&["Rscript", "R"], &[".Rprofile", ".Renviron", ".RData"]),
    (
        &["gulp"],
        &["gulpfile.cjs", "gulpfile.js", "gulpfile.mjs", "gulpfile.ts"],
    ),
    (&["grunt"], &["Gruntfile.js", "Gruntfile.cjs"]),
    (&["tilt"], &["Tiltfile"]),
    (&["vagrant"], &["Vagrantfile"]),
    (&["earthly"], &["Earthfile"]),
    (&["lein"], &["project.clj", "profiles.clj"]),
    (
        &["stack", "cabal"],
        &[
            "stack.yaml",
            "cabal.project",
            "cabal.project.freeze",
            "cabal.project.local",
            "Setup.hs",
        ],
    ),
    (
        &["cabal", "ghc", "ghci", "runghc", "runhaskell", "stack"],
        &[".ghci"],
    ),
    (&["dune"], &["dune-project", "dune", "dune-workspace"]),
    (&["php-cgi"], &["php.ini", "php-cgi.ini", ".user.ini"]),
    (
        &["dotnet", "msbuild"],
        &[
            "Properties/launchSettings.json",
            ".config/dotnet-tools.json",
        ],
    ),
    (
        &["compose", "docker-compose", "pipenv", "podman-compose"],
        &[".env"],
    ),
    (
        &["foreman", "heroku", "hivemind", "honcho", "overmind"],
        &[
            "Procfile",
            "Procfile.dev",
            ".env",
            ".foreman",
            ".overmind.env",
        ],
    ),
    (&["gunicorn"], &["gunicorn.conf.py"]),
    (&["flask"], &["app.py", "wsgi.py", ".env", ".flaskenv"]),
    (
        &["fastapi"],
        &[
            "api.py",
            "app.py",
            "main.py",
            "app/api.py",
            "app/app.py",
            "app/main.py",
        ],
    ),
    (&["celery"], &["celeryconfig.py"]),
    (
        &["falcon", "puma", "rackup", "thin", "unicorn"],
        &[
            "config.ru",
            "config/puma.rb",
            "config/unicorn.rb",
            "falcon.rb",
        ],
    ),
    (
        &["ts-node", "ts-node-dev", "ts-node-esm", "tsc", "tsx"],
        &["tsconfig.json"],
    ),
    (
        &["vite", "vite-node", "vitest"],
        &[
            "vite.config.cjs",
            "vite.config.cts",
            "vite.config.js",
            "vite.config.mjs",
            "vite.config.mts",
            "vite.config.ts",
            "vitest.config.cjs",
            "vitest.config.cts",
            "vitest.config.js",
            "vitest.config.mjs",
            "vitest.config.mts",
            "vitest.config.ts",
        ],
    ),
    (
        &["babel", "babel-node"],
        &[
            ".babelrc",
            ".babelrc.cjs",
            ".babelrc.js",
            ".babelrc.json",
            ".babelrc.mjs",
            "babel.config.cjs",
            "babel.config.js",
            "babel.config.json",
            "babel.config.mjs",
        ],
    ),
    (&["nodemon"], &["nodemon.json"]),
    (&["bb"], &["bb.edn"]),
    (
        &["ansible", "ansible-playbook", "ansible-pull"],
        &["ansible.cfg"],
    ),
];

/// Programs with rules for the names of their files.
const RULES: [(&[&str], Rule); 5] = [
    (&["dotnet", "msbuild"], is_project),
    (&["just"], is_justfile),
    (&["mise"], is_mise_file),
    (&["nim", "nimble"], is_nim_file),
    (&["swift"], is_swift_manifest),
];

/// Programs that take from the files of their language which code they run.
const LANGUAGES: &[Tool] = &[
    (&["npm", "pnpm", "yarn", "bun", "deno"], NODE),
    (&["npx", "pnpx", "bunx"], NODE_SETTINGS),
    (&["uv", "poetry", "pdm", "hatch", "tox", "nox"], PYTHON),
    (&["uvx", "pipx"], &["uv.toml"]),
    (&["cargo"], RUST),
    (&["go"], GO),
];

/// Files that belong to projects of .NET, beside those with one of [`PROJECT_ENDS`].
const PROJECT_FILES: [&str; 8] = [
    "Directory.Build.props",
    "Directory.Build.rsp",
    "Directory.Build.targets",
    "Directory.Packages.props",
    "MSBuild.rsp",
    "dotnet-tools.json",
    "global.json",
    "nuget.config",
];

/// Ends of the names of projects of .NET.
const PROJECT_ENDS: [&str; 5] = ["csproj", "fsproj", "sln", "slnx", "vbproj"];

/// Ends of the names of files beside a program of .NET that decide what it loads.
const RUNTIME_ENDS: [&str; 3] = [
    ".deps.json",
    ".runtimeconfig.dev.json",
    ".runtimeconfig.json",
];

/// Returns the rules for the names of files that the programs among the words of a command line read in a directory.
#[must_use]
pub fn build_file_rules(words: &[&str]) -> Vec<Rule> {
    let rules = RULES.iter();
    let rules = rules.filter(|(programs, _)| has_program(words, programs));
    rules.map(|(_, rule)| *rule).collect()
}

/// Returns whether a file belongs to projects of .NET, by its name.
fn is_project(name: &Path) -> bool {
    let has_end = name
        .extension()
        .is_some_and(|end| PROJECT_ENDS.iter().any(|one| end.eq_ignore_ascii_case(one)));
    let is_of_runtime = has_one_of(name, &[""], &RUNTIME_ENDS);
    has_end
        || is_of_runtime
        || PROJECT_FILES
            .iter()
            .any(|one| name.as_os_str().eq_ignore_ascii_case(one))
}

/// Returns whether `just` reads a file, by its name in any case.
fn is_justfile(name: &Path) -> bool {
    let mut names = ["justfile", ".justfile"].into_iter();
    names.any(|one| name.as_os_str().eq_ignore_ascii_case(one))
}

/// Returns whether `mise` reads a file, by its name: also the settings of an environment, and local ones.
fn is_mise_file(name: &Path) -> bool {
    has_one_of(name, &["mise.", ".mise."], &[".toml"])
}

/// Returns whether Nim reads a file, by its name.
fn is_nim_file(name: &Path) -> bool {
    has_one_of(name, &[""], &[".nims", ".nimble", "nim.cfg"])
}

/// Returns whether Swift reads a file in place of `Package.swift`, by its name.
fn is_swift_manifest(name: &Path) -> bool {
    let name = name.as_os_str().to_ascii_lowercase();
    has_one_of(Path::new(&name), &["package@swift-"], &[".swift"])
}

/// Returns whether a name begins and ends with one of some texts.
fn has_one_of(name: &Path, starts: &[&str], ends: &[&str]) -> bool {
    let name = name.as_os_str().to_string_lossy();
    starts.iter().any(|start| name.starts_with(start)) && ends.iter().any(|end| name.ends_with(end))
}

/// Names of the files that the programs among the words of a command line read to find what they run. Those of an unknown
/// program are not among them.
#[must_use]
pub fn known_build_files(words: &[&str]) -> BTreeSet<&'static str> {
    let tools = LANGUAGES.iter().chain(COMMON).chain(NAMED);
    let tools = tools.filter(|(programs, _)| has_program(words, programs));
    let mut names: BTreeSet<&str> = tools.flat_map(|(_, files)| *files).copied().collect();
    // Without a script, `npm start` runs this file.
    let starts = words.iter().any(|word| ["start", "restart"].contains(word));
    if starts && has_program(words, &["npm", "pnpm", "yarn"]) {
        names.insert("server.js");
    }
    // With `-d`, Perl starts its debugger.
    let debugs = |word: &&str| word.starts_with('-') && word.contains('d');
    if words.iter().any(debugs) && has_program(words, &["perl"]) {
        names.insert(".perldb");
    }
    names
}

/// Returns whether a program reads a file as a build file in the directory where it runs, by the path of the file and in
/// any case.
#[must_use]
pub fn is_build_file(path: &str) -> bool {
    let is_one = |file: &str| {
        let Some(start) = path.len().checked_sub(file.len()) else {
            return false;
        };
        let is_whole = start == 0 || path.as_bytes().get(start - 1) == Some(&b'/');
        let end = path.get(start..);
        is_whole && end.is_some_and(|end| end.eq_ignore_ascii_case(file))
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    let tools = LANGUAGES.iter().chain(COMMON).chain(NAMED);
    let mut files = tools.flat_map(|(_, files)| *files).chain(VERSIONS);
    files.any(|file| is_one(file)) || RULES.iter().any(|(_, rule)| rule(Path::new(&name)))
}

/// Names of the files that belong to a program, the first of the words of a command line: those of its language where it
/// is known, else all, those of the build tools among the words, and those of version managers.
#[must_use]
pub fn build_files(program: &str, words: &[&str]) -> BTreeSet<&'static str> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let lists: &'static [&'static [&'static str]] = match name {
        "node" | "npm" | "npx" | "pnpm" | "pnpx" | "yarn" | "bun" | "bunx" | "deno" | "tsx"
        | "ts-node" => &[NODE],
        "uv" | "uvx" | "pipx" | "poetry" | "pdm" | "python" | "python3" => &[PYTHON],
        "cargo" => &[RUST],
        "go" => &[GO],
        _ => &[NODE, PYTHON, RUST, GO],
    };
    let mut names = known_build_files(words);
    names.extend(VERSIONS);
    names.extend(lists.iter().copied().flatten());
    if lists.len() > 1 {
        names.extend(COMMON.iter().flat_map(|(_, files)| *files));
    }
    names
}

/// Returns whether words have one of some programs among them.
fn has_program(words: &[&str], programs: &[&str]) -> bool {
    let mut names = words.iter().filter_map(|word| word.rsplit('/').next());
    names.any(|name| programs.contains(&name))
}
