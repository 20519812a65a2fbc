"""Answers to exercise 06, wrong and right."""

import copy

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, solutions, wrong
from torch import nn

import transformer_lab as lab

LESSON = "06_the_layer"
GivenNorm, GivenNetwork, GivenFrame, GivenEncoder, GivenDecoder = (
    solutions(LESSON)[name]
    for name in ("LayerNorm", "FeedForward", "AddNorm", "EncoderLayer", "DecoderLayer")
)  # each for its __init__

# ---- predicted_numbers


@right("predicted_numbers")
def as_integers():
    return [8, 0, 6, 3, 1.331]


@right("predicted_numbers")
def as_floats_in_a_tuple():
    return 8.0, 0.0, 6.0, 3.0, 1.1**3


@right("predicted_numbers")
def as_a_tensor():
    return torch.tensor([8, 0, 6, 3, 1.331])


@right("predicted_numbers")
def as_an_array():
    return np.array([8, 0, 6, 3, 1.331])


@wrong("predicted_numbers", "a is not", "ε stands outside the root")
def both_slips_of_the_norm():
    """std of the library, ε added to it: the published norm."""
    return [9.09, 0, 6, 3, 1.331]


@wrong("predicted_numbers", "a is not", "It stands inside")
def epsilon_outside():
    """10 − 2 · 3 / (√5 + 4)."""
    return [9.0378, 0, 6, 3, 1.331]


@wrong("predicted_numbers", "a is not -8", "exchanged")
def gamma_and_beta_exchanged():
    """10 · (−1) + 2."""
    return [-8, 0, 6, 3, 1.331]


@wrong("predicted_numbers", "a is not 12", "last number")
def the_last_number():
    """Sign lost."""
    return [12, 0, 6, 3, 1.331]


@wrong("predicted_numbers", "b is not 1", "standard deviation")
def scaled_word_changes():
    """The word is ten times as long, so its norm is thought to be, too."""
    return [8, 1, 6, 3, 1.331]


@wrong("predicted_numbers", "b is not 3", "statistics over all tokens")
def batch_norm_in_mind():
    """True of BatchNorm."""
    return [8, 3, 6, 3, 1.331]


@wrong("predicted_numbers", "c is not 1", "hidden numbers is negative")
def relu_forgotten():
    """−5 + 2 + 3 + 1."""
    return [8, 0, 1, 3, 1.331]


@wrong("predicted_numbers", "c is not 9", "not on the token")
def relu_on_the_token():
    """max(0, x) taken literally."""
    return [8, 0, 9, 3, 1.331]


@wrong("predicted_numbers", "d is not -1.4", "post-LN")
def post_norm_in_mind():
    """The paper's layer."""
    return [8, 0, 6, -1.4, 1.331]


@wrong("predicted_numbers", "d is not 0", "line around them")
def nothing_comes_out_of_nothing():
    """The residual is forgotten."""
    return [8, 0, 6, 0, 1.331]


@wrong("predicted_numbers", "e is not 0.001", "without the residual")
def slopes_without_the_road():
    """0.1³."""
    return [8, 0, 6, 3, 0.001]


@wrong("predicted_numbers", "e is not 1.3", "Others go through two")
def first_order_only():
    """1 + 3 · 0.1."""
    return [8, 0, 6, 3, 1.3]


@wrong("predicted_numbers", "expected 5 answers")
def one_forgotten():
    """Four answers."""
    return [8, 0, 6, 3]


@wrong("predicted_numbers", "a is not 8.163", "not by 3")
def unbiased_to_the_last_digit():
    """10 − 6 / √(20/3 + 4), computed and not rounded."""
    return [10 - 6 / (20 / 3 + 4) ** 0.5, 0, 6, 3, 1.331]


@wrong("predicted_numbers", "a is not 9.33", "divided by the root")
def without_the_root():
    """10 − 6 / 9."""
    return [10 - 6 / 9, 0, 6, 3, 1.331]


# ---- LayerNorm


@right("LayerNorm")
class WithVarAndCorrection(GivenNorm):
    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + self.eps) * self.gamma + self.beta


@wrong("LayerNorm", "uses F.layer_norm", "do without")
class WithTheLibrary(GivenNorm):
    """The numbers are right, and the text says to do without."""

    def forward(self, x):
        return F.layer_norm(x, (x.shape[-1],), self.gamma, self.beta, self.eps)


@right("LayerNorm")
class MeanOfTheSquares(GivenNorm):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
        return torch.addcmul(
            self.beta, (x - mean) / (variance.clamp(min=0) + self.eps) ** 0.5, self.gamma
        )


@right("LayerNorm")
class TokenByToken(GivenNorm):
    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        done = []
        for row in rows:
            centred = row - row.sum() / len(row)
            variance = centred @ centred / len(row)
            done.append(centred / (variance + self.eps).sqrt() * self.gamma + self.beta)
        return torch.stack(done).reshape(x.shape)


@right("LayerNorm")
class WithACentringMatrix(GivenNorm):
    """x − mean as a product with I − 1/d, the variance as a squared length."""

    def forward(self, x):
        d = x.shape[-1]
        centred = x @ (torch.eye(d, dtype=x.dtype) - 1 / d)
        length = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
        return self.gamma * centred / torch.sqrt(length**2 / d + self.eps) + self.beta


