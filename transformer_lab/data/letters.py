"""The English captions of Multi30k letter by letter: models of it write what one can read."""

import os
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_lab.config import PAD
from transformer_lab.data.multi30k import load_multi30k
from transformer_lab.support.validation import require, shown


@dataclass(frozen=True)
class Letters:
    """Texts as numbers: letter `alphabet[i]` is `i + 1`, since 0 stays `PAD`.

    `train`, `valid` and `test` are (N,) each: one caption after the other, a line break before
    each of them and one at the end.
    """

    alphabet: str
    train: Int[Tensor, "N"]
    valid: Int[Tensor, "M"]
    test: Int[Tensor, "T"]

    @property
    def vocab_size(self) -> int:
        """How many rows an embedding needs: the letters and `PAD`."""
        return len(self.alphabet) + 1

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each letter."""
        return {letter: number for number, letter in enumerate(self.alphabet, PAD + 1)}

    def encode(self, text: str) -> Int[Tensor, "L"]:
        """Return the numbers of a text. Raises `ValueError` for letters that no caption has."""
        unknown = "".join(sorted(set(text) - set(self.alphabet)))
        require(not unknown, f"text must consist of letters of the captions, got {shown(unknown)}")
        return torch.tensor([self.numbers[letter] for letter in text], dtype=torch.long)

    def decode(self, tokens: Int[Tensor, "L"]) -> str:
        """Return the text of some numbers; `PAD` is left out."""
        return "".join(self.alphabet[number - 1] for number in tokens.tolist() if number != PAD)


def caption_letters(folder: str | os.PathLike | None = None) -> Letters:
    """Return Multi30k's English captions as letters: 29,000 to learn from, and two sets unseen.

    `valid` is Multi30k's validation set, `test` its test set of 2016. The files are looked for, or
    downloaded, as `load_multi30k` says, which raises what goes wrong with them.
    """
    pairs = load_multi30k(folder=folder)
    texts = [
        "\n" + "".join(f"{english}\n" for english, _ in pairs[split])
        for split in ("train", "val", "test2016")
    ]
    alphabet = "".join(sorted(set("".join(texts))))
    numbers = {ord(letter): number for number, letter in enumerate(alphabet, PAD + 1)}
    train, valid, test = (torch.tensor([numbers[ord(c)] for c in text]) for text in texts)
    return Letters(alphabet, train, valid, test)
