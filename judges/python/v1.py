"""The client of the Python SDK's first generation: for each revision a release that has it as its
newest, for a client of this generation always asks for its newest."""

import asyncio

from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

from script import command_line, play, texts, url_of


class Operations:
    def __init__(self, session):
        self.session = session

    async def list(self, what):
        if what == "tools":
            return [tool.name for tool in (await self.session.list_tools()).tools]
        if what == "prompts":
            return [prompt.name for prompt in (await self.session.list_prompts()).prompts]
        if what == "resources":
            return [str(item.uri) for item in (await self.session.list_resources()).resources]
        found = await self.session.list_resource_templates()
        return [item.uriTemplate for item in found.resourceTemplates]

    async def call(self, name, arguments):
        result = await self.session.call_tool(name, arguments)
        return bool(result.isError), texts(result.content)

    async def prompt(self, name, arguments):
        result = await self.session.get_prompt(name, arguments)
        return texts(message.content for message in result.messages)

    async def read(self, uri):
        return texts((await self.session.read_resource(uri)).contents)


async def main():
    revision, script, command, arguments = command_line()
    url = url_of(revision, command)
    if url is None:
        transport = stdio_client(StdioServerParameters(command=command, args=arguments))
    elif url.endswith("/sse"):
        transport = sse_client(url)
    else:
        transport = streamablehttp_client(url)
    # One of them gives more than the two streams.
    async with transport as (read, write, *_), ClientSession(read, write) as session:
        negotiated = (await session.initialize()).protocolVersion
        assert negotiated == revision, f"negotiated {negotiated}, expected {revision}"
        await session.send_ping()
        await play(script["steps"], Operations(session))


asyncio.run(main())
