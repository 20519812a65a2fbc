"""Answers to exercise 12, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, wrong

# ---- predicted_switches


@right("predicted_switches")
def as_a_list():
    return [24, 192, 27, 9, 5, 0.5]


@right("predicted_switches")
def as_a_tensor():
    return torch.tensor([24, 192, 27, 9, 5, 0.5])


@right("predicted_switches")
def computed():
    mask = np.tril(np.ones((6, 6))) + 0
    mask[:, :4] = 1
    mask = np.where(np.arange(6)[None] < 4, 1, mask)
    return (32 // 8 * (48 // 8), 3 * 8**2, int(mask.sum()), 10 - 1, math.log2(32), 1 / 2)


def but(**changes):
    answers = dict(zip("abcdef", (24, 192, 27, 9, 5, 0.5), strict=True)) | changes
    return list(answers.values())


@wrong("predicted_switches", "a is not 72", "The channels belong")
def tokens_for_each_channel():
    """A token for each channel of a patch."""
    return but(a=72)


@wrong("predicted_switches", "a is not 1536", "number of pixels")
def tokens_are_pixels():
    """32 · 48."""
    return but(a=1536)


@wrong("predicted_switches", "b is not 64", "all three")
def one_channel():
    """8 · 8."""
    return but(b=64)


@wrong("predicted_switches", "c is not 21", "above it")
def the_causal_triangle():
    """The prefix forgotten."""
    return but(c=21)


@wrong("predicted_switches", "c is not 37", "overlap")
def counted_twice():
    """16 + 21."""
    return but(c=37)


@wrong("predicted_switches", "c is not 15", "diagonal")
def no_diagonal():
    """The triangle without its diagonal."""
    return but(c=15)


@wrong("predicted_switches", "d is not 10", "before the first")
def the_first_is_predicted():
    """One prediction for each real token."""
    return but(d=10)


@wrong("predicted_switches", "d is not 13", "Pads are no tokens")
def pads_are_predicted():
    """14 − 1."""
    return but(d=13)


@wrong("predicted_switches", "e is not 3.466", "in nats")
def nats():
    """ln 32."""
    return but(e=math.log(32))


@wrong("predicted_switches", "e is not 32", "perplexity")
def perplexity():
    """The number of choices."""
    return but(e=32)


@wrong("predicted_switches", "f is not 0.3333", "attention alone")
def one_part_of_three():
    """The parts counted, not their parameters."""
    return but(f=1 / 3)


# ---- causal_lm_loss


@right("causal_lm_loss")
def with_log_softmax(logits, tokens, pad_id):
    says = logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    real = tokens[:, 1:] != pad_id
    return -(says * real).sum() / real.sum()


@right("causal_lm_loss")
def token_by_token(logits, tokens, pad_id):
    costs = [
        -logits[row, t].log_softmax(-1)[tokens[row, t + 1]]
        for row in range(len(tokens))
        for t in range(tokens.shape[1] - 1)
        if tokens[row, t + 1] != pad_id
    ]
    return torch.stack(costs).mean()


@right("causal_lm_loss")
def with_padded_labels(logits, tokens, pad_id):
    labels = F.pad(tokens[:, 1:], (0, 1), value=pad_id).masked_fill(
        F.pad(tokens[:, 1:], (0, 1), value=pad_id) == pad_id, -100
    )
    return F.cross_entropy(logits.double().transpose(1, 2), labels)


@right("causal_lm_loss")
def with_one_hot(logits, tokens, pad_id):
    wanted = F.one_hot(tokens[:, 1:], logits.shape[-1]).to(logits.dtype)
    wanted = wanted * (tokens[:, 1:, None] != pad_id)
    scores = logits[:, :-1] - logits[:, :-1].logsumexp(-1, keepdim=True)
    return -torch.einsum("blv,blv->", wanted, scores) / wanted.sum()


@right("causal_lm_loss")
def only_the_real_ones(logits, tokens, pad_id):
    real = tokens[:, 1:] != pad_id
    return torch.nn.CrossEntropyLoss()(logits[:, :-1][real], tokens[:, 1:][real])


def masked_mean(costs, real):
    return (costs * real).sum() / real.sum()


@wrong("causal_lm_loss", "expected a tensor")
def as_a_number(logits, tokens, pad_id):
    """`.item()` for printing."""
    return with_log_softmax(logits, tokens, pad_id).item()


@wrong("causal_lm_loss", "cut off from the logits")
def without_gradient(logits, tokens, pad_id):
    """A decorator left over from the evaluation."""
    with torch.no_grad():
        return with_log_softmax(logits, tokens, pad_id)


@right("causal_lm_loss")
def with_a_weight(logits, tokens, pad_id):
    weight = torch.ones(logits.shape[-1], dtype=logits.dtype)
    weight[pad_id] = 0
    return F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], weight)


@wrong("causal_lm_loss", "exp of a large logit")
def exp_over_sum(logits, tokens, pad_id):
    """The softmax of lesson 02 before its maximum was subtracted."""
    says = logits[:, :-1].exp()
    says = (says / says.sum(-1, keepdim=True)).gather(-1, tokens[:, 1:, None])[..., 0]
    return -says[tokens[:, 1:] != pad_id].log().mean()


@wrong("causal_lm_loss", "cut off from the logits")
def a_new_tensor_that_wants_gradients(logits, tokens, pad_id):
    """The usual answer to "does not require grad"."""
    return torch.tensor(with_log_softmax(logits, tokens, pad_id).item(), requires_grad=True)


@wrong("causal_lm_loss", "a softmax that has rounded to 0 is −inf, and −inf · 0")
def log_of_softmax_times_one_hot(logits, tokens, pad_id):
    """The formula of cross-entropy with its sum over the vocabulary, as lesson 08 has it."""
    says, wanted = logits[:, :-1].softmax(-1), F.one_hot(tokens[:, 1:], logits.shape[-1])
    costs = -torch.einsum("blv,blv->bl", says.log(), wanted.to(logits.dtype))
    return masked_mean(costs, tokens[:, 1:] != pad_id)


@wrong("causal_lm_loss", "each row is cut", "pads can stand before them")
def row_by_row_up_to_its_length(logits, tokens, pad_id):
    """The count of a row's tokens taken for the place of its last one."""
    lengths = (tokens != pad_id).sum(1)
    total = sum(
        F.cross_entropy(row[: n - 1], text[1:n], reduction="sum")
        for row, text, n in zip(logits, tokens, lengths.tolist(), strict=True)
    )
    return total / (lengths - 1).sum()


