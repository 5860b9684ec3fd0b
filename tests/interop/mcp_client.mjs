// The official TypeScript MCP client against a server over HTTP.
//
// Takes one JSON file: {"server": a URL, "token": a bearer token or null, "calls": [{"tool": ..., "args": {...}}, ...]}.
// The client checks every result against the output schema of its tool; prints {"protocol": ..., "tools": [...],
// "results": [...]}.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

// The packages are in a tree of their own.
const require = createRequire(`${process.env.PLANTBRIDGE_INTEROP_NODE}/package.json`);
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');

const script = JSON.parse(await readFile(process.argv[2], 'utf-8'));
const headers = script.token ? { Authorization: `Bearer ${script.token}` } : {};
const client = new Client({ name: 'interop', version: '0' });
await client.connect(new StreamableHTTPClientTransport(new URL(script.server), { requestInit: { headers } }));
const { tools } = await client.listTools();
const results = [];
for (const call of script.calls) {
  results.push(await client.callTool({ name: call.tool, arguments: call.args }));
}
await client.close();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), results }));
