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

/// Names of variables with files that a program reads as its settings or its code. The files may have any ending.
const FILES: [&str; 9] = [
    "COMPOSER",
    "COMPOSE_FILE",
    "FLASK_APP",
    "MAKEFILES",
    "MIX_EXS",
    "NIX_USER_CONF_FILES",
    "ODBCINI",
    "PUPPETEER_EXECUTABLE_PATH",
    "VIMINIT",
];

/// Ends of the names of such variables: of settings, and of further arguments.
const FILE_ENDS: [&str; 8] = [
    "ARGS",
    "CONF",
    "CONFIG",
    "CONFIG_FILE",
    "CONFIG_PATH",
    "FLAGS",
    "OPTIONS",
    "OPTS",
];

/// Words in the names of variables with data, which no program runs.
const DATA: [&str; 16] = [
    "DATA",
    "DATABASE",
    "DB",
    "DEBUG",
    "LANG",
    "LEVEL",
    "LOG",
    "LOGS",
    "MEMORY",
    "OUTPUT",
    "SQLITE",
    "STORAGE",
    "TEMP",
    "TMP",
    "TMPDIR",
    "WORKSPACE",
];

/// Returns whether a variable of the environment may name settings or code of a program, in any case. Such a file is no
/// data, and a directory may have further code in it.
pub(crate) fn names_code(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_named =
        FILES.contains(&upper.as_str()) || FILE_ENDS.iter().any(|end| upper.ends_with(end));
    is_named || loads_code(name)
}

/// Returns whether a variable of the environment names data, by its name.
pub(crate) fn names_data(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let has_word = upper.split('_').any(|word| DATA.contains(&word));
    // Programs also look for modules in directories of data of the system.
    has_word && !upper.starts_with("XDG_") && !names_code(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_settings_and_of_data_are_distinguished() {
        for name in ["MAKEFILES", "KUBECONFIG", "aws_config_file", "SBT_OPTS"] {
            assert!(names_code(name) && !names_data(name), "{name}");
        }
        for name in ["DATA_DIR", "memory_file_path", "DB", "LOG_LEVEL"] {
            assert!(names_data(name) && !names_code(name), "{name}");
        }
        for name in ["ROOT", "XDG_DATA_HOME", "UV_PROJECT", "LDB", ""] {
            assert!(!names_data(name) && !names_code(name), "{name}");
        }
        assert!(!names_data("DATA_OPTS") && names_code("DATA_OPTS"));
    }

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