@right("LayerNorm")
class InDoublePrecision(GivenNorm):
    def forward(self, x):
        wide = x.double()
        mean = wide.mean(dim=-1)[..., None]
        scaled = (wide - mean) / (wide.var(-1, unbiased=False)[..., None] + self.eps).sqrt()
        return (self.gamma.double() * scaled + self.beta.double()).to(x.dtype)


@right("LayerNorm")
class FeaturesFirst(GivenNorm):
    """Moves the features to the front, where broadcasting needs no keepdim."""

    def forward(self, x):
        y = x.movedim(-1, 0)
        y = (y - y.mean(0)) / (y.var(0, correction=0) + self.eps).sqrt()
        return y.movedim(0, -1) * self.gamma + self.beta


@wrong("LayerNorm", "Your code stopped", "must match")
class WithoutKeepdim(GivenNorm):
    """(B, L, d) − (B, L)."""

    def forward(self, x):
        return (
            self.gamma * (x - x.mean(-1)) / (x.var(-1, correction=0) + self.eps).sqrt() + self.beta
        )


@wrong("LayerNorm", "has shape (1, 4), expected (4,)", "axes of length 1")
class ForThreeAxesOnly(GivenNorm):
    """Adds an axis where one is missing, and never takes it off."""

    def forward(self, x):
        y = x if x.ndim > 1 else x[None]
        return F.layer_norm(y, y.shape[-1:], self.gamma, self.beta, self.eps)


@wrong("LayerNorm", "cut off from the weights")
class Detached(GivenNorm):
    """.data for the parameters."""

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.gamma, self.beta, self.eps).detach()


@wrong("LayerNorm", "mean and variance are taken for constants")
class StatisticsWithoutGradient(GivenNorm):
    """'Statistics are not trained', as BatchNorm's running ones."""

    def forward(self, x):
        with torch.no_grad():
            variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        return self.gamma * (x - mean) / (variance + self.eps).sqrt() + self.beta


@wrong("LayerNorm", "changed its argument x")
class InPlace(GivenNorm):
    """x -= mean."""

    def forward(self, x):
        x -= x.mean(-1, keepdim=True)
        variance = (x**2).mean(-1, keepdim=True)
        return self.gamma * x / (variance + self.eps).sqrt() + self.beta


@wrong("LayerNorm", "keep `__init__` as it was given")
class OtherNames(GivenNorm):
    """nn.LayerNorm's own names."""

    def __init__(self, d_model, eps=1e-5):
        nn.Module.__init__(self)
        self.weight, self.bias = (
            nn.Parameter(torch.ones(d_model)),
            nn.Parameter(torch.zeros(d_model)),
        )


@wrong("LayerNorm", "The result is None")
class NothingReturned(GivenNorm):
    """return is missing."""

    def forward(self, x):
        F.layer_norm(x, x.shape[-1:], self.gamma, self.beta, self.eps)


@right("LayerNorm")
class UnbiasedAndCorrected(GivenNorm):
    def forward(self, x):
        d = x.shape[-1]
        variance = x.var(-1, keepdim=True) * (d - 1) / d
        return (
            self.gamma * (x - x.mean(-1, keepdim=True)) / (variance + self.eps).sqrt() + self.beta
        )


@wrong("LayerNorm", "x is cut off")
class InputDetached(GivenNorm):
    """The normalised tokens are made under no_grad; γ and β still learn."""

    def forward(self, x):
        with torch.no_grad():
            plain = F.layer_norm(x, x.shape[-1:], eps=self.eps)
        return self.gamma * plain + self.beta


@wrong("LayerNorm", "gamma is cut off")
class GammaDetached(GivenNorm):
    """.data, to be rid of a warning."""

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.gamma.data, self.beta, self.eps)


class NormInSteps(GivenNorm):
    """The solution, with a method for the normalised tokens."""

    def normed(self, x):
        mean = x.mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(x.var(-1, correction=0, keepdim=True) + self.eps)

    def forward(self, x):
        return self.gamma * self.normed(x) + self.beta


@wrong("LayerNorm", "gamma cannot learn", "nn.Parameter")
class AffineAsBuffers(NormInSteps):
    """register_buffer, as BatchNorm's running statistics are kept."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        del self.gamma, self.beta
        self.register_buffer("gamma", torch.ones(d_model))
        self.register_buffer("beta", torch.zeros(d_model))


@wrong("LayerNorm", "beta cannot learn", "not frozen")
class BetaFrozen(NormInSteps):
    """'The shift is the next layer's bias.'"""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.beta.requires_grad_(False)


@wrong("LayerNorm", "gamma is 0 at [0], expected 1", "as `__init__` was given")
class GammaStartsAtZero(NormInSteps):
    """A trick for residual networks, in which a layer then starts as the identity."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        nn.init.zeros_(self.gamma)


@wrong("LayerNorm", "another parameter in the place of self.gamma")
class NewParametersInEachCall(NormInSteps):
    """nn.Parameter(…) in forward."""

    def forward(self, x):
        self.gamma = nn.Parameter(self.gamma.detach().clone())
        return super().forward(x)


@wrong("LayerNorm", "changed the mode of self")
class AlwaysInEvalMode(NormInSteps):
    """'A norm has no dropout': for itself, and for good."""

    def forward(self, x):
        self.eval()
        return super().forward(x)


@wrong("LayerNorm", "has shape", "axes of length 1")
class NormSqueezed(NormInSteps):
    """squeeze() after a batch of one was tried out in the notebook."""

    def forward(self, x):
        return super().forward(x).squeeze()


@right("LayerNorm")
class AsAGroupNorm(GivenNorm):
    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        return F.group_norm(rows, 1, self.gamma, self.beta, self.eps).reshape(x.shape)


@wrong("LayerNorm", "eps=1e-12", "the default is 1e-05")
class BertsEpsilon(GivenNorm):
    """BERT's default."""

    def __init__(self, d_model, eps=1e-12):
        super().__init__(d_model, eps)

    def forward(self, x):
        return F.group_norm(x.reshape(-1, x.shape[-1]), 1, self.gamma, self.beta, self.eps).view(
            x.shape
        )


