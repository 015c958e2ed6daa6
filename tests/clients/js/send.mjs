// Sends an agent's spans and a log record with the real exporters.
//   node send.mjs PROTOCOL ENDPOINT COMPRESSION COUNT PAUSE_MS
// PROTOCOL is http/json, http/protobuf or grpc; ENDPOINT a base URL; COMPRESSION none or gzip; COUNT turns are sent,
// PAUSE_MS apart, each exported on its own. Prints "sent N" when every exporter said that all arrived.

import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';

const [protocol, endpoint, compression, count, pause] = process.argv.slice(2);
const kinds = { 'http/json': 'http', 'http/protobuf': 'proto', grpc: 'grpc' };
const { OTLPTraceExporter } = await import(`@opentelemetry/exporter-trace-otlp-${kinds[protocol]}`);
const { OTLPLogExporter } = await import(`@opentelemetry/exporter-logs-otlp-${kinds[protocol]}`);

const options = (path) => ({
  url: protocol === 'grpc' ? endpoint : `${endpoint}/v1/${path}`,
  compression,
  timeoutMillis: 60_000,
});
const failures = [];

// Tells what the exporter itself reports: the processors only log it.
function watched(exporter) {
  const send = exporter.export.bind(exporter);
  exporter.export = (items, done) =>
    send(items, (result) => {
      if (result.code !== 0) failures.push(String(result.error));
      done(result);
    });
  return exporter;
}

const resource = resourceFromAttributes({ 'service.name': 'js-agent' });
const spans = new NodeTracerProvider({
  resource,
  spanProcessors: [new BatchSpanProcessor(watched(new OTLPTraceExporter(options('traces'))), { exportTimeoutMillis: 60_000 })],
});
const logs = new LoggerProvider({
  resource,
  processors: [new BatchLogRecordProcessor({ exporter: watched(new OTLPLogExporter(options('logs'))), exportTimeoutMillis: 60_000 })],
});
const tracer = spans.getTracer('agent-lib', '1.2');
const logger = logs.getLogger('agent-lib');

function turn(number) {
  const root = tracer.startSpan('invoke_agent desk', {
    attributes: { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'desk', 'turn.number': number },
  });
  root.addEvent('begun', { n: 1 });
  const within = trace.setSpan(context.active(), root);
  const child = tracer.startSpan(
    'chat Grüße 🤖',
    { kind: SpanKind.CLIENT, attributes: { list: ['a', 'b'], 'tokens': 7, t: 0.5, ok: true, text: 'x'.repeat(5000) } },
    within,
  );
  logger.emit({
    eventName: 'gen_ai.choice',
    body: { message: { content: 'hi', n: number } },
    attributes: { 'gen_ai.system': 'openai' },
    context: trace.setSpan(within, child),
  });
  child.setStatus({ code: SpanStatusCode.ERROR, message: 'failed' });
  child.end();
  root.end();
}

for (let number = 0; number < Number(count); number += 1) {
  turn(number);
  if (pause !== '0') {
    void spans.forceFlush().catch((error) => failures.push(String(error)));
    void logs.forceFlush().catch((error) => failures.push(String(error)));
    await new Promise((resolve) => setTimeout(resolve, Number(pause)));
  }
}
await Promise.all([spans.shutdown(), logs.shutdown()]);
if (failures.length) {
  console.error(failures.join('\n'));
  process.exit(1);
}
console.log(`sent ${count}`);
