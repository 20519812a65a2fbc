"""Answers to exercise 03, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, solutions, wrong
from torch import nn

LESSON = "03_multi_head_attention"
Given = solutions(LESSON)["MultiHeadAttention"]  # for its __init__

# ---- predicted_letters


@right("predicted_letters")
def as_strings():
    return ["b3 b4", "c1 c2", "c1 c2 a3 a4", "b1 b2 b3 b4", 2]


@right("predicted_letters")
def without_blanks_in_a_tuple():
    return "b3b4", "c1c2", "c1c2a3a4", "b1b2b3b4", 2


@right("predicted_letters")
def with_commas():
    return ["b3, b4", "c1, c2", "c1, c2, a3, a4", "b1, b2, b3, b4", 2.0]


@right("predicted_letters")
def as_lists_of_letters():
    return [["b3", "b4"], ("c1", "c2"), ["c1", "c2", "a3", "a4"], ["b1", "b2", "b3", "b4"], 2]


@wrong("predicted_letters", "a is not 'b1 b2'", "the features of the first head")
def heads_all_alike():
    """Every head is thought to begin with the first features."""
    return ["b1 b2", "c1 c2", "c1 c2 a3 a4", "b1 b2 b3 b4", 2]


@wrong("predicted_letters", "a is not 'c1 c2'", "That is what the wrong split gives")
def the_bug_itself():
    """The bug is taken for the rule."""
    return ["c1 c2", "c1 c2", "c1 c2 a3 a4", "b1 b2 b3 b4", 2]


@wrong("predicted_letters", "b is not 'b3 b4'", "leaves the letters where they are")
def a_reshape_is_thought_clever():
    """reshape(heads, tokens, d_k) is read as 'make these axes': hence the bug."""
    return ["b3 b4", "b3 b4", "c1 c2 a3 a4", "b1 b2 b3 b4", 2]


@wrong("predicted_letters", "b is not 'a3 a4'", "seventh letter")
def the_first_head_of_the_wrong_split():
    """The lesson's picture has two tokens; here there are three, and the cut falls elsewhere."""
    return ["b3 b4", "a3 a4", "c1 c2 a3 a4", "b1 b2 b3 b4", 2]


@wrong("predicted_letters", "c is not 'b1 b2 b3 b4'", "A merge with the swap")
def merging_is_thought_harmless():
    """The way back is thought to be any reshape to the old shape."""
    return ["b3 b4", "c1 c2", "b1 b2 b3 b4", "b1 b2 b3 b4", 2]


@wrong("predicted_letters", "d is not 'c1 c2 a3 a4'", "no letter either")
def two_wrongs_stay_wrong():
    """Two bugs are thought to be worse than one."""
    return ["b3 b4", "c1 c2", "c1 c2 a3 a4", "c1 c2 a3 a4", 2]


@wrong("predicted_letters", "e is not 1", "features in both heads")
def a_token_lives_in_one_head():
    """Heads are thought to share out the tokens."""
    return ["b3 b4", "c1 c2", "c1 c2 a3 a4", "b1 b2 b3 b4", 1]


@wrong("predicted_letters", "e is not 6", "no attention has run")
def everything_depends_on_everything():
    """True after attention, not before it."""
    return ["b3 b4", "c1 c2", "c1 c2 a3 a4", "b1 b2 b3 b4", 6]


@wrong("predicted_letters", "e is not 4", "one row for each token")
def four_features_four_rows():
    """Features counted in the place of rows."""
    return ["b3 b4", "c1 c2", "c1 c2 a3 a4", "b1 b2 b3 b4", 4]


@wrong("predicted_letters", "c is not 'a1 a2'", "one head after the other")
def half_a_row():
    """Two letters where four were asked for."""
    return ["b3 b4", "c1 c2", "a1 a2", "b1 b2 b3 b4", 2]


@wrong("predicted_letters", "expected 5 answers")
def number_forgotten():
    """The letters only."""
    return ["b3 b4", "c1 c2", "c1 c2 a3 a4", "b1 b2 b3 b4"]


@right("predicted_letters")
def as_in_the_formula():
    return ["b_3 b_4", "c₁ c₂", "C1 C2 A3 A4", "b_{1} b_{2} b_{3} b_{4}", 2]


