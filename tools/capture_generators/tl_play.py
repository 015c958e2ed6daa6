# mypy: ignore-errors
# The instrumentation is not installed where the types are checked.
"""Starts OpenLLMetry's SDK for a recording."""

from __future__ import annotations

import os

from opentelemetry.sdk.trace import SpanProcessor

from tools.capture_generators.oi_play import instrumented


def traceloop(*instruments, also=(), **options):
    """Return an `instrument` that starts the SDK with these instruments, named as in its enumeration.

    `also` names the instrumentors that the SDK does not start, in the form that `instrumented` accepts.
    """

    def instrument(spans, records):
        os.environ |= {"TRACELOOP_METRICS_ENABLED": "false", "TRACELOOP_TELEMETRY": "false"}
        # Only here: speakers wrapped by this module also serve without the SDK.
        from traceloop.sdk import Instruments, Traceloop  # noqa: PLC0415

        # The provider of the recording exports already: the SDK's own processor has only its start hook to run.
        chosen = {Instruments[name] for name in instruments}
        Traceloop.init(app_name="travel-desk", processor=SpanProcessor(), instruments=chosen, **options)
        instrumented(*also)(spans, records)

    return instrument


def associated(speaker, key="session_id"):
    """Return the speaker with an association property for the conversation, set before each turn."""

    def speaking(url):
        from traceloop.sdk import Traceloop  # noqa: PLC0415 - only where the SDK is wanted

        say = speaker(url)

        def say_in_association(conversation, query):
            Traceloop.set_association_properties({key: conversation.id, "tier": "gold"})
            return say(conversation, query)

        return say_in_association

    return speaking


def in_workflow(speaker):
    """Return the speaker with the SDK's workflow span around each turn."""

    def speaking(url):
        from traceloop.sdk.decorators import workflow  # noqa: PLC0415 - only where the SDK is wanted

        say = speaker(url)

        def say_in_workflow(conversation, query):
            @workflow(name="desk_turn")
            def desk_turn(question):
                return say(conversation, question)

            return desk_turn(query)

        return say_in_workflow

    return speaking
