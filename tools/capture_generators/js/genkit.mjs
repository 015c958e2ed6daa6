// Plays the story with Genkit, which exports its own attributes; `variant` says how.
import { openAICompatible } from "@genkit-ai/compat-oai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { InMemorySessionStore, genkit } from "genkit/beta";
import { enableTelemetry, flushTracing } from "genkit/tracing";
import { desk, play, run, variant } from "./desk.mjs";

const processor = new BatchSpanProcessor(new OTLPTraceExporter(), { scheduledDelayMillis: 200, maxExportBatchSize: 16 });
await enableTelemetry({ spanProcessors: [processor] });

const plugin = openAICompatible({ name: "desk", apiKey: "none", baseURL: process.env.OPENAI_BASE_URL });
const ai = genkit({ plugins: [plugin], model: `desk/${desk.model}`, name: desk.service });

// A tool that throws ends the whole request, so the tools return the error.
async function told(name, input) {
  try {
    return await run(name, input);
  } catch (error) {
    return { error: error.message };
  }
}

const tools = desk.tools.map(({ name, description, parameters }) =>
  ai.defineTool({ name, description, inputJsonSchema: parameters }, (input) => told(name, input)),
);

const agent = ai.defineAgent({ name: desk.agent, system: desk.instructions, tools, store: new InMemorySessionStore() });
const chats = new Map();

async function chatting(conversation, query) {
  if (!chats.has(conversation)) chats.set(conversation, agent.chat({ sessionId: conversation }));
  return (await chats.get(conversation).send(query)).text;
}

const histories = new Map();
const atlas = ai.defineFlow(desk.agent, async ({ query, messages }) => {
  const response = await ai.generate({ system: desk.instructions, messages, prompt: query, tools });
  return { text: response.text, messages: response.messages.filter((message) => message.role !== "system") };
});

async function flowing(conversation, query) {
  const { text, messages } = await atlas({ query, messages: histories.get(conversation) ?? [] });
  histories.set(conversation, messages);
  return text;
}

await play(variant.method === "chat" ? chatting : flowing);
await flushTracing();
process.exit(0);