@wrong("LayerNorm", "It uses torch.native_layer_norm")
class ByTheNativeFunction(GivenNorm):
    """What F.layer_norm calls."""

    def forward(self, x):
        return torch.native_layer_norm(x, x.shape[-1:], self.gamma, self.beta, self.eps)[0]


@wrong("LayerNorm", "The gradient of a token with equal features is NaN")
class RootAndSquare(NormInSteps):
    """The standard deviation first, squared again for the formula."""

    def normed(self, x):
        std = x.var(-1, correction=0, keepdim=True).sqrt()
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(std**2 + self.eps)


# ---- FeedForward


@right("FeedForward")
class InOneLine(GivenNetwork):
    def forward(self, x):
        return self.linear_2(self.dropout(F.relu(self.linear_1(x))))


@right("FeedForward")
class WithClampAndMatrices(GivenNetwork):
    def forward(self, x):
        hidden = (x @ self.linear_1.weight.T + self.linear_1.bias).clamp(min=0)
        return self.dropout(hidden) @ self.linear_2.weight.mT + self.linear_2.bias


@right("FeedForward")
class DroppedBeforeTheRelu(GivenNetwork):
    """The same: dropout keeps the sign."""

    def forward(self, x):
        return self.linear_2(torch.maximum(self.dropout(self.linear_1(x)), torch.tensor(0.0).to(x)))


@right("FeedForward")
class FunctionalDropout(GivenNetwork):
    def forward(self, x):
        hidden = torch.relu(self.linear_1(x))
        return self.linear_2(F.dropout(hidden, self.dropout.p, self.training))


@right("FeedForward")
class AsAConvolution(GivenNetwork):
    def forward(self, x):
        hidden = F.conv1d(x.mT, self.linear_1.weight[..., None], self.linear_1.bias).relu_()
        return F.conv1d(
            self.dropout(hidden), self.linear_2.weight[..., None], self.linear_2.bias
        ).mT


@right("FeedForward")
class WithEinsum(GivenNetwork):
    def forward(self, x):
        hidden = torch.einsum("...d,fd->...f", x, self.linear_1.weight) + self.linear_1.bias
        hidden = self.dropout(hidden * (hidden > 0))
        return torch.einsum("...f,df->...d", hidden, self.linear_2.weight) + self.linear_2.bias


@right("FeedForward")
class PositionByPosition(GivenNetwork):
    def forward(self, x):
        words = [self.linear_2(self.dropout(self.linear_1(w).relu())) for w in x.unbind(-2)]
        return torch.stack(words, dim=-2)


@right("FeedForward")
class HandMadeDropout(GivenNetwork):
    def forward(self, x):
        hidden = self.linear_1(x).relu()
        if self.training:
            keep = 1 - self.dropout.p
            hidden = hidden * (torch.rand_like(hidden) < keep) / keep
        return self.linear_2(hidden)


@wrong("FeedForward", "dropout is still on")
class DropoutAlways(GivenNetwork):
    """F.dropout without training=."""

    def forward(self, x):
        return self.linear_2(F.dropout(self.linear_1(x).relu(), self.dropout.p))


@wrong("FeedForward", "linear_1.weight gets no gradient")
class HiddenDetached(GivenNetwork):
    """The activations were to be stored for a plot."""

    def forward(self, x):
        return self.linear_2(self.dropout(self.linear_1(x).relu().detach()))


@wrong("FeedForward", "is a tuple of 2, expected a tensor")
class HiddenReturned(GivenNetwork):
    """Returns the hidden numbers as well."""

    def forward(self, x):
        hidden = self.linear_1(x).relu()
        return self.linear_2(self.dropout(hidden)), hidden


@wrong("FeedForward", "keep `__init__` as it was given")
class AsSequential(GivenNetwork):
    """nn.Sequential gives the parameters other names."""

    def __init__(self, d_model, d_ff, dropout=0.1):
        nn.Module.__init__(self)
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


@wrong("FeedForward", "should be 0 or doubled, once")
class DropoutOnInputToo(GivenNetwork):
    """Input dropout and hidden dropout."""

    def forward(self, x):
        return self.linear_2(self.dropout(self.linear_1(self.dropout(x)).relu()))


@wrong("FeedForward", "is it that of self.dropout?")
class RateByHeart(GivenNetwork):
    """p=0.1, because that is the default."""

    def forward(self, x):
        return self.linear_2(F.dropout(self.linear_1(x).relu(), 0.1, self.training))


@wrong("FeedForward", "No gradient comes through to x")
class NetworkInputDetached(GivenNetwork):
    """Both layers learn, and nothing below them."""

    def forward(self, x):
        return self.linear_2(self.dropout(self.linear_1(x.detach()).relu()))


