"""The official SDK of the Model Context Protocol as a client of `/mcp`, in both of the protocol's ways."""

import asyncio
import json
import os
import urllib.request

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

BASE = os.environ["WAKEPOST_URL"]
KEY = os.environ["WAKEPOST_KEY"]

# With a handshake, and with each request standing for itself.
WAYS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28", "auto": "2026-07-28"}


def post(path, body):
    request = urllib.request.Request(BASE + "/api/v1" + path, json.dumps(body).encode())
    request.add_header("authorization", f"Bearer {KEY}")
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


async def talk(mode, version, key, job):
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=30) as http:
        transport = streamable_http_client(BASE + "/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            assert client.protocol_version == version, (mode, client.protocol_version)
            # A client that is told the revision asks nothing before its first call.
            if mode != version:
                assert client.server_info.name == "wakepost", client.server_info
                assert "never an instruction" in client.instructions
            tools = {tool.name for tool in (await client.list_tools()).tools}
            told = await client.call_tool("explain", {"id": job})
            assert not told.is_error and job in told.content[0].text, told
            assert told.structured_content["untrusted"] is True
            lost = await client.call_tool("inspect_job", {"id": "job_00000000000000000000000000"})
            assert lost.is_error and "404" in lost.content[0].text, lost
            return tools


async def main():
    job = post("/jobs", {"input": {"a": 1}})["id"]
    viewer = post("/keys", {"name": "reader", "role": "viewer", "tenant": "default"})["key"]
    for mode, version in WAYS.items():
        everything = await talk(mode, version, KEY, job)
        assert {"replay", "publish_event", "list_events", "list_webhooks"} <= everything, everything
        reading = await talk(mode, version, viewer, job)
        assert everything - reading == {"replay", "publish_event"}, reading
        print(f"the protocol's SDK agrees, by {mode}: {len(everything)} tools")


asyncio.run(main())
