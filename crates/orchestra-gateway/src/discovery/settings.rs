//! Paths of a workspace that a sandboxed server cannot change, present or absent.
//!
//! One rule decides: a program that the user starts for another purpose (git, an editor, an agent, a shell, a package
//! manager) reads the path as its configuration without a question, and finds programs to run, credentials or the
//! addresses to which credentials go in it. What a person builds or runs on purpose is source and stays writable:
//! scripts, `Makefile`, `package.json`, `Cargo.toml`, `pyproject.toml` and the like.

use std::path::{Path, PathBuf};

use orchestra_process::NestedNames;

/// Reasons, each with its paths, separated by spaces. `docs/servers-sandbox.md` has the same table.
static SETTINGS: [(&str, &str); 11] = [
    (
        "repositories: hooks, filters, addresses of remotes and submodules",
        ".arcconfig .arclint .bzr .dvc .git .gitattributes .gitmodules .gitreview .hg .hgsub .jj .lfsconfig .pijul \
         .repo .sl .svn",
    ),
    (
        "state of Orchestra and the places where servers are looked for",
        ".cursor .mcp.json .orchestra .orchestrator .projects .sdek .vscode .worktrees mcp.json orchestra.toml \
         plugins.yaml",
    ),
    (
        "agents: hooks, servers, permissions",
        ".agent .agents .aider.conf.yml .aider.model.settings.yml .amazonq .amp .augment .claude .claude.json \
         .cline .clinerules .codebuddy .codeium .codex .cody .continue .continuerc.json .copilot .crush.json \
         .factory .gemini .goose .iflow .junie .kilocode .kiro .opencode .openhands .qwen .roo .rovodev .trae .vibe \
         .warp .windsurf .zencoder crush.json opencode.json opencode.jsonc",
    ),
    (
        "editors and debuggers: tasks, language servers, start files",
        ".bloop .bsp .byebugrc .clangd .codesandbox .devcontainer .devcontainer.json .devfile.yaml .dir-locals-2.el \
         .dir-locals.el .exrc .externalToolBuilders .factorypath .fleet .gdbearlyinit .gdbinit .gvimrc .helix .idea \
         .jdbrc .kateproject .kdev4 .lldbinit .lsp .luarc.json .luarc.jsonc .merlin .neoconf.json .nova .nvim.lua \
         .nvimrc .pdbrc .pdbrc.py .perldb .project .radare2rc .rdbgrc .rdbgrc.rb .replit .ruby-lsp .settings \
         .solargraph.yml .stackblitzrc .theia .valgrindrc .vim .vimrc .vimspector.json .vs .ycm_extra_conf.py .zed \
         devfile.yaml hie.yaml jdb.ini nbproject replit.nix rust-analyzer.toml",
    ),
    (
        "hooks of commits",
        ".cargo-husky .git-hooks .githooks .husky .huskyrc .huskyrc.js .huskyrc.json .huskyrc.yaml .huskyrc.yml \
         .lefthook .lefthook-local .lefthook-local.json .lefthook-local.jsonc .lefthook-local.toml \
         .lefthook-local.yaml .lefthook-local.yml .lefthook.json .lefthook.jsonc .lefthook.toml .lefthook.yaml \
         .lefthook.yml .lintstagedrc .lintstagedrc.cjs .lintstagedrc.js .lintstagedrc.json .lintstagedrc.mjs \
         .lintstagedrc.yaml .lintstagedrc.yml .local-overcommit.yml .overcommit.yml .pre-commit-config.yaml \
         .pre-commit-config.yml .rusty-hook.toml captainhook.json grumphp.yml hk.pkl husky.config.js \
         lefthook-local.json lefthook-local.jsonc lefthook-local.toml lefthook-local.yaml lefthook-local.yml \
         lefthook.json lefthook.jsonc lefthook.toml lefthook.yaml lefthook.yml lint-staged.config.cjs \
         lint-staged.config.js lint-staged.config.mjs lint-staged.config.ts prek.toml",
    ),
    (
        "workflows of hosting services, which run with their secrets",
        ".appveyor.yml .azure-pipelines .azure-pipelines.yml .azuredevops .build.yml .buildkite .builds .circleci \
         .cirrus.star .cirrus.yml .drone.jsonnet .drone.star .drone.yml .forgejo .gitea .github .gitlab \
         .gitlab-ci.yml .gitpod .gitpod.yml .harness .ona .onedev-buildspec.yml .packit.yaml .packit.yml .platform \
         .platform.app.yaml .readthedocs.yaml .readthedocs.yml .renovaterc .renovaterc.json .renovaterc.json5 \
         .semaphore .space.kts .taskcluster.yml .teamcity .tekton .travis.yml .upsun .vela.yml .woodpecker \
         .woodpecker.yaml .woodpecker.yml .zuul.d .zuul.yaml appveyor.yml azure-pipelines.yml \
         bitbucket-pipelines.yml bitrise.yml buildspec.yml cloudbuild.yaml cloudbuild.yml codemagic.yaml \
         Jenkinsfile netlify.toml render.yaml renovate.json renovate.json5 screwdriver.yaml vercel.json zuul.yaml",
    ),
    (
        "environment of shells and of programs that load it by themselves",
        ".autoenv .autoenv.zsh .config .dev.vars .env .env.defaults .env.development .env.development.local \
         .env.keys .env.leave .env.local .env.production .env.production.local .env.shared .env.staging \
         .env.staging.local .env.test .env.test.local .env.vault .envrc .envrc.local .envrc.private .flaskenv \
         .go-version .java-version .mise .mise.local.toml .mise.toml .node-version .nvmrc .python-version \
         .python-versions .rtx.toml .ruby-version .rvmrc .sdkmanrc .shadowenv.d .tool-versions mise mise.local.toml \
         mise.toml",
    ),
    (
        "package managers: registries, credentials, programs in their place",
        ".bundle .bunfig.toml .cargo .condarc .gemrc .jvmopts .luarocks .mill-jvm-opts .mill-opts .mill-version \
         .mvn .npmrc .nuget .pdm-python .pixi .pnp.cjs .pnp.js .pnp.loader.mjs .pnpmfile.cjs .pnpmfile.mjs .pypirc \
         .sbtopts .swiftpm .yarn .yarnrc .yarnrc.yml bunfig.toml cabal.project.local condarc dotnet-tools.json \
         global.json gradle.properties JuliaLocalPreferences.toml LocalPreferences.toml NuGet.Config NuGet.config \
         nuget.config pdm.toml pip.conf pnpm-workspace.yaml pnpmfile.js poetry.toml profiles.clj rust-toolchain \
         rust-toolchain.toml uv.toml",
    ),
    (
        "interactive interpreters: start files",
        ".erlang .ghci .gnuplot .iex.exs .irbrc .ocamlinit .octaverc .pryrc .psysh.php .radian_profile .RData \
         .Renviron .Rprofile ipython_config.py jupyter_config.json jupyter_config.py jupyter_lab_config.json \
         jupyter_lab_config.py jupyter_notebook_config.json jupyter_notebook_config.py jupyter_server_config.json \
         jupyter_server_config.py startup.m",
    ),
    (
        "command-line clients of services: addresses that receive credentials, plugins",
        ".ansible.cfg .chef .clasprc.json .jira.d .sentryclirc .sonarlint .sops.yaml .tx ansible.cfg crowdin.yml \
         sonar-project.properties",
    ),
    (
        "start files and credentials of a home directory, as in a repository of them",
        ".aws .bash_aliases .bash_login .bash_logout .bash_profile .bashrc .cshrc .curlrc .docker .emacs .emacs.d \
         .gitconfig .gnupg .hgrc .inputrc .kshrc .kube .lessfilter .login .mailcap .my.cnf .netrc .pam_environment \
         .pg_service.conf .pgpass .profile .psqlrc .screenrc .sqliterc .ssh .tcshrc .terraformrc .tmux.conf .wgetrc \
         .xinitrc .xprofile .xsession .xsessionrc .zlogin .zlogout .zprofile .zshenv .zshrc",
    ),
];

