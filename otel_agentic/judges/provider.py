"""Chat models by `provider:model`, and the identity of a chat model."""

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

#: Options that do not affect the replies of a model, or that must not be written to a file.
_NO_IDENTITY: Final = re.compile(
    r"key|token$|secret|password|credential|header|retr|timeout|client|cache|callback|verbose|metadata|profile|tags$|"
    r"limiter|stream",
    re.IGNORECASE,
)
#: Attributes in which models keep their name.
_NAMES: Final = ("model_name", "model", "model_id", "deployment_name", "azure_deployment")
#: Suffix of a name: a date, a snapshot, a revision of the provider.
_SNAPSHOT: Final = re.compile(r"(?:[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|latest|v\d+(?::\d+)?))+$")
#: Prefix of a name: a path or the provider of a gateway, or a vendor in the notation of some clouds.
_PROVIDER: Final = re.compile(r"^.*/|^(?:[a-z]{2}\.)?[a-z]+\.(?=[a-z])")


def make_model(argument: str | None, options: Mapping[str, Any]) -> BaseChatModel:
    """Return the model that `--judge langchain:provider:model` names.

    Args:
        argument: `provider:model`, with LangChain's name of the provider.
        options: passed to the model unchanged.

    Raises:
        UsageError: the argument is malformed, a package is missing, or the provider rejects the options.
    """
    provider, colon, model = (argument or "").partition(":")
    if not (provider.strip() and colon and model.strip()):
        judge = "langchain" if argument is None else f"langchain:{argument}"
        raise UsageError(f"judge {judge}: the model is missing: {FORM}")
    named = {"model", "model_provider", "provider"} & options.keys()
    if named:
        raise UsageError(f"judge.model_options: {', '.join(sorted(named))}: the model is named by --judge: {FORM}")
    chat_model = _create(provider, model, dict(options))
    _require_known(chat_model, options)
    if "max_retries" not in options and _takes(
        chat_model, "max_retries"
    ):  # with two layers of retries, waits would multiply
        return _create(provider, model, {**options, "max_retries": 0})
    return chat_model


def _create(provider: str, model: str, options: dict[str, Any]) -> BaseChatModel:
    judge = f"judge langchain:{provider}:{model}"
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 — heavy, and an extra
    except ImportError as error:
        raise UsageError(MISSING.format(judge=judge)) from error
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="WARNING!")  # about an unknown option, which is rejected below
            chat_model: BaseChatModel = init_chat_model(model, model_provider=provider, **options)
            return chat_model
    except ImportError as error:
        extra = f" (or {EXTRA})" if "langchain-openai" in str(error) else ""
        raise UsageError(f"{judge}: {_one_line(error)}{extra}") from error
    except Exception as error:  # providers raise any exception
        parts = _one_line(error).split("Supported model providers are:")
        if len(parts) > 1:
            raise UsageError(
                f"{judge}: langchain does not know the provider {provider!r}; allowed: {parts[1].strip()}"
            ) from error
        raise UsageError(
            f"{judge}: the model cannot be created: {parts[0]} (judge.model_options: {_names(options)})"
        ) from error


def _require_known(model: BaseChatModel, options: Mapping[str, Any]) -> None:
    """Reject an option that the model does not know: with a misspelt base_url, texts would be sent to another server."""
    passed_on = getattr(model, "model_kwargs", None) or {}
    unknown = [name for name in options if name in passed_on and not _takes(model, name)]
    if unknown:
        raise UsageError(
            f"judge.model_options: {', '.join(sorted(unknown))}: {type(model).__name__} has no such option; options of the "
            "provider's own interface belong in model_kwargs"
        )


def _names(options: Mapping[str, Any]) -> str:
    return ", ".join(sorted(options)) or "none"


def _takes(model: BaseChatModel, option: str) -> bool:
    fields = type(model).model_fields
    return option in fields or any(field.alias == option for field in fields.values())


def name_of(model: BaseChatModel) -> str:
    """Return the provider's name of a model, or the name of its class if it has no name."""
    candidates = (getattr(model, name, None) for name in _NAMES)
    name = next(
        (candidate for candidate in candidates if isinstance(candidate, str) and candidate), type(model).__name__
    )
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
    """Return the agent's models that also judge it, sorted, by their names in the agent's spans.

    >>> same_models(["gpt-5-mini"], ["gpt-5", "openai/gpt-5-mini"])
    ['openai/gpt-5-mini']
    """
    judge_models = {base_model(name) for name in judge}
    return sorted({name for name in agent if base_model(name) in judge_models})


def secrets_of(model: BaseChatModel) -> list[str]:
    """Return the keys and other secrets of a model, including those in its headers."""
    fields = {name: getattr(model, name, None) for name in type(model).model_fields}
    held = [value.get_secret_value() for value in fields.values() if isinstance(value, SecretStr)]
    headers = [value for name, value in fields.items() if "header" in name and isinstance(value, Mapping)]
    return [text for text in (*held, *(str(value) for header in headers for value in header.values())) if text]


def identity_of(model: BaseChatModel) -> str:
    """Return a text that differs between models that may reply differently. It contains no secrets."""
    kind = type(model)
    identity = {"class": f"{kind.__module__}.{kind.__qualname__}", "model": name_of(model)}
    for source in (getattr(model, "_identifying_params", {}), _set_fields(model)):
        identity |= {str(name): value for name, value in dict(source).items()}
    return json.dumps(_plain(identity), sort_keys=True)


def _set_fields(model: BaseChatModel) -> dict[str, Any]:
    """Return the fields of a model that were set explicitly."""
    fields: frozenset[str] = getattr(model, "model_fields_set", frozenset())
    return {name: getattr(model, name, None) for name in fields}


def _plain(value: Any) -> Any:
    """Return a value reduced to plain data: the text of an object may contain its address, which differs between processes."""
    if isinstance(value, dict):
        fields = {str(name): _plain(item) for name, item in value.items() if not _NO_IDENTITY.search(str(name))}
        return {name: item for name, item in fields.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool) else None


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 2_000 else text[:2_000] + "…"  # noqa: PLR2004 — a line that a person reads
