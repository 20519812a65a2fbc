"""The checks of exercise 08. A mistake's text ends the sentence "This is the answer when …"."""

import math
from collections import Counter
from inspect import isgenerator
from itertools import pairwise
from numbers import Integral

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course.checking import close, expect
from course.checking.diagnosis import (
    CheckFailed,
    describe,
    expect_error,
    expect_no_memory,
    expect_predictions,
)

# ---- predicted_training


def test_the_six_numbers_are_predicted(predicted_training):
    hints = {
        "a": {
            10: "Those are all places of the batch. Which of them ask a question?",
            8: "Is <bos> ever predicted? It is given.",
            4: "The end of a sentence must be learnt, too: <eos> is predicted.",
            5: "Count again, sentence by sentence: the text and its <eos>.",
            None: "Write what is read and what must be predicted on two lines.",
        },
        "b": {
            4: "That is the sum. The loss is a mean: over which tokens?",
            0.5: "You have divided by 8. Pads are no questions: only 4 tokens count.",
            math.log(2): "That is the loss itself; the question is for the loss divided by ln 2.",
            None: "−ln of 1/2 is ln 2, which is 1 in the units asked for. Take the mean.",
        },
        "c": {
            1: "The pads cost nothing, but they are divided by as well.",
            4: "That is the sum over all 8 places; take the mean.",
            math.log(2) / 2: "The question is for the loss divided by ln 2.",
            None: "A pad costs −ln 1. Add up all 8 places, and divide by 8.",
        },
        "d": {
            0.8: "The smoothing covers all 5 words, the right one among them.",
            0.04: "That is what each of the other words gets.",
            0.2: "That is all of the smoothing. What is left for the right word?",
            0.85: "The smoothing is shared by all 5 words, not by the 4 others.",
            None: "It is 1 − ε + ε/V.",
        },
        "e": {
            50: "That is on the way up. Where is the same height on the way down?",
            150: "Down it is no straight line: it falls with the root of the step.",
            200: "At twice the step the rate has fallen by √2 only. It has to fall by 2.",
            100: "That is the crest.",
            None: "Step 50 is at half of the crest. When is 1/√step half of 1/√100?",
        },
        "f": {
            2: "A batch is as wide as its longest sentence: 2 × 7 is 14.",
            4: "Two sentences of length 2 and one of length 3 make 3 × 3 places: that fits.",
            5: "Fill a batch as long as another sentence fits.",
            None: "Sort, then fill: 2, 2, 3, 6, 7.",
        },
    }
    right = {"a": 6, "b": 1, "c": 0.5, "d": 0.84, "e": 400, "f": 3}
    expect_predictions(predicted_training(), right, hints)


# ---- shift_right


TARGETS = torch.tensor([[5, 6, 7, 8, 2], [9, 2, 0, 0, 0], [3, 4, 9, 2, 0]])


def joined(bos, rest, dim=1):
    return torch.cat([bos, rest], dim=dim)


def shift_mistakes(targets, bos_id):
    bos = torch.full_like(targets[:, :1], bos_id)
    right = joined(bos, targets[:, :-1])
    no_end = torch.where(right == 2, 0, right)
    return {
        "nothing is shifted: the decoder reads what it must predict, and learns to copy.": targets,
        "it is shifted to the left: the decoder reads the token *after* the one that it must "
        "predict.": joined(targets[:, 1:], bos),
        "it is shifted to the left, and a pad is put in at the end: the decoder reads the token "
        "*after* the one that it must predict.": joined(targets[:, 1:], 0 * bos),
        "the tokens are rolled round: the last one comes back at the front, where `bos_id` "
        "belongs.": lambda: targets.roll(1, 1),
        "all tokens are rolled as one long row: the last of one sentence begins the next.": (
            lambda: targets.roll(1)
        ),
        "the last token is kept: it is one column too long. Nobody reads the last target.": joined(
            bos, targets
        ),
        "`bos_id` is missing at the front: it is one column short.": targets[:, :-1],
        "`bos_id` is missing at the front, and the first token is gone: it is one column short.": (
            targets[:, 1:]
        ),
        "the first token is overwritten by `bos_id`; the others have to move.": joined(
            bos, targets[:, 1:]
        ),
        "it is shifted along the batch: each sentence reads the one before it. The tokens are "
        "axis 1.": joined(torch.full_like(targets[:1], bos_id), targets[:-1], 0),
        "`bos_id` is put in twice: it is shifted by two.": lambda: joined(
            joined(bos, bos), targets[:, :-2]
        ),
        "<bos> is 1, whatever `bos_id` is.": joined(torch.ones_like(bos), targets[:, :-1]),
        "0 stands at the front in the place of `bos_id`.": joined(0 * bos, targets[:, :-1]),
        "2 stands at the front in the place of `bos_id`.": joined(0 * bos + 2, targets[:, :-1]),
        "<eos> is taken out of what is read. Leave it: nobody looks at what is said behind it.": (
            no_end
        ),
        "the last token of each row is taken out, pads not counted, and the rest is not moved.": (
            torch.where(targets == 2, 0, targets)
        ),
        "it holds floats: token ids are whole numbers.": right.float(),
        "it holds small whole numbers, and large ids do not fit: keep the dtype of `targets`.": (
            right.to(torch.int8).to(right.dtype)
        ),
        "it holds small whole numbers, and larger ids do not fit: keep the dtype of `targets`.": (
            right.to(torch.uint8).to(right.dtype)
        ),
        "it holds numbers of int16, and the ids of a real vocabulary do not fit: keep the dtype of "
        "`targets`.": right.to(torch.int16).to(right.dtype),
        "the order of the tokens is turned round.": right.flip(1),
        "`bos_id` is put at the end.": joined(targets[:, :-1], bos),
        "each position reads `bos_id`.": bos.expand_as(targets),
    }


