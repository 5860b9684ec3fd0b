"""The official Python MCP client against a server over stdio or HTTP.

Takes one JSON file: {"mode": "legacy" | "auto" | a protocol version, "server": [command, ...] or a URL,
"calls": [{"tool": ..., "args": {...}}, ...]}. Every result is checked against the tool's output schema, by the client
and by us; prints {"protocol": ..., "server": ..., "instructions": ..., "tools": [...], "results": [...]}.
"""

import asyncio
import json
import sys

from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters


def check(tool, result):
    """Fails when a result does not fit the schema its tool promised."""
    if tool["outputSchema"] is None:
        raise SystemExit(f"{tool['name']} promises no output schema")
    if result["structuredContent"] is None:
        raise SystemExit(f"{tool['name']} returned no structured content: {result}")
    Draft202012Validator(tool["outputSchema"]).validate(result["structuredContent"])


async def tools_of(client):
    """All tools, page by page, their schemas checked for being schemas."""
    found, cursor = {}, None
    while True:
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            plain = tool.model_dump(by_alias=True, mode="json")
            Draft202012Validator.check_schema(plain["inputSchema"])
            Draft202012Validator.check_schema(plain["outputSchema"])
            found[plain["name"]] = plain
        cursor = page.next_cursor
        if not cursor:
            return found


async def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        script = json.load(file)
    server = script["server"]
    if not isinstance(server, str):
        command, *arguments = server
        server = StdioServerParameters(command=command, args=arguments)
    async with Client(server, mode=script["mode"]) as client:
        tools = await tools_of(client)
        results = []
        for call in script["calls"]:
            result = await client.call_tool(call["tool"], call["args"])
            plain = result.model_dump(by_alias=True, mode="json")
            check(tools[call["tool"]], plain)
            results.append(plain)
        said = {
            "protocol": client.protocol_version,
            "server": client.server_info.model_dump(by_alias=True, mode="json") if client.server_info else None,
            "instructions": client.instructions,
            "tools": list(tools.values()),
            "results": results,
        }
    print(json.dumps(said))


asyncio.run(main())
