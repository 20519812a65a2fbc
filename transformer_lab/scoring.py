"""How good translations are: exact match, and BLEU and chrF as sacreBLEU counts them."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from transformer_lab.support.validation import did_you_mean, require
from transformer_lab.tokenizer import WITHOUT_SPACES

BLEU_OPTIONS = {"multi30k-tok": {"tokenize": "none", "force": True}}  # its words are tokenised
# The first words of the Unicode names of letters: CJK UNIFIED IDEOGRAPH-732B, THAI CHARACTER KO KAI
NAMES = ("CJK ", *(f"{script.upper()} " for script in WITHOUT_SPACES if script != "Han"))


def score(
    data: str, hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str | None = None
) -> dict:
    """Return {"exact_match"} for dates; {"bleu", "signature"} for Multi30k; for pairs all of these
    and {"chrf", "chrf_signature"}. Exact match is a share, from 0 to 1, the others go to 100.

    BLEU is sacreBLEU's, cased and with its 13a tokenisation. Of `tok` it takes the words as they
    are (`tokenize=none`), and of pairs no longer n-grams than the outputs have (`eff:yes`); if
    those have no spaces, `tokenizer_for` says what cuts them. `tokenize` names another tokenizer.
    Raises `ValueError` for one that is not there.
    """
    require_tokenize(data, tokenize)
    scores = {}
    if data in ("dates", "pairs"):
        hits = sum(h == r for h, r in zip(hypotheses, references, strict=True))
        scores["exact_match"] = hits / len(references)
    if data != "dates":
        scores |= _sacrebleu_scores(data, list(hypotheses), list(references), tokenize)
    return scores


def _sacrebleu_scores(
    data: str, hypotheses: list[str], references: list[str], tokenize: str | None
) -> dict:
    from sacrebleu.metrics import CHRF

    if data == "pairs" and tokenize is None:
        tokenize = tokenizer_for(references)
    bleu = _bleu(data, tokenize)
    scores = {"bleu": bleu.corpus_score(hypotheses, [references]).score}
    scores["signature"] = str(bleu.get_signature())
    if data == "pairs":
        chrf = CHRF()
        scores["chrf"] = chrf.corpus_score(hypotheses, [references]).score
        scores["chrf_signature"] = str(chrf.get_signature())
    return scores


def tokenizer_for(texts: Sequence[str]) -> str:
    """Return the name of sacreBLEU's tokenizer for texts of their script: 13a if it has spaces.

    Most of the letters decide. Chinese is "zh"; Japanese, which has kana too, is "ja-mecab" where
    that is installed; it and all others without spaces are else "char", which cuts every letter.
    """
    letters = Counter(letter for text in texts for letter in text if letter.isalpha())
    scripts: Counter[str] = Counter()
    for letter, count in letters.items():
        name = unicodedata.name(letter, "")
        scripts[next((each for each in NAMES if name.startswith(each)), "")] += count
    with_spaces = scripts.pop("", 0)
    if scripts.total() <= with_spaces:
        return "13a"
    kana = scripts["HIRAGANA "] + scripts["KATAKANA "]
    if scripts["CJK "] + kana <= scripts.total() / 2:
        return "char"
    if kana <= 0.1 * scripts.total():
        return "zh"
    try:
        _bleu("pairs", "ja-mecab")
    except ValueError:
        return "char"
    return "ja-mecab"


def require_tokenize(data: str, tokenize: Any) -> None:
    """Raise `ValueError` unless BLEU of this task can be counted with this tokenizer, or None."""
    if tokenize is None:
        return
    from sacrebleu.metrics import BLEU

    require(data != "dates", f"tokenize must be left out for dates, got {tokenize!r:.60}")
    require(
        isinstance(tokenize, str) and tokenize in BLEU.TOKENIZERS,
        f"tokenize must be one of {', '.join(BLEU.TOKENIZERS)}, got {tokenize!r:.60}"
        f"{did_you_mean(tokenize, BLEU.TOKENIZERS)}",
    )
    _bleu(data, tokenize)


def _bleu(data: str, tokenize: str | None):
    """Return sacreBLEU's metric; `ValueError` if its tokenizer needs what is not there."""
    from sacrebleu.metrics import BLEU

    options: dict = BLEU_OPTIONS.get(data, {"effective_order": data == "pairs"})
    try:
        return BLEU(**options | ({"tokenize": tokenize} if tokenize else {}))
    except (ImportError, RuntimeError, AssertionError, OSError) as error:
        raise ValueError(f"tokenize={tokenize} cannot be used here: {error}") from None
