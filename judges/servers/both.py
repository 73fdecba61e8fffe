"""A server of the Python SDK's second generation, which speaks both eras."""

from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel


class Answer(BaseModel):
    name: str


server = MCPServer("both")


@server.tool()
async def era(ctx: Context) -> str:
    """Tells the revision in which it is called."""
    return f"called in {ctx.request_context.protocol_version}"


@server.tool()
async def ask(ctx: Context) -> str:
    """Asks the user within the call, as servers of the session era do."""
    answer = await ctx.elicit("Who are you?", Answer)
    if isinstance(answer, AcceptedElicitation):
        return f"hello {answer.data.name}"
    return answer.action


server.run()
