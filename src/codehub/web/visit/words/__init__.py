"""The words of the pages, one module per language with the same keys; which language is the browser's to say. Pure."""

from collections.abc import Mapping

from codehub.web.visit.words.en import WORDS as ENGLISH
from codehub.web.visit.words.ko import WORDS as KOREAN

THEMES = ("auto", "light", "dark")
LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "ko": KOREAN}


def language_of(accept: str | None) -> str:
    """The language that Accept-Language likes best of those there are; English when it names none."""
    best, best_weight = "en", 0.0
    for entry in (accept or "").split(","):
        name, _, parameters = entry.strip().partition(";")
        language = name.strip().lower().partition("-")[0]
        weight = _weight(parameters)
        if language in LANGUAGES and weight > best_weight:
            best, best_weight = language, weight
    return best


def look_of(kept: str | None, accept: str | None) -> tuple[str, str]:
    """Language and theme: what was chosen in the dashboard (`ko.dark`), else what the browser prefers."""
    language, _, theme = (kept or "").partition(".")
    return language if language in LANGUAGES else language_of(accept), theme if theme in THEMES else THEMES[0]


def kept_look(kept: str | None) -> str | None:
    """What was chosen in the dashboard, if it is that: it may come from anywhere."""
    language, _, theme = (kept or "").partition(".")
    return kept if language in LANGUAGES and theme in THEMES else None


def _weight(parameters: str) -> float:
    key, _, value = parameters.strip().partition("=")
    if key.strip() != "q":
        return 1.0
    try:
        return min(1.0, float(value))
    except ValueError:
        return 0.0
