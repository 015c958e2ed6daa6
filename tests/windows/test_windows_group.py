"""Groups: what the key holds, and where a conversation counts."""

from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from otel_agentic import windows
from otel_agentic.errors import UsageError
from otel_agentic.windows import GroupKey, ScoredConversation, group_by, group_by_subject
from tests.snapshots import raises

PLAIN = ScoredConversation(
    environment="production",
    conversation_id="1",
    revision=1,
    agent="booking",
    agent_version="1.0",
    service="shop",
    ended_ns=0,
    dataset="shop",
    case_id="case a",
    tags=(),
    outcome="pass",
    reason=None,
)


def ids(group: list[ScoredConversation]) -> list[str]:
    return [conversation.conversation_id for conversation in group]


def test_every_public_name_is_there_and_the_list_is_sorted() -> None:
    kinds = [(0 if name.isupper() else 1 if name[0].isupper() else 2, name) for name in windows.__all__]
    assert kinds == sorted(set(kinds))
    assert [name for name in windows.__all__ if not hasattr(windows, name)] == []


def test_without_by_there_is_one_group_an_agent_over_all_versions_and_environments() -> None:
    scored = [PLAIN, replace(PLAIN, agent_version="2.0", environment="staging"), replace(PLAIN, agent="search")]
    groups = group_by(scored)
    assert list(groups) == [GroupKey(agent="booking"), GroupKey(agent="search")]
    assert [len(group) for group in groups.values()] == [2, 1]


def test_the_key_holds_what_is_grouped_by_and_none_elsewhere() -> None:
    assert list(group_by([PLAIN], by=("agent", "version"))) == [GroupKey(agent="booking", agent_version="1.0")]
    assert list(group_by([PLAIN], by=("environment",))) == [GroupKey(environment="production")]
    assert list(group_by([PLAIN], by=("agent", "case"))) == [GroupKey(agent="booking", dataset="shop", case="case a")]


def test_a_conversation_counts_once_in_each_of_its_tags_and_nowhere_without_one() -> None:
    both = replace(PLAIN, conversation_id="both", tags=("regression", "capability", "regression"))
    tagged = replace(PLAIN, conversation_id="one", tags=("capability",))
    groups = group_by([both, tagged, PLAIN], by=("tag",))
    assert {key.tag: ids(group) for key, group in groups.items()} == {
        "capability": ["both", "one"],
        "regression": ["both"],
    }


def test_a_conversation_counts_once_in_each_of_its_tools() -> None:
    groups = group_by([replace(PLAIN, tools=("search", "book", "search"))], by=("tool",))
    assert list(groups) == [GroupKey(tool="book"), GroupKey(tool="search")]


def test_what_has_no_agent_or_case_stays_in_sight_under_none_which_sorts_first() -> None:
    scored = [PLAIN, replace(PLAIN, conversation_id="2", agent=None, dataset=None, case_id=None)]
    assert list(group_by(scored)) == [GroupKey(), GroupKey(agent="booking")]
    assert list(group_by(scored, by=("case",))) == [GroupKey(), GroupKey(dataset="shop", case="case a")]


def test_the_full_subject_is_agent_version_environment_and_service() -> None:
    scored = [PLAIN, replace(PLAIN, service="other"), replace(PLAIN, environment="staging"), PLAIN]
    groups = group_by_subject(scored)
    assert sorted(len(group) for group in groups.values()) == [1, 1, 2]
    expected = GroupKey(
        agent="booking", agent_version="1.0", environment="production", service="shop", criterion="correct", criteria=""
    )
    assert len(groups[expected]) == 2


def test_no_conversations_make_no_groups() -> None:
    assert group_by([]) == {}
    assert group_by_subject([]) == {}


def test_an_unknown_grouping_is_refused_with_what_is_allowed() -> None:
    with raises(
        UsageError,
        snapshot(
            "cannot group by 'colour'; allowed: agent, version, environment, service, tag, case, tool, user, locale, tier, prompt, prompt_version, model, flag"
        ),
    ):
        group_by([PLAIN], by=("colour",))


def test_equal_case_ids_of_two_datasets_are_two_groups() -> None:
    groups = group_by([PLAIN, replace(PLAIN, dataset="old")], by=("case",))
    assert [(key.dataset, key.case) for key in groups] == [("old", "case a"), ("shop", "case a")]