@wrong("causal_lm_loss", "each row is cut", "pads among them are left out")
def row_by_row_without_its_pads(logits, tokens, pad_id):
    """The same with `ignore_index`."""
    lengths = (tokens != pad_id).sum(1)
    total = sum(
        F.cross_entropy(row[: n - 1], text[1:n], ignore_index=pad_id, reduction="sum")
        for row, text, n in zip(logits, tokens, lengths.tolist(), strict=True)
    )
    return total / (lengths - 1).sum()


@right("causal_lm_loss")
def rolled_and_its_last_made_a_pad(logits, tokens, pad_id):
    wanted = tokens.roll(-1, 1)
    wanted[:, -1] = pad_id
    return F.cross_entropy(logits.mT, wanted, ignore_index=pad_id)


# ---- prefix_mask


@right("prefix_mask")
def place_by_place(prefix_lengths, length):
    rows = [
        [[k < n or k <= q for k in range(length)] for q in range(length)]
        for n in prefix_lengths.tolist()
    ]
    return torch.tensor(rows)[:, None]


@right("prefix_mask")
def filled_in(prefix_lengths, length):
    mask = torch.ones(len(prefix_lengths), 1, length, length).tril().bool()
    for row, n in enumerate(prefix_lengths):
        mask[row, :, :, :n] = True
    return mask


@right("prefix_mask")
def hidden_and_turned_round(prefix_lengths, length):
    place = torch.arange(length)
    behind = place[None, :] > place[:, None]
    outside = place[None, None, :] >= prefix_lengths[:, None, None]
    return ~(behind & outside).unsqueeze(1)


@right("prefix_mask")
def the_block_alone(prefix_lengths, length):
    place = torch.arange(length)
    inside = place < prefix_lengths[:, None]
    block = inside[:, :, None] & inside[:, None, :]
    return (block | torch.ones(length, length, dtype=torch.bool).tril()).reshape(
        -1, 1, length, length
    )


def triangle(length, diagonal=0):
    return torch.ones(length, length, dtype=torch.bool).tril(diagonal)


