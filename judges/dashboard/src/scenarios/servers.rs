//! Servers of others.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::Stage;

/// An MCP server of a shell: it greets, lists one tool and answers its calls.
const SERVER: &str = r#"echo begun >&2
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  case "$line" in
    *'"method":"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}' ;;
    *'"method":"tools/list"'*) r='{"tools":[{"name":"greet","description":"Greets somebody","inputSchema":{"type":"object","properties":{"name":{"type":"string"},"times":{"type":"integer","minimum":1,"maximum":3}},"required":["name"]}}]}' ;;
    *'"method":"tools/call"'*) r='{"content":[{"type":"text","text":"hello <b>you</b>"}]}' ;;
    *) r='{}' ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
"#;

pub(super) async fn a_server_is_approved_tried_watched_and_switched_off(
    stage: &Stage<'_>,
) -> Result<()> {
    let program = stage.program()?;
    program.write("server.sh", SERVER)?;
    let server = json!({"command": "sh", "args": ["server.sh"]});
    program.write(
        ".mcp.json",
        &json!({"mcpServers": {"shell": server}}).to_string(),
    )?;
    let tab = stage.tab(&program, "/servers").await?;
    tab.sees("tr[data-name=shell] .chip", Some("waits for approval"))
        .await?;
    stage.accessible(&tab, "the servers").await?;
    tab.click("tr[data-name=shell] a.button", Some("Review and approve"))
        .await?;
    tab.sees("pre", Some("server.sh")).await?;
    tab.click("button.primary", Some("Approve this definition"))
        .await?;
    tab.sees(".bar h2 + .chip", Some("ready")).await?;
    tab.sees(".server-log pre", Some("begun")).await?;
    stage.accessible(&tab, "a server").await?;
    // Its tool is tried by a form of its schema, which takes only what fits.
    tab.click(".tool-list a", Some("greet")).await?;
    tab.click(".trial button[type=submit]", None).await?;
    tab.until("document.activeElement.validity.valueMissing")
        .await?;
    tab.write("you").await?;
    tab.click(".trial button[type=submit]", None).await?;
    tab.sees(".answer pre", Some("hello <b>you</b>")).await?;
    stage.accessible(&tab, "the playground").await?;
    stage.picture(&tab, "playground").await?;
    // What passes is seen with its reply.
    let watching = stage.tab(&program, "/servers/traffic").await?;
    watching.sees(".nothing", Some("No messages yet")).await?;
    // Whoever watches is joined in a moment that the page does not tell, between a call and its reply, too.
    let call = json!({"name": "shell__greet", "arguments": {"name": "agent"}});
    let mut tries = 0;
    while !watching
        .ask("document.querySelector('tbody').textContent.includes('tools/call greet')")
        .await?
    {
        program.post("/api/mcp/tools/call", &call)?;
        tries += 1;
        ensure!(tries < 500, "nothing is told of {tries} calls");
    }
    watching
        .click("tbody button.title", Some("tools/call greet"))
        .await?;
    watching.sees(".details h3", Some("Reply")).await?;
    stage.accessible(&watching, "the traffic").await?;
    watching.click(".details button", Some("Replay")).await?;
    watching
        .until("document.querySelector('.trial input')?.value === 'agent'")
        .await?;
    watching.close().await?;
    tab.click(".servers-tabs a", Some("All")).await?;
    tab.sees("tr[data-name=shell] .sparkline polyline", None)
        .await?;
    stage.picture(&tab, "servers").await?;
    tab.click("button[aria-label='Disable shell']", None)
        .await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.sees("tr[data-name=shell][data-status=disabled]", None)
        .await?;
    tab.click("button[aria-label='Enable shell']", None).await?;
    tab.sees("tr[data-name=shell][data-status=ready]", None)
        .await?;
    tab.close().await
}
