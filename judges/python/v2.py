"""The client of the Python SDK's second generation, in either era."""

import asyncio

from mcp import Client, StdioServerParameters, types

from script import command_line, play, texts, url_of


class Operations:
    def __init__(self, client):
        self.client = client

    async def list(self, what):
        if what == "tools":
            return [tool.name for tool in (await self.client.list_tools()).tools]
        if what == "prompts":
            return [prompt.name for prompt in (await self.client.list_prompts()).prompts]
        if what == "resources":
            return [str(item.uri) for item in (await self.client.list_resources()).resources]
        found = await self.client.list_resource_templates()
        return [item.uri_template for item in found.resource_templates]

    async def call(self, name, arguments):
        result = await self.client.call_tool(name, arguments)
        return bool(result.is_error), texts(result.content)

    async def prompt(self, name, arguments):
        result = await self.client.get_prompt(name, arguments)
        return texts(message.content for message in result.messages)

    async def read(self, uri):
        return texts((await self.client.read_resource(uri)).contents)


async def main():
    revision, script, command, arguments = command_line()
    answers = script.get("answers")

    async def answer(_context, _params):
        return types.ElicitResult(action="accept", content=answers)

    server = url_of(revision, command) or StdioServerParameters(command=command, args=arguments)
    mode = "auto" if revision >= "2026-07-28" else "legacy"
    asked = answer if answers else None
    async with Client(server, mode=mode, elicitation_callback=asked) as client:
        negotiated = client.protocol_version
        assert negotiated == revision, f"negotiated {negotiated}, expected {revision}"
        await play(script["steps"], Operations(client))


asyncio.run(main())
