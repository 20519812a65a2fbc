"""The checks of exercise 12. A mistake's text ends the sentence "This is the answer when …"."""

import torch
import torch.nn.functional as F

from course.checking import CheckFailed, expect
from course.checking.diagnosis import (
    describe,
    expect_error,
    expect_no_memory,
    expect_predictions,
)

# ---- predicted_switches


def test_the_six_numbers_are_predicted(predicted_switches):
    hints = {
        "a": {
            1536: "That is the number of pixels. A patch holds 64 of them.",
            72: "The channels belong to the same patch: they make no tokens of their own.",
            192: "That is how many numbers one patch has.",
            10: "Rows and columns of patches are multiplied.",
            None: "How many patches fit into the height, how many into the width?",
        },
        "b": {
            64: "That is one channel. A patch has all three.",
            24: "A patch is 8 pixels high *and* 8 wide.",
            None: "Channels times height times width of a patch.",
        },
        "c": {
            21: "That is the causal triangle. The prefix also sees what lies above it.",
            36: "The last two places are hidden from the prefix, and the last from the fifth.",
            15: "The diagonal is allowed.",
            31: "Of the block of the prefix only what lies above the triangle is new.",
            37: "The block of the prefix and the triangle overlap: count no place twice.",
            24: "Those are the four columns of the prefix. The later places see themselves, too.",
            28: "Above the triangle, the block of the prefix has 3 + 2 + 1 places.",
            None: "Draw six rows: the triangle with its diagonal, and the block of the prefix.",
        },
        "d": {
            10: "Nothing is read before the first token.",
            14: "Pads are no tokens, and nothing is read before the first one.",
            13: "Pads are no tokens.",
            4: "Those are the pads.",
            None: "Which tokens are somebody's next one, and real?",
        },
        "e": {
            32: "That is the perplexity. Bits are its logarithm to the base 2.",
            3.4657359: "That is in nats. Bits are logarithms to the base 2.",
            1 / 32: "That is the chance. The question is for −log₂ of it.",
            -5: "Mind the sign: −log₂ P.",
            None: "−log₂ of the chance of the character that came.",
        },
        "f": {
            1 / 3: "Count the parameters of attention alone: two of the three parts have some.",
            2: "The question is for a share.",
            50: "As a share, from 0 to 1.",
            None: "How many attentions has the layer, how large is each, and which goes?",
        },
    }
    right = {"a": 24, "b": 192, "c": 27, "d": 9, "e": 5, "f": 1 / 2}
    expect_predictions(predicted_switches(), right, hints)


# ---- causal_lm_loss


def some_text(rows=3, length=7, words=11, pad_id=0, dtype=torch.float32):
    """Logits that differ much, and rows of different length, with their pads on the right."""
    logits = (2 * torch.randn(rows, length, words, dtype=torch.double)).to(dtype)
    tokens = torch.randint(0, words - 1, (rows, length))
    tokens += tokens >= pad_id
    tokens[0, 1] = min(set(range(3)) - {pad_id})  # an id that might be taken for the pad
    for row in range(1, rows):
        tokens[row, max(2, length - 3 * row) :] = pad_id
    return logits, tokens, pad_id


def lm_loss(logits, tokens, pad_id, shift=1):
    keep = tokens.shape[1] - shift
    costs = F.cross_entropy(
        logits[:, :keep].double().flatten(0, 1), tokens[:, shift:].flatten(), reduction="none"
    ).view(len(tokens), keep)
    return costs[tokens[:, shift:] != pad_id].mean()