/// Names of the table that programs read only at the top of a repository, with the entries of such a directory.
/// Elsewhere they are names of source and data. The page has this table as well.
static NESTED: (&str, &str) = (
    ".build.yml .builds .cargo-husky .cirrus.star .cirrus.yml .forgejo .gitea .gitmodules .gitpod .gitpod.yml \
     .gitreview .hgsub .lefthook .lefthook-local .lefthook-local.json .lefthook-local.jsonc .lefthook-local.toml \
     .lefthook-local.yaml .lefthook-local.yml .lefthook.json .lefthook.jsonc .lefthook.toml .lefthook.yaml \
     .lefthook.yml .lfsconfig .local-overcommit.yml .ona .overcommit.yml .packit.yaml .packit.yml .platform \
     .renovaterc .renovaterc.json .renovaterc.json5 .rusty-hook.toml .space.kts .taskcluster.yml .tekton \
     .travis.yml .upsun .zuul.d .zuul.yaml bitbucket-pipelines.yml lefthook-local.json lefthook-local.jsonc \
     lefthook-local.toml lefthook-local.yaml lefthook-local.yml lefthook.json lefthook.jsonc lefthook.toml \
     lefthook.yaml lefthook.yml renovate.json renovate.json5 zuul.yaml",
    ".git .hg .jj .sl",
);