def shifted(targets, bos_id):
    return joined(torch.full_like(targets[:, :1], bos_id), targets[:, :-1])


def test_each_batch_is_shifted_anew(shift_right):
    expect_no_memory(shift_right, shifted, (TARGETS, 7), (TARGETS.flip(0), 11))


def test_each_position_reads_the_target_before_it(shift_right):
    large = 10_007 * TARGETS
    for targets in (TARGETS, TARGETS[:, :3], TARGETS[:2, :1], TARGETS[:1], large):
        for bos_id in (1, 11):
            right = shifted(targets, bos_id)
            expect(shift_right(targets, bos_id), right, shift_mistakes(targets, bos_id))


def test_shifting_ids_in_int32(shift_right):
    right = shifted(TARGETS, 1)
    expect(shift_right(TARGETS.int(), 1), right, shift_mistakes(TARGETS, 1))


# ---- smoothed_cross_entropy


def loss_mistakes(logits, targets, pad_id, epsilon):
    logits = logits.double()
    V, real = logits.shape[-1], targets != pad_id
    costs, count = -logits.log_softmax(-1), real.sum()
    sharp, smooth = costs.gather(-1, targets[..., None])[..., 0], costs.mean(-1)
    losses = (1 - epsilon) * sharp + epsilon * smooth
    one_hot = F.one_hot(targets, V).double()

    def total(losses):
        return losses[real].mean()

    def with_targets(q):
        return total((q * costs).sum(-1))

    def mixed(costs):
        of_truth = costs.gather(-1, targets[..., None])[..., 0]
        return (1 - epsilon) * of_truth + epsilon * costs.mean(-1)

    def native(other, answers=targets, **settings):
        settings = {"ignore_index": pad_id, "label_smoothing": epsilon} | settings
        return F.cross_entropy(other.reshape(-1, V), answers.reshape(-1), **settings)

    q = (1 - epsilon) * one_hot + epsilon / V
    others = (1 - one_hot) * (torch.arange(V) != pad_id)
    masked = torch.where(real, losses, 0)
    rows = masked.sum(-1) / real.sum(-1).clamp(min=1)
    smoothing_of = {
        "is shared by the V − 1 wrong words only. Here it covers all V words": (
            (1 - epsilon) * one_hot + epsilon / (V - 1) * (1 - one_hot)
        ),
        "is shared by V − 2 words, without the right one and the padding. Here it covers all V": (
            (1 - epsilon) * one_hot + epsilon / (V - 2) * others
        ),
        "leaves out the right word, and ε / V of the probability gets lost": (
            (1 - epsilon) * one_hot + epsilon / V * (1 - one_hot)
        ),
        "leaves out the padding's id. Here it covers all V words": (
            (1 - epsilon) * one_hot + epsilon / V * (torch.arange(V) != pad_id)
        ),
        "and the right word are swapped: the right word gets ε": (
            epsilon * one_hot + (1 - epsilon) / V
        ),
    }
    return {
        "the pads are counted as if they were words.": lambda: losses.mean(),
        "pads are left out of the sum, but they are still in the number that it is divided "
        "by.": lambda: masked.mean(),
        "the sum is returned, and not the mean.": lambda: masked.sum(),
        "the sum over all tokens, pads among them, is returned.": lambda: losses.sum(),
        "each sentence gets its own mean first: then a token of a short sentence weighs more. "
        "Divide once, by the number of real tokens.": lambda: rows.mean(),
        "the sum is divided by the number of sentences.": lambda: masked.sum() / len(rows),
        "the sum is divided by the length of the sentences.": (
            lambda: masked.sum() / targets.shape[-1]
        ),
        "the sum over all tokens, pads among them, is divided by the number of real ones.": (
            lambda: losses.sum() / count
        ),
        "no mean is taken: one loss for each token is returned, pads among them.": losses,
        "no mean is taken, and the pads have a loss of 0.": masked,
        "no mean is taken: one loss for each real token is returned.": losses[real],
        "one mean for each sentence is returned.": rows,
        "there is no smoothing.": lambda: total(sharp),
        "there is no smoothing, and the pads are counted.": lambda: sharp.mean(),
        **{
            f"the smoothing {text}.": (lambda q=q: with_targets(q))
            for text, q in smoothing_of.items()
        },
        "the smooth part counts the pads, and the sharp part does not.": (
            lambda: (1 - epsilon) * total(sharp) + epsilon * smooth.sum() / count
        ),
        "the smooth part is a mean over all tokens, pads among them.": (
            lambda: (1 - epsilon) * total(sharp) + epsilon * smooth.mean()
        ),
        "the sharp part counts the pads, and the smooth part does not.": (
            lambda: (1 - epsilon) * sharp.mean() + epsilon * total(smooth)
        ),
        "the sum over the vocabulary stands for the mean: the smooth part is V times too "
        "large.": lambda: total((1 - epsilon) * sharp + epsilon * costs.sum(-1)),
        "the smooth part is added, and the sharp part keeps its full weight. It is 1 − ε.": (
            lambda: total(sharp + epsilon * smooth)
        ),
        "only the smooth part is there.": lambda: total(smooth),
        "the sign is missing: it is −log p.": lambda: -total(losses),
        "only costs above 0 are averaged: a token that is certain costs 0, and counts.": (
            lambda: losses[real & (losses > 0)].mean()
        ),
        "ε is 0.1, whatever `epsilon` is.": lambda: native(logits, label_smoothing=0.1),
        "the entropy of q is subtracted: that is the Kullback–Leibler divergence, which differs by "
        "a constant.": lambda: with_targets(q) + torch.special.xlogy(q, q).sum(-1)[real].mean(),
        "the divergence is averaged over the vocabulary as well.": (
            lambda: (with_targets(q) + torch.special.xlogy(q, q).sum(-1)[real].mean()) / V
        ),
        "the products q log p are averaged over the vocabulary, and not added.": (
            lambda: with_targets(q) / V
        ),
        "the exponential of the loss is returned (perplexity).": lambda: total(losses).exp(),
        "the softmax is missing: logits are used for log p.": lambda: total(mixed(-logits)),
        "the logarithm is missing: −p is added up.": lambda: total(mixed(-logits.softmax(-1))),
        "the softmax is taken twice: `F.cross_entropy` wants logits.": (
            lambda: native(logits.softmax(-1))
        ),
        "the softmax runs over the tokens; the vocabulary is dim=-1.": (
            lambda: total(mixed(-logits.log_softmax(1)))
        ),
        "the softmax runs over the batch; the vocabulary is dim=-1.": (
            lambda: total(mixed(-logits.log_softmax(0)))
        ),
        "a logarithm to the base 2 is taken.": lambda: total(losses) / math.log(2),
        "a logarithm to the base 10 is taken.": lambda: total(losses) / math.log(10),
        "the id 0 is taken for padding, whatever `pad_id` is.": lambda: losses[targets != 0].mean(),
        "every id above `pad_id` is taken for a word, and those below it are not.": (
            lambda: losses[targets > pad_id].mean()
        ),
        "tokens for which the *model* says padding are left out: the target decides.": (
            lambda: losses[logits.argmax(-1) != pad_id].mean()
        ),
        "the last token of each sentence is left out.": lambda: native(
            logits[:, :-1], targets[:, :-1]
        ),
        "the targets are shifted once more: here each target stands at its logits already.": (
            lambda: native(logits[:, :-1], targets[:, 1:])
        ),
        "the first token of each sentence is left out.": lambda: native(
            logits[:, 1:], targets[:, 1:]
        ),
        "axes are turned by a reshape: (B, L, V) becomes (B, V, L) by a transpose.": (
            lambda: F.cross_entropy(
                logits.reshape(len(logits), V, -1),
                targets,
                ignore_index=pad_id,
                label_smoothing=epsilon,
            )
        ),
        "the logarithm of a probability of 0 is taken: softmax first and log after it loses what "
        "is small. Use log_softmax.": torch.tensor(math.inf),
        **{
            f"probabilities are kept from 0 by {limit:g}, and what is smaller is lost. Use "
            "log_softmax.": (
                lambda limit=limit: total(mixed(-logits.softmax(-1).clamp(limit).log()))
            )
            for limit in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-20)
        },
        **{
            f"{limit:g} is added to the probabilities, and what is smaller is lost. Use "
            "log_softmax.": (lambda limit=limit: total(mixed(-(logits.softmax(-1) + limit).log())))
            for limit in (1e-6, 1e-7)  # the smaller ones give what a limit gives
        },
    }


