// An agent's program for tests of `run`, without an SDK: it answers one query and posts its span as OTLP/JSON.

const text = (role, content) => JSON.stringify([{ role, parts: [{ type: "text", content }] }]);
const attributes = {
  "gen_ai.operation.name": "invoke_agent",
  "gen_ai.agent.name": "parcels",
  "gen_ai.conversation.id": "1",
  "gen_ai.input.messages": text("user", process.argv[2]),
  "gen_ai.output.messages": text("assistant", "It arrives on Monday."),
};
const hex = (bytes) => [...crypto.getRandomValues(new Uint8Array(bytes))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const now = `${Date.now()}000000`;
const span = {
  traceId: hex(16),
  spanId: hex(8),
  name: "invoke_agent parcels",
  kind: 1,
  startTimeUnixNano: now,
  endTimeUnixNano: now,
  attributes: Object.entries(attributes).map(([key, stringValue]) => ({ key, value: { stringValue } })),
};
const resource = { attributes: [{ key: "service.name", value: { stringValue: "parcels" } }] };
const response = await fetch(`${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope: { name: "acme" }, spans: [span] }] }] }),
});
process.exit(response.ok ? 0 : 1);
