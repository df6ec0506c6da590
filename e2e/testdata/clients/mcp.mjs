// The Model Context Protocol's own client over streamable HTTP.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [base, key] = process.argv.slice(2);
const connect = async token => {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(base + "/mcp"), { requestInit: { headers: { Authorization: "Bearer " + token } } }));
  return client;
};
const out = {};
const client = await connect(key);
const { tools } = await client.listTools();
out.create = tools.some(t => t.name === "kanban_create");
const made = await client.callTool({ name: "kanban_create", arguments: { title: "from an MCP client", assignee: "nobody" } });
out.made = [made.isError ?? false, made.content[0].text.includes("t_")];
await client.close();
out.badKey = await connect("wrong").then(() => "nothing", () => "refused");
console.log(JSON.stringify(out));