@right("prefix_mask")
def how_far_each_query_sees(prefix_lengths, length):
    place = torch.arange(length, device=prefix_lengths.device)
    end = torch.maximum(place + 1, prefix_lengths[:, None])
    return (place < end[:, :, None]).unsqueeze(1)


@wrong("prefix_mask", "all rows have the prefix of the last")
def of_the_last_row(prefix_lengths, length):
    """One mask, made anew in a loop over the rows, and expanded behind it."""
    for prefix in prefix_lengths:
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        mask[:, :prefix] = True
    return mask.expand(len(prefix_lengths), 1, length, length)


@wrong("prefix_mask", "the triangle's diagonal is moved up by the prefix")
def diagonal_moved_up(prefix_lengths, length):
    """tril(n − 1) shows the first token the whole prefix, and all others too much."""
    return torch.stack([triangle(length, max(n - 1, 0))[None] for n in prefix_lengths.tolist()])


# ---- mask_tokens


@right("mask_tokens")
def with_where(tokens, mask_id, pad_id, probability, generator):
    hidden = torch.rand(tokens.shape, generator=generator) < probability
    hidden = hidden * (tokens != pad_id)
    return torch.where(hidden, mask_id, tokens), torch.where(hidden, tokens, pad_id)


@right("mask_tokens")
def with_bernoulli(tokens, mask_id, pad_id, probability, generator):
    hidden = torch.bernoulli(torch.full(tokens.shape, probability), generator=generator).bool()
    hidden &= tokens != pad_id
    masked, targets = tokens.clone(), torch.full_like(tokens, pad_id)
    masked[hidden] = mask_id
    targets[hidden] = tokens[hidden]
    return masked, targets


@right("mask_tokens")
def one_after_the_other(tokens, mask_id, pad_id, probability, generator):
    masked, targets = tokens.clone(), torch.full_like(tokens, pad_id)
    draws = torch.rand(tokens.numel(), generator=generator).view(tokens.shape)
    for place in (tokens != pad_id).nonzero().tolist():
        place = tuple(place)
        if draws[place] < probability:
            masked[place], targets[place] = mask_id, tokens[place]
    return [masked, targets]


def hidden_places(tokens, pad_id, probability, generator):
    drawn = torch.rand(tokens.shape, generator=generator) < probability
    return drawn & (tokens != pad_id)


@wrong("mask_tokens", "A pad was hidden")
def pads_too(tokens, mask_id, pad_id, probability, generator):
    """The second condition forgotten."""
    hidden = torch.rand(tokens.shape, generator=generator) < probability
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "must be pad_id, or the model is paid for copying")
def all_tokens_as_targets(tokens, mask_id, pad_id, probability, generator):
    """An autoencoder restores everything; and the call is a shorter line."""
    hidden = hidden_places(tokens, pad_id, probability, generator)
    return tokens.masked_fill(hidden, mask_id), tokens.clone()


@wrong("mask_tokens", "*not* hidden")
def targets_turned_round(tokens, mask_id, pad_id, probability, generator):
    """The tilde forgotten."""
    hidden = hidden_places(tokens, pad_id, probability, generator)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(hidden, pad_id)


@wrong("mask_tokens", "read off the masked tokens")
def targets_after_masking(tokens, mask_id, pad_id, probability, generator):
    """The first line overwrites what the second reads."""
    hidden = hidden_places(tokens, pad_id, probability, generator)
    tokens = tokens.masked_fill(hidden, mask_id)
    return tokens, tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "expected about 30%", "turned round")
def keeps_that_share(tokens, mask_id, pad_id, probability, generator):
    """> for <, as in a dropout mask."""
    drawn = torch.rand(tokens.shape, generator=generator) > probability
    hidden = drawn & (tokens != pad_id)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "must be pad_id=0, got -100")
def minus_hundred(tokens, mask_id, pad_id, probability, generator):
    """The `ignore_index` of PyTorch's default."""
    hidden = hidden_places(tokens, pad_id, probability, generator)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, -100)


@wrong("mask_tokens", "pass `generator=generator`")
def without_the_generator(tokens, mask_id, pad_id, probability, generator):
    """The global generator."""
    hidden = hidden_places(tokens, pad_id, probability, None)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "not used, or seeded anew")
