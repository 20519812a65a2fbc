"""Dates as people write them, and in ISO form: endless, offline, and the truth is exact."""

import random
import zlib
from datetime import date
from functools import lru_cache

from transformer_lab.support.validation import require, require_sizes

FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2100, 12, 31)

# Written forms in the letters of Unicode CLDR: EEEE Friday, EEE Fri, MMMM February, MMM Feb,
# MM 02, M 2. Numbers alone are always day first, so that every date has one reading.
NUMERIC_FORMS = ("dd/MM/y", "d/M/y", "dd-MM-y", "d-M-y", "dd.MM.y", "d.M.y")
ENGLISH_FORMS = (
    *("EEEE d MMMM y", "EEEE, d MMMM y", "EEE d MMM y", "EEE, MMM d, y"),
    *("d MMMM y", "d MMM y", "MMMM d y", "MMM d y"),
)


def date_pairs(
    count: int, seed: int, *, split: str = "train", locale: str = "en"
) -> list[tuple[str, str]]:
    """Draw `count` pairs such as ("friday 15 february 2019", "2019-02-15"), with replacement.

    The days lie between 1900 and 2100. About a tenth of them, always the same, is kept for
    `split="test"`, so no day is in both splits. `locale` is a CLDR name such as "de" or "pt_BR".
    A quarter of the dates is in numbers alone, day first. The same arguments give the same pairs.
    Raises `ValueError` for a `count` below 1, another split or an unknown locale.
    """
    require_sizes(count=count)
    require_sizes(seed=seed, at_least=0)
    require(split in ("train", "test"), f'split must be "train" or "test", got {split!r}')
    days, (language, worded, numeric) = _days(split), _written_forms(str(locale))
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        day = rng.choice(days)
        form = rng.choice(numeric if rng.random() < 0.25 else worded)
        change_case = rng.choice((str, str.lower, str.upper))
        pairs.append((change_case(form.apply(day, language)), day.isoformat()))
    return pairs


@lru_cache
def _days(split: str) -> list[date]:
    days = map(date.fromordinal, range(FIRST_DAY.toordinal(), LAST_DAY.toordinal() + 1))
    return [day for day in days if _is_test_day(day) == (split == "test")]


def _is_test_day(day: date) -> bool:
    return zlib.crc32(day.isoformat().encode()) % 10 == 0  # the same days on every machine


@lru_cache
def _written_forms(locale: str) -> tuple:
    """The locale, its forms with words in them, and the forms of numbers alone."""
    from babel import Locale, UnknownLocaleError
    from babel.dates import parse_pattern

    try:
        language = Locale.parse(locale.replace("-", "_"))
    except (UnknownLocaleError, ValueError, TypeError) as error:
        raise ValueError(
            f'locale must be a CLDR name such as "en" or "pt_BR", got {locale!r}'
        ) from error
    forms = [language.date_formats[size].pattern for size in ("full", "long", "medium")]
    forms += ENGLISH_FORMS if language.language == "en" else ()
    forms = [parse_pattern(form) for form in forms]
    worded = [form for form in forms if any(map(str.isalpha, form.apply(FIRST_DAY, language)))]
    return language, worded, [parse_pattern(form) for form in NUMERIC_FORMS]