NAN_LOSS = (
    "Softmax first and log after it: a small probability becomes 0, its log −inf, and 0 · −inf is "
    "NaN; or a large logit overflows in exp. Use log_softmax. (A mean over no tokens is NaN, too.)"
)


def a_batch(shape, pad_id, scale=1.5):
    """Logits and targets with pads behind, in front and in between, rows of different count."""
    B, L, V = shape
    targets = torch.randint(0, V, (B, L))
    targets[targets == pad_id] = (pad_id + 1) % V
    targets[0, -2:] = pad_id
    targets[-1, 0] = pad_id
    return scale * torch.randn(shape), targets


def right_loss(logits, targets, pad_id, epsilon):
    return F.cross_entropy(
        logits.double().flatten(0, 1),
        targets.flatten(),
        ignore_index=pad_id,
        label_smoothing=epsilon,
    ).to(logits.dtype)


def expect_loss(answer, logits, targets, pad_id, epsilon):
    right = right_loss(logits, targets, pad_id, epsilon)
    mistakes = loss_mistakes(logits.detach(), targets, pad_id, epsilon)
    mistakes = {
        text: (lambda wrong=wrong: (wrong() if callable(wrong) else wrong).to(right.dtype))
        for text, wrong in mistakes.items()
    }
    result = answer(logits, targets, pad_id, epsilon)
    expect(result, right.detach(), mistakes, nan=NAN_LOSS)
    return result


