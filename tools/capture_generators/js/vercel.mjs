// Plays the story with the Vercel AI SDK, releases 4 to 7; `variant` says how.
import { createOpenAI } from "@ai-sdk/openai";
import { SpanKind, context, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import * as ai from "ai";
import { desk, play, run, variant } from "./desk.mjs";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": desk.service }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter(), { scheduledDelayMillis: 200, maxExportBatchSize: 16 })],
});
provider.register();
if (variant.integration) {
  const otel = await import("@ai-sdk/otel");
  const enrichSpan = ({ runtimeContext }) => runtimeContext && { [variant.enriched]: runtimeContext[variant.sessionKey] };
  const options = { ...variant.integrationOptions, ...(variant.enriched ? { enrichSpan } : {}) };
  ai.registerTelemetry(new otel[variant.integration](options));
}

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "none", compatibility: "strict" });
const model = variant.api === "responses" ? openai.responses(desk.model) : openai.chat(desk.model);

// Release 4 gives up when a tool throws, so its tools return the error.
function execute(name) {
  return async (args) => {
    try {
      return await run(name, args);
    } catch (error) {
      if (variant.release > 4) throw error;
      return { error: error.message };
    }
  };
}

function sdkTool({ description, parameters }, executed) {
  const schema = ai.jsonSchema(parameters);
  const shape = variant.release > 4 ? { inputSchema: schema } : { parameters: schema };
  return ai.tool({ description, ...shape, execute: executed });
}

const sdkTools = (tools) => Object.fromEntries(tools.map((tool) => [tool.name, sdkTool(tool, execute(tool.name))]));
const tools = sdkTools(desk.tools);
const refundTools = sdkTools(desk.refundTools);

function telemetry(functionId, session) {
  const named = { isEnabled: true, functionId, ...variant.record };
  if (!variant.sessionKey) return { [variant.release > 6 ? "telemetry" : "experimental_telemetry"]: named };
  const values = { [variant.sessionKey]: session };
  if (variant.release < 7) return { experimental_telemetry: { ...named, metadata: values } };
  return { runtimeContext: values, telemetry: { ...named, includeRuntimeContext: { [variant.sessionKey]: true } } };
}

function settings(agent, instructions, session) {
  const stop = variant.release > 4 ? { stopWhen: ai.stepCountIs(8) } : { maxSteps: 8 };
  const told = { [variant.release > 6 ? "instructions" : "system"]: instructions };
  return { model, tools, maxRetries: 0, ...told, ...stop, ...telemetry(agent, session) };
}

// The other agent, which knows nothing of the session.
async function refunds({ request }) {
  const given = { ...settings(desk.refunds, desk.refundInstructions), ...telemetry(desk.refunds), tools: refundTools };
  return (await ai.generateText({ ...given, prompt: request })).text;
}

if (variant.delegates) {
  const parameters = { type: "object", properties: { request: { type: "string" } }, required: ["request"] };
  tools[desk.refunds] = sdkTool({ description: "Ask the refunds desk.", parameters }, refunds);
}

async function answered(session, input) {
  const given = settings(desk.agent, desk.instructions, session);
  if (variant.method === "agent") {
    return new ai.ToolLoopAgent({ ...given, instructions: desk.instructions }).generate(input);
  }
  if (variant.method === "generate") return ai.generateText({ ...given, ...input });
  const result = ai.streamText({ ...given, ...input });
  for await (const _ of result.textStream);
  return { text: await result.text, response: await result.response, responseMessages: await result.responseMessages };
}

const around = new Map();

/** Return what runs a function inside the application's own span: one a request, or one a conversation. */
function within(conversation) {
  const tracer = trace.getTracer("desk-web");
  if (variant.around === "request") {
    return (told) =>
      tracer.startActiveSpan("POST /api/chat", { kind: SpanKind.SERVER }, (span) => told().finally(() => span.end()));
  }
  if (variant.around !== "conversation") return (told) => told();
  if (!around.has(conversation)) around.set(conversation, tracer.startSpan("chat session"));
  return (told) => context.with(trace.setSpan(context.active(), around.get(conversation)), told);
}

const histories = new Map();

async function say(conversation, query) {
  const history = histories.get(conversation) ?? [];
  const messages = [...history, { role: "user", content: query }];
  const asked = history.length || !variant.firstAsPrompt ? { messages } : { prompt: query };
  const result = await within(conversation)(() => answered(conversation, asked));
  histories.set(conversation, [...messages, ...(result.responseMessages ?? result.response.messages)]);
  return result.text;
}

await play(say);
for (const span of around.values()) span.end();
await provider.shutdown();
