// Plays the story with Mastra and its own OpenTelemetry exporter; `variant` says how.
import { createOpenAI } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { Observability } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";
import { z } from "zod";
import { desk, play, run, variant } from "./desk.mjs";

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" });

const tools = Object.fromEntries(
  desk.tools.map(({ name, description, parameters }) => {
    const inputSchema = z.fromJSONSchema(parameters);
    return [name, createTool({ id: name, description, inputSchema, execute: (args) => run(name, args) })];
  }),
);

const agent = new Agent({
  id: desk.agent,
  name: desk.agent,
  instructions: desk.instructions,
  model: openai.chat(desk.model),
  tools,
});

const endpoint = `${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces`;
const exporter = new OtelExporter({
  provider: { custom: { endpoint, protocol: "http/protobuf" } },
  signals: { logs: false },
  batchSize: 16,
});
const mastra = new Mastra({
  agents: { [desk.agent]: agent },
  logger: false,
  observability: new Observability({ configs: { otel: { serviceName: desk.service, exporters: [exporter] } } }),
});

const histories = new Map();

async function say(conversation, query) {
  const messages = [...(histories.get(conversation) ?? []), { role: "user", content: query }];
  const tracingOptions = variant.sessionKey ? { metadata: { [variant.sessionKey]: conversation } } : {};
  const options = { maxSteps: 8, tracingOptions };
  const known = mastra.getAgent(desk.agent);
  const result = variant.method === "stream" ? await known.stream(messages, options) : await known.generate(messages, options);
  const text = await result.text;
  const response = await result.response;
  histories.set(conversation, [...messages, ...(response.messages ?? [])]);
  return text;
}

await play(say);
await mastra.shutdown();
