"""`python -m benchmarks.lessons.l08_exposure`: what a model says behind a mistake (lesson 08).

Models that have learnt for 300 steps are asked after the truth, after a random wrong digit and
after their own, on the same dates; then wrong tokens are planted in all dates. Three seeds draw
the weights and the order of the batches.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from benchmarks.lessons.l06_ablation import endless_batches
from benchmarks.lessons.rows import measure_rows
from transformer_lab import (
    PRESETS,
    Batch,
    Objective,
    Tokenizer,
    Transformer,
    date_pairs,
    noam_rate,
    train_step,
    train_tokenizer,
)
from transformer_lab.runs import encode_pairs

LONG = {"seeds": 3, "count": 40_000, "tests": 1000, "steps": 300}
SMOKE = {"seeds": 1, "count": 300, "tests": 40, "steps": 3}
THIRD, FOURTH = 2, 3  # digits of the year, among the tokens that are predicted


def ramp(step: int) -> float:
    """The rate of the preset."""
    return 0.35 * noam_rate(step, 64, 150)


class Dates:
    """The date task: its tokenizer, its pairs as ids, and a batch of unseen dates."""

    def __init__(self, count: int, tests: int):
        texts = date_pairs(count, seed=0)
        self.tokenizer: Tokenizer = train_tokenizer(
            [text for pair in texts for text in pair], kind="characters"
        )
        self.pairs = encode_pairs(self.tokenizer, texts)
        unseen = date_pairs(tests, seed=7, split="test")
        self.exam = Batch.from_pairs(encode_pairs(self.tokenizer, unseen))
        self.zero, self.dash = (self.tokenizer.encode(sign)[0] for sign in "0-")

    def is_digit(self, ids: Tensor) -> Tensor:
        return (self.zero <= ids) & (ids < self.zero + 10)

    def model(self, seed: int) -> Transformer:
        size = self.tokenizer.vocab_size
        config = PRESETS["dates"].model
        torch.manual_seed(seed)
        return Transformer(replace(config, source_vocab_size=size, target_vocab_size=size))


def train_at(dates: Dates, rate: Callable, seed: int, steps: int) -> tuple[Transformer, list]:
    """Train a model of the preset; return it, and its losses, each the mean of ten steps."""
    model, training = dates.model(seed), PRESETS["dates"].training
    batches = endless_batches(dates.pairs, training.max_tokens, seed)
    objective = Objective(model, training)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        loss = train_step(objective, next(batches), optimizer, clip_norm=1.0)
        losses.append(float(loss))
    tens = [statistics.mean(losses[i : i + 10]) for i in range(0, steps, 10)]
    return model.eval(), [round(loss, 4) for loss in tens]


@torch.no_grad()
def said(model: Transformer, batch: Batch, read: Tensor | None = None) -> Tensor:
    """Return the most probable token at each place (B, L), after the truth or after `read`."""
    return model(batch.source, batch.target_in if read is None else read).argmax(dim=-1)


@torch.no_grad()
def go_on(model: Transformer, batch: Batch, place: int, token: Tensor) -> Tensor:
    """Write on freely, to the truth's length, after the truth up to `place` and `token` there."""
    memory, mask = model.encode(batch.source)
    written = torch.cat([batch.target[:, : place + 1], token[:, None]], dim=1)
    while written.shape[1] < batch.target.shape[1]:
        logits = model.decode(written, memory, mask)[:, -1]
        written = torch.cat([written, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return written[:, 1:]


def other_digits(dates: Dates, *digits: Tensor) -> list[Tensor]:
    """Return every digit for each row, and which of them is none of `digits`, as ten pairs."""
    rows = [torch.full_like(digits[0], dates.zero + d) for d in range(10)]
    return [(row, ~torch.stack([row == digit for digit in digits]).any(0)) for row in rows]


def shares_behind(
    model: Transformer, dates: Dates, place: Tensor, right: Tensor, wrong: Tensor, of: Tensor
) -> dict:
    """Return how often the next token is right, in the dates of `of`, behind three kinds of digit.

    At `place` (B,) stands the right digit, each of the eight that are neither, or the wrong one.
    """
    exam, rows = dates.exam, torch.arange(len(place))
    place = place.clamp(max=9) + 1  # where it is read
    behind = exam.target_out[rows, place]

    def hits(token: Tensor, of: Tensor) -> tuple[int, int]:
        read = exam.target_in.clone()
        read[rows, place] = token
        hit = said(model, exam, read)[rows, place] == behind
        return int(hit[of].sum()), int(of.sum())

    others = [hits(digit, of & keep) for digit, keep in other_digits(dates, wrong, right)]
    found = {"truth": hits(right, of), "random": map(sum, zip(*others, strict=True))}
    found = {name: tuple(pair) for name, pair in (found | {"own": hits(wrong, of)}).items()}
    return {name: hit / count if count else 0.0 for name, (hit, count) in found.items()}


def after_a_digit(model: Transformer, dates: Dates) -> dict:
    """Return how often the token behind the first mistake is right, on the same dates.

    Only dates whose first mistake is a digit for a digit. They read the truth there, or each of
    the eight digits that are neither the truth nor the model's, or the model's own. The control
    are dates with the first three digits right: there the true fourth one stands for "own".
    """
    exam = dates.exam
    truth, answers = exam.target_out, said(model, exam)
    wrong = answers != truth
    place = wrong.int().argmax(dim=1)  # of the first mistake
    rows = torch.arange(len(truth))
    own, right = answers[rows, place], truth[rows, place]
    fits = wrong.any(1) & dates.is_digit(own) & dates.is_digit(right) & (place < 10)
    behind = truth[rows, place.clamp(max=9) + 1]
    in_year = fits & (place == THIRD)
    swapped = in_year & (own == behind)
    third, fourth = truth[:, THIRD], truth[:, FOURTH]
    knew = ~wrong[:, :FOURTH].any(1) & (third != fourth)
    at_third = torch.full_like(place, THIRD)
    return {
        "dates": int(fits.sum()),
        "all": shares_behind(model, dates, place, right, own, fits),
        "third digit": int(in_year.sum()),
        "at the third digit": shares_behind(model, dates, place, right, own, in_year),
        "own digit is the fourth": int(swapped.sum()),
        "not swapped": shares_behind(model, dates, place, right, own, in_year & ~swapped),
        "third digit right": int(knew.sum()),
        "exchanged": shares_behind(model, dates, at_third, third, fourth, knew),
    }


def by_place(model: Transformer, dates: Dates) -> dict:
    """Return the share of right tokens at each place: teacher-forced and free running."""
    truth, exam = dates.exam.target_out, dates.exam
    forced = said(model, exam) == truth
    free = go_on(model, exam, 0, said(model, exam)[:, 0])[:, : truth.shape[1]] == truth
    extra = (forced & ~free).sum(dim=0)
    return {
        "forced": forced.double().mean(0).tolist(),
        "free": free.double().mean(0).tolist(),
        "extra errors": extra.tolist(),
        "whole dates": forced.all(1).double().mean().item(),
    }


def planted(model: Transformer, dates: Dates) -> dict:
    """Return the shares of right tokens at the places behind a planted third digit of the year."""
    exam, truth = dates.exam, dates.exam.target_out
    third, fourth = truth[:, THIRD], truth[:, FOURTH]
    drawn = torch.randint(1, 10, third.shape, generator=torch.Generator().manual_seed(0))
    tokens = {
        "truth": third,
        "random digit": dates.zero + (third - dates.zero + drawn) % 10,
        "the fourth digit": fourth,
        "dash": torch.full_like(third, dates.dash),
    }
    differ = third != fourth
    return {
        name: (go_on(model, exam, THIRD, token) == truth)[differ, FOURTH:].double().mean(0).tolist()
        for name, token in tokens.items()
    }


def mistakes(model: Transformer, dates: Dates) -> dict:
    """Return all that is asked about mistakes of one model."""
    return {
        "by place": by_place(model, dates),
        "after a digit": after_a_digit(model, dates),
        "planted": planted(model, dates),
    }


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each seed, and what trains a model for a short time and asks for its mistakes."""
    sizes = SMOKE if smoke else LONG
    dates = Dates(sizes["count"], sizes["tests"])
    for seed in range(sizes["seeds"]):
        yield (
            {"experiment": "half-trained", "seed": seed},
            partial(half_trained, dates, seed, sizes),
        )


def half_trained(dates: Dates, seed: int, sizes: dict) -> dict:
    model, losses = train_at(dates, ramp, seed, sizes["steps"])
    return {"losses": losses} | mistakes(model, dates)


def notes(smoke: bool) -> dict:
    return {"sizes": SMOKE if smoke else LONG}


def main(arguments: list[str] | None = None) -> None:
    """Train what l08_exposure.json does not have yet."""
    measure_rows("l08_exposure", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