/// Returns the limits of the protected names deeper in a workspace.
pub(crate) fn nested() -> Vec<NestedNames> {
    let all = |names: &str| names.split(' ').map(Into::into).collect();
    let (names, beside) = NESTED;
    vec![NestedNames {
        names: all(names),
        beside: all(beside),
    }]
}

/// Returns the protected paths of a workspace.
pub(crate) fn protected(workspace: &Path) -> impl Iterator<Item = PathBuf> {
    let names = SETTINGS.iter().flat_map(|(_, names)| names.split(' '));
    // The repository of the workspace may begin above it, and have its git directory in it.
    let above = workspace
        .ancestors()
        .skip(1)
        .map(|above| above.join(".git"));
    let repositories = above.filter(|entry| entry.exists());
    names.map(|name| workspace.join(name)).chain(repositories)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::FileKind,
        discovery::places::{CONFIG_FILE, OWN_DIRECTORY, WORKSPACE_FILES},
    };

    #[test]
    fn every_place_of_servers_is_protected() {
        let tops = WORKSPACE_FILES.map(|file| file.split_once('/').map_or(file, |(top, _)| top));
        let places = [CONFIG_FILE, FileKind::LIST, OWN_DIRECTORY];
        let all: Vec<PathBuf> = protected(Path::new("")).collect();
        for place in places.into_iter().chain(tops) {
            assert!(all.contains(&place.into()), "{place}");
        }
    }

    #[test]
    fn repository_that_begins_above_the_workspace_is_protected() {
        let top = tempfile::tempdir().unwrap();
        let entry = top.path().join(".git");
        std::fs::write(&entry, "gitdir: own/git\n").unwrap();
        assert!(protected(&top.path().join("own")).any(|path| path == entry));
    }

    #[test]
    fn limits_are_of_names_in_the_table() {
        let all: Vec<PathBuf> = protected(Path::new("")).collect();
        for name in nested().iter().flat_map(|limit| &limit.names) {
            assert!(all.contains(&name.into()), "{name:?}");
        }
    }

    #[test]
    fn documentation_has_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/servers-sandbox.md");
        let page = std::fs::read_to_string(page).unwrap();
        let list = |names: &str| {
            let names = names.split(' ').map(|name| format!("`{name}`"));
            names.collect::<Vec<_>>().join(", ")
        };
        let settings = SETTINGS.map(|(reason, names)| (reason.to_owned(), list(names)));
        let (names, beside) = NESTED;
        let nested = (list(beside), list(names));
        for (first, names) in settings.into_iter().chain([nested]) {
            let row = format!("| {first} | {names} |\n");
            assert!(page.contains(&row), "{row}");
        }
    }
}
