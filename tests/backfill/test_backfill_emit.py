"""Points of the past carry the ends of their windows; a point is sent once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.errors import BackendError, UsageError
from otel_agentic.testing import NOON_NS
from tests.backfill.test_backfill_killed import values
from tests.builders import HOUR_NS, backfill_events, feed, fill_days, hotel_conversation, rows, run_backfill
from tests.telemetry.receiver.over_http import http_receiver

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.backfill.conftest import DaysOf
    from tests.stores import OpenEngine

ENDS = 'SELECT DISTINCT epoch_ns("end") FROM windows ORDER BY ALL'


def times(result: dict[Any, Any]) -> list[tuple[int]]:
    return sorted({(time_ns,) for _, _, time_ns in result})


def test_points_are_those_of_the_rows_at_the_ends_of_their_windows(days: Engine) -> None:
    engine = days
    with http_receiver() as receiver:
        done = run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
        result = values(receiver.received)

    assert rows(engine, ENDS) == times(result)
    assert len(result) == done["emit"]["points"]
    stored = rows(
        engine,
        """
        SELECT "window", k, epoch_ns("end"), pass_pow_k FROM windows
        WHERE estimator = 'per_case' AND pass_pow_k IS NOT NULL ORDER BY ALL
        """,
    )
    sent = {(index[1], index[2]): value for index, (value,) in result.items() if index[0] == "agentic.pass_pow_k.ratio"}
    for window, k, end_ns, value in stored:
        matching = [
            reply
            for (attributes, time_ns), reply in sent.items()
            if time_ns == end_ns
            and f'"agentic.window": "{window}"' in attributes
            and f'"agentic.k": {k},' in attributes
            and '"per_case"' in attributes
        ]
        assert matching in ([], [pytest.approx(value)])


def test_the_endpoint_of_the_settings_is_the_one_unless_another_is_given(open_engine: OpenEngine) -> None:
    with http_receiver() as receiver:
        engine = open_engine(emit={"endpoint": receiver.endpoint})
        fill_days(engine, 2)

        assert run_backfill(engine, emit="otlp")["emit"]["points"] == len(values(receiver.received)) > 0


def test_another_endpoint_of_the_settings_is_another_backend_that_gets_all(open_engine: OpenEngine) -> None:
    sent: list[int] = []
    for _ in range(2):
        with http_receiver() as receiver:
            engine = open_engine(emit={"endpoint": receiver.endpoint})
            if not sent:
                fill_days(engine, 2)
            sent.append(run_backfill(engine, emit="otlp")["emit"]["points"])
            engine.close()

    assert sent[0] == sent[1] > 0


def test_what_is_secret_in_an_endpoint_is_not_written_down(days_of: DaysOf) -> None:
    engine = days_of(1)
    with http_receiver() as receiver:
        run_backfill(engine, emit="otlp", endpoint=receiver.endpoint.replace("://", "://user:open-sesame@"))

    ((requested,),) = rows(engine, "SELECT request FROM backfills")
    assert "otlp" in requested
    assert "open-sesame" not in requested


def test_a_second_run_sends_nothing(days: Engine) -> None:
    engine = days
    with http_receiver() as receiver:
        run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
        before = len(receiver.received.metrics)
        again = run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)

        assert (0, before) == (again["emit"]["points"], len(receiver.received.metrics))


def test_what_came_late_sends_the_ends_that_it_changed_and_no_other(days: Engine) -> None:
    engine = days
    with http_receiver() as receiver:
        run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
        receiver.received.metrics.clear()
        feed(engine, hotel_conversation(3, name="late", right=False))
        run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
        sent = times(values(receiver.received))

    assert sent == rows(engine, ENDS.replace("FROM windows", "FROM windows WHERE revision = 2"))
    assert sent


def test_what_another_run_restated_meanwhile_is_sent_too(days: Engine) -> None:
    engine = days
    with http_receiver() as receiver:
        run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
        receiver.received.metrics.clear()
        feed(engine, hotel_conversation(3, name="late", right=False))
        run_backfill(engine)  # as a collector would restate them
        run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)

        assert times(values(receiver.received))


@pytest.mark.slow
def test_a_backend_that_is_gone_is_named_and_the_next_run_sends_all(days_of: DaysOf) -> None:
    engine = days_of(3)
    with http_receiver("error") as receiver, pytest.raises(BackendError, match=receiver.endpoint):
        run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
    stored = rows(engine, ENDS)
    with http_receiver() as receiver:
        other = run_backfill(
            engine, emit="otlp", endpoint=receiver.endpoint
        )  # another port: another backend, and another run
        assert stored == times(values(receiver.received))
        assert 0 == other["windows"]["rows_changed"]


def test_a_window_that_is_filling_is_stored_and_sent_once_its_end_has_come(days_of: DaysOf) -> None:
    engine = days_of(1)
    engine.clock = lambda: NOON_NS + HOUR_NS // 2
    with http_receiver() as receiver:
        done = run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
        assert (1, 0) == (done["windows"]["ends"], done["emit"]["points"])
        assert done["windows"]["rows_changed"] > 0

        engine.clock = lambda: NOON_NS + 2 * HOUR_NS
        done = run_backfill(engine, emit="otlp", endpoint=receiver.endpoint)
        assert [(NOON_NS + HOUR_NS,)] == times(values(receiver.received))
        assert 0 == done["windows"]["rows_changed"]


def written(engine: Engine, **arguments: Any) -> str:
    """Return the OpenMetrics file that a backfill hands over."""
    return "".join(
        event["text"] for event in backfill_events(engine, emit="openmetrics", **arguments) if "text" in event
    )


def test_an_openmetrics_file_has_every_family_once_and_all_ends_and_a_last_line(days: Engine) -> None:
    engine = days
    lines = written(engine).splitlines()

    assert "# EOF" == lines[-1]
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert sorted(set(families)) == sorted(families)
    stamps = {float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}
    assert [end_ns / 1e9 for (end_ns,) in rows(engine, ENDS)] == sorted(stamps)


def test_the_file_of_a_second_run_is_the_same(days: Engine) -> None:
    engine = days

    assert written(engine) == written(engine)


def test_labels_stand_on_every_series_of_the_file_and_are_checked(days_of: DaysOf) -> None:
    engine = days_of(1)
    lines = written(engine, labels_of_series={"job": "otel-agentic"}).splitlines()

    series = [line for line in lines if not line.startswith("#")]
    assert series
    assert [] == [line for line in series if ',job="otel-agentic"}' not in line]
    for invalid, message in (
        ({"a-b": "x"}, "--label a-b=x"),
        ({"gen_ai_x": "1"}, "are reserved"),
        ({"job": ""}, "value must not be empty"),
    ):
        with pytest.raises(UsageError, match=message):
            written(engine, labels_of_series=invalid)


def test_without_a_conversation_there_is_no_file(engine: Engine) -> None:
    assert "" == written(engine)