def lm_mistakes(logits, tokens, pad_id):
    logits = logits.double()
    says, answers = logits[:, :-1], tokens[:, 1:]
    costs = F.cross_entropy(says.flatten(0, 1), answers.flatten(), reduction="none")
    costs = costs.view(answers.shape)
    real = answers != pad_id
    per_row = (costs * real).sum(1) / real.sum(1)
    back = F.cross_entropy(
        logits[:, 1:].flatten(0, 1), tokens[:, :-1].flatten(), ignore_index=pad_id
    )
    rolled = F.cross_entropy(
        logits.flatten(0, 1), tokens.roll(-1, 1).flatten(), ignore_index=pad_id
    )
    by_read = costs[tokens[:, :-1] != pad_id].mean()
    probability = says.softmax(-1).gather(-1, answers[..., None])[..., 0]
    lengths = (tokens != pad_id).sum(1)
    within = torch.arange(1, tokens.shape[1]) < lengths[:, None]  # if all pads stood on the right
    longest = real[:, : lengths.max() - 1]
    return {
        f"ln is taken of softmax + {limit:g}, where a small P is lost: use `log_softmax`.": (
            lambda limit=limit: -(probability[real] + limit).log().mean()
        )
        for limit in (1e-12, 1e-10, 1e-9, 1e-8, 1e-6)
    } | {
        "ln is taken of a softmax that has rounded to 0: use `log_softmax`.": (
            lambda: -probability[real].log().mean()
        ),
        "each row is cut behind as many places as it has tokens: pads can stand before them.": (
            lambda: costs[within].mean()
        ),
        "each row is cut behind as many places as it has tokens, and pads among them are left "
        "out: pads can stand before them.": lambda: (
            (costs * (within & real)).sum() / (lengths - 1).sum()
        ),
        "all rows are cut behind as many places as the longest has tokens: pads can stand before "
        "them.": lambda: costs[:, : longest.shape[1]][longest].mean(),
        "a token that follows a pad is left out: it is real, and counts.": lambda: costs[
            real & (tokens[:, :-1] != pad_id)
        ].mean(),
        "only costs above 0 are averaged: a token that was certain costs 0, and counts.": lambda: (
            costs[real & (costs > 0)].mean()
        ),
        "nothing is shifted: each place is asked for the token that it reads.": lambda: lm_loss(
            logits, tokens, pad_id, 0
        ),
        "the labels are shifted twice: each place is asked for the token after the next.": (
            lambda: lm_loss(logits, tokens, pad_id, 2)
        ),
        "the shift goes the wrong way: each place is asked for the token *before* it.": back,
        "the tokens are rolled: the last place of each row is asked for the first token.": rolled,
        "pads are counted as tokens.": costs.mean(),
        "pads are left out of the sum, and counted in the number that it is divided by.": (
            (costs * real).sum() / real.numel()
        ),
        "the sum is divided by all real tokens; the first of each row is nobody's next.": (
            (costs * real).sum() / (tokens != pad_id).sum()
        ),
        "a prediction counts if the token that is *read* is real; the one that comes must be.": (
            by_read
        ),
        "rows are averaged first: then a token of a short row counts more.": per_row.mean(),
        "the sum is returned, and not the mean.": costs[real].sum(),
        "the sum is divided by the number of rows.": costs[real].sum() / len(tokens),
        "the sum is divided by the number of all places: pads and first tokens do not count.": (
            costs[real].sum() / tokens.numel()
        ),
        "all rows are joined before the shift: the last place of a row is asked for the first "
        "token of the next.": lambda: F.cross_entropy(
            logits.flatten(0, 1)[:-1], tokens.flatten()[1:], ignore_index=pad_id
        ),
        "`reshape` or `view` makes (B, V, L) of the logits, and tears them apart: "
        "`transpose(1, 2)`.": lambda: F.cross_entropy(
            says.reshape(len(says), -1, says.shape[1]), answers, ignore_index=pad_id
        ),
        "the softmax runs over the places: the words are dim=-1.": lambda: F.nll_loss(
            says.log_softmax(1).transpose(1, 2), answers, ignore_index=pad_id
        ),
        "one loss for each row is returned.": per_row,
        "one loss for each token is returned.": costs,
        "the sign is missing: it is the mean of +ln P.": -costs[real].mean(),
        "the loss is in bits (base 2); nats are asked for.": costs[real].mean()
        / 0.6931471805599453,
        "the mean of P is returned, and not of −ln P.": probability[real].mean(),
        "−ln of the mean probability is returned; the logarithm comes first.": (
            -probability[real].mean().log()
        ),
        "nothing is shifted, and the last place of both is cut off: cut the first off the "
        "tokens.": lambda: F.cross_entropy(
            says.transpose(1, 2), tokens[:, :-1], ignore_index=pad_id
        ),
        "nothing is shifted, and the first place of both is cut off: cut the last off the "
        "logits.": lambda: F.cross_entropy(
            logits[:, 1:].transpose(1, 2), answers, ignore_index=pad_id
        ),
        "the logits are taken as if they were ln P: the softmax is missing (`nll_loss` wants "
        "`log_softmax`).": lambda: F.nll_loss(says.transpose(1, 2), answers, ignore_index=pad_id),
        "labels are smoothed (0.1): plain −ln P is asked for.": lambda: F.cross_entropy(
            says.transpose(1, 2), answers, ignore_index=pad_id, label_smoothing=0.1
        ),
        "the perplexity is returned, e to the power of the loss.": costs[real].mean().exp(),
        "the softmax is taken twice: `cross_entropy` takes logits.": lambda: lm_loss(
            logits.softmax(-1), tokens, pad_id
        ),
        "id 0 is left out, whatever `pad_id` is.": lambda: costs[answers != 0].mean(),
    }


