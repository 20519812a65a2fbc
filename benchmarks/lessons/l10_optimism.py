"""`python -m benchmarks.lessons.l10_optimism`: how a test set flatters the best of 20 checkpoints.

The translator of the course is trained on at a small constant rate, and leaves twenty checkpoints
that are about equally good. Each translates 500 captions of test2016. Of these, a random half
chooses the best checkpoint, and the other half, which has chosen nothing, says what the choice is
worth. A thousand halves, three seeds of the training; by one process in some four minutes.
"""

import statistics
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from sacrebleu.metrics import BLEU

from benchmarks.lessons.rows import measure_rows
from transformer_lab import Batch, Objective, TrainConfig, batches_by_tokens, load_run, train_step
from transformer_lab.runs import Run, encode_pairs, load_task

LONG = {"seeds": 3, "checkpoints": 20, "steps": 8, "captions": 500, "halves": 1000}
SMOKE = {"seeds": 1, "checkpoints": 2, "steps": 1, "captions": 8, "halves": 5}
RATE, MAX_TOKENS = 2e-4, 700


def checkpoints(run: Run, train: list, seed: int, sizes: dict) -> Iterator[Run]:
    """Train the run's model on, and yield the run at each checkpoint."""
    torch.manual_seed(seed)
    objective = Objective(run.model, TrainConfig(max_tokens=MAX_TOKENS))
    optimizer = torch.optim.AdamW(run.model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9)
    lengths = [(len(target) + 1, len(source)) for source, target in train]
    generator = torch.Generator().manual_seed(seed)
    batches = iter(batches_by_tokens(lengths, MAX_TOKENS, generator=generator))
    for _ in range(sizes["checkpoints"]):
        run.model.train()
        for _ in range(sizes["steps"]):
            batch = Batch.from_pairs([train[i] for i in next(batches)])
            train_step(objective, batch, optimizer)
        run.model.eval()
        yield run


def counts_of(outputs: list[str], references: list[str]) -> np.ndarray:
    """Return what BLEU adds up for each sentence: lengths, matches and totals (sentences, 10)."""
    return np.array(BLEU()._extract_corpus_statistics(outputs, [references]))


def bleu_of(counts: np.ndarray) -> float:
    """Return the BLEU of sentences from their counts."""
    return BLEU()._aggregate_and_compute(counts.tolist()).score


def flattery(counts: np.ndarray, halves: int, seed: int) -> dict:
    """Choose the best checkpoint on one half, ask the other; `counts` is (checkpoints, n, 10).

    A gain is BLEU above the mean of all checkpoints on the same half, so that an easier half is
    no gain. All scores of the first halving are kept, for a picture.
    """
    rng, gains, first = np.random.default_rng(seed), [], None
    for _ in range(halves):
        order = rng.permutation(counts.shape[1])
        sums = [counts[:, part].sum(axis=1) for part in np.array_split(order, 2)]
        chosen_on, other = ([bleu_of(each[None]) for each in part] for part in sums)
        first = first or {"chosen_on": chosen_on, "other": other}
        best = int(np.argmax(chosen_on))
        gains.append([half[best] - statistics.mean(half) for half in (chosen_on, other)])
    shown, real = np.array(gains).mean(axis=0)
    found = {"gain_shown": round(float(shown), 3), "gain_real": round(float(real), 3)}
    return found | {"first": {half: np.round(each, 3).tolist() for half, each in first.items()}}


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each seed, and what trains and scores its checkpoints."""
    sizes = SMOKE if smoke else LONG
    for seed in range(sizes["seeds"]):
        yield {"seed": seed}, partial(measure, seed, sizes)


def measure(seed: int, sizes: dict) -> dict:
    """Return the checkpoints' scores, and what choosing among them gains."""
    run = load_run()
    splits = load_task(run.data)
    sources, references = zip(*splits["test2016"][: sizes["captions"]], strict=True)
    train = encode_pairs(run.tokenizer, splits["train"])
    counts = np.array(
        [
            counts_of(each.translate(sources, beam=1), references)
            for each in checkpoints(run, train, seed, sizes)
        ]
    )
    scores = [round(bleu_of(each), 3) for each in counts]
    return {"scores": scores} | flattery(counts, sizes["halves"], seed)


def notes(smoke: bool) -> dict:
    settings = {"rate": RATE, "max_tokens": MAX_TOKENS}
    return {"sizes": SMOKE if smoke else LONG, "settings": settings}


def main(arguments: list[str] | None = None) -> None:
    """Train what l10_optimism.json does not have yet."""
    measure_rows("l10_optimism", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