def test_the_loss_of_each_batch_is_its_own(smoothed_cross_entropy):
    first, second = ((*a_batch((4, 4, 4), 1), 1, epsilon) for epsilon in (0.3, 0.2))
    expect_no_memory(smoothed_cross_entropy, right_loss, first, second)


def test_the_loss_is_a_mean_over_the_real_tokens(smoothed_cross_entropy):
    for shape, pad_id, epsilon in (
        ((3, 5, 7), 0, 0.0),
        ((3, 5, 7), 0, 0.2),
        ((2, 6, 5), 3, 0.3),
        ((4, 4, 4), 1, 0.1),
        ((3, 2, 9), 8, 0.1),
    ):
        expect_loss(smoothed_cross_entropy, *a_batch(shape, pad_id), pad_id, epsilon)


def test_three_tokens_that_can_be_checked_on_paper(smoothed_cross_entropy):
    eighths = torch.tensor([[1, 4, 2, 1], [2, 2, 2, 2], [1, 4, 2, 1], [4, 2, 1, 1]]) / 8
    logits = eighths.log().view(2, 2, 4)
    for epsilon in (0.0, 0.1):
        expect_loss(smoothed_cross_entropy, logits, torch.tensor([[1, 2], [3, 0]]), 0, epsilon)


def test_a_batch_without_padding(smoothed_cross_entropy):
    for B, L in ((2, 3), (1, 4), (3, 1)):
        logits, targets = torch.randn(B, L, 6), torch.randint(1, 6, (B, L))
        expect_loss(smoothed_cross_entropy, logits, targets, 0, 0.1)


def test_a_sentence_of_pads_alone_counts_nothing(smoothed_cross_entropy):
    logits, targets = a_batch((3, 4, 6), 0)
    targets[1] = 0
    expect_loss(smoothed_cross_entropy, logits, targets, 0, 0.1)


def test_the_loss_of_a_batch_that_was_transposed(smoothed_cross_entropy):
    logits, targets = a_batch((3, 5, 6), 0)
    logits, targets = (x.transpose(0, 1) for x in (logits, targets))  # not row by row in memory
    expect_loss(smoothed_cross_entropy, logits, targets, 0, 0.1)


def test_a_token_that_is_certain_counts(smoothed_cross_entropy):
    logits, targets = a_batch((2, 5, 6), 0)
    logits[0, 0, targets[0, 0]] = 200
    expect_loss(smoothed_cross_entropy, logits, targets, 0, 0.0)


def test_large_logits_lose_nothing(smoothed_cross_entropy):
    logits, targets = a_batch((2, 4, 6), 0, scale=200.0)
    for epsilon in (0.0, 0.1):
        expect_loss(smoothed_cross_entropy, logits, targets, 0, epsilon)


def test_the_gradient_of_the_loss_is_right(smoothed_cross_entropy):
    logits, targets = a_batch((2, 4, 6), 0)
    wanted, given = (logits.clone().requires_grad_() for _ in range(2))
    loss = smoothed_cross_entropy(given, targets, 0, 0.1)
    expect(loss.detach() if isinstance(loss, Tensor) else loss, right_loss(logits, targets, 0, 0.1))
    assert loss.requires_grad, (
        "The loss has no gradient: it was taken out of the graph by .item(), .detach(), NumPy or "
        "a new tensor. Training needs the gradient."
    )

    def gradient(epsilon, share):
        (grad,) = torch.autograd.grad(share * right_loss(wanted, targets, 0, epsilon), wanted)
        return grad

    (came,) = torch.autograd.grad(loss, given, allow_unused=True)
    lost = "is taken out of the graph (.detach(), .data, .item())."
    expect(
        came if came is not None else torch.zeros_like(given),
        gradient(0.1, 1.0),
        {
            f"the smooth part {lost}": lambda: gradient(0.0, 0.9),
            f"the sharp part {lost}": lambda: gradient(1.0, 0.1),
            f"the whole loss {lost}": torch.zeros_like(given),
        },
        nan="The loss is right, and its gradient is NaN: a log of 0 or 0 · inf was masked later.",
        hint=lambda _: "The loss is right: which step on the way to it is cut, or rounds?",
        call="the gradient of the loss",
    )


def test_the_loss_of_logits_in_half_and_double_precision(smoothed_cross_entropy):
    logits, targets = a_batch((2, 4, 6), 0)
    for dtype in (torch.float16, torch.float64):
        expect_loss(smoothed_cross_entropy, logits.to(dtype), targets, 0, 0.1)


# ---- noam_rate