def test_the_mean_over_real_next_tokens(causal_lm_loss):
    for sizes in (
        {},
        {"rows": 2, "length": 5, "pad_id": 4},
        {"rows": 4, "length": 9, "pad_id": 10},
        {"rows": 1},
        {"rows": 1, "length": 3},
    ):
        given = some_text(**sizes)
        expect(causal_lm_loss(*given), lm_loss(*given).float(), lm_mistakes(*given))


def test_a_loss_in_other_dtypes(causal_lm_loss):
    for dtype in (torch.float64, torch.bfloat16):
        given = some_text(dtype=dtype)
        expect(causal_lm_loss(*given), lm_loss(*given).to(dtype), lm_mistakes(*given))


def test_a_row_of_one_token_predicts_nothing(causal_lm_loss):
    logits, tokens, pad_id = some_text(rows=3, length=5)
    tokens[2, 1:] = pad_id
    expect(
        causal_lm_loss(logits, tokens, pad_id),
        lm_loss(logits, tokens, pad_id).float(),
        lm_mistakes(logits, tokens, pad_id),
        nan="A row with one token has nothing to predict, and must not divide by 0.",
    )


def test_pads_may_stand_anywhere(causal_lm_loss):
    for rows in (
        ((0, 0, 3, 4, 5), (3, 0, 2, 1, 6), (0, 4, 2, 0, 0)),
        ((0, 0, 3, 4, 5), (0, 0, 0, 1, 6), (0, 4, 2, 1, 3)),
    ):
        tokens = torch.tensor(rows)
        given = (torch.randn(3, 5, 7), tokens, 0)
        expect(causal_lm_loss(*given), lm_loss(*given).float(), lm_mistakes(*given))


def is_nan(loss):
    return isinstance(loss, torch.Tensor) and bool(loss.isnan().any())


def test_large_logits_lose_nothing(causal_lm_loss):
    logits, tokens, pad_id = some_text()
    logits[0, 0, tokens[0, 1]] = 10  # certain: it costs 0, and counts
    large = 1000 * logits
    nan = "exp of a large logit is inf, and inf/inf is NaN: use `log_softmax`."
    below_0 = large - large.amax(-1, keepdim=True)  # the same probabilities, and no exp is inf
    if is_nan(causal_lm_loss(below_0, tokens, pad_id)):
        nan = "ln of a softmax that has rounded to 0 is −inf, and −inf · 0: use `log_softmax`."
    given = (large, tokens, pad_id)
    expect(causal_lm_loss(*given), lm_loss(*given).float(), lm_mistakes(*given), nan=nan)


def test_the_loss_can_be_learnt_from(causal_lm_loss):
    logits, tokens, pad_id = some_text()
    logits.requires_grad_()
    loss, came = causal_lm_loss(logits, tokens, pad_id), None
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        (came,) = torch.autograd.grad(loss, logits, allow_unused=True)
    if came is None:
        raise CheckFailed(
            "The loss is cut off from the logits, so nothing can be learnt. Return a tensor, "
            "without .item(), .detach(), .numpy() and torch.tensor()."
        )
    (wanted,) = torch.autograd.grad(lm_loss(logits, tokens, pad_id), logits)
    expect(came, wanted, names=("The gradient of the logits",))


def test_each_loss_is_computed_anew(causal_lm_loss):
    expect_no_memory(
        causal_lm_loss, lambda *given: lm_loss(*given).float(), some_text(), some_text()
    )


# ---- prefix_mask


def prefix(lengths, length):
    place = torch.arange(length)
    key_in = (place < lengths[:, None])[:, None, None, :]
    return key_in | torch.ones(length, length, dtype=torch.bool).tril()


