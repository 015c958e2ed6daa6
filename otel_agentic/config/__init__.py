"""Every setting and limit, with unit and default, and where its value comes from."""

from otel_agentic.config.load import (
    CONFIG_FILE_VARIABLE,
    DEFAULT_CONFIG_FILE,
    Described,
    Settings,
    described,
    load_settings,
)
from otel_agentic.config.sections import (
    AdminSettings,
    ConversationSettings,
    DialectSettings,
    EmitSettings,
    JudgeSettings,
    Objective,
    ReceiveSettings,
    SamplingSettings,
    ScoringSettings,
    SloSettings,
    StatsSettings,
    StoreSettings,
    WindowSettings,
)

__all__ = [
    "CONFIG_FILE_VARIABLE",
    "DEFAULT_CONFIG_FILE",
    "AdminSettings",
    "ConversationSettings",
    "Described",
    "DialectSettings",
    "EmitSettings",
    "JudgeSettings",
    "Objective",
    "ReceiveSettings",
    "SamplingSettings",
    "ScoringSettings",
    "Settings",
    "SloSettings",
    "StatsSettings",
    "StoreSettings",
    "WindowSettings",
    "described",
    "load_settings",
]
