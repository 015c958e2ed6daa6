"""A backfill that sends points over OTLP sends evaluation events, too, at the times of the conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.builders import feed, fill_days, hotel_conversation, rows, run_backfill
from tests.telemetry.receiver.over_http import HttpReceiver, _Handler, http_receiver

if TYPE_CHECKING:
    from tests.backfill.conftest import DaysOf
    from tests.stores import OpenEngine


class TakesNoLogs(_Handler):
    """A backend of metrics, such as Prometheus."""

    def _answer(self, body: bytes) -> None:
        if self.path.endswith("/v1/logs"):
            self.send_response(404, "Not Found")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            super()._answer(body)


def conversation_events(receiver: HttpReceiver) -> list[tuple[dict[str, Any], int]]:
    """Return attributes and time of each event of a conversation."""
    return [
        (result, record.time_unix_nano)
        for result, record in receiver.received.events()
        if result["gen_ai.evaluation.name"] == "agentic.conversation"
    ]


def test_each_conversation_that_is_scored_has_its_event_at_its_own_end(days_of: DaysOf) -> None:
    engine = days_of(4)
    with http_receiver() as receiver:
        done = run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)

        assert {"backfill"} == {result["agentic.trigger"] for result, _ in receiver.received.events()}
        assert {done["run_id"]} == {result["agentic.run.id"] for result, _ in receiver.received.events()}
        assert rows(engine, "SELECT conversation_id, outcome, epoch_ns(ended_at) FROM results ORDER BY ALL") == sorted(
            (result["gen_ai.conversation.id"], result["gen_ai.evaluation.score.label"], time_ns)
            for result, time_ns in conversation_events(receiver)
        )
        assert (len(receiver.received.events()), 0, None) == (
            done["emit"]["events"],
            done["emit"]["events_lost"],
            done["emit"]["events_problem"],
        )


def test_an_event_says_which_evaluation_judged_and_has_the_same_id_wherever_it_is_made(open_engine: OpenEngine) -> None:
    built = []
    for number in range(2):
        engine = open_engine()
        if not number:
            fill_days(engine, 2)
        engine.store.write(lambda con: [con.execute(sql) for sql in ("DELETE FROM scores", "DELETE FROM results")])
        with http_receiver() as receiver:
            run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
            built.append({result["agentic.evaluation.id"] for result, _ in receiver.received.events()})
            ((evaluation,),) = rows(engine, "SELECT DISTINCT evaluation_id FROM results")
            assert {evaluation} == {result["agentic.evaluator.version"] for result, _ in receiver.received.events()}
        engine.close()

    assert built[0] == built[1]
    assert built[0]


def test_more_events_than_a_request_holds_go_out_in_several(days_of: DaysOf, monkeypatch: Any) -> None:
    monkeypatch.setattr("otel_agentic.telemetry.history._EVENTS_PER_REQUEST", 3)
    engine = days_of(5)
    with http_receiver() as receiver:
        done = run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)

        ids = [result["agentic.evaluation.id"] for result, _ in receiver.received.events()]
        assert done["emit"]["events"] == len(ids) == len(set(ids))
        assert len(receiver.received.logs) > 3


def test_what_was_sent_is_not_sent_again_and_what_came_late_is(days_of: DaysOf) -> None:
    engine = days_of(2)
    with http_receiver() as receiver:
        run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
        receiver.received.logs.clear()
        again = run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
        assert (0, []) == (again["emit"]["events"], receiver.received.logs)

        feed(engine, hotel_conversation(1, name="late"))
        run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
        assert ["late"] == [result["gen_ai.conversation.id"] for result, _ in conversation_events(receiver)]


def test_a_backend_that_takes_no_logs_gets_all_points_and_is_reported(days_of: DaysOf) -> None:
    engine = days_of(3)
    with http_receiver() as receiver:
        receiver.RequestHandlerClass = TakesNoLogs
        done = run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)

        assert receiver.received.metrics
    assert done["finished"]
    assert done["emit"]["points"] > 0
    assert (0, True) == (done["emit"]["events"], done["emit"]["events_lost"] > 0)
    assert "404" in done["emit"]["events_problem"]
    assert [(3,)] == rows(engine, "SELECT count(*) FROM results")


def test_settings_without_events_send_none(days_of: DaysOf) -> None:
    engine = days_of(1, emit={"events": "none"})
    with http_receiver() as receiver:
        done = run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)

        assert (0, []) == (done["emit"]["events"], receiver.received.logs)
        assert receiver.received.metrics
