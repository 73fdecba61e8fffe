"""A server whose tools have one odd member each, as servers were seen to send them. It also answers
with odd results: the tool `result` gives back what `case` names."""

import json
import sys

OBJECT = {"type": "object"}

# Placeholders of a number that no float holds, and of the name `title`.
HUGE, TWICE = "HUGE", "TWICE"


def nested(depth):
    """A schema in so many others."""
    return {"type": "object", "properties": {"a": nested(depth - 1)}} if depth else {}


DEFINITIONS = {
    "properties_array": {"inputSchema": {"type": "object", "properties": []}},
    "properties_null": {"inputSchema": {"type": "object", "properties": None}},
    "properties_text": {"inputSchema": {"type": "object", "properties": "none"}},
    "property_true": {"inputSchema": {"type": "object", "properties": {"a": True}}},
    "property_null": {"inputSchema": {"type": "object", "properties": {"a": None, "b": {"type": "string"}}}},
    "property_array": {"inputSchema": {"type": "object", "properties": {"a": []}}},
    "required_null": {"inputSchema": {"type": "object", "required": None}},
    "required_true": {"inputSchema": {"type": "object", "properties": {"a": {"type": "string", "required": True}}, "required": True}},
    "required_numbers": {"inputSchema": {"type": "object", "properties": {"a": {}}, "required": ["a", 1, None]}},
    "required_twice": {"inputSchema": {"type": "object", "properties": {"a": {}}, "required": ["a", "a"]}},
    "type_missing": {"inputSchema": {"properties": {"a": {"type": "string"}}}},
    "type_list": {"inputSchema": {"type": ["object", "null"]}},
    "type_upper": {"inputSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}},
    "input_missing": {},
    "input_null": {"inputSchema": None},
    "input_true": {"inputSchema": True},
    "input_array": {"inputSchema": []},
    "schema_number": {"inputSchema": {"type": "object", "$schema": 7}},
    "output_reference": {"inputSchema": OBJECT, "outputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/Nope"}}}},
    "output_remote": {"inputSchema": OBJECT, "outputSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.com/none.json"}}}},
    "output_pattern": {"inputSchema": OBJECT, "outputSchema": {"type": "object", "properties": {"a": {"type": "string", "pattern": "[\\w-.]+("}}}},
    "output_keyword": {"inputSchema": OBJECT, "outputSchema": {"type": "object", "properties": {"a": {"type": "string", "required": True, "minLength": "1"}}}},
    "output_properties": {"inputSchema": OBJECT, "outputSchema": {"type": "object", "properties": [], "required": None}},
    "output_null": {"inputSchema": OBJECT, "outputSchema": None},
    "output_list": {"inputSchema": OBJECT, "outputSchema": {"type": "array", "items": {"type": "string"}}},
    "hint_text": {"inputSchema": OBJECT, "annotations": {"readOnlyHint": "true"}},
    "hint_number": {"inputSchema": OBJECT, "annotations": {"destructiveHint": 1}},
    "hint_null": {"inputSchema": OBJECT, "annotations": {"idempotentHint": None, "title": None}},
    "annotations_null": {"inputSchema": OBJECT, "annotations": None},
    "annotations_array": {"inputSchema": OBJECT, "annotations": []},
    "support_unknown": {"inputSchema": OBJECT, "execution": {"taskSupport": "maybe"}},
    "execution_null": {"inputSchema": OBJECT, "execution": None},
    "icon_without_src": {"inputSchema": OBJECT, "icons": [{"url": "x"}]},
    "icons_object": {"inputSchema": OBJECT, "icons": {"src": "x"}},
    "icon_relative": {"inputSchema": OBJECT, "icons": [{"src": "icon.png"}, {"src": ""}, {"src": "https://example.com/i.png"}]},
    "icon_sizes": {"inputSchema": OBJECT, "icons": [{"src": "https://example.com/i.png", "sizes": ["48", "16x16 32x32", "any", "48x48"]}]},
    "icon_theme": {"inputSchema": OBJECT, "icons": [{"src": "https://example.com/i.png", "theme": "blue", "sizes": "48x48"}]},
    "header_number": {"inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": 7}}}},
    "header_twice": {"inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}}},
    "half_description": {"inputSchema": OBJECT, "description": "fine \ud800"},
    "half_key": {"inputSchema": {"type": "object", "properties": {"\udc00": {"default": "\ud83e"}}}},
    "number_huge": {"inputSchema": {"type": "object", "properties": {"a": {"type": "number", "maximum": HUGE}}}},
    "nested_deep": {"inputSchema": nested(50)},
    "meta_null": {"inputSchema": OBJECT, "_meta": None},
    "title_twice": {"inputSchema": OBJECT, "title": "first", TWICE: "second"},
    "title_null": {"inputSchema": OBJECT, "title": None},
    "title_number": {"inputSchema": OBJECT, "title": 7},
    "description_null": {"inputSchema": OBJECT, "description": None},
    "description_list": {"inputSchema": OBJECT, "description": ["a", "b"], "unknown": {"kept": [1]}},
    "result": {"inputSchema": {"type": "object", "properties": {"case": {"type": "string"}}}},
}