@wrong("FeedForward", "layers of its own")
class NewLayers(GivenNetwork):
    """nn.Linear in forward: new weights in every call."""

    def forward(self, x):
        hidden = nn.Linear(x.shape[-1], self.linear_1.out_features).to(x)(x).relu()
        return self.linear_2(self.dropout(hidden))


class NetworkInSteps(GivenNetwork):
    """The solution, with a method for the hidden numbers."""

    def hidden(self, x):
        return torch.relu(self.linear_1(x))

    def forward(self, x):
        return self.linear_2(self.dropout(self.hidden(x)))


@wrong("FeedForward", "has `__init__` a rate of its own")
class RateInInit(NetworkInSteps):
    """`__init__` was retyped, with the paper's number."""

    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__(d_model, d_ff, 0.1)


@wrong("FeedForward", "the rates are [0.5]", "the default is 0.1")
class AnotherDefault(NetworkInSteps):
    """nn.Dropout's own default."""

    def __init__(self, d_model, d_ff, dropout=0.5):
        super().__init__(d_model, d_ff, dropout)


@wrong("FeedForward", "keep `__init__` as it was given")
class FourTimesAsWide(NetworkInSteps):
    """d_ff is 4 · d_model in the paper, so why ask?"""

    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__(d_model, 4 * d_model, dropout)


@wrong("FeedForward", "after one with other numbers", "begin anew")
class HiddenOfTheFirstCall(NetworkInSteps):
    """Kept for a plot, and used again by mistake."""

    def hidden(self, x):
        if getattr(self, "kept", x[:0]).shape[:-1] != x.shape[:-1]:
            self.kept = super().hidden(x)
        return self.kept


@wrong("FeedForward", "linear_1.weight gets no gradient")
class HiddenDetachedInTraining(NetworkInSteps):
    """The mode is asked the wrong way round: detached where it counts."""

    def hidden(self, x):
        hidden = super().hidden(x)
        return hidden.detach() if self.training else hidden


@wrong("FeedForward", "has shape", "axes of length 1")
class NetworkSqueezed(NetworkInSteps):
    """squeeze() after a batch of one was tried out in the notebook."""

    def forward(self, x):
        return super().forward(x).squeeze()


@right("FeedForward")
class WithInitInOtherWords(NetworkInSteps):
    def __init__(self, d_model, d_ff, dropout=0.1):
        nn.Module.__init__(self)
        self.dropout = nn.Dropout(p=dropout, inplace=True)
        sizes = (d_ff, d_model), (d_model, d_ff)
        self.linear_2, self.linear_1 = (nn.Linear(*size) for size in sizes)


@wrong("FeedForward", "dropped the same numbers", "is a seed set in forward?")
class SeedInForward(NetworkInSteps):
    """torch.manual_seed(0), so that the numbers can be compared with a friend's."""

    def hidden(self, x):
        torch.manual_seed(0)
        return super().hidden(x)


def dropping_by(mask_of):
    """The forward pass of a network whose dropout is drawn as a mask of another shape."""

    def forward(self, x):
        hidden = torch.relu(self.linear_1(x))
        return self.linear_2(hidden * self.dropout(mask_of(hidden)))

    return forward


@wrong("FeedForward", "all sentences of the batch")
class OneMaskForAllTokens(GivenNetwork):
    """A mask for the hidden features, as in recurrent networks."""

    forward = dropping_by(lambda hidden: torch.ones_like(hidden[0, 0]))


@wrong("FeedForward", "all sentences of the batch")
class OneMaskForAllSentences(GivenNetwork):
    """The mask is drawn for one sentence, and broadcast."""

    forward = dropping_by(lambda hidden: torch.ones_like(hidden[:1]))


@wrong("FeedForward", "all features of a token")
class WholeTokensDropped(GivenNetwork):
    """Word dropout."""

    forward = dropping_by(lambda hidden: torch.ones_like(hidden[..., :1]))


@wrong("FeedForward", "all features of a token")
class WithDropout1d(GivenNetwork):
    """'1d' for a sequence: it drops whole channels, and takes the tokens for them."""

    def forward(self, x):
        hidden = torch.relu(self.linear_1(x))
        return self.linear_2(F.dropout1d(hidden, self.dropout.p, self.training))


# ---- AddNorm


@right("AddNorm")
class WithNamedSteps(GivenFrame):
    def forward(self, x, sublayer):
        branch = self.norm(x) if self.pre_norm else x
        total = torch.add(self.dropout(sublayer(branch)), x)
        return total if self.pre_norm else self.norm(total)


@right("AddNorm")
class WithFunctionalNorm(GivenFrame):
    def normalise(self, x):
        return F.layer_norm(x, x.shape[-1:], self.norm.weight, self.norm.bias, self.norm.eps)

    def forward(self, x, sublayer):
        def identity(y):
            return y

        first, last = (self.normalise, identity)[:: 1 if self.pre_norm else -1]
        return last(x + F.dropout(sublayer(first(x)), self.dropout.p, self.training))


@right("AddNorm")
class DropoutOnlyInTraining(GivenFrame):
    def forward(self, x, sublayer):
        y = sublayer(self.norm(x) if self.pre_norm else x)
        if self.training:
            y = self.dropout(y)
        y = torch.stack([x, y]).sum(0)
        return y if self.pre_norm else self.norm(y)


