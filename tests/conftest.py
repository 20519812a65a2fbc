"""Small models with large random weights, in which a mistake of any kind shows."""

from collections import Counter
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from transformer_lab import ModelConfig, Transformer

# New examples in each run, on a CI machine too. What failed is kept and tried first, and its blob
# is printed: `@reproduce_failure`, or better `@example`, pins it.
settings.register_profile(
    "course",
    derandomize=False,
    database=DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".hypothesis" / "examples"),
    deadline=None,
    print_blob=True,
)
settings.load_profile("course")


def pytest_terminal_summary(terminalreporter):
    """Say in one line what was skipped, and why."""
    reports = terminalreporter.stats.get("skipped", [])
    whys = Counter(str(each.longrepr[-1]).removeprefix("Skipped: ") for each in reports)
    if whys:
        lines = "; ".join(f"{count} × {why}" for why, count in whys.most_common())
        terminalreporter.write_line(f"Skipped: {lines}")


@pytest.fixture
def captions():
    """Forty captions in the place of Multi30k, as (source, target)."""
    return [
        (f"a {colour} dog sees {i} men .", f"ein {colour} hund sieht {i} .")
        for colour in ("red", "green", "blue", "old", "young")
        for i in range(8)
    ]


@pytest.fixture(scope="session")
def tiny():
    """Return a function that makes a model: `tiny(seed=…, sharpness=…, any size of ModelConfig)`.

    All parameters are random, biases and LayerNorms too. A `sharpness` well above 1 makes it sure
    of the next token, one near 0 almost indifferent.
    """

    def make(*, seed: int = 0, sharpness: float = 1.0, **sizes) -> Transformer:
        defaults = dict(
            source_vocab_size=11,
            target_vocab_size=9,
            d_model=8,
            num_heads=2,
            d_ff=12,
            num_encoder_layers=1,
            num_decoder_layers=1,
            dropout=0.0,
            max_length=24,
        )
        model = Transformer(ModelConfig(**(defaults | sizes)))
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
                if "norm.weight" in name:
                    parameter.add_(1.0)
            model.generator.weight.mul_(sharpness)
        return model.eval()

    return make


@pytest.fixture
def without_shape_checks():
    """Switch off what `--jaxtyping-packages` adds, and leave what every user has."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
