"""The peer of the echo benchmark written with the official Python SDK."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("echo")


@server.tool(description="Returns the text", structured_output=False)
def echo(text: str) -> str:
    return text


server.run("stdio")
