//! Variables of the environment that make a process load code.

use orchestra_secret::is_secret_name;

/// Names of such variables.
const NAMES: [&str; 66] = [
    "BASHOPTS",
    "BASH_ENV",
    "BROWSER",
    "BUNDLE_GEMFILE",
    "BUN_INSPECT_PRELOAD",
    "BUN_OPTIONS",
    "CARGO_BUILD_RUSTC",
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CC",
    "CLASSPATH",
    "CVS_RSH",
    "CXX",
    "DOTNET_ADDITIONAL_DEPS",
    "DOTNET_STARTUP_HOOKS",
    "EDITOR",
    "ELIXIR_ERL_OPTIONS",
    "ENV",
    "ERL_AFLAGS",
    "ERL_FLAGS",
    "ERL_INETRC",
    "ERL_LIBS",
    "ERL_ZFLAGS",
    "GCONV_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "GOAUTH",
    "GOENV",
    "GOFLAGS",
    "GOTOOLCHAIN",
    "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LESSCLOSE",
    "LESSOPEN",
    "MAKEFLAGS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "PAGER",
    "PATH",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PROMPT_COMMAND",
    "PS4",
    "RSYNC_RSH",
    "RUBYLIB",
    "RUBYOPT",
    "RUSTC",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "R_PROFILE",
    "R_PROFILE_USER",
    "SHELL",
    "SHELLOPTS",
    "SVN_SSH",
    "VISUAL",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
];

/// Beginnings of the names of such variables.
const STARTS: [&str; 10] = [
    "BASH_FUNC_",
    "CARGO_CREDENTIAL_ALIAS_",
    "CARGO_TARGET_",
    "CORECLR_",
    "COR_",
    "DYLD_",
    "GIT_",
    "LD_",
    "LUA_",
    "PYTHON",
];

/// Ends of the names of such variables: of programs that are started for a password, a credential or a text.
const ENDS: [&str; 8] = [
    "ASKPASS",
    "_COMMAND",
    "_CREDENTIAL_HELPER",
    "_CREDENTIAL_PROCESS",
    "_CREDENTIAL_PROVIDER",
    "_CREDENTIAL_PROVIDERS",
    "_EDITOR",
    "_PAGER",
];

/// Prefixes of settings of package managers. A setting may decide which code is installed or run, unless it holds a
/// credential.
const SETTINGS: [&str; 3] = ["NPM_CONFIG_", "PNPM_CONFIG_", "YARN_"];

/// Returns whether a variable of the environment decides which programs or libraries a process loads, in any case.
#[must_use]
pub fn loads_code(name: &str) -> bool {
    let is_listed = NAMES.iter().any(|one| one.eq_ignore_ascii_case(name));
    let starts = |start: &&str| {
        let beginning = name.get(..start.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
    };
    let ends = |end: &&str| {
        let at = name.len().checked_sub(end.len());
        let ending = at.and_then(|at| name.get(at..));
        ending.is_some_and(|ending| ending.eq_ignore_ascii_case(end))
    };
    let is_setting = SETTINGS.iter().any(starts) && !is_secret_name(name);
    is_listed || is_setting || STARTS.iter().any(starts) || ENDS.iter().any(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_loaders_and_interpreters_load_code() {
        for name in [
            "LD_PRELOAD",
            "DYLD_INSERT_LIBRARIES",
            "NODE_OPTIONS",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "BASH_ENV",
            "ENV",
            "GIT_SSH_COMMAND",
            "Path",
            "RUBYOPT",
            "PERL5OPT",
            "JAVA_TOOL_OPTIONS",
            "SSH_ASKPASS",
            "AWS_CREDENTIAL_PROCESS",
            "RESTIC_PASSWORD_COMMAND",
            "GOAUTH",
            "CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS",
            "CARGO_REGISTRIES_X_CREDENTIAL_PROVIDER",
            "CARGO_CREDENTIAL_ALIAS_X",
            "EDITOR",
            "npm_config_script_shell",
            "Npm_Config_Prefix",
            "NPM_CONFIG_REGISTRY",
            "pnpm_config_node_options",
            "YARN_YARN_PATH",
        ] {
            assert!(loads_code(name), "{name}");
        }
        for name in [
            "",
            "é",
            "LD",
            "HOME",
            "RUST_LOG",
            "API_TOKEN",
            "MY_PATH",
            "npm_config__authToken",
            "NPM_CONFIG_//REGISTRY.EXAMPLE/:_PASSWORD",
            "YARN_NPM_AUTH_TOKEN",
            "NPM_CONFIG",
        ] {
            assert!(!loads_code(name), "{name}");
        }
    }
}
