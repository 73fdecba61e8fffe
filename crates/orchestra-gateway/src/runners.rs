//! Names of programs that run packages and containers, and of the directory of packages.

/// Programs that fetch and run packages. The files that they read in the workspace are of its projects.
pub(crate) const PACKAGE_RUNNERS: [&str; 5] = ["bunx", "npx", "pipx", "pnpx", "uvx"];

/// Programs that run containers.
pub(crate) const CONTAINERS: [&str; 2] = ["docker", "podman"];

/// Directory of packages of Node.js.
pub(crate) const NODE_MODULES: &str = "node_modules";