def rate_mistakes(step, d_model, warmup):
    up, down, width = step * warmup**-1.5, step**-0.5, d_model**-0.5
    return {
        "the larger of the two entries is taken: it is min.": lambda: width * max(up, down),
        "the factor with d_model is missing.": lambda: min(up, down),
        "it is multiplied by √d_model, not divided.": lambda: min(up, down) / width,
        "it is divided by d_model, not by its root.": lambda: min(up, down) * width**2,
        "`d_model**-1/2` is (1/d_model)/2: put the exponent in brackets, or write -0.5.": (
            lambda: min(up, down) / d_model / 2
        ),
        "`warmup**-3/2` is (1/warmup³)/2: put the exponent in brackets, or write -1.5.": (
            lambda: width * min(down, step * warmup**-3 / 2)
        ),
        "`step**-1/2` is (1/step)/2: put the exponent in brackets, or write -0.5.": (
            lambda: width * min(1 / step / 2, up)
        ),
        "three exponents lack their brackets: `x**-1/2` is (1/x)/2.": (
            lambda: min(1 / step / 2, step * warmup**-3 / 2) / d_model / 2
        ),
        "step and warm-up lack the brackets of their exponents: `x**-1/2` is (1/x)/2.": (
            lambda: width * min(1 / step / 2, step * warmup**-3 / 2)
        ),
        "warmup^−½ stands for warmup^−³⁄².": lambda: width * min(down, step * warmup**-0.5),
        "warmup^−1 stands for warmup^−³⁄²: the two entries do not meet at the crest.": (
            lambda: width * min(down, step / warmup)
        ),
        "1/step stands for 1/√step.": lambda: width * min(1 / step, up),
        "it only climbs: after the warm-up it has to fall, as 1/√step (and not √step).": lambda: (
            width * up
        ),
        "it only falls: there is no warm-up. Is its exponent −³⁄², with the minus?": lambda: (
            width * down
        ),
        "after the warm-up it stays at the crest.": lambda: width * min(up, warmup**-0.5),
        "it climbs to 1, not to the crest: the rate is step / warmup before the crest.": (
            lambda: step / warmup if step < warmup else width * down
        ),
        "steps are counted from 0: here the first step is 1.": lambda: (
            width * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)
        ),
        "one is subtracted from the step.": lambda: (
            width * min(max(step - 1, 1) ** -0.5, (step - 1) * warmup**-1.5)
        ),
        "d_model and warmup have changed places.": lambda: (
            warmup**-0.5 * min(down, step * d_model**-1.5)
        ),
        "it is multiplied by 2, a factor that some programs have.": lambda: (
            2 * width * min(up, down)
        ),
        "d_model is taken to be 512, whatever it is.": lambda: 512**-0.5 * min(up, down),
        "warmup is taken to be 4000, whatever it is.": lambda: width * min(down, step * 4000**-1.5),
        "the two entries are added.": lambda: width * (up + down),
        "the two entries are multiplied.": lambda: width * up * down,
        "it is rounded to a whole number.": lambda: int(width * min(up, down)),
        **{
            f"it is rounded to {digits} digits behind the point: return all of them.": (
                lambda digits=digits: round(width * min(up, down), digits)
            )
            for digits in range(2, 8)
        },
    }


def test_the_rate_depends_on_nothing_but_its_arguments(noam_rate):
    def right(step, d_model, warmup):
        return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)

    expect_no_memory(noam_rate, right, (12, 20, 15), (14, 24, 28))


def likely(made, came, right):
    """Return whether a mistake can be meant: near 0 all are alike, and any part would fit."""
    parts = [m for m, c, r in zip(made, came, right, strict=True) if not close(c, r)]
    return close(came, made) or any(abs(part) > 1e-7 for part in parts)


def test_the_rate_climbs_to_its_crest_and_falls(noam_rate):
    """All steps at once: a single rate would not tell a max from a missing warm-up."""
    for d_model, warmup in ((16, 9), (64, 100), (512, 4000), (25, 1)):
        steps = (1, 2, warmup // 2 + 1, warmup, warmup + 1, 4 * warmup, 50 * warmup)
        right = tuple(d_model**-0.5 * min(n**-0.5, n * warmup**-1.5) for n in steps)
        each = [rate_mistakes(n, d_model, warmup) for n in steps]
        came = tuple(noam_rate(n, d_model, warmup) for n in steps)
        mistakes = {
            text: made
            for text in each[0]
            if likely(made := tuple(one[text]() for one in each), came, right)
        }
        names = [f"The rate at step {n}" for n in steps]
        call = f"noam_rate(step, d_model {d_model}, warmup {warmup})"
        expect(came, right, mistakes, names=names, call=call)
        for n, one, other in zip(steps, came, right, strict=True):
            if not math.isclose(float(one), other, rel_tol=1e-4):
                raise CheckFailed(
                    f"The rate at step {n} is {float(one):.4g}, expected {other:.4g}: is it "
                    "rounded? Return all digits.",
                    call,
                )


# ---- batches_by_tokens


def as_batches(result):
    """Return the batches as lists of whole numbers, or say what came instead."""
    assert result is not None, "The result is None. Is a `return` missing?"
    wanted = "expected a list of batches, each a list of indices"
    assert not isgenerator(result), f"It gives batches one by one, because of `yield`; {wanted}."
    outer = (list, tuple)
    inner = (list, tuple, range, Tensor, np.ndarray)
    assert isinstance(result, outer), f"It returned {describe(result)}; {wanted}."
    batches = []
    for batch in result:
        assert isinstance(batch, inner), f"A batch is {describe(batch)}; {wanted}."
        ids = batch.tolist() if isinstance(batch, (Tensor, np.ndarray)) else list(batch)
        ids = ids if isinstance(ids, list) else [ids]
        ids = [i.item() if isinstance(i, Tensor) and i.numel() == 1 else i for i in ids]
        whole = all(isinstance(i, Integral) and not isinstance(i, bool) for i in ids)
        assert whole, f"A batch holds {describe(ids)}; {wanted}."
        batches.append([int(i) for i in ids])
    return batches


def filled(lengths, max_tokens):
    """Sort and fill: what the lesson does."""
    batches = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not batches or (len(batches[-1]) + 1) * lengths[index] > max_tokens:
            batches.append([])
        batches[-1].append(index)
    return batches


def places(batches, lengths):
    return sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)