def seeded_anew(tokens, mask_id, pad_id, probability, generator):
    """A seed against surprises."""
    generator.manual_seed(0)
    hidden = hidden_places(tokens, pad_id, probability, generator)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "do not seed the generator")
def begins_again(tokens, mask_id, pad_id, probability, generator):
    """The generator's own seed, again and again."""
    generator.manual_seed(generator.initial_seed())
    hidden = hidden_places(tokens, pad_id, probability, generator)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "same places")
def one_row_for_all(tokens, mask_id, pad_id, probability, generator):
    """One draw for the batch."""
    drawn = torch.rand(tokens.shape[1], generator=generator) < probability
    hidden = drawn & (tokens != pad_id)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "same number of gaps")
def a_fixed_number(tokens, mask_id, pad_id, probability, generator):
    """The nearest whole number of tokens in each row."""
    order = torch.rand(tokens.shape, generator=generator).masked_fill(tokens == pad_id, 2)
    count = ((tokens != pad_id).sum(1, keepdim=True) * probability).round().long()
    hidden = order.argsort(1).argsort(1) < count
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "BERT leaves a tenth")
def as_bert_does(tokens, mask_id, pad_id, probability, generator):
    """80 % become the mask, the rest stays, and all are asked for."""
    hidden = hidden_places(tokens, pad_id, probability, generator)
    replaced = hidden & (torch.rand(tokens.shape, generator=generator) < 0.8)
    return tokens.masked_fill(replaced, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "expected two results")
def the_tokens_alone(tokens, mask_id, pad_id, probability, generator):
    """The targets forgotten."""
    return tokens.masked_fill(hidden_places(tokens, pad_id, probability, generator), mask_id)


@right("mask_tokens")
def seeded_by_the_generator(tokens, mask_id, pad_id, probability, generator):
    draw = np.random.default_rng(torch.randint(2**31, (), generator=generator).item())
    hidden = torch.from_numpy(draw.random(tuple(tokens.shape)) < probability) & (tokens != pad_id)
    return tokens.where(~hidden, mask_id), tokens.where(hidden, pad_id)


@right("mask_tokens")
def how_many_and_then_which(tokens, mask_id, pad_id, probability, generator):
    real = (tokens != pad_id).nonzero()
    many = int((torch.rand(len(real), generator=generator) < probability).sum())
    row, column = real[torch.randperm(len(real), generator=generator)[:many]].T
    masked, targets = tokens.clone(), torch.full_like(tokens, pad_id)
    masked[row, column], targets[row, column] = mask_id, tokens[row, column]
    return masked, targets


@wrong("mask_tokens", "the same number of tokens")
def a_fixed_number_in_all(tokens, mask_id, pad_id, probability, generator):
    """`randperm` over the real tokens of the batch: that share of them, exactly."""
    real = (tokens != pad_id).nonzero()
    order = torch.randperm(len(real), generator=generator)
    row, column = real[order[: round(probability * len(real))]].T
    hidden = torch.zeros_like(tokens, dtype=torch.bool)
    hidden[row, column] = True
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "the same number of tokens")
def a_fixed_number_of_places(tokens, mask_id, pad_id, probability, generator):
    """The same over all places; with pads among them the number of gaps varies."""
    order = torch.randperm(tokens.numel(), generator=generator).view(tokens.shape)
    hidden = (order < round(probability * tokens.numel())) & (tokens != pad_id)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "almost the same number of tokens")
def a_fixed_number_give_or_take_one(tokens, mask_id, pad_id, probability, generator):
    """That share exactly, with the rest of the division left to chance."""
    many = probability * tokens.numel() + torch.rand((), generator=generator)
    order = torch.randperm(tokens.numel(), generator=generator).view(tokens.shape)
    hidden = (order < int(many)) & (tokens != pad_id)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@right("mask_tokens")
def drawn_token_by_token(tokens, mask_id, pad_id, probability, generator):
    masked, targets = tokens.clone(), torch.full_like(tokens, pad_id)
    for row, column in (tokens != pad_id).nonzero().tolist():
        if torch.rand((), generator=generator) < probability:
            masked[row, column], targets[row, column] = mask_id, tokens[row, column]
    return masked, targets


@wrong("mask_tokens", "Neighbours are hidden together")
def in_pairs(tokens, mask_id, pad_id, probability, generator):
    """Spans, as in SpanBERT."""
    rows, length = tokens.shape
    drawn = torch.rand(rows, length // 2 + 1, generator=generator) < probability
    hidden = drawn.repeat_interleave(2, 1)[:, :length] & (tokens != pad_id)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "Every token was hidden")
