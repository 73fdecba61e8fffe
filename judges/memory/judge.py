"""A client of the memory engine that nobody here wrote code for.

It is given the wire tables of `orchestra.memory.v1` below, as the first engine published them, makes
messages of them by hand, and speaks gRPC by grpcio: no schema file and no generated code of ours is
read. The names and numbers are held against what the engine says of itself by reflection.

Called as `judge.py PROGRAM WORKSPACE`, where the program is `orchestra` and the workspace a new
directory. Prints one line, or fails.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "orchestra.memory.v1"
SERVICE = PACKAGE + ".MemoryService"

# Message: [(number, name, type, repeated)]; a type with a capital is a message.
MESSAGES = {
    "MemoryChunk": [
        (1, "id", "string"), (2, "project", "string"), (3, "source", "string"),
        (4, "source_id", "string"), (5, "summary", "string"), (6, "content", "string"),
        (7, "tags", "string*"), (8, "created_at", "string"), (9, "score", "float"),
    ],
    "StoreChunkRequest": [
        (1, "project", "string"), (2, "source", "string"), (3, "source_id", "string"),
        (4, "summary", "string"), (5, "content", "string"), (6, "tags", "string*"),
    ],
    "StoreChunkResponse": [(1, "chunk", "MemoryChunk")],
    "SearchRequest": [(1, "project", "string"), (2, "query", "string"), (3, "limit", "int32")],
    "SearchResponse": [(1, "results", "MemoryChunk*")],
    "ContextRequest": [(1, "project", "string"), (2, "query", "string"), (3, "limit", "int32")],
    "ContextResponse": [(1, "chunks", "MemoryChunk*")],
    "SessionEvent": [(1, "type", "string"), (2, "summary", "string"), (3, "timestamp", "string")],
    "SessionLog": [
        (1, "session_id", "string"), (2, "project", "string"), (3, "summary", "string"),
        (4, "events", "SessionEvent*"), (5, "started_at", "string"), (6, "ended_at", "string"),
    ],
    "StoreSessionRequest": [
        (1, "project", "string"), (2, "session_id", "string"), (3, "summary", "string"),
        (4, "events", "SessionEvent*"),
    ],
    "StoreSessionResponse": [(1, "session", "SessionLog")],
    "ListSessionsRequest": [(1, "project", "string"), (2, "limit", "int32")],
    "ListSessionsResponse": [(1, "sessions", "SessionLog*")],
    "GetSessionRequest": [(1, "project", "string"), (2, "session_id", "string")],
    "GetSessionResponse": [(1, "session", "SessionLog")],
}

METHODS = {
    "StoreChunk": ("StoreChunkRequest", "StoreChunkResponse"),
    "SearchMemory": ("SearchRequest", "SearchResponse"),
    "GetContext": ("ContextRequest", "ContextResponse"),
    "StoreSession": ("StoreSessionRequest", "StoreSessionResponse"),
    "ListSessions": ("ListSessionsRequest", "ListSessionsResponse"),
    "GetSession": ("GetSessionRequest", "GetSessionResponse"),
}

FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {"string": FIELD.TYPE_STRING, "int32": FIELD.TYPE_INT32, "float": FIELD.TYPE_FLOAT}

PATIENCE = 60


def classes():
    """The messages of the tables."""
    file = descriptor_pb2.FileDescriptorProto(
        name="judge.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            repeated = kind.endswith("*")
            kind = kind.rstrip("*")
            made = message.field.add(name=field, number=number)
            made.label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
            if kind in SCALARS:
                made.type = SCALARS[kind]
            else:
                made.type, made.type_name = FIELD.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    find = pool.FindMessageTypeByName
    return {name: message_factory.GetMessageClass(find(f"{PACKAGE}.{name}")) for name in MESSAGES}


class Client:
    def __init__(self, address, token):
        self.channel = grpc.insecure_channel(address)
        self.metadata = [("authorization", f"Bearer {token}")] if token else []
        self.classes = classes()

    def call(self, method, **fields):
        request, response = METHODS[method]
        call = self.channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self.classes[response].FromString,
        )
        request = self.classes[request](**fields)
        return call(request, metadata=self.metadata, timeout=PATIENCE, wait_for_ready=True)

    def refused(self, method, **fields):
        try:
            answer = self.call(method, **fields)
        except grpc.RpcError as error:
            return error.code(), error.details()
        raise AssertionError(f"{method} {fields}: {answer}")


def same(found, expected):
    assert found == expected, f"{found!r}, not {expected!r}"


def play(client, endpoint):
    """Everything that the tables have."""
    # A text goes in and is found by its words.
    texts = [
        ("Deploys", "The staging cluster is deployed by the nightly pipeline.", ["ops", "ci"]),
        ("Colours", "The primary colour of the brand is teal.", []),
        ("Größe", "Die Größe der Datei wird vor dem Hochladen geprüft. 文件大小", ["größe"]),
    ]
    stored = []
    for summary, content, tags in texts:
        chunk = client.call(
            "StoreChunk", project="demo", source="task", source_id="DEMO-1", summary=summary,
            content=content, tags=tags,
        ).chunk
        same((chunk.project, chunk.source, chunk.source_id), ("demo", "task", "DEMO-1"))
        same((chunk.summary, chunk.content, list(chunk.tags)), (summary, content, tags))
        assert chunk.id.startswith("mem-") and chunk.created_at.endswith("Z"), chunk
        stored.append(chunk)
    again = client.call("StoreChunk", project="demo", summary="Colours", content=texts[1][1])
    same(again.chunk.id, stored[1].id)
    found = client.call("SearchMemory", project="demo", query="how is staging deployed", limit=5)
    same(found.results[0].id, stored[0].id)
    same(found.results[0].content, texts[0][1])
    assert 0 < found.results[0].score <= 1, found.results[0].score
    found = client.call("SearchMemory", project="demo", query="größe", limit=5)
    # What was said just before and after it, of the same task, comes behind it.
    same(found.results[0].id, stored[2].id)
    newest = client.call("SearchMemory", project="demo", query="", limit=2)
    same([chunk.id for chunk in newest.results], [stored[2].id, stored[1].id])
    same(list(client.call("SearchMemory", project="demo", query="zebra").results), [])

    # A session is kept, and its second saving replaces what it says.
    event = {"type": "note", "summary": "chose a queue", "timestamp": "2026-01-31T12:00:00Z"}
    first = client.call(
        "StoreSession", project="demo", session_id="monday", summary="Began the migration.",
        events=[event],
    ).session
    same((first.session_id, first.project), ("monday", "demo"))
    same([(e.type, e.summary, e.timestamp) for e in first.events], [tuple(event.values())])
    client.call("StoreSession", project="demo", session_id="tuesday", summary="Wrote tests.")
    second = client.call(
        "StoreSession", project="demo", session_id="monday", summary="Finished the migration.",
        events=[event],
    ).session
    same(second.started_at, first.started_at)
    assert second.ended_at >= first.ended_at, second
    got = client.call("GetSession", project="demo", session_id="monday").session
    same(got.summary, "Finished the migration.")
    listed = client.call("ListSessions", project="demo", limit=10).sessions
    same({session.session_id for session in listed}, {"monday", "tuesday"})
    context = client.call("GetContext", project="demo", query="migration", limit=5).chunks
    same(context[0].summary, "Finished the migration.")

    # What is wrong is told as what it is.
    code, said = client.refused("GetSession", project="demo", session_id="friday")
    assert code == grpc.StatusCode.NOT_FOUND and "friday" in said, (code, said)
    code, said = client.refused("SearchMemory", project="nowhere", query="x")
    assert code == grpc.StatusCode.NOT_FOUND and "nowhere" in said, (code, said)
    code, said = client.refused("StoreChunk", project="../x", content="x")
    assert code == grpc.StatusCode.INVALID_ARGUMENT and said.startswith("project: "), (code, said)
    code, said = client.refused("StoreChunk", project="demo", content="x" * 300_000)
    assert code == grpc.StatusCode.INVALID_ARGUMENT and said.startswith("content: "), (code, said)
    code, said = client.refused("StoreChunk", project="demo", content="x" * 10_000_000)
    assert code == grpc.StatusCode.OUT_OF_RANGE and "too large" in said, (code, said)
    code, said = client.refused("StoreChunk", project="demo", content="x", tags=["t"] * 100_000)
    assert code == grpc.StatusCode.INVALID_ARGUMENT and said.startswith("tags: "), (code, said)
    code, _ = client.refused("StoreChunk", project="demo", content="a\0b")
    same(code, grpc.StatusCode.INVALID_ARGUMENT)

    # Without the token, and with another, nobody is let in.
    address, token = endpoint["address"], endpoint["token"]
    for wrong in [None, "0" * len(token), token[:-1], token.upper() + "x"]:
        code, said = Client(address, wrong).refused("ListSessions", project="demo")
        same(code, grpc.StatusCode.UNAUTHENTICATED)
        assert token not in said, said


def reflected(address):
    """What the engine says of itself holds the tables."""
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
        ProtoReflectionDescriptorDatabase,
    )

    channel = grpc.insecure_channel(address)
    health = health_pb2_grpc.HealthStub(channel)
    for service in ["", SERVICE]:
        answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE)
        same(answer.status, health_pb2.HealthCheckResponse.SERVING)
    pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    service = pool.FindServiceByName(SERVICE)
    for method, (request, response) in METHODS.items():
        found = service.methods_by_name[method]
        same((found.input_type.name, found.output_type.name), (request, response))
    for name, fields in MESSAGES.items():
        found = pool.FindMessageTypeByName(f"{PACKAGE}.{name}").fields
        same([(field.number, field.name) for field in found], [field[:2] for field in fields])


def main():
    program, workspace = sys.argv[1], pathlib.Path(sys.argv[2])
    create = ["tool", "call", "create_project", "--args", '{"name": "Demo"}']
    # It lies in a repository, perhaps, whose board would be meant otherwise.
    place = ["--workspace", str(workspace)]
    subprocess.run([program, *create, *place], cwd=workspace, check=True, stdout=subprocess.DEVNULL)
    name = pathlib.Path(program).with_name("orchestra-engine")
    said = subprocess.run([name, "--help"], cwd=workspace, check=True, capture_output=True)
    assert b"--addr" in said.stdout and b"--no-token" in said.stdout, said
    engine = subprocess.Popen([name, "--addr", "127.0.0.1:0", *place], cwd=workspace,
                              stdout=subprocess.PIPE)
    try:
        # "… clients show the token in PATH"
        path = pathlib.Path(engine.stdout.readline().decode().strip().split(" token in ", 1)[1])
        endpoint = json.loads(path.read_text())
        same(path.stat().st_mode & 0o777, 0o600)
        play(Client(endpoint["address"], endpoint["token"]), endpoint)
        reflected(endpoint["address"])
        # What was stored is what the board's own tools find.
        find = ["tool", "call", "search_memory", "--args",
                '{"project": "demo", "query": "staging pipeline"}']
        found = subprocess.run([program, *find, *place], cwd=workspace, check=True, capture_output=True)
        assert b"nightly pipeline" in found.stdout, found
        engine.terminate()
        begin = time.monotonic()
        same(engine.wait(PATIENCE), 0)
        assert time.monotonic() - begin < 4, "it takes too long to end"
        assert not path.exists()
    finally:
        engine.kill()
    print(f"{len(METHODS)} methods, {len(MESSAGES)} messages")


if __name__ == "__main__":
    os.environ["ORCHESTRA_ENGINE"] = "off"
    main()
