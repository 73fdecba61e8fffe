"""A server of the session era for tests, in plain Python: `python3 journal.py JOURNAL` writes every
call down before it answers; with `--family` behind that it first starts a process that leaves its
session."""

import json
import os
import subprocess
import sys

TOOLS = [{
    "name": "echo",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}]


def call(params):
    line = f"{os.getpid()} {params['name']} {json.dumps(params['arguments'])}\n"
    with open(sys.argv[1], "ab", buffering=0) as journal:
        journal.write(line.encode())
    return {"content": [{"type": "text", "text": str(params["arguments"].get("text"))}]}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "journal-python", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params)
    return None


if "--family" in sys.argv:
    subprocess.Popen(["sleep", "3600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL, start_new_session=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params"))
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "method not found"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