@right("AddNorm")
class SentenceBySentence(GivenFrame):
    """The norm word by word, the sub-layer once."""

    def forward(self, x, sublayer):
        def each(x):
            return torch.stack([torch.stack([self.norm(w) for w in s]) for s in x])

        if self.pre_norm:
            return self.dropout(sublayer(each(x))) + x
        return each(self.dropout(sublayer(x)) + x)


@wrong("AddNorm", "called 2 times")
class CalledTwice(GivenFrame):
    """Computed once for each branch of an if."""

    def forward(self, x, sublayer):
        post = self.norm(x + self.dropout(sublayer(x)))
        pre = x + self.dropout(sublayer(self.norm(x)))
        return pre if self.pre_norm else post


@wrong("AddNorm", "x is detached")
class RoadDetached(GivenFrame):
    """.detach() on the road: the one thing that it is for is gone."""

    def forward(self, x, sublayer):
        if self.pre_norm:
            return x.detach() + self.dropout(sublayer(self.norm(x)))
        return self.norm(x.detach() + self.dropout(sublayer(x)))


@wrong("AddNorm", "changed its argument x")
class AddedInPlace(GivenFrame):
    """x += …"""

    def forward(self, x, sublayer):
        y = self.dropout(sublayer(self.norm(x) if self.pre_norm else x))
        x += y
        return x if self.pre_norm else self.norm(x)


@wrong("AddNorm", "Your code stopped", "not callable")
class SublayerTakenForATensor(GivenFrame):
    """Called as norm(x + sublayer), with a result in mind; here it is called with one."""

    def forward(self, x, sublayer):
        return self.norm(x + self.dropout(sublayer(x)(x)))


@wrong("AddNorm", "should be 0 or doubled, once")
class FrameDropoutOnBoth(GivenFrame):
    """On what goes into the sub-layer and on what comes out."""

    def forward(self, x, sublayer):
        if self.pre_norm:
            return x + self.dropout(sublayer(self.dropout(self.norm(x))))
        return self.norm(x + self.dropout(sublayer(self.dropout(x))))


class FrameInSteps(GivenFrame):
    """The solution, with a method for what is added to x."""

    def branch(self, x, sublayer):
        return self.dropout(sublayer(self.norm(x) if self.pre_norm else x))

    def forward(self, x, sublayer):
        total = x + self.branch(x, sublayer)
        return total if self.pre_norm else self.norm(total)


@wrong("AddNorm", "has `__init__` a rate of its own")
class FrameRateInInit(FrameInSteps):
    """`__init__` was retyped, with the paper's number."""

    def __init__(self, d_model, dropout=0.1, pre_norm=False):
        super().__init__(d_model, 0.1, pre_norm)


@wrong("AddNorm", "pre_norm=False is the default")
class PreNormByDefault(FrameInSteps):
    """As in most code of today."""

    def __init__(self, d_model, dropout=0.1, pre_norm=True):
        super().__init__(d_model, dropout, pre_norm)


@wrong("AddNorm", "changed its argument x")
class AddedIntoTheBranch(GivenFrame):
    """+= writes into what the sub-layer returned, and that may be x itself."""

    def forward(self, x, sublayer):
        branch = self.dropout(sublayer(self.norm(x) if self.pre_norm else x))
        branch += x
        return branch if self.pre_norm else self.norm(branch)


@wrong("AddNorm", "changed the mode of sublayer", "was = model.training")
class SublayerInEvalMode(FrameInSteps):
    """'Dropout is my job': the sub-layer's own is switched off, and stays so."""

    def branch(self, x, sublayer):
        if isinstance(sublayer, nn.Module):
            sublayer.eval()
        return super().branch(x, sublayer)


@wrong("AddNorm", "dropped the same numbers", "is a seed set in forward?")
class FrameSeedInForward(FrameInSteps):
    """torch.manual_seed(0), so that the numbers can be compared with a friend's."""

    def branch(self, x, sublayer):
        torch.manual_seed(0)
        return super().branch(x, sublayer)


@wrong("AddNorm", "the sub-layer's input or its result is detached")
class BranchDetachedInTraining(FrameInSteps):
    """In evaluation nothing is cut."""

    def branch(self, x, sublayer):
        branch = super().branch(x, sublayer)
        return branch.detach() if self.training else branch


@wrong("AddNorm", "has shape", "axes of length 1")
class FrameSqueezed(FrameInSteps):
    """squeeze() after a batch of one was tried out in the notebook."""

    def forward(self, x, sublayer):
        return super().forward(x, sublayer).squeeze()


@right("AddNorm")
class FrameAddedIntoAClone(GivenFrame):
    def forward(self, x, sublayer):
        total = x.clone()
        total += self.dropout(sublayer(self.norm(x) if self.pre_norm else x))
        return total if self.pre_norm else self.norm(total)


@wrong("AddNorm", "all sentences of the batch")
class FrameOneMaskForAllSentences(FrameInSteps):
    """The mask is drawn for one sentence, and broadcast."""

    def branch(self, x, sublayer):
        branch = sublayer(self.norm(x) if self.pre_norm else x)
        return branch * self.dropout(torch.ones_like(branch[:1]))


@wrong("AddNorm", "changed the tensor that the sub-layer returned")
class PreNormAddedIntoTheBranch(FrameInSteps):
    """+= writes into what the sub-layer returned; in post-LN it is written out."""

    def forward(self, x, sublayer):
        branch = self.branch(x, sublayer)
        if not self.pre_norm:
            return self.norm(x + branch)
        branch += x
        return branch


# ---- EncoderLayer


