"""Plays a script (see ../README.md) through one client; shared by the judges of this directory."""

import json
import re
import sys


def command_line():
    """Reads REVISION SCRIPT SERVER ARGUMENT... or REVISION SCRIPT URL from the command line; the script."""
    revision, path, command, *arguments = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        script = json.load(file)
    return revision, script, command, arguments


def url_of(revision, command):
    """Where MCP is, when the server is told by its URL."""
    # Over HTTP, the first revision has a transport of its own.
    route = "/sse" if revision == "2024-11-05" else "/mcp"
    return command + route if command.startswith("http://") else None


async def play(steps, client):
    """Plays the steps; raises at the first one that does not go as written."""
    kept = {}
    for index, raw in enumerate(steps):
        step = fill(raw, kept)
        try:
            await play_step(step, client, kept)
        except Exception as error:
            raise AssertionError(f"step {index + 1} {json.dumps(step)}: {error}") from error
    print(f"{len(steps)} steps")


async def play_step(step, client, kept):
    if "list" in step:
        names = await client.list(step["list"])
        for name in step.get("has", []):
            assert name in names, f"{name} is not in {names}"
        return
    text = await answer(step, client)
    for part in step.get("expect", []):
        assert part in text, f"{part} is not in {text}"
    for name, pointer in step.get("keep", {}).items():
        value = json.loads(text)
        for key in pointer.split("/")[1:]:
            value = value[int(key)] if isinstance(value, list) else value[key]
        assert isinstance(value, str), f"no text at {pointer} in {text}"
        kept[name] = value


async def answer(step, client):
    if "call" in step:
        refused, text = await client.call(step["call"], step.get("with", {}))
        assert refused == step.get("refused", False), f"is_error is {refused}: {text}"
        return text
    if "prompt" in step:
        return await client.prompt(step["prompt"], step.get("with", {}))
    return await client.read(step["read"])


def fill(value, kept):
    """Replaces ${name} in every text of a step by what was kept under that name."""
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda match: kept[match[1]], value)
    if isinstance(value, list):
        return [fill(item, kept) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, kept) for key, item in value.items()}
    return value


def texts(items):
    """The texts of content blocks, joined."""
    return "\n".join(item.text for item in items)
