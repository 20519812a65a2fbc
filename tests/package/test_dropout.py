"""The course's dropout does what `nn.Dropout` does."""

import pytest
import torch

from transformer_lab.support.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_a_share_p_becomes_zero_and_the_rest_is_scaled(p):
    torch.manual_seed(0)
    y = Dropout(p)(torch.ones(1001, 301))
    assert abs((y == 0).double().mean() - p) < 0.005
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / (1 - p)))


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(400_000)) != 0).double()
    for distance in (1, 2, 3, 4, 5):
        together = (kept[:-distance] * kept[distance:]).mean()
        assert abs(together - 0.25) < 0.005, distance


def test_the_gradient_passes_where_the_value_passed():
    x = torch.ones(50, 7, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_evaluation_changes_nothing_and_training_keeps_the_extremes(p):
    x = torch.randn(5, 3)
    assert Dropout(p).eval()(x).equal(x)
    if p in (0.0, 1.0):
        assert Dropout(p)(x).equal(x * (1 - p))


def test_the_same_seed_drops_the_same():
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(Dropout(0.3)(torch.ones(17, 5)))
    assert results[0].equal(results[1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_dtype_stays(dtype):
    assert Dropout(0.3)(torch.ones(9, dtype=dtype)).dtype == dtype
