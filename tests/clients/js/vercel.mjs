// Sends a span as an app with @vercel/otel does, by the exporters of that package, which use fetch.
//   node vercel.mjs PROTOCOL ENDPOINT
// PROTOCOL is http/json or http/protobuf. Prints "sent" at the end.

import { trace } from '@opentelemetry/api';
import { OTLPHttpJsonTraceExporter, OTLPHttpProtoTraceExporter, registerOTel } from '@vercel/otel';

const [protocol, endpoint] = process.argv.slice(2);
const Exporter = protocol === 'http/json' ? OTLPHttpJsonTraceExporter : OTLPHttpProtoTraceExporter;
registerOTel({ serviceName: 'vercel-agent', traceExporter: new Exporter({ url: `${endpoint}/v1/traces` }) });

trace.getTracer('ai', '5').startActiveSpan('ai.generateText', { attributes: { 'ai.model.id': 'm', n: 3 } }, (span) => span.end());
await trace.getTracerProvider().getDelegate().forceFlush();
console.log('sent');
process.exit(0);