def real_or_drawn(tokens, mask_id, pad_id, probability, generator):
    """| for &."""
    drawn = torch.rand(tokens.shape, generator=generator) < probability
    hidden = drawn | (tokens != pad_id)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "of the real tokens were hidden", "expected about 30%")
def a_share_of_all_places(tokens, mask_id, pad_id, probability, generator):
    """The share is meant of B · L, and only real tokens may be hidden."""
    probability = probability * tokens.numel() / (tokens != pad_id).sum()
    hidden = hidden_places(tokens, pad_id, probability, generator)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "With probability 0, masked")
def in_whole_percents(tokens, mask_id, pad_id, probability, generator):
    """0 is among the hundred numbers, and <= takes one too many."""
    drawn = torch.randint(100, tokens.shape, generator=generator) <= 100 * probability
    hidden = drawn & (tokens != pad_id)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "Tokens [1, 2] were never hidden")
def special_tokens_left_out(tokens, mask_id, pad_id, probability, generator):
    """As in BERT: but here the special tokens are 1 and 2 only by a habit of the course."""
    drawn = torch.rand(tokens.shape, generator=generator) < probability
    hidden = drawn & (tokens != pad_id) & (tokens > 2)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "Every token was hidden", "Draw for each token by itself")
def one_draw_for_all(tokens, mask_id, pad_id, probability, generator):
    """One number decides for the whole batch."""
    hidden = (torch.rand((), generator=generator) < probability) & (tokens != pad_id)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("mask_tokens", "expected a tensor of shape (1, 50)")
def one_sentence_loses_its_axis(tokens, mask_id, pad_id, probability, generator):
    """squeeze(0), as if one sentence were drawn at a time."""
    return tuple(t.squeeze(0) for t in with_where(tokens, mask_id, pad_id, probability, generator))


@wrong("mask_tokens", "Is it rounded?")
def drawn_in_thousandths(tokens, mask_id, pad_id, probability, generator):
    """Whole numbers below 1000 are drawn."""
    drawn = torch.randint(0, 1000, tokens.shape, generator=generator) < probability * 1000
    hidden = drawn & (tokens != pad_id)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


# ---- patchify


@right("patchify")
def with_unfold_of_pytorch(images, patch):
    if any(size % patch for size in images.shape[2:]):
        raise ValueError("no")
    return F.unfold(images.double(), patch, stride=patch).transpose(1, 2)


@right("patchify")
def slice_by_slice(images, patch):
    height, width = images.shape[2:]
    if height % patch != 0 or width % patch != 0:
        raise ValueError("patch must divide the picture")
    return torch.stack(
        [
            images[:, :, y : y + patch, x : x + patch].flatten(1)
            for y in range(0, height, patch)
            for x in range(0, width, patch)
        ],
        dim=1,
    )