@right("EncoderLayer")
class EncoderWithAFunction(GivenEncoder):
    def forward(self, x, mask=None):
        def attend(y):
            return self.self_attention(query=y, key=y, value=y, mask=mask)

        return self.add_norm_2(self.add_norm_1(x, attend), self.feed_forward)


@right("EncoderLayer")
class EncoderByHand(GivenEncoder):
    """Every step written out, without AddNorm's forward."""

    def forward(self, x, mask=None):
        y = self.self_attention(x, x, x, mask)
        x = self.add_norm_1.norm(x + self.add_norm_1.dropout(y))
        hidden = self.feed_forward.dropout(self.feed_forward.linear_1(x).relu())
        y = self.feed_forward.linear_2(hidden)
        return self.add_norm_2.norm(x + self.add_norm_2.dropout(y))


@right("EncoderLayer")
class EncoderWithResultsPassedIn(GivenEncoder):
    """The results computed first, and handed over by functions that ignore their argument."""

    def forward(self, x, mask=None):
        attended = self.self_attention(x, x, x, mask)
        x = self.add_norm_1(x, lambda _: attended)
        fed = self.feed_forward(x)
        return self.add_norm_2(x, lambda _: fed)


@wrong("EncoderLayer", "Your code stopped")
class EncoderGivenTensors(GivenEncoder):
    """add_norm(x, attention(x, x, x)): a tensor where a function should be."""

    def forward(self, x, mask=None):
        x = self.add_norm_1(x, self.self_attention(x, x, x, mask))
        return self.add_norm_2(x, self.feed_forward(x))


@wrong("EncoderLayer", "Your code stopped")
class EncoderAttentionUnwrapped(GivenEncoder):
    """The module itself as sub-layer: it wants three arguments."""

    def forward(self, x, mask=None):
        x = self.add_norm_1(x, self.self_attention)
        return self.add_norm_2(x, self.feed_forward)


@wrong("EncoderLayer", "gets no gradient")
class EncoderDetachedAttention(GivenEncoder):
    """.detach() after the attention."""

    def forward(self, x, mask=None):
        x = self.add_norm_1(x, lambda x: self.self_attention(x, x, x, mask).detach())
        return self.add_norm_2(x, self.feed_forward)


class EncoderParts(GivenEncoder):
    """The two lines as methods, so that an answer changes one of them."""

    def own(self, x, mask):
        return self.self_attention(x, x, x, mask)

    def forward(self, x, mask=None):
        x = self.add_norm_1(x, lambda x: self.own(x, mask))
        return self.add_norm_2(x, self.feed_forward)


class EncoderRetyped(EncoderParts):
    """`__init__` written again, with what is not passed on as keywords."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, network=None, frames=None):
        nn.Module.__init__(self)
        self.self_attention = lab.MultiHeadAttention(d_model, num_heads)
        self.feed_forward = lab.FeedForward(d_model, d_ff, dropout if network is None else network)
        self.add_norm_1, self.add_norm_2 = (
            lab.AddNorm(d_model, dropout if frames is None else frames) for _ in range(2)
        )


@wrong("EncoderLayer", "has 2 heads", "num_heads=3")
class EncoderTwoHeads(EncoderRetyped):
    """The lesson's number of heads."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__(d_model, 2, d_ff, dropout)


@wrong("EncoderLayer", "has `__init__` a rate of its own", "in one of its parts")
class EncoderNetworkRate(EncoderRetyped):
    """lab.FeedForward(d_model, d_ff): the rate is not passed on."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__(d_model, num_heads, d_ff, dropout, network=0.1)


@wrong("EncoderLayer", "has `__init__` a rate of its own", "in one of its parts")
class EncoderFrameRates(EncoderRetyped):
    """lab.AddNorm(d_model): the rate is not passed on."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__(d_model, num_heads, d_ff, dropout, frames=0.1)


@wrong("EncoderLayer", "add_norm_1.norm.weight is the same parameter as add_norm_2.norm.weight")
class EncoderOneFrameUnderTwoNames(EncoderParts):
    """self.add_norm_1 = self.add_norm_2 = …"""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.add_norm_2 = self.add_norm_1


@wrong("EncoderLayer", "changed the mode of self.feed_forward")
class EncoderNetworkInEvalMode(EncoderParts):
    """AddNorm drops out already, so the network's own dropout is switched off."""

    def own(self, x, mask):
        self.feed_forward.eval()
        return super().own(x, mask)


@wrong("EncoderLayer", "after one with other numbers", "begin anew")
class EncoderFirstMask(EncoderParts):
    """The mask of the first batch is kept."""

    def own(self, x, mask):
        if mask is not None:
            self.mask = mask = getattr(self, "mask", mask)
        return super().own(x, mask)


@wrong("EncoderLayer", "The gradient of self_attention.w_q.weight is", "cut by .detach()")
class EncoderSecondRoadDetached(EncoderParts):
    """The residual of the second frame is written out, and detached."""

    def forward(self, x, mask=None):
        x = self.add_norm_1(x, lambda x: self.own(x, mask))
        branch = self.add_norm_2.dropout(self.feed_forward(x))
        return self.add_norm_2.norm(x.detach() + branch)


@wrong("EncoderLayer", "dropped the same numbers", "is a seed set in forward?")
class EncoderSeedInForward(EncoderParts):
    """torch.manual_seed(0), so that the numbers can be compared with a friend's."""

    def own(self, x, mask):
        torch.manual_seed(0)
        return super().own(x, mask)


