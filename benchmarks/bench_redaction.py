"""Measure the CPU time of redaction per span, relative to decoding: clean spans, spans with secrets, user patterns.

A span has 2 KB: two messages as JSON text and a dozen short attributes, as model instrumentations write them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.cpu_time import best_s
from otel_agentic.config import ReceiveSettings, RedactionSettings
from otel_agentic.redaction.engine import BatchRedactor
from otel_agentic.spans import Limits, Span, SpanBatch, decode_traces

ROUNDS: Final = 7
BATCH: Final = 512
PERSONAL: Final = ("card", "email", "phone", "iban", "ssn", "ip")
LIMITS: Final = Limits.from_settings(ReceiveSettings())
SECRET: Final = "sk" + "-proj-" + "Zk3Yq8Rt5Wn2Vb7Xc1Ld4Mf6Hg9Jp0Ks"


def main() -> None:
    """Print the CPU time per span in microseconds, and its ratio to decoding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each; the best counts")
    rounds = parser.parse_args().rounds
    plain, dirty = (request(dirty=every) for every in (0, 1))
    clean, one_in_fifty, secrets = (decode_traces(body, LIMITS) for body in (plain, request(dirty=50), dirty))
    default = redactor()
    works: dict[str, Callable[[], object]] = {
        "decoding": partial(decode_traces, plain, LIMITS),
        "clean spans, credentials": partial(default.batch, clean),
        "clean spans, credentials and personal data": partial(redactor(personal=PERSONAL).batch, clean),
        "clean spans, a user pattern": partial(redactor(custom={"project": "Project [A-Z]+"}).batch, clean),
        "one span in fifty has a key": partial(default.batch, one_in_fifty),
        "each span has a key and a password": partial(default.batch, secrets),
    }
    print(f"{BATCH} spans a batch, {len(plain) / BATCH:,.0f} bytes a span in protobuf; CPU time, best of {rounds}")
    spent = best(works, rounds)
    for name, request_s in spent.items():
        print(f"{name:44}{request_s:8.2f} us{request_s / spent['decoding']:8.2f} of decoding")
    histories(default, rounds)
    batches = [SpanBatch(spans=(span,)) for span in clean.spans]
    (alone,) = best({"": lambda: [default.batch(batch) for batch in batches]}, rounds).values()
    print(f"{'clean spans in batches of one':44}{alone:8.2f} us")
    hostile(default)


def histories(by: BatchRedactor, rounds: int) -> None:
    """Print the time of spans whose messages are 32 KB of JSON text, by the sentence that most messages contain."""
    endings = (
        "run the suite",
        "the tests pass",
        "I have a token",
        "no auth",
        "the bearer replies",
        "my password",
        "one has a key",
    )
    works = {}
    for text in endings:
        spans = [
            replace(span, attributes={**span.attributes, "gen_ai.input.messages": history(text)})
            for span in clean_spans()
        ]
        works[text] = partial(by.batch, SpanBatch(spans=tuple(spans)))
    request_s_of = {text: spent * BATCH / len(spans) for text, spent in best(works, rounds).items()}
    for text, request_s in request_s_of.items():
        print(
            f"{'32 KB of history: ' + text:44}{request_s:8.2f} us{request_s / request_s_of[endings[0]]:8.2f} of the first"
        )


def history(ending: str) -> str:
    """Return messages that end in the words; the last one contains a key if the words mention a key."""
    random = Random(4)  # noqa: S311 — a workload, not a secret
    text = " ".join(random.choices(("tool", "result", "file", "line", "error", "value", "order", "customer"), k=30))
    messages = [
        {"role": "assistant", "parts": [{"type": "text", "content": f"{text} {index}, {ending}"}]}
        for index in range(125)
    ]
    if ending.endswith("a key"):
        messages[-1]["parts"] = [{"type": "text", "content": SECRET}]
    return json.dumps(messages)


def clean_spans() -> list[Span]:
    return list(decode_traces(request(dirty=0), LIMITS).spans[:16])


def hostile(by: BatchRedactor) -> None:
    """Print the time for dense secrets and near misses, by size."""
    for name, atom in (
        ("secrets end to end", "password=x1; "),
        ("near misses", "password: a "),
        ("prose", "some words. "),
    ):
        texts = [(atom * (size // len(atom) + 1))[:size] for size in (100_000, 200_000, 400_000)]
        works = {str(len(text)): partial(by.text, text, Counter()) for text in texts}
        times_ms = [1e3 * spent_s for spent_s in best_s(works, 3).values()]
        print(f"{name:44}" + "".join(f"{spent:8.1f} ms" for spent in times_ms) + "  for 100, 200, 400 KB")


def redactor(**settings: Any) -> BatchRedactor:
    return BatchRedactor.from_settings(RedactionSettings.model_validate(settings), lambda: b"k" * 32)


def best(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the minimum CPU time of each work in microseconds per span of a batch, measured in alternation after a warm-up."""
    for work in works.values():
        work()
    return {name: taken_s / BATCH * 1e6 for name, taken_s in best_s(works, rounds).items()}


def request(*, dirty: int) -> bytes:
    """Return a traces request; every n-th span has a secret, and 0 means no secrets."""
    random = Random(3)  # noqa: S311 — a workload, not a secret
    words = ["".join(random.choices("etaoinshrdlu", k=random.randint(2, 9))) for _ in range(2000)]
    message = ExportTraceServiceRequest()
    scope = message.resource_spans.add().scope_spans.add()
    for index in range(BATCH):
        span = scope.spans.add(
            trace_id=random.randbytes(16), span_id=random.randbytes(8), name="chat gpt-5-mini", start_time_unix_nano=1
        )
        span.end_time_unix_nano = 2
        for key, value in attributes(words, random, secret=bool(dirty) and index % dirty == 0).items():
            held = span.attributes.add(key=key).value
            if isinstance(value, int):
                held.int_value = value
            else:
                held.string_value = value
    return message.SerializeToString()


def attributes(words: list[str], random: Random, *, secret: bool) -> dict[str, Any]:
    question = {"role": "user", "parts": [{"type": "text", "content": " ".join(random.choices(words, k=70))}]}
    arguments: dict[str, Any] = {"city": "Paris", "max_tokens": 512}
    if secret:
        arguments |= {"api_key": SECRET, "password": "hunter22"}
    call = {"type": "tool_call", "id": "call_1", "name": "search", "arguments": arguments}
    answer = {"role": "assistant", "parts": [{"type": "text", "content": " ".join(random.choices(words, k=120))}, call]}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.response.id": f"chatcmpl-{random.getrandbits(64):x}",
        "gen_ai.conversation.id": f"conversation-{random.getrandbits(32)}",
        "gen_ai.agent.name": "travel",
        "gen_ai.usage.input_tokens": random.randint(1, 9999),
        "gen_ai.usage.output_tokens": random.randint(1, 999),
        "server.address": "api.openai.com",
        "gen_ai.input.messages": json.dumps([question]),
        "gen_ai.output.messages": json.dumps([answer]),
    }


if __name__ == "__main__":
    main()