RESULTS = {
    "unknown": {"content": [{"type": "table", "rows": [1, 2]}]},
    "without_text": {"content": [{"type": "text"}, {"type": "text", "text": "fine"}]},
    "no_base64": {"content": [{"type": "image", "data": "%%%", "mimeType": "image/png"}]},
    "annotations": {"content": [{"type": "text", "text": "fine", "annotations": None}]},
    "structured": {"content": [{"type": "text", "text": "fine"}], "structuredContent": [1]},
    "error": {"content": [{"type": "text", "text": "fine"}], "isError": "false"},
    "text": {"content": "fine"},
    "other_block": {"content": [{"type": "text", "text": "fine", "data": 5, "resource": "x"}]},
    "half": {"content": [{"type": "text", "text": "fine \ud800"}]},
    "number_huge": {"content": [{"type": "text", "text": "fine"}], "_meta": {"a": HUGE}},
    "null": None,
}

NAMELESS = [{"inputSchema": OBJECT}, {"name": 7, "inputSchema": OBJECT}, None]


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": [], "prompts": {}, "resources": True, "logging": None},
            "serverInfo": {"name": "odd"},
            "instructions": None,
        }
    if method == "tools/list":
        tools = [dict(members, name=name) for name, members in DEFINITIONS.items()]
        return {"tools": tools + NAMELESS, "nextCursor": ""}
    if method == "prompts/list":
        return {"prompts": [
            {"name": "no_arguments", "arguments": None},
            {"name": "required_text", "arguments": [{"name": "a", "required": "yes"}, {"description": "nameless"}, {"name": ""}]},
        ], "nextCursor": None}
    if method == "prompts/get":
        return {"description": None, "messages": [
            {"role": "system", "content": "first"},
            {"role": "assistant", "content": [{"type": "text", "text": "second"}, "third"]},
        ]}
    if method == "resources/list":
        return {"resources": [
            {"uri": "odd://a", "name": "a", "size": "12", "mimeType": None},
            {"uri": "odd://b", "annotations": {"priority": 7, "audience": ["everyone"]}},
            {"uri": "relative", "name": "c"},
            {"uri": "odd://size", "name": "", "size": 12.5, "icons": [{"src": "icon.png"}]},
            {"uri": "odd://whole", "name": "w", "size": 12.0},
        ]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [
            {"uriTemplate": "odd://{a}/b", "name": ""},
            {"uriTemplate": "relative/{a}", "name": "r"},
            {"uriTemplate": "odd://{a", "name": "open"},
        ]}
    if method == "resources/read":
        return {"contents": {"text": "fine", "mimeType": None}}
    if method == "tools/call":
        case = (params.get("arguments") or {}).get("case")
        return RESULTS.get(case, {"content": [{"type": "text", "text": "ok"}]})
    if method == "ping":
        return {}
    raise KeyError(method)


for line in sys.stdin:
    message = json.loads(line)
    if message.get("id") is None or "method" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": float(message["id"]), "error": None}
    try:
        reply["result"] = answer(message["method"], message.get("params") or {})
    except KeyError:
        reply["error"] = {"code": "-32601", "message": "Method not found"}
    print(json.dumps(reply).replace(f'"{HUGE}"', "1e999").replace(TWICE, "title"), flush=True)
