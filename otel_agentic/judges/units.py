"""Names of units, in English and, for time and money, in German, French and Spanish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES: Final[Mapping[tuple[str, float], str]] = {
    ("length", 0.001): "mm millimeter millimeters millimetre millimetres",
    ("length", 0.01): "cm centimeter centimeters centimetre centimetres",
    ("length", 1.0): "m meter meters metre metres",
    ("length", 1000.0): "km kilometer kilometers kilometre kilometres",
    ("length", 0.0254): "inch inches",
    ("length", 0.3048): "ft foot feet",
    ("length", 1609.344): "mi mile miles",
    ("mass", 0.001): "mg milligram milligrams",
    ("mass", 1.0): "g gram grams",
    ("mass", 1000.0): "kg kilo kilos kilogram kilograms",
    ("mass", 453.59237): "lb lbs",
    ("time", 0.001): "ms millisecond milliseconds",
    ("time", 1.0): "s sec secs second seconds sekunde sekunden seconde secondes segundo segundos",
    ("time", 60.0): "min mins minute minutes minuten minuto minutos",
    ("time", 3600.0): "h hr hrs hour hours stunde stunden heure heures hora horas",
    ("time", 86400.0): "day days tag tage tagen jour jours día días",
    ("time", 604800.0): "week weeks woche wochen semaine semaines semana semanas",
    ("months", 1.0): "month months monat monate monaten mois mes meses",
    ("months", 12.0): "year years jahr jahre jahren ans año años",
    ("percent", 1.0): "% percent pct prozent",
    ("celsius", 1.0): "°c celsius",
    ("fahrenheit", 1.0): "°f fahrenheit",
    ("usd", 1.0): "$ usd dollar dollars dólares",
    ("eur", 1.0): "€ eur euro euros",
    ("gbp", 1.0): "£ gbp",
    ("jpy", 1.0): "¥ jpy yen",
    ("inr", 1.0): "₹ inr rupee rupees",
    ("bytes", 1e3): "kb kilobyte kilobytes",
    ("bytes", 1e6): "mb megabyte megabytes",
    ("bytes", 1e9): "gb gigabyte gigabytes",
    ("bytes", 1e12): "tb terabyte terabytes",
}

#: Name of a unit in lower case -> its dimension, and its size in base units.
UNITS: Final[Mapping[str, tuple[str, float]]] = {name: unit for unit, names in _NAMES.items() for name in names.split()}
