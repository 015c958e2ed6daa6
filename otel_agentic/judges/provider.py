"""`provider:model` -> a chat model; and what of a chat model, or of its name, tells it from another one."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.language_models import BaseChatModel

FORM: Final = "langchain:PROVIDER:MODEL, as in langchain:openai:gpt-5-mini or langchain:ollama:llama3.1:8b"
EXTRA: Final = "pip install 'otel-agentic[judges]'"
MISSING: Final = f"{{judge}}: needs the package langchain: {EXTRA}"

#: Options that change nothing about what a model replies, or that nobody should find in a file.
_NO_IDENTITY: Final = re.compile(
    r"key|token$|secret|password|credential|header|retr|timeout|client|cache|callback|verbose|metadata|profile|tags$|"
    r"limiter|stream",
    re.IGNORECASE,
)
#: The attributes in which models keep their name.
_NAMES: Final = ("model_name", "model", "model_id", "deployment_name", "azure_deployment")
#: What stands behind the name: a date, a snapshot, a revision of the provider.
_SNAPSHOT: Final = re.compile(r"(?:[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|latest|v\d+(?::\d+)?))+$")
#: What stands before it: a path or a gateway's provider, or a vendor as some clouds write it.
_PROVIDER: Final = re.compile(r"^.*/|^(?:[a-z]{2}\.)?[a-z]+\.(?=[a-z])")


def make_model(argument: str | None, options: Mapping[str, Any]) -> BaseChatModel:
    """Return the model that `--judge langchain:provider:model` names.

    Args:
        argument: `provider:model`, with langchain's name of the provider.
        options: given to the model as they are.

    Raises:
        UsageError: the argument has another form, a package is missing, or the provider does not take the options.
    """
    provider, colon, model = (argument or "").partition(":")
    if not (provider.strip() and colon and model.strip()):
        given = "langchain" if argument is None else f"langchain:{argument}"
        raise UsageError(f"judge {given}: say which model: {FORM}")
    named = {"model", "model_provider", "provider"} & options.keys()
    if named:
        raise UsageError(f"judge.model_options: {', '.join(sorted(named))}: the model is named by --judge: {FORM}")
    made = _made(provider, model, dict(options))
    _require_known(made, options)
    if "max_retries" not in options and _takes(made, "max_retries"):  # one of us retries, or waits multiply
        return _made(provider, model, {**options, "max_retries": 0})
    return made


def _made(provider: str, model: str, options: dict[str, Any]) -> BaseChatModel:
    judge = f"judge langchain:{provider}:{model}"
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 — heavy, and an extra
    except ImportError as error:
        raise UsageError(MISSING.format(judge=judge)) from error
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="WARNING!")  # of an unknown option, which is refused below
            model_made: BaseChatModel = init_chat_model(model, model_provider=provider, **options)
            return model_made
    except ImportError as error:
        extra = f" (or {EXTRA})" if "langchain-openai" in str(error) else ""
        raise UsageError(f"{judge}: {_one_line(error)}{extra}") from error
    except Exception as error:  # providers raise what they like
        told = _one_line(error).split("Supported model providers are:")
        if len(told) > 1:
            raise UsageError(
                f"{judge}: langchain knows no provider {provider!r}; allowed: {told[1].strip()}"
            ) from error
        raise UsageError(
            f"{judge}: the model cannot be made: {told[0]} (judge.model_options: {_names(options)})"
        ) from error


def _require_known(model: BaseChatModel, options: Mapping[str, Any]) -> None:
    """Refuse an option that the model does not know: of a misspelt base_url, texts would go to another place."""
    passed_on = getattr(model, "model_kwargs", None) or {}
    unknown = [name for name in options if name in passed_on and not _takes(model, name)]
    if unknown:
        raise UsageError(
            f"judge.model_options: {', '.join(sorted(unknown))}: {type(model).__name__} has no such option; what the "
            "provider's own interface takes beyond its options goes into model_kwargs"
        )


def _names(options: Mapping[str, Any]) -> str:
    return ", ".join(sorted(options)) or "none"


def _takes(model: BaseChatModel, option: str) -> bool:
    fields = type(model).model_fields
    return option in fields or any(field.alias == option for field in fields.values())


def name_of(model: BaseChatModel) -> str:
    """Return the name of a model as its provider knows it; the name of its class where it has none."""
    found = (getattr(model, name, None) for name in _NAMES)
    name = next((each for each in found if isinstance(each, str) and each), type(model).__name__)
    return name.removeprefix("models/")


def base_model(name: str) -> str:
    """Return the name of a model without provider and snapshot, in lower case.

    >>> [base_model(name) for name in ("openai/GPT-5-mini-2025-08-07", "us.anthropic.claude-sonnet-4-20250514-v1:0")]
    ['gpt-5-mini', 'claude-sonnet-4']
    >>> base_model("gemini-2.5-pro")
    'gemini-2.5-pro'
    """
    return _SNAPSHOT.sub("", _PROVIDER.sub("", name.strip().lower()))


def same_models(judge: Iterable[str], agent: Iterable[str]) -> list[str]:
    """Return the models of an agent that judge it, too, sorted, as the agent's spans name them.

    >>> same_models(["gpt-5-mini"], ["gpt-5", "openai/gpt-5-mini"])
    ['openai/gpt-5-mini']
    """
    judging = {base_model(name) for name in judge}
    return sorted({name for name in agent if base_model(name) in judging})


def secrets_of(model: BaseChatModel) -> list[str]:
    """Return the keys and other secrets that a model holds, those in its headers too."""
    fields = {name: getattr(model, name, None) for name in type(model).model_fields}
    held = [each.get_secret_value() for each in fields.values() if isinstance(each, SecretStr)]
    headers = [each for name, each in fields.items() if "header" in name and isinstance(each, Mapping)]
    return [text for text in (*held, *(str(value) for each in headers for value in each.values())) if text]


def identity_of(model: BaseChatModel) -> str:
    """Return a text that differs between models that may reply differently. Keys and other secrets are not in it."""
    kind = type(model)
    told = {"class": f"{kind.__module__}.{kind.__qualname__}", "model": name_of(model)}
    for source in (getattr(model, "_identifying_params", {}), _set_fields(model)):
        told |= {str(name): value for name, value in dict(source).items()}
    return json.dumps(_plain(told), sort_keys=True)


def _set_fields(model: BaseChatModel) -> dict[str, Any]:
    """Return the fields of a model that were given a value."""
    fields: frozenset[str] = getattr(model, "model_fields_set", frozenset())
    return {name: getattr(model, name, None) for name in fields}


def _plain(value: Any) -> Any:
    """Return what of a value is plain data: an object's text may hold its address, which changes with each process."""
    if isinstance(value, dict):
        kept = {str(name): _plain(each) for name, each in value.items() if not _NO_IDENTITY.search(str(name))}
        return {name: each for name, each in kept.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool) else None


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 2_000 else text[:2_000] + "…"  # noqa: PLR2004 — a line that a person reads
