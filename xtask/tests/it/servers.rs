//! The page of checked servers lists those that `cargo xtask servers` compares.

use serde_json::Value;

use crate::tree;

#[test]
fn page_of_checked_servers_has_a_row_for_each_compared_server() {
    let files = tree::files();
    let text = |end: &str| {
        let file = files.iter().find(|file| file.path.ends_with(end));
        &file.unwrap_or_else(|| panic!("{end} is missing")).text
    };
    let servers: Vec<Value> = serde_json::from_str(text("judges/upstream/servers.json")).unwrap();
    let expected: Vec<String> = servers
        .iter()
        .map(|server| {
            let [name, package] =
                ["name", "package"].map(|member| server[member].as_str().unwrap());
            let eras = match server["stateless"].as_bool() {
                Some(true) => "both",
                _ => "session",
            };
            let transports = match server["http"].is_object() {
                true => "stdio, HTTP",
                false => "stdio",
            };
            format!("{name} {package} {eras} {transports} cargo xtask servers {name}")
        })
        .collect();
    let rows = text("servers-checked.md").lines();
    let rows = rows.filter(|line| line.contains("| no test: `cargo xtask servers "));
    let listed: Vec<String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let code = |cell: &str| cell.rsplit('`').nth(1).unwrap().to_owned();
            let [name, package, command] = [cells[1], cells[2], cells[5]].map(code);
            format!("{name} {package} {} {} {command}", cells[3], cells[4])
        })
        .collect();
    assert_eq!(listed, expected);
}