def expect_every_index_once(batches, lengths):
    came, n = [i for batch in batches for i in batch], len(lengths)
    if sorted(came) == sorted(lengths) != list(range(n)):
        raise AssertionError("The batches hold lengths. Return the indices of the sentences.")
    wrong = sorted(i for i in came if not 0 <= i < n)
    assert not wrong, f"There is an index {wrong[0]}; they go from 0 to {n - 1}."
    twice = sorted(i for i, count in Counter(came).items() if count > 1)
    from_before = "Are batches of an earlier call among these? A default `batches=[]` is made once."
    assert not twice, (
        f"Sentence {twice[0]} is there {came.count(twice[0])} times. "
        f"{from_before if len(came) > n else ''}".strip()
    )
    missing = sorted(set(range(n)) - set(came))
    if missing:
        last = set(filled(lengths, max(lengths))[-1])
        longest = sorted(range(n), key=lengths.__getitem__)[-len(missing) :]
        ends = {lengths[i] for i in missing} == {lengths[i] for i in longest} or set(
            missing
        ) == last
        shortest = sorted(range(n), key=lengths.__getitem__)[: len(missing)]
        starts = {lengths[i] for i in missing} == {lengths[i] for i in shortest}
        hint = "Sentences are dropped where one batch is closed and the next is opened?"
        if ends:
            hint = "These are the longest: is the last batch put in when the loop is over?"
        elif starts:
            hint = "These are the shortest: is the last batch put in when the loop is over?"
        elif set(missing) == set(range(n - len(missing), n)):
            hint = "These come last: is the last batch put in when the loop is over?"
        raise AssertionError(f"Sentences {missing[:8]} are in no batch. {hint}")
    assert all(batches), "A batch is empty: open one only for a sentence."


def expect_room(batches, lengths, max_tokens):
    """Say which batch is too large, and why, if it can be known."""
    for batch in batches:
        widths = [lengths[i] for i in batch]
        size, longest = len(batch), max(widths)
        if size * longest <= max_tokens:
            continue
        ordered = sorted(lengths)
        if all(len(b) * max(ordered[i] for i in b) <= max_tokens for b in batches):
            why = "The numbers are positions in the *sorted* list; return the sentences' own."
        elif all(sum(lengths[i] for i in b) <= max_tokens for b in batches):
            why = "The lengths are added up; pads take room, too: count × longest."
        elif _newest_is_taken_for_longest(batches, lengths, max_tokens):
            why = "The newest sentence is taken for the longest: sort the indices by length first, "
            why += "from short to long."
        elif (size - 1) * longest <= max_tokens or (size - 1) * max(widths[:-1]) <= max_tokens:
            why = "It is one sentence too many: test with the new sentence counted, in number "
            why += "and in length."
        elif all(len(b) * min(lengths[i] for i in b) <= max_tokens for b in batches):
            why = "It is filled by the *shortest* of its sentences. Are they sorted from long to "
            why += "short, and is the newest taken for the longest?"
        elif all(len(b) <= max_tokens for b in batches):
            why = "Sentences are counted; count tokens, pads among them."
        else:
            why = "Test before a sentence is put in."
        raise AssertionError(
            f"A batch has {size} sentences, the longest of {longest} tokens: {size} × {longest} = "
            f"{size * longest} is more than max_tokens={max_tokens}. {why}"
        )


def _newest_is_taken_for_longest(batches, lengths, max_tokens):
    rises = any(lengths[i] < lengths[j] for batch in batches for i, j in pairwise(batch))
    return rises and all(len(batch) * lengths[batch[-1]] <= max_tokens for batch in batches)


def expect_little_padding(batches, lengths, max_tokens):
    reference = filled(lengths, max_tokens)
    share = 1 - sum(lengths) / places(batches, lengths)
    best = 1 - sum(lengths) / places(reference, lengths)
    assert share <= best + 0.08, (
        f"{share:.0%} of all places are padding; {best:.0%} are enough. Put sentences of like "
        "length together: sort the indices by length first."
    )
    count, enough = len(batches), len(reference)
    how = "Fill each batch as long as another sentence fits: short ones come in large batches."
    if mixed(batches, lengths):
        how = "Short and long ones stand in one batch: sort the indices by length first."
    assert count <= 1.2 * enough + 1, f"There are {count} batches, and {enough} are enough. {how}"


def mixed(batches, lengths):
    """Return whether a batch holds a shorter sentence than a batch of shorter ones."""
    spans = sorted(
        (max(widths), min(widths)) for widths in ([lengths[i] for i in b] for b in batches)
    )
    return any(low < before for (before, _), (_, low) in pairwise(spans))


