//! Variables of the environment that make a process load code.

/// Names of such variables.
const NAMES: [&str; 51] = [
    "BASHOPTS",
    "BASH_ENV",
    "BROWSER",
    "BUNDLE_GEMFILE",
    "BUN_OPTIONS",
    "CLASSPATH",
    "CVS_RSH",
    "DOTNET_ADDITIONAL_DEPS",
    "DOTNET_STARTUP_HOOKS",
    "EDITOR",
    "ENV",
    "GCONV_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "GOFLAGS",
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
const STARTS: [&str; 8] = [
    "BASH_FUNC_",
    "CORECLR_",
    "COR_",
    "DYLD_",
    "GIT_",
    "LD_",
    "LUA_",
    "PYTHON",
];

/// Ends of the names of such variables: of programs that are started for a password, a credential or a text.
const ENDS: [&str; 6] = [
    "ASKPASS",
    "_COMMAND",
    "_CREDENTIAL_HELPER",
    "_CREDENTIAL_PROCESS",
    "_EDITOR",
    "_PAGER",
];

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
    is_listed || STARTS.iter().any(starts) || ENDS.iter().any(ends)
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
            "EDITOR",
        ] {
            assert!(loads_code(name), "{name}");
        }
        for name in ["", "é", "LD", "HOME", "RUST_LOG", "API_TOKEN", "MY_PATH"] {
            assert!(!loads_code(name), "{name}");
        }
    }
}
