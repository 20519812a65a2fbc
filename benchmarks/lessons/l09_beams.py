"""`python -m benchmarks.lessons.l09_beams`: wider beams and length penalties on real captions.

The long version of an experiment of lesson 09, with the translator that comes with the course: the
first 150 captions of three test sets, beams of 1, 4 and 16, the hypotheses of each search ranked
with four penalties, of which 0.6 is the paper's and 2 this translator's own. A finished hypothesis
goes before an unfinished one, whatever their scores. Differences from greedy are paired: the
captions drawn are the same for both. `kept` leaves out, in both, the captions whose output is
empty.
"""

import statistics
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from benchmarks import intervals
from benchmarks.reporting import report
from transformer_lab import Batch, beam_search, load_run
from transformer_lab.config import EOS, PAD
from transformer_lab.runs import Run, encode_pairs, load_task

BEAMS = (1, 4, 16)
CAPTIONS = 150
ALPHAS = (0.0, 0.6, 1.0, 2.0)
SMOOTHING = 0.1  # with which the translator was trained
Pairs = Sequence[tuple[list[int], list[int]]]


def search(run: Run, sources: Sequence[list[int]], beam: int) -> list[tuple[Tensor, Tensor]]:
    """Return the hypotheses (beam, L) of each sentence and their log P (beam,)."""
    found = [None] * len(sources)
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    size = max(1, 256 // beam)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        source = Batch.from_pairs([(sources[i], [EOS]) for i in rows]).source
        room = min(run.model.config.max_length, 2 * source.shape[1] + 12)
        settings = {"beam": beam, "length_penalty": 0.0, "max_length": room, "return_all": True}
        for i, *hypotheses in zip(rows, *beam_search(run.model, source, **settings), strict=True):
            found[i] = hypotheses
    return found


def best_of(hypotheses: Tensor, log_p: Tensor, length_penalty: float) -> list[int]:
    """Return the ids of the best that has ended, from BOS on; of the best if none has."""
    n = (hypotheses != PAD).sum(dim=1) - 1
    score = log_p / ((5 + n) / 6) ** length_penalty
    ended = (hypotheses == EOS).any(dim=1)
    best = hypotheses[int(score.masked_fill(~ended & ended.any(), -torch.inf).argmax())]
    return best[best != PAD].tolist()


@torch.no_grad()
def log_p_of(run: Run, pairs: Pairs, smoothing: float = 0.0) -> list[float]:
    """Return log P of each target, of which BOS is no part, in one teacher-forced pass a batch.

    The targets of label smoothing ε give at least ε/V to every piece; with `smoothing` that much is
    taken off each probability, as in the lesson's evidence, and the rest scaled to a sum of 1.
    """
    found = []
    for start in range(0, len(pairs), 100):
        batch = Batch.from_pairs(list(pairs[start : start + 100]))
        p = run.model(batch.source, batch.target_in).softmax(dim=-1, dtype=torch.float64)
        p = (p - smoothing / p.shape[-1]).clamp(min=0)
        log_p = (p / p.sum(dim=-1, keepdim=True)).clamp(min=1e-300).log()
        each = log_p.gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
        found += (each * (batch.target_out != PAD)).sum(dim=1).tolist()
    return found


def count_less(these: list[float], than: list[float]) -> int:
    """Return how many are less; in another batch the same sentence differs in its last digits."""
    return sum(a < b - 1e-3 for a, b in zip(these, than, strict=True))


def bleu_of(outputs: list[str], references: list[str]) -> dict:
    """Return BLEU, the factor for short output in it, and the half-width of its 95 % interval from
    1,000 resamplings.
    """
    from sacrebleu.metrics import BLEU

    score = BLEU().corpus_score(outputs, [references], n_bootstrap=1000)
    return {
        "bleu": round(score.score, 2),
        "factor": round(score.bp, 4),
        "interval": round(score._ci, 2),
    }


def paired_draws(
    outputs: list[str], greedy: list[str], references: list[str], seed: int
) -> np.ndarray:
    """Return BLEU minus greedy's in each of 1,000 resamplings of the captions."""
    both = (intervals.counts_of("multi30k-raw", each, references) for each in (outputs, greedy))
    ours, greedys = (intervals.drawn(counts, seed) for counts in both)
    return ours - greedys


def without_empty(outputs: list[str], greedy: list[str], references: list[str]) -> dict:
    """Return BLEU and its factor of both, on the captions whose output is not empty."""
    from sacrebleu.metrics import BLEU

    kept = [i for i, text in enumerate(outputs) if text]
    truth, row = [[references[i] for i in kept]], {"kept": len(kept)}
    for name, lines in (("kept", outputs), ("kept_greedy", greedy)):
        score = BLEU().corpus_score([lines[i] for i in kept], truth)
        row |= {f"{name}_bleu": round(score.score, 2), f"{name}_factor": round(score.bp, 4)}
    return row


def rows_of(
    run: Run, name: str, pairs: list, beams: tuple, penalties: tuple, seed: int = 0
) -> tuple[list[dict], list[np.ndarray]]:
    """Return one row for each beam and penalty on a test set, and the draws of each difference."""
    texts = [reference for _, reference in pairs]
    encoded = encode_pairs(run.tokenizer, pairs)
    sources = [source for source, _ in encoded]
    truth = log_p_of(run, encoded)
    nothing = [(source, [EOS]) for source in sources]
    empty, empty_undone = log_p_of(run, nothing), log_p_of(run, nothing, SMOOTHING)
    rows, draws, first, greedy = [], [], None, None
    for beam in beams:
        hypotheses = search(run, sources, beam)
        for length_penalty in penalties:
            found = [best_of(*each, length_penalty) for each in hypotheses]
            outputs = [(source, ids[1:]) for source, ids in zip(sources, found, strict=True)]
            log_p, undone = log_p_of(run, outputs), log_p_of(run, outputs, SMOOTHING)
            written = [run.tokenizer.decode(ids) for ids in found]
            first, greedy = first or log_p, greedy or written  # a beam of one
            row = {"data": name, "alpha": length_penalty, "beam": beam, "sentences": len(pairs)}
            row |= bleu_of(written, texts)
            draws.append(paired_draws(written, greedy, texts, seed))
            row["difference"] = round(row["bleu"] - (rows or [row])[0]["bleu"], 2)
            row |= intervals.interval(draws[-1]) | without_empty(written, greedy, texts)
            row["length"] = round(
                sum(len(ids) - 1 for ids in found) / sum(len(target) for _, target in encoded), 4
            )
            row["log_p"] = round(statistics.mean(log_p), 4)
            row["more_than_greedy"] = count_less(first, log_p)
            row["less_than_greedy"] = count_less(log_p, first)
            row["more_than_reference"] = count_less(truth, log_p)
            row["less_than_empty"] = count_less(log_p, empty)
            row["less_than_empty_undone"] = count_less(undone, empty_undone)
            row["empty"] = sum(ids[1:] == [EOS] for ids in found)
            row["unfinished"] = sum(ids[-1] != EOS for ids in found)
            rows.append(row)
            print(row, flush=True)
    return rows, draws


def means_of(rows: list[list[dict]], draws: list[list[np.ndarray]]) -> list[dict]:
    """Return the mean difference of the test sets, of which each has draws of its own."""
    means = []
    for same, drawn in zip(zip(*rows, strict=True), zip(*draws, strict=True), strict=True):
        mean = {"alpha": same[0]["alpha"], "beam": same[0]["beam"]}
        mean["difference"] = round(statistics.mean(row["difference"] for row in same), 2)
        means.append(mean | intervals.interval(np.mean(drawn, axis=0)))
    return means


def measure(*, smoke: bool = False) -> dict[str, list[dict]]:
    """Return the rows of all test sets, and the means over these."""
    run = load_run()
    splits = load_task(run.data)
    beams, penalties = ((1, 2), (0.0,)) if smoke else (BEAMS, ALPHAS)
    rows, draws = [], []
    for seed, name in enumerate(sorted(set(splits) - {"train", "val"})):
        pairs = splits[name][: 3 if smoke else CAPTIONS]
        of_set = rows_of(run, name, pairs, beams, penalties, seed)
        rows.append(of_set[0])
        draws.append(of_set[1])
    return {"rows": [row for of_set in rows for row in of_set], "means": means_of(rows, draws)}


def main(arguments: list[str] | None = None) -> None:
    """Measure, write l09_beams.json, print the table."""
    options = report.read_options("l09_beams", __doc__, arguments)
    result = report.describe_run("l09_beams", smoke=options.smoke) | measure(smoke=options.smoke)
    if options.output:
        report.write(options.output / "l09_beams.json", result)
    for rows in (result["rows"], result["means"]):
        print(report.markdown(list(rows[0]), [list(row.values()) for row in rows]), end="\n\n")


if __name__ == "__main__":
    main()