def expect_batches(answer, lengths, max_tokens):
    batches = as_batches(answer(lengths, max_tokens))
    expect_every_index_once(batches, lengths)
    expect_room(batches, lengths, max_tokens)
    expect_little_padding(batches, lengths, max_tokens)
    return batches


def test_five_sentences_that_can_be_checked_by_hand(batches_by_tokens):
    expect_batches(batches_by_tokens, [3, 6, 4, 8, 3], 12)


def test_many_sentences_in_any_order(batches_by_tokens):
    for count, longest, max_tokens in (
        (300, 30, 120),
        (97, 12, 40),
        (60, 50, 50),
        (200, 9, 1000),
        (3000, 20, 200),
    ):
        lengths = torch.randint(1, longest + 1, (count,)).tolist()
        expect_batches(batches_by_tokens, lengths, max_tokens)


def test_a_batch_may_be_full_to_the_last_place(batches_by_tokens):
    for lengths, max_tokens in (([3, 3, 3, 3], 12), ([5], 5), ([4, 4, 4], 4)):
        batches = expect_batches(batches_by_tokens, lengths, max_tokens)
        assert len(batches) == len(filled(lengths, max_tokens)), (
            f"There are {len(batches)} batches, and {len(filled(lengths, max_tokens))} are enough: "
            "count × longest may be equal to max_tokens."
        )


def test_no_sentence_gives_no_batch(batches_by_tokens):
    batches = as_batches(batches_by_tokens([], 10))
    assert batches != [[]], "No sentence gives one empty batch: open a batch only for a sentence."
    assert batches == [], f"Without a sentence it returned {batches}, expected []."


def test_a_sentence_that_is_too_long_is_an_error(batches_by_tokens):
    why = "a sentence alone is longer than max_tokens."
    for lengths, max_tokens in (([3, 13, 4], 12), ([6], 5), ([2, 2, 9], 8), ([11, 2, 3], 10)):
        expect_error(ValueError, why, batches_by_tokens, lengths, max_tokens)


# ---- repaired_loss


class Model(nn.Module):
    """A causal model: its logits at t depend on the source and on the tokens up to t."""

    def __init__(self, vocabulary):
        super().__init__()
        tables = torch.randn(2, vocabulary, vocabulary)
        self.of_token, self.of_source = map(nn.Parameter, tables)

    def forward(self, source, tokens):
        count = torch.arange(1, tokens.shape[1] + 1)[:, None]
        past = 2 * self.of_token[tokens].cumsum(1) / count.sqrt()
        return past + self.of_source[source].mean(1, keepdim=True)


def sequences(shape, pad_id, vocabulary):
    """<bos> text <eos> pads: rows of different length, the first one full."""
    B, L = shape
    bos, eos = 1, 2  # neither is a pad_id of the tests
    tokens = torch.randint(7, vocabulary, (B, L))
    tokens[:, 0] = bos
    for row in range(B):
        end = max(1, L - 1 - 2 * row)
        tokens[row, end] = eos
        tokens[row, end + 1 :] = pad_id
    if pad_id != 0:
        tokens[0, 2] = 0  # a word like any other
    return tokens


def repair_mistakes(model, source, target, pad_id):
    reads, answers = target[:, :-1], target[:, 1:]
    V = model(source, target).shape[-1]

    def losses(logits, answers):
        return F.cross_entropy(logits.transpose(1, 2), answers, reduction="none")

    def real(losses, answers, pad_id=pad_id):
        return losses * (answers != pad_id)

    whole = real(losses(model(source, target), target), target)
    each = losses(model(source, reads), answers)
    masked = real(each, answers)
    count = (answers != pad_id).sum()
    rows = masked.sum(1) / (answers != pad_id).sum(1)
    back = real(losses(model(source, answers), reads), reads)
    return {
        "nothing is changed: both bugs are still there.": lambda: whole.mean(),
        "one bug is left: the decoder reads the very token that it must predict. Shift.": (
            lambda: whole.sum() / (target != pad_id).sum()
        ),
        "one bug is left: the mean is over all places, pads among them. Divide by the number of "
        "real targets.": lambda: masked.mean(),
        "all logits and all targets lose their first: each is still compared with what was read "
        "there.": lambda: whole[:, 1:].sum() / count,
        "all logits and all targets lose their first, and pads are in the divisor.": (
            lambda: whole[:, 1:].mean()
        ),
        "it is shifted the wrong way: the decoder reads the future and says the past.": (
            lambda: back.sum() / (reads != pad_id).sum()
        ),
        "it is shifted the wrong way, and pads are in the divisor.": lambda: back.mean(),
        "the logits lose their first and the targets their last. It is the other way round: the "
        "first logits answer the second token.": lambda: F.cross_entropy(
            model(source, target)[:, 1:].transpose(1, 2), reads, ignore_index=pad_id
        ),
        "the pads are counted as if they were words.": lambda: each.mean(),
        "the id 0 is taken for padding, whatever `pad_id` is.": lambda: (
            real(each, answers, 0).sum() / (answers != 0).sum()
        ),
        "what is read decides which places count, and not what must be predicted.": lambda: (
            (each * (reads != pad_id)).sum() / (reads != pad_id).sum()
        ),
        "<bos> is counted in the divisor: it is never predicted.": lambda: (
            masked.sum() / (target != pad_id).sum()
        ),
        "all rows are cut where the first one ends.": lambda: loss_of(
            model, source, target[:, : int((target[0] != pad_id).sum())], pad_id
        ),
        "the sum is returned, and not the mean.": lambda: masked.sum(),
        "each sentence gets its own mean first: then a token of a short sentence weighs more.": (
            lambda: rows.mean()
        ),
        "the sum is divided by the number of sentences.": lambda: masked.sum() / len(rows),
        "no mean is taken: one loss for each place is returned.": lambda: masked,
        "it is shifted twice: the token after the next one is asked for.": lambda: F.cross_entropy(
            model(source, reads)[:, :-1].transpose(1, 2), target[:, 2:], ignore_index=pad_id
        ),
        "the source is read in the place of the target.": lambda: F.cross_entropy(
            model(target, source).transpose(1, 2), answers, ignore_index=pad_id
        ),
        "source and target have changed places in the model.": lambda: F.cross_entropy(
            model(reads, source)[:, : answers.shape[1]].transpose(1, 2),
            answers,
            ignore_index=pad_id,
        ),
        "axes are turned by a reshape: (B, L, V) becomes (B, V, L) by a transpose.": lambda: (
            F.cross_entropy(
                model(source, reads).reshape(len(target), V, -1), answers, ignore_index=pad_id
            )
        ),
        "the softmax is taken twice: `F.cross_entropy` wants logits.": lambda: F.cross_entropy(
            model(source, reads).softmax(-1).transpose(1, 2), answers, ignore_index=pad_id
        ),
        "the loss is smoothed: here it is not.": lambda: F.cross_entropy(
            model(source, reads).transpose(1, 2), answers, ignore_index=pad_id, label_smoothing=0.1
        ),
        "the sign is missing: it is −log p.": lambda: -masked.sum() / count,
        "only costs above 0 are averaged: a token that is certain costs 0, and counts.": lambda: (
            masked[masked > 0].mean()
        ),
    }