@right("patchify")
def with_einsum(images, patch):
    b, c, h, w = images.shape
    if h % patch or w % patch:
        raise ValueError
    x = images.reshape(b, c, h // patch, patch, w // patch, patch)
    x = torch.einsum("bcipjq->bijcpq", x)
    return x.reshape(b, h // patch * (w // patch), -1)


@right("patchify")
def patchified_with_numpy(images, patch):
    b, c, h, w = images.shape
    if (h % patch, w % patch) != (0, 0):
        raise ValueError(f"{h} × {w} by {patch}")
    x = images.numpy().reshape(b, c, h // patch, patch, w // patch, patch)
    x = x.transpose(0, 2, 4, 1, 3, 5).reshape(b, -1, c * patch**2)
    return torch.from_numpy(np.ascontiguousarray(x))


def split(images, patch):
    b, c, h, w = images.shape
    if h % patch or w % patch:
        raise ValueError("patch must divide height and width")
    return images.reshape(b, c, h // patch, patch, w // patch, patch)


def joined(x):
    return x.flatten(3).flatten(1, 2)


@wrong("patchify", "patches of 2 do not divide")
def the_number_of_pictures_for_the_patch(images, patch):
    """Here and there as many pictures as pixels in a patch's row hide it."""
    b, _, h, w = images.shape
    if h % b or w % b:
        raise ValueError("patch must divide height and width")
    return F.unfold(images.double(), patch, stride=patch).mT.to(images.dtype)


@wrong("patchify", "last two axes are exchanged")
def unfold_as_it_comes(images, patch):
    """`F.unfold` gives columns."""
    split(images, patch)
    return F.unfold(images.double(), patch, stride=patch).to(images.dtype)


@wrong("patchify", "should raise ValueError")
def cropped(images, patch):
    """The rest of the picture is lost, silently."""
    h, w = (size // patch * patch for size in images.shape[2:])
    return joined(split(images[:, :, :h, :w], patch).permute(0, 2, 4, 1, 3, 5))


@right("patchify")
def with_a_convolution(images, patch):
    if images.shape[2] % patch or images.shape[3] % patch:
        raise ValueError(images.shape)
    numbers = images.shape[1] * patch * patch
    pick = torch.eye(numbers, dtype=torch.double).view(numbers, -1, patch, patch)
    return F.conv2d(images.double(), pick, stride=patch).flatten(2).mT


@right("patchify")
def refused_by_reshape(images, patch):
    try:
        return joined(split_without_looking(images, patch).permute(0, 2, 4, 1, 3, 5))
    except RuntimeError as error:
        raise ValueError("patch must divide height and width") from error


def split_without_looking(images, patch):
    b, c, h, w = images.shape
    return images.reshape(b, c, h // patch, patch, w // patch, patch)


@wrong("patchify", "is invalid for input of size", "It should raise ValueError")
def not_looked_at(images, patch):
    """`reshape` complains anyway, but with another error."""
    return joined(split_without_looking(images, patch).permute(0, 2, 4, 1, 3, 5))


@wrong("patchify", "It should raise ValueError: patches of 2 do not divide")
def asserted(images, patch):
    """assert for raise."""
    assert images.shape[2] % patch == 0 and images.shape[3] % patch == 0
    return not_looked_at(images, patch)


@wrong("patchify", "patches of 2 do not divide a picture of 4 × 5")
def only_the_height(images, patch):
    """Pictures are square."""
    if images.shape[2] % patch:
        raise ValueError("patch must divide the height")
    return not_looked_at(images[..., : images.shape[3] // patch * patch], patch)


@wrong("patchify", "does not exchange the last two axes")
def unfold_and_reshape(images, patch):
    """The shape of `F.unfold` put right by force."""
    split(images, patch)
    columns = F.unfold(images.double(), patch, stride=patch)
    return columns.reshape(len(images), columns.shape[2], columns.shape[1])


@wrong("patchify", "axes of length 1")
def patches_squeezed(images, patch):
    """squeeze(0): right for many pictures."""
    return slice_by_slice(images, patch).squeeze(0)


@wrong("patchify", "axes of length 1")
def patches_squeezed_in_the_middle(images, patch):
    """squeeze(1): a picture of one patch loses the axis of the patches."""
    return slice_by_slice(images, patch).squeeze(1)


# ---- unpatchify


@right("unpatchify")
def with_fold(patches, patch, channels, height, width):
    return F.fold(patches.double().mT, (height, width), patch, stride=patch)


@right("unpatchify")
def pasted_one_by_one(patches, patch, channels, height, width):
    images = patches.new_zeros(len(patches), channels, height, width)
    across = width // patch
    for i in range(patches.shape[1]):
        y, x = i // across * patch, i % across * patch
        block = patches[:, i].reshape(-1, channels, patch, patch)
        images[:, :, y : y + patch, x : x + patch] = block
    return images


@right("unpatchify")
def pasted_with_einsum(patches, patch, channels, height, width):
    x = patches.reshape(-1, height // patch, width // patch, channels, patch, patch)
    return torch.einsum("bijcpq->bcipjq", x).reshape(-1, channels, height, width)


@right("unpatchify")
def pasted_with_numpy(patches, patch, channels, height, width):
    x = patches.numpy().reshape(-1, height // patch, width // patch, channels, patch, patch)
    x = x.transpose(0, 3, 1, 4, 2, 5).reshape(-1, channels, height, width)
    return torch.from_numpy(np.ascontiguousarray(x))


@right("unpatchify")
def pasted_by_index(patches, patch, channels, height, width):
    place = torch.arange(channels * height * width).view(1, channels, height, width)
    place = slice_by_slice(place, patch).flatten()
    return patches.flatten(1)[:, place.argsort()].view(-1, channels, height, width)


@wrong("unpatchify", "axes of length 1")
def picture_squeezed(patches, patch, channels, height, width):
    """squeeze(0): right for many pictures."""
    return with_fold(patches, patch, channels, height, width).squeeze(0)


# ---- repaired_patches


@right("repaired_patches")
def repaired_by_slices(images, patch):
    return slice_by_slice(images, patch)


@right("repaired_patches")
def repaired_as_in_the_issue(images, patch):
    b, c = images.shape[:2]
    x = images.unfold(2, patch, patch).unfold(3, patch, patch).contiguous()
    x = x.view(b, c, -1, patch**2).permute(0, 2, 1, 3).contiguous()
    return x.view(b, -1, c * patch**2)


@right("repaired_patches")
def repaired_with_f_unfold(images, patch):
    return F.unfold(images.double(), patch, stride=patch).mT.to(images.dtype)


@right("repaired_patches")
def repaired_by_moveaxis(images, patch):
    x = images.unfold(2, patch, patch).unfold(3, patch, patch).movedim(1, 3)
    return x.reshape(len(images), -1, images.shape[1] * patch * patch)


@right("repaired_patches")
def repaired_width_first(images, patch):
    x = images.unfold(3, patch, patch).unfold(2, patch, patch)  # the last two axes: width, height
    return x.permute(0, 2, 3, 1, 5, 4).flatten(3).flatten(1, 2)


@wrong("causal_lm_loss", "IndexError")
def lm_loss_squeezed(logits, tokens, pad_id):
    """`squeeze()` without an axis takes the batch away, too, if it holds one text."""
    says = logits[:, :-1].log_softmax(-1)
    says = says.gather(-1, tokens[:, 1:].unsqueeze(-1)).squeeze()
    return -says[tokens[:, 1:] != pad_id].mean()


@wrong("mask_tokens", "small probability")
def gaps_in_whole_per_cents(tokens, mask_id, pad_id, probability, generator):
    """A percentage is drawn; 0.002 becomes one in a hundred."""
    drawn = torch.randint(100, tokens.shape, generator=generator) < 100 * probability
    hidden = drawn & (tokens != pad_id)
    return tokens.masked_fill(hidden, mask_id), tokens.masked_fill(~hidden, pad_id)


@wrong("repaired_patches", "axes of length 1")
def repaired_and_squeezed(images, patch):
    """squeeze(0): right for many pictures."""
    return repaired_by_slices(images, patch).squeeze(0)


def prefix_row_by_row(prefix_lengths, length, open_columns):
    mask = torch.ones(length, length, dtype=torch.bool).tril().repeat(len(prefix_lengths), 1, 1, 1)
    for row, n in zip(mask, prefix_lengths.tolist(), strict=True):
        row[..., open_columns(n)] = True
    return mask


@right("prefix_mask")
def prefix_by_a_slice(prefix_lengths, length):
    return prefix_row_by_row(prefix_lengths, length, lambda n: slice(n))


@wrong("prefix_mask", "All is right but an empty prefix")
def no_prefix_sees_nothing(prefix_lengths, length):
    """An empty prefix is taken for an empty text."""
    mask = prefix_by_a_slice(prefix_lengths, length)
    return mask & (prefix_lengths > 0)[:, None, None, None]


def with_gaps(tokens, mask_id, pad_id, probability, generator, force):
    hidden = (torch.rand(tokens.shape, generator=generator) < probability) & (tokens != pad_id)
    hidden = force(hidden, tokens != pad_id) if probability else hidden
    return tokens.masked_fill(hidden, mask_id), torch.where(hidden, tokens, pad_id)


@wrong("mask_tokens", "at least one gap every time", "force nothing")
def at_least_one_gap(*given):
    """So that there is a loss: the mean over no token is NaN."""

    def force(hidden, real):
        if not hidden.any():
            hidden[tuple(real.nonzero()[0])] = True
        return hidden

    return with_gaps(*given, force)


@wrong("mask_tokens", "at least one gap every time", "force nothing")
def at_least_one_gap_in_each_text(*given):
    """The same, row by row."""

    def force(hidden, real):
        first = real & (real.cumsum(1) == 1)
        return hidden | (first & ~hidden.any(1, keepdim=True))

    return with_gaps(*given, force)
