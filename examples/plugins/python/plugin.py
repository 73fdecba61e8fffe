"""A plugin of Orchestra that counts words, tells news and keeps notes: see docs/plugins.md."""

import argparse
import asyncio
import contextlib
import json
import os

import plugin_pb2 as pb  # What protoc makes of the schema.
from aioquic import tls
from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic import configuration, events

ID, CALLER, TYPES = "tools.python", "orchestrator-to-tools.python", {str: "string", int: "integer"}


async def word_count(text: str):
    """Counts the words of a text."""
    return f"{len(text.split())} words"


async def tell(news: str):
    """Tells news to whoever listens to the topic sample.news, and how much was heard."""
    await ask(publish={"topic": "sample.news", "event_type": "told", "payload": {"news": news}})
    return f"told, and heard {Line.heard}"


async def keep(path: str, content: str, version: int):
    """Keeps a note, if its version is still the one given: 0 when there is none yet."""
    note = {"path": path, "content": content.encode(), "expected_version": int(version)}
    written = (await ask(storage_write=note)).storage_write
    if not written.success:
        raise ValueError(written.error)
    return f"version {written.new_version}"


def definition(tool):
    properties = {name: {"type": TYPES[kind]} for name, kind in tool.__annotations__.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": tool.__name__, "description": tool.__doc__, "input_schema": schema}


TOOLS = {tool.__name__: tool for tool in (word_count, tell, keep)}
MANIFEST = {"id": ID, "version": "0.1.0", "language": "python", "provides_tools": list(TOOLS)}
MANIFEST |= {"provides_storage": [], "needs_storage": ["markdown"], "needs_events": ["sample.said"]}
ANSWERS = {
    "register": {"accepted": True}, "boot": {"ready": True}, "shutdown": {"clean": True},
    "health": {"status": pb.HealthResult.STATUS_HEALTHY, "message": "ok"},
    "list_tools": {"tools": list(map(definition, TOOLS.values()))}, "list_prompts": {},
}


async def answer(kind, call):
    """The field of the response that is set, and what it says. To an event nothing is said."""
    code, message = "unknown_request", "unrecognized request type"
    Line.heard += kind == "publish"
    if kind in ANSWERS or kind == "publish":
        return {kind: ANSWERS[kind]} if kind in ANSWERS else {}
    if kind == "tool_call" and (tool := TOOLS.get(call.tool_name)):
        try:
            return {kind: {"success": True, "result": {"text": await tool(**call.arguments)}}}
        except Exception as error:
            code, message = "handler_error", f"{type(error).__name__}: {error}"
    elif kind == "tool_call":
        code, message = "tool_not_found", f'tool "{call.tool_name}" not found'
    return {"tool_call": {"error_code": code, "error_message": message}}


class Line(QuicConnectionProtocol):
    """One end of a connection. Each call has a stream of its own, with one frame each way."""
    def quic_event_received(self, event):
        super().quic_event_received(event)
        if isinstance(event, events.HandshakeCompleted) and not self._quic.configuration.is_client:
            chain = self._quic.tls._peer_certificate, self._quic.tls._peer_certificate_chain
            try:  # Servers of aioquic judge no certificate; until this is done, nobody is heard.
                tls.verify_certificate(*chain, CALLER, cafile=self._quic.configuration.cafile)
                self._stream_handler = self.begin
            except (tls.Alert, AttributeError):
                self.close(0x12A, "only the orchestrator may call")
        elif isinstance(event, events.StopSendingReceived) and (self, event.stream_id) in Line.jobs:
            Line.jobs[self, event.stream_id].cancel()  # Nobody waits for the answer any more.
        elif getattr(event, "end_stream", False):
            self._stream_readers.pop(event.stream_id, None)  # It would stay here for ever.

    def begin(self, reader, writer):
        stream = self, writer.get_extra_info("stream_id")
        Line.jobs[stream] = asyncio.create_task(self.respond(reader, writer))
        Line.jobs[stream].add_done_callback(lambda _: Line.jobs.pop(stream))

    async def respond(self, reader, writer):
        with contextlib.suppress(EOFError, RuntimeError, ValueError), contextlib.closing(writer):
            request = await self.read(reader, pb.PluginRequest)
            said = await answer(request.WhichOneof("request"), request.tool_call)
            self.write(writer, pb.PluginResponse(request_id=request.request_id, **said))

    async def read(self, reader, kind):
        length = int.from_bytes(await reader.readexactly(4), "big")
        if length > 16 * 1024 * 1024:
            self.close(0x4F520003, "too long a frame")  # Which ends the reader, too.
        return kind.FromString(await reader.readexactly(length))

    def write(self, writer, message):
        payload = message.SerializeToString()
        writer.write(len(payload).to_bytes(4, "big") + payload)
        writer.write_eof()


async def ask(line=None, **request):
    async with asyncio.timeout(20):
        line = line or await asyncio.shield(Line.orchestrator)
        reader, writer = await line.create_stream()
        line.write(writer, pb.PluginRequest(**request))
        response = await line.read(reader, pb.PluginResponse)
    if response.HasField("tool_call"):  # Requests of every kind may fail as a tool does.
        raise RuntimeError(response.tool_call.error_message)
    return response


def secured(certs, name, **settings):
    quic = configuration.QuicConfiguration(alpn_protocols=["orchestra-plugin"], **settings)
    quic.load_cert_chain(f"{certs}/{name}.crt", f"{certs}/{name}.key")
    quic.load_verify_locations(cafile=f"{certs}/ca.crt")
    return {"configuration": quic, "create_protocol": Line}


async def main(flags):
    Line.orchestrator, Line.heard, Line.jobs = asyncio.Future(), 0, {}
    if not os.path.samefile(0, os.devnull):  # It ends when whoever started this is gone.
        asyncio.get_running_loop().add_reader(0, lambda: os.read(0, 4096) or os._exit(0))
    server = await serve("127.0.0.1", 0, **secured(flags.certs_dir, ID, is_client=False))
    os.write(2, ("READY %s:%d\n" % server._transport.get_extra_info("sockname")).encode())
    flags.orchestrator_addr or await Line.orchestrator  # There will be none.
    host, _, port = flags.orchestrator_addr.rpartition(":")
    ours = secured(flags.certs_dir, f"{ID}-client", is_client=True, server_name="orchestrator")
    async with connect(host, int(port), **ours) as line:
        registered = (await ask(line, register=MANIFEST)).register
        if registered.accepted:
            Line.orchestrator.set_result(line)
            await line.wait_closed()
    raise SystemExit(registered.reject_reason or "the orchestrator is gone")


# Servers of aioquic ask for certificates only where TLS has this attribute.
tls.Context._request_client_certificate = property(lambda tls: not tls._is_client, lambda *_: None)
cli = argparse.ArgumentParser(description=__doc__)
cli.add_argument("--manifest", action="store_true")
for flag in ("--orchestrator-addr", "--listen-addr", "--certs-dir", "--workspace"):
    cli.add_argument(flag, default="")
print(json.dumps(MANIFEST)) if (flags := cli.parse_args()).manifest else asyncio.run(main(flags))