def loss_of(model, source, target, pad_id):
    logits = model(source, target[:, :-1]).transpose(1, 2)
    return F.cross_entropy(logits, target[:, 1:], ignore_index=pad_id)


def test_the_repaired_loss_begins_anew_in_each_call(repaired_loss):
    model, target = Model(9), sequences((5, 6), 4, 9)
    one, other = torch.randint(7, 9, (2, 5, 6))
    swapped = torch.where(target >= 7, 15 - target, target)  # 7 and 8; the pads stay
    first, second = (model, one, target, 4), (model, other, swapped, 4)
    expect_no_memory(repaired_loss, loss_of, first, second)


def test_the_loss_compares_what_is_read_with_the_next_token(repaired_loss):
    for shape, pad_id, vocabulary in (((3, 7), 0, 11), ((2, 5), 4, 9), ((4, 4), 0, 12)):
        model, target = Model(vocabulary), sequences(shape, pad_id, vocabulary)
        target = target.flip(0) if shape == (2, 5) else target
        source = torch.randint(7, vocabulary, (len(target), 6))
        right = loss_of(model, source, target, pad_id)
        with torch.no_grad():
            mistakes = repair_mistakes_now(model, source, target, pad_id)
        loss = repaired_loss(model, source, target, pad_id)
        shown = loss.detach() if isinstance(loss, Tensor) else loss
        expect(shown, right.detach(), mistakes)
        assert loss.requires_grad, (
            "The loss has no gradient: it was taken out of the graph by .item(), .detach(), or "
            "torch.no_grad(). Training needs it."
        )
        came, wanted = (torch.autograd.grad(each, model.of_token)[0] for each in (loss, right))
        expect(came, wanted, names=("The gradient of the loss",), call="the gradient of the loss")


def repair_mistakes_now(model, source, target, pad_id):
    """Compute the mistakes at once, without gradients; leave out those that do not fit."""
    answers = {}
    for text, mistake in repair_mistakes(model, source, target, pad_id).items():
        try:
            answers[text] = mistake()
        except (RuntimeError, ValueError, IndexError):
            continue
    return answers


def test_a_token_that_is_certain_counts_too(repaired_loss):
    table = torch.randn(9, 9) + 200 * torch.eye(9).roll(1, 1)  # certain that 2 follows 1, …

    def sure(source, tokens):
        return table[tokens]

    target = torch.tensor([[1, 2, 3, 7, 5, 0], [1, 6, 7, 0, 0, 0]])
    mistakes = repair_mistakes_now(sure, target, target, 0)
    expect(repaired_loss(sure, target, target, 0), loss_of(sure, target, target, 0), mistakes)


def test_more_padding_changes_nothing(repaired_loss):
    model, target = Model(11).eval(), sequences((3, 7), 0, 11)
    source = torch.randint(7, 11, (3, 6))
    wide = F.pad(target, (0, 6))
    with torch.no_grad():
        mistakes = repair_mistakes_now(model, source, wide, 0)
    right = loss_of(model, source, target, 0).detach()
    loss = repaired_loss(model, source, wide, 0)
    expect(loss.detach() if isinstance(loss, Tensor) else loss, right, mistakes)