def prefix_mistakes(lengths, length):
    place = torch.arange(length)
    in_prefix = place < lengths[:, None]
    key, query = in_prefix[:, None, None, :], in_prefix[:, None, :, None]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    right = key | causal
    one_more = (place <= lengths[:, None])[:, None, None, :]
    one_less = (place < lengths[:, None] - 1)[:, None, None, :]
    return {
        "the mask is turned round: True = may attend.": ~right,
        "rows and columns are exchanged: queries are rows.": right.mT,
        "the whole mask is causal: the prefix sees itself both ways.": causal.expand_as(right),
        "only the prefix is seen: later places see all before them and themselves.": (
            key.expand_as(right)
        ),
        "the triangle lacks its diagonal: a later place sees itself.": key | causal.tril(-1),
        "the triangle points the other way: later places see what comes *after* them.": (
            key | causal.mT
        ),
        "the prefix sees the whole text: what is behind it stays hidden from it.": (query | causal),
        "the prefix is one token too long (`<=` for `<`).": one_more | causal,
        "the prefix is one token too short.": one_less | causal,
        "a key must lie in the prefix *and* not behind the query (`&`); one of both is enough.": (
            key & causal
        ),
        "later places do not see the prefix.": (key & query) | (~key & ~query & causal),
        "later places see nothing, not even themselves.": key & query,
        "the triangle's diagonal is moved up by the prefix: every place sees as far ahead.": (
            torch.stack([causal.new_ones(1, length, length).tril(max(n - 1, 0)) for n in lengths])
        ),
        "later places see the prefix alone, and not each other.": (
            key | torch.eye(length, dtype=torch.bool)
        ),
        "all rows have the prefix of the first.": right[:1].expand_as(right),
        "all rows have the prefix of the last.": right[-1:].expand_as(right),
        "all rows have the longest prefix.": prefix(lengths.amax().expand_as(lengths), length),
        "all rows have the shortest prefix.": prefix(lengths.amin().expand_as(lengths), length),
        "the axis of the heads is missing: (B, 1, L, L).": right[:, 0],
        "the mask holds numbers to be added (0 and −inf); it is boolean here.": lambda: torch.zeros(
            right.shape
        ).masked_fill(~right, float("-inf")),
        "the mask holds numbers to be added (0 and −1e9); it is boolean here.": lambda: torch.zeros(
            right.shape
        ).masked_fill(~right, -1e9),
        "the mask holds 0 and 1; it is boolean here.": right.float(),
    }


def test_the_prefix_sees_itself_and_the_rest_sees_the_past(prefix_mask):
    for lengths, length in (([3, 4, 1, 2], 6), ([2, 5], 7), ([1, 2, 3, 4], 5), ([4, 2, 3], 6)):
        given = torch.tensor(lengths)
        mask = prefix_mask(given, length)
        expect(mask, prefix(given, length), prefix_mistakes(given, length))


def test_a_prefix_is_empty_or_the_whole_text(prefix_mask):
    given = torch.tensor([0, 5])

    def as_if(*lengths):
        return prefix(torch.tensor(lengths), 5)

    # Other prefixes are right, says the test above: it can only be one of these two.
    whole, empty = (
        f"all is right but a prefix of {length} tokens, {what}: look at the ends of your slices "
        "(−0 is 0, not the end)."
        for length, what in ((5, "the whole text"), (0, "an empty one"))
    )
    right = as_if(0, 5)
    expect(
        prefix_mask(given, 5),
        right,
        {whole: as_if(0, 0), f"{whole} ": as_if(0, 4), empty: as_if(5, 5)},
        hint=lambda mask: whole_or_empty(mask, right),
    )


def whole_or_empty(mask, right):
    wrong = [
        what
        for what, one, other in zip(
            ("an empty prefix", "a prefix that is the whole text"), mask, right, strict=True
        )
        if not torch.equal(one, other)
    ]
    return f"All is right but {' and '.join(wrong)}."


def test_a_single_row_and_a_single_token(prefix_mask):
    for lengths, length in (([2], 4), ([1, 0], 1)):
        given = torch.tensor(lengths)
        expect(prefix_mask(given, length), prefix(given, length), prefix_mistakes(given, length))


def test_each_mask_is_made_anew(prefix_mask):
    one, other = torch.tensor([3, 1]), torch.tensor([2, 4])
    expect_no_memory(prefix_mask, prefix, (one, 6), (other, 6))


# ---- mask_tokens


def a_generator(seed=7):
    return torch.Generator().manual_seed(seed)