@right("predicted_letters")
def computed_in_numpy():
    x = np.array([[f"{token}{i}" for i in (1, 2, 3, 4)] for token in "abc"])
    good, bad = x.reshape(3, 2, 2).swapaxes(0, 1), x.reshape(2, 3, 2)
    return [good[1, 1], bad[1, 1], good.reshape(3, 4)[1], bad.reshape(3, 4)[1], 2]


# ---- split_heads


@right("split_heads")
def with_view(x, num_heads):
    B, L, d_model = x.shape
    return x.view(B, L, num_heads, d_model // num_heads).permute(0, 2, 1, 3)


@right("split_heads")
def with_unflatten(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).contiguous()


@right("split_heads")
def with_chunks(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("split_heads")
def with_a_loop_over_slices(x, num_heads):
    d_k = x.shape[-1] // num_heads
    return torch.stack([x[:, :, i * d_k : (i + 1) * d_k] for i in range(num_heads)], dim=1)


@right("split_heads")
def with_swapaxes_and_minus_one(x, num_heads):
    return torch.swapaxes(x.reshape(len(x), -1, num_heads, x.size(-1) // num_heads), 1, 2)


@right("split_heads")
def transposed_first_and_last(x, num_heads):
    """(B, d_model, L) → (B, H, d_k, L) → (B, H, L, d_k): unusual, and right."""
    return x.transpose(1, 2).unflatten(1, (num_heads, -1)).transpose(2, 3)


@right("split_heads")
def with_einsum_and_selectors(x, num_heads):
    d_model = x.shape[-1]
    pick = torch.eye(d_model, dtype=x.dtype).view(d_model, num_heads, -1)
    return torch.einsum("blm,mhk->bhlk", x, pick)


@right("split_heads")
def number_by_number(x, num_heads):
    B, L, d_model = x.shape
    heads = x.new_empty(B, num_heads, L, d_model // num_heads)
    for m in range(d_model):
        heads[:, m // heads.shape[-1], :, m % heads.shape[-1]] = x[:, :, m]
    return heads


@wrong("split_heads", "None", "return")
def split_without_return(x, num_heads):
    """The last line of a notebook cell shows its value; that of a function doesn't."""
    x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong("split_heads", "Your code stopped", "x.view(B, L, num_heads, d_model)", "RuntimeError")
def split_with_d_model_for_d_k(x, num_heads):
    """d_model was not divided."""
    B, L, d_model = x.shape
    return x.view(B, L, num_heads, d_model).transpose(1, 2)


@wrong("split_heads", "Your code stopped", "x.view(B * L, num_heads, -1)", "view size")
def split_row_by_row(x, num_heads):
    """B and L cannot always be made one axis by a view: a transposed x does not lie in order."""
    B, L, _ = x.shape
    return x.view(B * L, num_heads, -1).view(B, L, num_heads, -1).transpose(1, 2)


@wrong("split_heads", "Your code stopped", "torch.eye(d_model)", "same dtype")
def split_with_selectors_in_float32(x, num_heads):
    """A new tensor is float32 unless it is told otherwise: dtype=x.dtype."""
    d_model = x.shape[-1]
    return torch.stack([x @ part for part in torch.eye(d_model).chunk(num_heads, 1)], dim=1)


@wrong("split_heads", "axes of length 1")
def split_and_squeezed(x, num_heads):
    """squeeze() after a batch of one was tried out in the notebook."""
    return cut(x, num_heads).squeeze(0)


@wrong("split_heads", "head h begins at feature h", "overlap")
def heads_that_overlap(x, num_heads):
    """A slice from h to h + d_k, where h · d_k was meant."""
    d_k = x.shape[-1] // num_heads
    return torch.stack([x[..., h : h + d_k] for h in range(num_heads)], dim=1)


@wrong("split_heads", "dtype=x.dtype")
def split_into_zeros(x, num_heads):
    """torch.zeros is float32 unless it is told otherwise."""
    B, L, d_model = x.shape
    heads = torch.zeros(B, num_heads, L, d_model // num_heads)
    heads[...] = cut(x, num_heads)
    return heads


# ---- merge_heads


@right("merge_heads")
def merged_with_contiguous_and_view(x):
    B, H, L, d_k = x.shape
    return x.transpose(1, 2).contiguous().view(B, L, H * d_k)


@right("merge_heads")
def merged_with_flatten(x):
    return x.transpose(1, 2).flatten(start_dim=2)


@right("merge_heads")
def merged_with_cat(x):
    return torch.cat(list(x.unbind(dim=1)), dim=-1)


@right("merge_heads")
def merged_with_permute_and_minus_one(x):
    return x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


@right("merge_heads")
def merged_with_a_loop(x):
    merged = x[:, 0]
    for i in range(1, x.shape[1]):
        merged = torch.cat((merged, x[:, i]), dim=2)
    return merged


@right("merge_heads")
def merged_in_numpy(x):
    array = np.swapaxes(x.numpy(), 1, 2)
    return torch.from_numpy(array.reshape(*array.shape[:2], -1).copy())


@wrong("merge_heads", "Your code stopped", ".view(B, L, H * d_k)", "view size is not compatible")
def merged_with_view_after_the_swap(x):
    """A transposed tensor does not lie in order; .reshape copies it."""
    B, H, L, d_k = x.shape
    return x.transpose(1, 2).view(B, L, H * d_k)


@wrong("merge_heads", "axes of length 1")
def merged_and_squeezed(x):
    """squeeze() after a batch of one was tried out in the notebook."""
    return joined(x).squeeze()


@wrong("merge_heads", "changed its argument x")
def merged_after_a_swap_in_place(x):
    """transpose_ with an underscore turns the caller's tensor."""
    x.transpose_(1, 2)
    return x.reshape(*x.shape[:2], -1)


@wrong("merge_heads", "dtype=x.dtype")
def merged_into_zeros(x):
    """torch.zeros is float32 unless it is told otherwise."""
    B, H, L, d_k = x.shape
    merged = torch.zeros(B, L, H * d_k)
    merged[...] = joined(x)
    return merged


# ---- count_parameters


@right("count_parameters")
def four_squares(d_model, num_heads):
    return 4 * d_model**2


@right("count_parameters")
def counted_in_a_module(d_model, num_heads):
    layers = [nn.Linear(d_model, d_model, bias=False, device="meta") for _ in range(4)]
    return sum(p.numel() for layer in layers for p in layer.parameters())


@right("count_parameters")
def head_by_head(d_model, num_heads):
    total = 0
    for _ in range(num_heads):
        total += 3 * d_model * (d_model // num_heads)
    return total + num_heads * (d_model / num_heads) * d_model


@right("count_parameters")
def from_pytorch(d_model, num_heads):
    module = nn.MultiheadAttention(d_model, num_heads, bias=False, device="meta")
    return torch.tensor(sum(p.numel() for p in module.parameters()))


# ---- MultiHeadAttention


def cut(x, heads):
    return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


def weigh(q, k, mask=None, divisor=None, axis=-1):
    scores = q @ k.transpose(-2, -1) / (divisor or math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(axis)


class Parts(Given):
    """The solution in steps, each of which an answer can replace."""

    def project(self, query, key, value):
        return self.w_q(query), self.w_k(key), self.w_v(value)

    def split(self, x):
        return cut(x, self.num_heads)

    def attend(self, q, k, v, mask):
        return weigh(q, k, mask) @ v

    def merge(self, x):
        return joined(x)

    def forward(self, query, key, value, mask=None):
        q, k, v = (self.split(x) for x in self.project(query, key, value))
        return self.w_o(self.merge(self.attend(q, k, v, mask)))


@right("MultiHeadAttention")
class InSteps(Parts):
    pass


@right("MultiHeadAttention")
class WithPyTorchsFusedAttention(Given):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.w_q(query), self.w_k(key), self.w_v(value)
        q, k, v = (cut(x, self.num_heads) for x in (q, k, v))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.w_o(heads.transpose(1, 2).reshape(query.shape))


@right("MultiHeadAttention")
class HeadByHead(Given):
    def forward(self, query, key, value, mask=None):
        heads = []
        for i in range(self.num_heads):
            rows = slice(i * self.d_k, (i + 1) * self.d_k)
            q = query @ self.w_q.weight[rows].T
            k = key @ self.w_k.weight[rows].T
            v = value @ self.w_v.weight[rows].T
            scores = q @ k.transpose(1, 2) / self.d_k**0.5
            if mask is not None:
                full = mask.expand(len(query), self.num_heads, query.shape[1], key.shape[1])
                scores = scores.masked_fill(~full[:, i], float("-inf"))
            heads.append(torch.softmax(scores, dim=-1) @ v)
        return self.w_o(torch.cat(heads, dim=-1))


@right("MultiHeadAttention")
class WithEinsum(Given):
    def forward(self, query, key, value, mask=None):
        h = self.num_heads
        q = self.w_q(query).unflatten(-1, (h, -1))
        k = self.w_k(key).unflatten(-1, (h, -1))
        v = self.w_v(value).unflatten(-1, (h, -1))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.d_k**-0.5
        if mask is not None:
            scores = torch.where(mask, scores, -torch.inf)
        mixed = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
        return self.w_o(mixed.flatten(2))


@right("MultiHeadAttention")
class AsASumOverHeads(Given):
    def forward(self, query, key, value, mask=None):
        q, k, v = (
            cut(layer(x), self.num_heads)
            for layer, x in ((self.w_q, query), (self.w_k, key), (self.w_v, value))
        )
        heads = weigh(q, k, mask) @ v
        blocks = self.w_o.weight.split(self.d_k, dim=1)
        return sum(heads[:, i] @ block.T for i, block in enumerate(blocks))


@right("MultiHeadAttention")
class WithHeadsInTheBatch(Given):
    def forward(self, query, key, value, mask=None):
        B, Lq, _ = query.shape
        q, k, v = (
            cut(layer(x), self.num_heads).flatten(0, 1)
            for layer, x in ((self.w_q, query), (self.w_k, key), (self.w_v, value))
        )
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d_k)
        if mask is not None:
            full = mask.expand(B, self.num_heads, Lq, key.shape[1]).flatten(0, 1)
            scores = scores.masked_fill(full.logical_not(), float("-inf"))
        heads = torch.bmm(scores.softmax(-1), v).unflatten(0, (B, self.num_heads))
        return self.w_o(joined(heads))


@right("MultiHeadAttention")
class InDoublePrecisionInside(Given):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.w_q(query), self.w_k(key), self.w_v(value)
        q, k, v = (cut(x, self.num_heads).double() for x in (q, k, v))
        return self.w_o(joined(weigh(q, k, mask) @ v).to(query.dtype))


@right("MultiHeadAttention")
class WithALargeNegativeNumber(Parts):
    def attend(self, q, k, v, mask):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
        return scores.softmax(-1) @ v


@wrong("MultiHeadAttention", "Your code stopped", "mask.unsqueeze(1)")
class MaskUnsqueezed(Given):
    """mask.unsqueeze(1) is right for a mask (B, Lq, Lk), not for one that fits already."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.w_q(query), self.w_k(key), self.w_v(value)
        q, k, v = (cut(x, self.num_heads) for x in (q, k, v))
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        if mask is not None:
            scores += torch.zeros_like(scores).masked_fill_(~mask.unsqueeze(1), -math.inf)
        return self.w_o(joined(scores.softmax(-1) @ v))


@wrong("MultiHeadAttention", "Your code stopped", ".flatten(2)", "mat1 and mat2")
class SqueezedHeads(Given):
    """A squeeze left over from trying it with one head: now that case alone breaks."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.w_q(query), self.w_k(key), self.w_v(value)
        q, k, v = (cut(x, self.num_heads) for x in (q, k, v))
        heads = (weigh(q, k, mask) @ v).squeeze(1)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@wrong("MultiHeadAttention", "Your code stopped", "scores.float().softmax(-1) @ v", "scalar type")
class SoftmaxInFloat32(Given):
    """The softmax is widened, as is good for float16, and not brought back."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.w_q(query), self.w_k(key), self.w_v(value)
        q, k, v = (cut(x, self.num_heads) for x in (q, k, v))
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return self.w_o(joined(scores.float().softmax(-1) @ v))


@wrong("MultiHeadAttention", "is a tuple of 2, expected a tensor")
class OutputAndWeights(Parts):
    """nn.MultiheadAttention returns both."""

    def forward(self, query, key, value, mask=None):
        return super().forward(query, key, value, mask), None


@wrong("MultiHeadAttention", "cut off from the weights")
class Detached(Parts):
    """.detach() silences an error elsewhere, and the training with it."""

    def forward(self, query, key, value, mask=None):
        return super().forward(query, key, value, mask).detach()


@wrong("MultiHeadAttention", "w_q.weight gets no gradient")
class WeightsDetached(Parts):
    """The map was to be stored, so the weights were detached."""

    def attend(self, q, k, v, mask):
        return weigh(q, k, mask).detach() @ v


@wrong("MultiHeadAttention", "keep `__init__` as it was given")
class WithBiases(Given):
    """nn.Linear without bias=False."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.w_o = nn.Linear(d_model, d_model)


@wrong("MultiHeadAttention", "Your code stopped", "self.w_q(cut(query, self.num_heads))")
class ProjectedAfterTheSplit(Given):
    """Split first, project each slice: the much-copied module; here the sizes do not even fit."""

    def forward(self, query, key, value, mask=None):
        q = self.w_q(cut(query, self.num_heads))
        return self.w_o(joined(weigh(q, cut(key, self.num_heads), mask) @ value))


def filled_with(number):
    def attend(self, q, k, v, mask):
        scores = q @ k.mT / math.sqrt(self.d_k)
        return (scores if mask is None else scores.masked_fill(~mask, number)).softmax(-1) @ v

    return attend


@right("MultiHeadAttention")
class FilledWithMinus1e9(Parts):
    attend = filled_with(-1e9)


@wrong("MultiHeadAttention", "a causal mask is put in")
class CausalByDefault(Parts):
    """Taken from a decoder-only model, where there is no other mask."""

    def attend(self, q, k, v, mask):
        if mask is None:
            mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
        return super().attend(q, k, v, mask)


@wrong("MultiHeadAttention", "axes of length 1")
class BatchOfOneSqueezed(Parts):
    """squeeze(0) after a batch of one was tried out in the notebook."""

    def forward(self, query, key, value, mask=None):
        return super().forward(query, key, value, mask).squeeze(0)


@wrong("MultiHeadAttention", "w_q.weight is the same parameter as w_k.weight")
class OneLayerForQueriesAndKeys(Parts):
    """'Both are compared with each other': one layer under two names."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.w_k = self.w_q


@wrong("MultiHeadAttention", "w_q.weight cannot learn", "not frozen")
class Frozen(Parts):
    """Taken from a notebook in which weights were copied from elsewhere."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.requires_grad_(False)


@wrong("MultiHeadAttention", "there are 2 heads, and num_heads is 3")
class TwoHeads(Parts):
    """`__init__` was retyped, with the lesson's number."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.num_heads = 2


@wrong("MultiHeadAttention", "after one with other numbers", "begin anew")
class KeysOfTheFirstCall(Parts):
    """A cache for keys and values that nobody empties."""

    def attend(self, q, k, v, mask):
        if getattr(self, "memory", (k, v))[0].shape != k.shape:
            del self.memory
        self.memory = getattr(self, "memory", (k, v))
        return weigh(q, self.memory[0], mask) @ self.memory[1]


@wrong("MultiHeadAttention", "after one with other numbers", "kept from call to call")
class GrowingCache(Parts):
    """Keys and values of all calls are joined, as in a decoder that writes."""

    def attend(self, q, k, v, mask):
        if mask is None and getattr(self, "memory", k[1:])[:, :, :0].shape == k[:, :, :0].shape:
            k = torch.cat((self.memory, k), 2)
            v = torch.cat((self.values, v), 2)
        self.memory, self.values = k, v
        return weigh(q, k, mask) @ v


@wrong("MultiHeadAttention", "after one with other numbers", "begin anew")
class FirstMaskAsABuffer(Parts):
    """register_buffer('mask', …), as in much-read code, but with the mask of the first call."""

    def attend(self, q, k, v, mask):
        if mask is not None and not hasattr(self, "mask"):
            self.register_buffer("mask", mask)
        return weigh(q, k, None if mask is None else self.mask) @ v


@wrong("MultiHeadAttention", "changed the mode of self", "was = model.training")
class PutsItselfIntoEvalMode(Parts):
    """'Attention has no dropout', so it cannot harm; it does not come back."""

    def project(self, query, key, value):
        self.eval()
        return super().project(query, key, value)


@wrong("MultiHeadAttention", "switched gradients on or off")
class SwitchesGradientsOff(Parts):
    """In place of a `with` block."""

    def merge(self, x):
        torch.set_grad_enabled(False)
        return super().merge(x)


@wrong("MultiHeadAttention", "changed requires_grad of self.w_o.weight", "never learns")
class FreezesItsOutput(Parts):
    """Left over from an experiment."""

    def merge(self, x):
        self.w_o.requires_grad_(False)
        return super().merge(x)


@wrong("MultiHeadAttention", "changed the numbers that are stored in self.w_q.weight")
class ScalesItsWeights(Parts):
    """The scale is put into the weights once and for all, in every call."""

    def attend(self, q, k, v, mask):
        self.w_q.weight.data /= math.sqrt(self.d_k)
        return weigh(self.split(self.given), k, mask, 1) @ v

    def project(self, query, key, value):
        q, k, v = super().project(query, key, value)
        self.given = q / math.sqrt(self.d_k)
        return q, k, v


@wrong("MultiHeadAttention", "gave the module a new parameter")
class MakesALayerLater(Parts):
    """A layer that is made in the first forward: no optimizer knows it."""

    def merge(self, x):
        if not hasattr(self, "mix"):
            self.mix = nn.Linear(self.w_o.in_features, self.w_o.in_features, bias=False)
        return self.mix(super().merge(x))


@wrong("MultiHeadAttention", "No gradient comes through to query")
class InputsDetached(Parts):
    """The four layers learn, and nothing below them."""

    def project(self, query, key, value):
        return super().project(query.detach(), key.detach(), value.detach())


@wrong("MultiHeadAttention", "No gradient comes through to key", "encoder")
class MemoryDetached(Parts):
    """In cross-attention the encoder never learns."""

    def project(self, query, key, value):
        return super().project(query, key.detach(), value.detach())


@wrong("MultiHeadAttention", "The gradient of w_q.weight is", "cut by .detach()")
class OnlyTheFirstHeadLearns(Parts):
    """.detach() on the heads that were stored for a plot."""

    def attend(self, q, k, v, mask):
        heads = super().attend(q, k, v, mask)
        return torch.cat((heads[:, :1], heads[:, 1:].detach()), 1)


@wrong("MultiHeadAttention", "The same call gave two answers", "dropout?")
class DropoutOnTheWeights(Parts):
    """As in PyTorch's own module; here `__init__` has none."""

    def attend(self, q, k, v, mask):
        return F.dropout(weigh(q, k, mask), 0.1, self.training) @ v


@right("MultiHeadAttention")
class WithAStashAndAPrint(Parts):
    """Weights kept for a plot: not this course's style, and right."""

    def attend(self, q, k, v, mask):
        self.weights = weigh(q, k, mask)
        print("weights", tuple(self.weights.shape))
        return self.weights @ v


@right("MultiHeadAttention")
class WithInitInOtherWords(Parts):
    def __init__(self, d_model, num_heads):
        nn.Module.__init__(self)
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))
            nn.init.xavier_uniform_(getattr(self, name).weight)


@right("MultiHeadAttention")
class ByPyTorchsOwnFunction(Given):
    def forward(self, query, key, value, mask=None):
        B, Lq, d_model = query.shape
        if mask is not None:
            mask = ~mask.expand(B, self.num_heads, Lq, key.shape[1]).flatten(0, 1)
        three = torch.cat((self.w_q.weight, self.w_k.weight, self.w_v.weight))
        output, _ = F.multi_head_attention_forward(
            *(x.transpose(0, 1) for x in (query, key, value)),
            *(d_model, self.num_heads, three, None, None, None, False, 0.0, self.w_o.weight, None),
            training=self.training,
            need_weights=False,
            attn_mask=mask,
        )
        return output.transpose(0, 1)


@wrong("MultiHeadAttention", "after one with other numbers", "begin anew")
class WithTheFirstMask(Parts):
    """The mask is stored when it is first seen, so as not to be made again."""

    def attend(self, q, k, v, mask):
        if not hasattr(self, "first_mask"):
            self.first_mask = mask
        return weigh(q, k, self.first_mask) @ v


# ---- repaired_heads


def project(x, w_q, w_k, w_v):
    return x @ w_q, x @ w_k, x @ w_v


@right("repaired_heads")
def repaired(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (cut(y, num_heads) for y in project(x, w_q, w_k, w_v))
    return joined(weigh(q, k) @ v) @ w_o


@right("repaired_heads")
def repaired_with_fused_attention(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (cut(y, num_heads) for y in project(x, w_q, w_k, w_v))
    return joined(F.scaled_dot_product_attention(q, k, v)) @ w_o


@right("repaired_heads")
def repaired_head_by_head(x, w_q, w_k, w_v, w_o, num_heads):
    d_k = x.shape[-1] // num_heads
    output = torch.zeros_like(x)
    for i in range(num_heads):
        own = slice(i * d_k, (i + 1) * d_k)
        q, k, v = x @ w_q[:, own], x @ w_k[:, own], x @ w_v[:, own]
        output = output + weigh(q, k) @ v @ w_o[own]
    return output


@right("repaired_heads")
def repaired_with_the_module(x, w_q, w_k, w_v, w_o, num_heads):
    module = Given(x.shape[-1], num_heads).to(x.dtype)
    with torch.no_grad():
        for name, w in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v), ("w_o", w_o)):
            getattr(module, name).weight.copy_(w.T)
        return module(x, x, x)


@wrong("repaired_heads", "has shape", "axes of length 1")
def squeezed_for_one_sentence(x, w_q, w_k, w_v, w_o, num_heads):
    """squeeze(0) after a batch of one was tried out in the notebook."""
    q, k, v = (cut(x @ w, num_heads) for w in (w_q, w_k, w_v))
    return (joined(weigh(q, k) @ v) @ w_o).squeeze(0)


@wrong("repaired_heads", "Your code stopped", "dtype")
def heads_put_into_zeros(x, w_q, w_k, w_v, w_o, num_heads):
    """torch.zeros is float32 unless it is told otherwise."""
    output = torch.zeros(x.shape)
    q, k, v = (cut(x @ w, num_heads) for w in (w_q, w_k, w_v))
    output[...] = joined(weigh(q, k) @ v)
    return output @ w_o


@wrong("repaired_heads", "dtype=x.dtype")
def added_up_in_zeros(x, w_q, w_k, w_v, w_o, num_heads):
    """The sum over the heads, in a tensor of float32."""
    output = torch.zeros(x.shape)
    output[...] = repaired(x, w_q, w_k, w_v, w_o, num_heads)
    return output


def masked_by_hand(change):
    """Return a module in which `change` makes weights from scores and a mask."""

    class ByHand(Given):
        def forward(self, query, key, value, mask=None):
            pairs = (self.w_q, query), (self.w_k, key), (self.w_v, value)
            q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w, x in pairs)
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            weights = scores.softmax(-1) if mask is None else change(scores, mask)
            return self.w_o((weights @ v).transpose(1, 2).flatten(2))

    return ByHand


def minus(number):
    return lambda scores, mask: (scores - number * ~mask).softmax(-1)


def maximum_first(scores, mask):
    exp = (scores - scores.amax(-1, keepdim=True)).exp() * mask
    return exp / exp.sum(-1, keepdim=True)


@right("MultiHeadAttention")
class MaximumBeforeTheMask(masked_by_hand(maximum_first)):
    """Lesson 04's other route: weights to 0, and divided again."""


@right("MultiHeadAttention")
class BillionSubtracted(masked_by_hand(minus(1e9))):
    pass


@right("MultiHeadAttention")
class ExpOfWhatIsLeft(Given):
    """The maximum of the keys that are left, and where() on the exponentials."""

    def forward(self, query, key, value, mask=None):
        pairs = (self.w_q, query), (self.w_k, key), (self.w_v, value)
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w, x in pairs)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        mask = torch.ones_like(scores).bool() if mask is None else mask
        top = torch.where(mask, scores, -math.inf).amax(-1, keepdim=True)
        exp = torch.where(mask, (scores - top).exp(), 0)
        return self.w_o((exp / exp.sum(-1, keepdim=True) @ v).transpose(1, 2).flatten(2))