@wrong("EncoderLayer", "self.dropout alone drops", "is there more?")
class EncoderOneDropoutMore(EncoderParts):
    """A dropout on the attention's result: AddNorm has that already."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.dropout = nn.Dropout(dropout)

    def own(self, x, mask):
        return self.dropout(super().own(x, mask))


@wrong("EncoderLayer", "dropout=0", "F.dropout")
class EncoderFunctionalDropout(EncoderParts):
    """The same, with the number of the paper."""

    def own(self, x, mask):
        return F.dropout(super().own(x, mask), 0.1, self.training)


@wrong("EncoderLayer", "has shape", "axes of length 1")
class EncoderSqueezed(EncoderParts):
    """squeeze() after a batch of one was tried out in the notebook."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).squeeze()


@right("EncoderLayer")
class EncoderInOtherWords(EncoderRetyped):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.add_norm_2 = copy.deepcopy(self.add_norm_1)


# ---- DecoderLayer


class DecoderParts(GivenDecoder):
    """The three lines as methods, so that an answer changes one of them."""

    def own(self, x, mask):
        return self.self_attention(x, x, x, mask)

    def crossed(self, x, memory, mask):
        return self.cross_attention(x, memory, memory, mask)

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        x = self.add_norm_1(x, lambda x: self.own(x, target_mask))
        x = self.add_norm_2(x, lambda x: self.crossed(x, memory, memory_mask))
        return self.add_norm_3(x, self.feed_forward)


@right("DecoderLayer")
class DecoderInMethods(DecoderParts):
    pass


@right("DecoderLayer")
class DecoderByHand(GivenDecoder):
    def forward(self, x, memory, target_mask=None, memory_mask=None):
        n = [self.add_norm_1, self.add_norm_2, self.add_norm_3]
        x = n[0].norm(x + n[0].dropout(self.self_attention(x, x, x, mask=target_mask)))
        y = self.cross_attention(x, key=memory, value=memory, mask=memory_mask)
        x = n[1].norm(x + n[1].dropout(y))
        return n[2].norm(x + n[2].dropout(self.feed_forward(x)))


@right("DecoderLayer")
class DecoderInALoop(GivenDecoder):
    def forward(self, x, memory, target_mask=None, memory_mask=None):
        sublayers = (
            lambda y: self.self_attention(y, y, y, target_mask),
            lambda y: self.cross_attention(y, memory, memory, memory_mask),
            self.feed_forward,
        )
        frames = self.add_norm_1, self.add_norm_2, self.add_norm_3
        for frame, sublayer in zip(frames, sublayers, strict=True):
            x = frame(x, sublayer)
        return x


@wrong("DecoderLayer", "memory_mask (4, 5)")
class DecoderMaskOfTheFirstQuery(DecoderParts):
    """Enough for padding, which is the same for all queries."""

    def crossed(self, x, memory, mask):
        first = mask if mask is None else mask[..., :1, :]
        return self.cross_attention(x, memory, memory, first)


@wrong("DecoderLayer", "cross_attention.w_q.weight gets no gradient")
class DecoderDetachesTheMemory(DecoderParts):
    """Detached to save memory: the encoder would never learn, nor this attention."""

    def crossed(self, x, memory, mask):
        return super().crossed(x, memory, mask).detach()


@wrong("DecoderLayer", "No gradient comes through to memory", "the encoder, could not learn")
class DecoderDetachesTheEncoder(DecoderParts):
    """memory.detach(): everything here learns, and the encoder behind it does not."""

    def crossed(self, x, memory, mask):
        return super().crossed(x, memory.detach(), mask)


class DecoderRetyped(DecoderParts):
    """`__init__` written again, with what is not passed on as keywords."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, heads=None, middle=None):
        nn.Module.__init__(self)
        self.self_attention = lab.MultiHeadAttention(d_model, num_heads)
        self.cross_attention = lab.MultiHeadAttention(d_model, heads or num_heads)
        self.feed_forward = lab.FeedForward(d_model, d_ff, dropout)
        rates = dropout, dropout if middle is None else middle, dropout
        self.add_norm_1, self.add_norm_2, self.add_norm_3 = (
            lab.AddNorm(d_model, rate) for rate in rates
        )


@wrong("DecoderLayer", "cross_attention has 2 heads", "num_heads=4")
class DecoderTwoHeads(DecoderRetyped):
    """The second attention is typed with a number."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__(d_model, num_heads, d_ff, dropout, heads=2)


@wrong("DecoderLayer", "self_attention.w_q.weight is the same parameter as cross_attention")
class DecoderOneAttentionUnderTwoNames(DecoderParts):
    """self.self_attention = self.cross_attention = …"""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.cross_attention = self.self_attention


