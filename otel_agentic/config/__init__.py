"""Every setting and limit, with unit and default, and where its value comes from."""

from otel_agentic.config.evaluators import EvaluatorSettings, Price, Severity, Threshold
from otel_agentic.config.gate import GateSettings
from otel_agentic.config.load import (
    CONFIG_FILE_VARIABLE,
    DEFAULT_CONFIG_FILE,
    SettingDescription,
    Settings,
    describe_settings,
    load_settings,
)
from otel_agentic.config.sections import (
    DEFAULT_TOOL_WEIGHTS,
    AdminSettings,
    ConversationSettings,
    DialectSettings,
    EmitSettings,
    JudgeSettings,
    LogSettings,
    MatchingSettings,
    ReceiveSettings,
    RedactionSettings,
    RetentionSettings,
    SamplingSettings,
    ScoringSettings,
    StatsSettings,
    StoreSettings,
    WindowSettings,
)
from otel_agentic.config.slo import Objective, SloSettings

__all__ = [
    "CONFIG_FILE_VARIABLE",
    "DEFAULT_CONFIG_FILE",
    "DEFAULT_TOOL_WEIGHTS",
    "AdminSettings",
    "ConversationSettings",
    "DialectSettings",
    "EmitSettings",
    "EvaluatorSettings",
    "GateSettings",
    "JudgeSettings",
    "LogSettings",
    "MatchingSettings",
    "Objective",
    "Price",
    "ReceiveSettings",
    "RedactionSettings",
    "RetentionSettings",
    "SamplingSettings",
    "ScoringSettings",
    "SettingDescription",
    "Settings",
    "Severity",
    "SloSettings",
    "StatsSettings",
    "StoreSettings",
    "Threshold",
    "WindowSettings",
    "describe_settings",
    "load_settings",
]
