"""BLEU with a bootstrap interval, for one system and for the difference of two (Koehn, 2004).

Sentences are drawn with replacement, 1,000 times, the same ones for both systems. The counts of
each sentence and the score of their sums are sacreBLEU's.
"""

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics import BLEU

from transformer_lab.scoring import BLEU_OPTIONS

DRAWS = 1000


def counts_of(data: str, outputs: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """Return what each sentence adds to BLEU, (N, 10): matches and n-grams for n = 1…4, lengths.

    `data` is the task, "multi30k-raw" or "multi30k-tok"; it says how the sentences are cut.
    """
    bleu = BLEU(effective_order=True, **BLEU_OPTIONS.get(data, {}))  # no warning for short ones
    rows = []
    for output, reference in zip(outputs, references, strict=True):
        found = bleu.sentence_score(output, [reference])
        rows.append([*found.counts, *found.totals, found.sys_len, found.ref_len])
    return np.array(rows)


def bleu_of(sums: np.ndarray) -> float:
    """Return the BLEU of summed counts, from 0 to 100."""
    correct, total = sums[:4].tolist(), sums[4:8].tolist()
    return BLEU.compute_bleu(correct, total, int(sums[8]), int(sums[9]), smooth_method="exp").score


def drawn(counts: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the BLEU of each draw; the same seed draws the same sentences."""
    rows = np.random.default_rng(seed).integers(len(counts), size=(DRAWS, len(counts)))
    return np.array([bleu_of(counts[chosen].sum(axis=0)) for chosen in rows])


def interval(values: np.ndarray) -> dict[str, float]:
    """Return the range that holds the middle 95 % of the draws."""
    low, high = np.percentile(values, [2.5, 97.5])
    return {"low": round(float(low), 2), "high": round(float(high), 2)}