def some_tokens(rows=90, length=50, pad_id=0):
    tokens = torch.randint(1, 9, (rows, length))
    for row in range(rows):
        tokens[row, length - length * (row % 9) // 10 :] = pad_id
    return tokens


def gaps_of(tokens, mask_id, pad_id, came):
    """Return where the gaps are; raise `CheckFailed` unless these are gaps and what stood there."""
    if not isinstance(came, (tuple, list)) or len(came) != 2:
        raise CheckFailed(f"It returned {describe(came)}, expected two results: (masked, targets).")
    masked, targets = came
    for name, value in (("masked", masked), ("targets", targets)):
        if not isinstance(value, torch.Tensor) or value.shape != tokens.shape:
            raise CheckFailed(
                f"{name} is {describe(value)}, expected a tensor of shape {tuple(tokens.shape)}."
            )
        if value.dtype.is_floating_point or value.dtype == torch.bool:
            raise CheckFailed(f"{name} holds {value.dtype}, expected ids (torch.int64).")
    hidden = masked == mask_id
    if torch.equal(masked, tokens) and (targets == pad_id).all():
        raise CheckFailed("Nothing was hidden.")
    if hidden[tokens != pad_id].all():
        raise CheckFailed(
            "Every token was hidden. Draw for each token by itself, and compare with `probability`."
        )
    if (hidden & (tokens == pad_id)).any():
        raise CheckFailed("A pad was hidden. Pads are no tokens: nothing is to be learnt there.")
    if (targets == mask_id).any():
        raise CheckFailed(
            f"The targets hold mask_id={mask_id}. They must say what stood there *before*: are the "
            "two results exchanged, or are the targets read off the masked tokens?"
        )
    if torch.equal(targets, tokens):
        raise CheckFailed(
            "The targets are all tokens; where nothing was hidden, they must be pad_id, or the "
            "model is paid for copying what it sees."
        )
    if not torch.equal(masked[~hidden], tokens[~hidden]):
        raise CheckFailed("A token that was not hidden has changed.")
    if not (targets[~hidden] == pad_id).all():
        if torch.equal(torch.where(hidden, pad_id, tokens), targets):
            raise CheckFailed(
                "The targets are turned round: they hold the tokens that were *not* hidden."
            )
        if torch.equal(targets[targets != pad_id], tokens[targets != pad_id]):
            raise CheckFailed(
                "Some targets ask for tokens that were not replaced by mask_id. (BERT leaves a "
                "tenth of them as they are; here every hidden token becomes mask_id.)"
            )
        raise CheckFailed(
            f"Where nothing was hidden, the targets must be pad_id={pad_id}, got "
            f"{targets[~hidden & (targets != pad_id)][0].item()}."
        )
    if not torch.equal(targets[hidden], tokens[hidden]):
        raise CheckFailed("Where a token was hidden, the target must be that token.")
    return hidden


def test_each_token_is_drawn_by_itself(mask_tokens):
    tokens = torch.full((60, 30), 5)
    hidden = gaps_of(tokens, 9, 0, mask_tokens(tokens, 9, 0, 0.3, a_generator(3)))
    rows, columns = hidden.double().mean(1), hidden.double().mean(0)
    if columns.std() > 0.3:
        raise CheckFailed("All rows have their gaps at the same places: draw for each row.")
    if (rows.std() < 1e-9) or (rows.sub(0.3).abs() < 0.02).all():
        raise CheckFailed(
            "Each row has the same number of gaps. Each token is hidden with this probability, "
            "independently of all others."
        )
    if rows.std() > 0.3:
        raise CheckFailed("Whole rows are hidden: draw for each token.")
    share, alike = hidden.double().mean(), hidden[:, 1:] == hidden[:, :-1]
    if alike.double().mean() > share**2 + (1 - share) ** 2 + 0.1:
        raise CheckFailed("Neighbours are hidden together: draw for each token by itself.")


def test_gaps_and_what_stood_in_them(mask_tokens):
    for pad_id, mask_id, probability in ((0, 9, 0.3), (12, 0, 0.15), (2, 20, 0.6)):
        tokens = some_tokens(pad_id=pad_id)
        generator = a_generator()
        came = mask_tokens(tokens, mask_id, pad_id, probability, generator)
        hidden = gaps_of(tokens, mask_id, pad_id, came)
        real = tokens != pad_id
        share = hidden[real].double().mean().item()
        why = ""
        if abs(share - (1 - probability)) < 0.04 < abs(share - probability):
            why = " The comparison is turned round: that is 1 − probability."
        never = [i for i in tokens[real].unique().tolist() if not hidden[tokens == i].any()]
        if never:
            why = f" Tokens {never} were never hidden: only pads are left out."
        if abs(share - probability) > 0.04:
            raise CheckFailed(
                f"{share:.0%} of the real tokens were hidden, "
                f"expected about {probability:.0%}.{why}"
            )


def test_what_is_random_comes_from_the_generator(mask_tokens):
    tokens = some_tokens(8, 30)
    one = mask_tokens(tokens, 9, 0, 0.4, a_generator(1))
    again = mask_tokens(tokens, 9, 0, 0.4, a_generator(1))
    other = mask_tokens(tokens, 9, 0, 0.4, a_generator(2))
    where = [gaps_of(tokens, 9, 0, came) for came in (one, again, other)]
    if not torch.equal(where[0], where[1]):
        raise CheckFailed(
            "The same generator gave two answers: pass `generator=generator` to what draws."
        )
    if torch.equal(where[0], where[2]):
        raise CheckFailed("Another generator gave the same gaps: it is not used, or seeded anew.")
    generator = a_generator(1)
    first = gaps_of(tokens, 9, 0, mask_tokens(tokens, 9, 0, 0.4, generator))
    second = gaps_of(tokens, 9, 0, mask_tokens(tokens, 9, 0, 0.4, generator))
    if torch.equal(first, second):
        raise CheckFailed("Two calls in a row gave the same gaps: do not seed the generator.")


def test_the_number_of_gaps_varies(mask_tokens):
    tokens = torch.full((7, 17), 5)
    calls = [mask_tokens(tokens, 9, 0, 0.4, a_generator(seed)) for seed in range(40)]
    counts = torch.tensor([int(gaps_of(tokens, 9, 0, came).sum()) for came in calls])
    variance = counts.double().var() / (tokens.numel() * 0.4 * 0.6)  # 1, for independent draws
    if variance < 0.25:
        how = "the same number" if variance == 0 else "almost the same number"
        raise CheckFailed(
            f"Each call hides {how} of tokens. Each token is hidden with this probability, "
            "independently of all others."
        )


def test_a_short_text_may_have_no_gap(mask_tokens):
    tokens = torch.full((2, 4), 5)  # without a gap in two of three calls
    masked = [mask_tokens(tokens, 9, 0, 0.05, a_generator(seed))[0] for seed in range(40)]
    if all((each == 9).any() for each in masked):
        raise CheckFailed(
            "Forty calls, two texts of four tokens each, probability 0.05: there was at least one "
            "gap every time. A text may have none: force nothing."
        )


def test_all_or_nothing(mask_tokens):
    tokens = some_tokens(40)  # so many that even a rare gap shows
    masked, targets = mask_tokens(tokens, 9, 0, 1.0, a_generator())
    expect(masked, torch.where(tokens == 0, 0, 9), names=("With probability 1, masked",))
    expect(targets, tokens, names=("With probability 1, targets",))
    masked, targets = mask_tokens(tokens, 9, 0, 0.0, a_generator())
    expect(masked, tokens, names=("With probability 0, masked",))
    expect(targets, torch.zeros_like(tokens), names=("With probability 0, targets",))


def test_a_small_probability(mask_tokens):
    tokens = torch.full((250, 200), 5)  # 15 gaps, give or take 4; of thousandths it would be 50
    share = gaps_of(tokens, 9, 0, mask_tokens(tokens, 9, 0, 3e-4, a_generator(1))).double().mean()
    if abs(share - 3e-4) > 3.5e-4:
        raise CheckFailed(
            f"With the small probability 0.0003 a share of {share:.5f} was hidden. Is it rounded? "
            "Compare numbers of `torch.rand` with `probability`."
        )


def test_gaps_in_one_sentence(mask_tokens):
    tokens = torch.full((1, 50), 5)
    gaps_of(tokens, 9, 0, mask_tokens(tokens, 9, 0, 0.4, a_generator()))


# ---- patchify, unpatchify, repaired_patches


def pictures(batch=2, channels=3, height=4, width=6, dtype=torch.float32):
    return torch.randn(batch, channels, height, width, dtype=torch.double).to(dtype)


def cut(images, patch, order=(0, 2, 4, 1, 3, 5)):
    b, c, h, w = images.shape
    x = images.reshape(b, c, h // patch, patch, w // patch, patch).permute(order)
    return x.reshape(b, (h // patch) * (w // patch), c * patch * patch)


def cut_mistakes(images, patch):
    b, c, h, w = images.shape
    shape = (b, (h // patch) * (w // patch), c * patch * patch)
    columns = F.unfold(images.double(), patch, stride=patch)
    return {
        "`reshape` or `view` alone cuts the memory into pieces: the axes must be brought into "
        "order first (`permute`).": images.reshape(shape),
        "the channels come last inside a patch: the first channel comes first.": lambda: cut(
            images, patch, (0, 2, 4, 3, 5, 1)
        ),
        "the patches are ordered column by column: row by row is asked for.": lambda: cut(
            images, patch, (0, 4, 2, 1, 3, 5)
        ),
        "inside a patch, the pixels are ordered column by column.": lambda: cut(
            images, patch, (0, 2, 4, 1, 5, 3)
        ),
        "patches and pixels are both ordered column by column: height and width are "
        "exchanged.": lambda: cut(images, patch, (0, 4, 2, 1, 5, 3)),
        "the grid's axes and those inside a patch are exchanged: each token takes every p-th "
        "pixel.": lambda: (
            images.reshape(b, c, patch, h // patch, patch, w // patch)
            .permute(0, 3, 5, 1, 2, 4)
            .reshape(shape)
        ),
        "the channels stand before the grid: the numbers of one token come from several places "
        "(`permute` the channel behind row and column).": lambda: cut(
            images, patch, (0, 1, 2, 4, 3, 5)
        ),
        "height and width are exchanged where the axes are split.": lambda: (
            images.reshape(b, c, w // patch, patch, h // patch, patch)
            .permute(0, 2, 4, 1, 3, 5)
            .reshape(shape)
        ),
        "the channel stands between row and column of the grid: `permute` it behind both.": (
            lambda: cut(images, patch, (0, 2, 1, 4, 3, 5))
        ),
        "`F.unfold` gives (B, numbers, patches): the last two axes are exchanged.": columns,
        "`F.unfold` gives (B, numbers, patches), and `reshape` or `view` does not exchange the "
        "last two axes: `transpose(1, 2)`.": columns.reshape(shape),
        "row and column are not joined: (B, rows · columns, numbers) is asked for.": (
            cut(images, patch).reshape(b, h // patch, w // patch, -1)
        ),
        "the channels of a patch are averaged.": lambda: cut(images.mean(1, keepdim=True), patch),
        "each channel makes tokens of its own: a token has all channels.": lambda: cut(
            images.reshape(b * c, 1, h, w), patch
        ).reshape(b, -1, patch * patch),
    }


SIZES = (({}, 2), ({"batch": 3, "channels": 2, "height": 6, "width": 9}, 3))
SIZES += (({"batch": 2, "channels": 1, "height": 8, "width": 4}, 4), ({"batch": 1}, 2))
SIZES += (({"batch": 2, "height": 2, "width": 2}, 2),)


def test_patches_row_by_row_channel_by_channel(patchify):
    for sizes, patch in SIZES:
        images = pictures(**sizes)
        expect(patchify(images, patch), cut(images, patch), cut_mistakes(images, patch))


def test_patches_in_other_dtypes_and_of_a_turned_picture(patchify):
    for images in (pictures(dtype=torch.float64), pictures(dtype=torch.float16)):
        expect(patchify(images, 2), cut(images, 2), cut_mistakes(images, 2))
    turned = pictures(height=6, width=4).mT  # not contiguous
    expect(patchify(turned, 2), cut(turned, 2), cut_mistakes(turned, 2))


def test_a_patch_that_does_not_divide_is_refused(patchify):
    for batch, height, width in ((2, 5, 4), (2, 4, 5), (3, 3, 3)):  # last: as many as rows
        images = pictures(batch, height=height, width=width)
        why = f"patches of 2 do not divide a picture of {height} × {width}."
        expect_error(ValueError, why, patchify, images, 2)


def test_each_cut_is_made_anew(patchify):
    expect_no_memory(patchify, cut, (pictures(), 2), (pictures(), 2))


def paste(patches, patch, channels, height, width, order=(0, 3, 1, 4, 2, 5)):
    x = patches.reshape(len(patches), height // patch, width // patch, channels, patch, patch)
    return x.permute(order).reshape(len(patches), channels, height, width)


def paste_mistakes(patches, patch, channels, height, width):
    b, grid = len(patches), (height // patch, width // patch)
    shape = (b, channels, height, width)
    last = patches.reshape(b, *grid, patch, patch, channels).permute(0, 5, 1, 3, 2, 4)
    turned = patches.reshape(b, grid[1], grid[0], channels, patch, patch)
    first = patches.reshape(b, channels, *grid, patch, patch).permute(0, 1, 2, 4, 3, 5)
    return {
        "`reshape` alone tears the picture into stripes: the axes must be brought back into order "
        "first.": patches.reshape(shape),
        "rows of patches and rows within a patch are not brought together.": lambda: paste(
            patches, patch, channels, height, width, (0, 3, 1, 2, 4, 5)
        ),
        "the pixels of a patch are turned: rows and columns within are exchanged.": lambda: paste(
            patches, patch, channels, height, width, (0, 3, 1, 5, 2, 4)
        ),
        "the channel is taken to come last in a patch.": last.reshape(shape),
        "the channel is taken to come before the grid.": first.reshape(shape),
        "the patches are taken to be ordered column by column.": lambda: turned.permute(
            0, 3, 2, 4, 1, 5
        ).reshape(shape),
        "rows and columns of patches are exchanged where the axes are split.": lambda: (
            turned.permute(0, 3, 1, 4, 2, 5).reshape(shape)
        ),
        "rows and columns of patches are exchanged in `permute`: row and row within belong "
        "together.": lambda: paste(patches, patch, channels, height, width, (0, 3, 2, 4, 1, 5)),
        "the axes are permuted as in `patchify`: the way back needs the inverse.": lambda: paste(
            patches, patch, channels, height, width, (0, 2, 4, 1, 3, 5)
        ),
        "the axes of rows within and columns of patches are exchanged.": lambda: paste(
            patches, patch, channels, height, width, (0, 3, 4, 1, 5, 2)
        ),
        "the channels are left at the end: (B, C, H, W) is asked for.": lambda: paste(
            patches, patch, channels, height, width
        ).permute(0, 2, 3, 1),
        "height and width are exchanged.": lambda: (
            paste(patches, patch, channels, height, width).mT
        ),
        "`F.fold` wants the numbers before the patches; they are the last axis here.": lambda: (
            F.fold(
                patches.reshape(b, -1, patches.shape[1]).double(),
                (height, width),
                patch,
                stride=patch,
            )
        ),
    }


def test_the_picture_comes_back(unpatchify):
    for sizes, patch in SIZES:
        images = pictures(**sizes)
        given = (cut(images, patch), patch, *images.shape[1:])
        expect(unpatchify(*given), images, paste_mistakes(*given))


def test_a_picture_comes_back_in_other_dtypes(unpatchify):
    for dtype in (torch.float64, torch.float16):
        images = pictures(dtype=dtype)
        given = (cut(images, 2), 2, *images.shape[1:])
        expect(unpatchify(*given), images, paste_mistakes(*given))


def test_each_picture_is_put_together_anew(unpatchify):
    one, other = ((cut(pictures(), 2), 2, 3, 4, 6) for _ in range(2))
    expect_no_memory(unpatchify, paste, one, other)


def test_there_and_back(patchify, unpatchify):
    images = pictures(2, 3, 6, 4)
    patches = patchify(images, 2)
    expect(unpatchify(patches, 2, 3, 6, 4), images, {})


def test_each_repaired_patch_has_all_its_channels(repaired_patches):
    for sizes, patch in SIZES:
        images = pictures(**sizes)
        x = images.unfold(2, patch, patch).unfold(3, patch, patch)
        shape = (len(images), -1, images.shape[1] * patch * patch)
        still = {
            "nothing has changed: the channels still stand before the grid (`permute`).": (
                x.contiguous().view(shape)
            )
        }
        mistakes = still | cut_mistakes(images, patch) if images.shape[1] > 1 else {}
        expect(repaired_patches(images, patch), cut(images, patch), mistakes)


def test_repaired_patches_in_float64(repaired_patches):
    images = pictures(dtype=torch.float64)
    expect(repaired_patches(images, 2), cut(images, 2), cut_mistakes(images, 2))


def test_each_repair_is_made_anew(repaired_patches):
    expect_no_memory(repaired_patches, cut, (pictures(), 2), (pictures(), 2))