@wrong("DecoderLayer", "has `__init__` a rate of its own", "in one of its parts")
class DecoderMiddleRate(DecoderRetyped):
    """One AddNorm is made without the rate."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__(d_model, num_heads, d_ff, dropout, middle=0.1)


@wrong("DecoderLayer", "after one with other numbers", "begin anew")
class DecoderFirstMemory(DecoderParts):
    """The memory is kept, as while a sentence is written; here the next one is another."""

    def crossed(self, x, memory, mask):
        if getattr(self, "kept", memory[:0]).shape != memory.shape:
            self.kept = memory
        return super().crossed(x, self.kept, mask)


@wrong("DecoderLayer", "has shape", "axes of length 1")
class DecoderSqueezed(DecoderParts):
    """squeeze() after a batch of one was tried out in the notebook."""

    def forward(self, x, memory, target_mask=None, memory_mask=None):
        return super().forward(x, memory, target_mask, memory_mask).squeeze()


@wrong("DecoderLayer", "a causal mask is put in, although target_mask is None")
class CausalByDefault(DecoderParts):
    """A decoder is causal, so the layer is thought to see to it."""

    def own(self, x, mask):
        L = x.shape[1]
        mask = torch.ones(L, L, dtype=torch.bool).tril() if mask is None else mask
        return super().own(x, mask)


@wrong("DecoderLayer", "dropped the same numbers", "is a seed set in forward?")
class DecoderSeedInForward(DecoderParts):
    """torch.manual_seed(0), so that the numbers can be compared with a friend's."""

    def own(self, x, mask):
        torch.manual_seed(0)
        return super().own(x, mask)


@wrong("DecoderLayer", "self.add_norm_1.dropout alone drops", "is there more?")
class DecoderMemoryDropped(DecoderParts):
    """The memory is dropped out before it is read."""

    def crossed(self, x, memory, mask):
        return super().crossed(x, self.add_norm_1.dropout(memory), mask)


# ---- repaired_block


def normed(x, gamma, beta, eps):
    return F.layer_norm(x, x.shape[-1:], gamma, beta, eps)


@right("repaired_block")
def block_with_the_library(x, gamma, beta, eps, ffn):
    return x + ffn(normed(x, gamma, beta, eps))


@right("repaired_block")
def block_with_rsqrt(x, gamma, beta, eps, ffn):
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return torch.add(ffn((x - mean) * torch.rsqrt(variance + eps) * gamma + beta), x)


@right("repaired_block")
def block_in_double_precision(x, gamma, beta, eps, ffn):
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    scaled = centred / (centred.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    return x + ffn((gamma * scaled + beta).to(x.dtype))


@wrong("repaired_block", "called 2 times")
def called_twice(x, gamma, beta, eps, ffn):
    """Computed once to look at, and once more to add."""
    y = normed(x, gamma, beta, eps)
    assert ffn(y).shape == x.shape
    return x + ffn(y)


@right("repaired_block")
def block_with_numpy(x, gamma, beta, eps, ffn):
    array = x.numpy()
    mean, variance = array.mean(-1, keepdims=True), array.var(-1, keepdims=True)
    return x + ffn(gamma * torch.from_numpy((array - mean) / np.sqrt(variance + eps)) + beta)


@wrong("repaired_block", "γ and β are missing, and ε is 1e-5")
def a_new_norm(x, gamma, beta, eps, ffn):
    """nn.LayerNorm as it comes."""
    return x + ffn(nn.LayerNorm(x.shape[-1], dtype=x.dtype)(x))


@wrong("repaired_block", "switched gradients on or off")
def block_without_gradients_for_good(x, gamma, beta, eps, ffn):
    """set_grad_enabled in the place of no_grad."""
    torch.set_grad_enabled(False)
    return x + ffn(F.layer_norm(x, x.shape[-1:], gamma, beta, eps))


@wrong("repaired_block", "has shape", "axes of length 1")
def block_squeezed(x, gamma, beta, eps, ffn):
    """squeeze() after a batch of one was tried out in the notebook."""
    return (x + ffn(F.layer_norm(x, x.shape[-1:], gamma, beta, eps))).squeeze()


@wrong("repaired_block", "changed its argument x")
def block_added_into_x(x, gamma, beta, eps, ffn):
    """add_ saves a tensor, at the caller's cost."""
    return x.add_(ffn(F.layer_norm(x, x.shape[-1:], gamma, beta, eps)))


class DroppedInPlace(GivenFrame):
    def drop(self, y):
        return F.dropout(y, self.dropout.p, self.training, inplace=True)

    def forward(self, x, sublayer):
        if self.pre_norm:
            return x + self.drop(sublayer(self.norm(x)))
        return self.norm(x + self.drop(sublayer(x)))


@wrong("AddNorm", "changed its argument x")
class DroppedInPlaceInBoth(DroppedInPlace):
    """inplace=True, to save memory: a sub-layer that returns what it got loses its input."""


@wrong("AddNorm", "In train mode the call changed the tensor", "inplace=True")
class DroppedInPlaceWithTheNormFirst(DroppedInPlace):
    """The same in pre-LN alone, where the norm is in between."""

    def forward(self, x, sublayer):
        if self.pre_norm:
            return super().forward(x, sublayer)
        return self.norm(x + self.dropout(sublayer(x)))


@right("AddNorm")
class DroppedInPlaceOnACopy(DroppedInPlace):
    def drop(self, y):
        return super().drop(y.clone())


def with_the_norm(x, gamma, beta, eps):
    centred = x - x.mean(-1, keepdim=True)
    return gamma * centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() + beta


@wrong("repaired_block", "changed the tensor that ffn returned", "without +=")
def block_added_in_place(x, gamma, beta, eps, ffn):
    """y += x changes what belongs to ffn."""
    y = ffn(with_the_norm(x, gamma, beta, eps))
    y += x
    return y


@right("repaired_block")
def block_added_to_a_copy(x, gamma, beta, eps, ffn):
    y = ffn(with_the_norm(x, gamma, beta, eps)).clone()
    y += x
    return y
