"""Text to token ids and back: byte-pair encoding for translation, characters for dates.

How byte-pair encoding finds its pieces is written out in lesson 07. Here the library `tokenizers`
finds the same ones, fast; it is imported where it is needed, as characters do without it.
"""

import json
import operator
import os
import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from transformer_lab.config import BOS, EOS, PAD, UNK
from transformer_lab.support.files import as_path, read_json, write_json
from transformer_lab.support.validation import require

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")  # at the ids PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPACE = "▁"  # a space, made visible: the piece "▁dog" begins a word, the piece "s" goes on with it
UNKNOWN = "�"
DEFAULT_VOCAB_SIZE = 10_000

Ids = Iterable[int] | Int[Tensor, "L"]

# Scripts that put no space between words, so that a space cannot say where a piece must end.
WITHOUT_SPACES = (
    *("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"),
    *("Javanese", "Balinese"),
)
_LETTER = "".join(rf"\p{{{script}}}" for script in WITHOUT_SPACES)
# No piece crosses from one match to the next. "(A T-shirt),  too" is ( A ▁T-shirt ), ▁ ▁too:
WORD = (
    rf"{SPACE}?(?:"  # with the space before it,
    rf"[{_LETTER}]\p{{M}}*"  # a letter of these scripts with its marks: 我, 喜, 欢, 猫
    rf"|\w(?:[^{SPACE}{_LETTER}]*[\w&&[^{_LETTER}]])?"  # or a word of others: A, ▁T-shirt, ▁too
    rf"|[^\w{SPACE}]+)"  # or what is no letter: ( and ),
    rf"|{SPACE}"  # or a space before another one, or at the end
)


def train_tokenizer(
    texts: Iterable[str], vocab_size: int | None = None, *, kind: str = "bpe"
) -> "Tokenizer":
    """Learn the pieces of a joint source and target vocabulary from `texts` (paper, section 5.1).

    `kind="bpe"` merges the most frequent pair of neighbouring pieces until there are `vocab_size`
    (10,000 if not given; fewer if the text offers no more pairs). No piece crosses from one word
    to the next. Where a script has no space between words, as Chinese, Japanese, Thai or Khmer,
    every letter is a piece of its own, with the marks that it bears: 我喜欢猫 is ▁我 喜 欢 猫.
    Without that, a clause would count as one word, and those that repeat would become one piece.
    `kind="characters"` gives every character that occurs a piece, in code point order, and takes
    no `vocab_size`.
    The same texts give the same tokenizer. Raises `ValueError` on anything else.
    """
    texts = _clean(texts)
    alphabet = _alphabet(texts)
    smallest = len(SPECIAL) + len(alphabet)
    require(len(alphabet) > 1, "texts must hold some words to learn from, got none")
    require(kind in ("bpe", "characters"), f'kind must be "bpe" or "characters", got {kind!r}')
    if kind == "characters":
        require(vocab_size is None, f"characters take no vocab_size, got {vocab_size!r}")
        return Tokenizer(alphabet)
    vocab_size = DEFAULT_VOCAB_SIZE if vocab_size is None else vocab_size
    require(
        isinstance(vocab_size, int) and smallest <= vocab_size <= 10_000_000,
        f"vocab_size must be a whole number, {smallest} or more (the special pieces and the "
        f"characters of these texts), at most 10,000,000, got {vocab_size!r}",
    )
    return _train_bpe(texts, vocab_size, alphabet)


def smallest_vocab_size(texts: Iterable[str]) -> int:
    """Return the size of a vocabulary of nothing but the characters of `texts` and special ids."""
    return len(SPECIAL) + len(_alphabet(_clean(texts)))


def _alphabet(texts: list[str]) -> list[str]:
    return sorted({SPACE}.union(*texts))


def _train_bpe(texts: list[str], vocab_size: int, alphabet: list[str]) -> "Tokenizer":
    from tokenizers import trainers

    bpe = _library_bpe()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator((SPACE + text for text in texts), trainer)
    model = json.loads(bpe.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    merges = [tuple(pair) for pair in model["merges"]]
    # A text may spell "<unk>"; as a piece it would be taken for the special one.
    return Tokenizer(
        [piece for piece in pieces if not _spells_special(piece)],
        [pair for pair in merges if not _spells_special("".join(pair))],
    )


def _spells_special(piece: str) -> bool:
    return any(special in piece for special in SPECIAL)


def _library_bpe(**merges):
    """Return the library's byte-pair encoding; no piece crosses the end of a WORD."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    bpe = Tokenizer(models.BPE(**merges))
    bpe.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "isolated")
    return bpe


def _clean(texts: Iterable[str]) -> list[str]:
    """Show spaces as ▁; a ▁ of the text's own, or half of a surrogate pair, becomes unknown."""
    right = isinstance(texts, Iterable) and not isinstance(texts, str | bytes)
    require(right, f"texts must be a list of strings, got {type(texts).__name__}")
    clean = []
    for text in texts:
        require(isinstance(text, str), f"a text must be a string, got {type(text).__name__}")
        clean.append(re.sub(f"[{SPACE}\ud800-\udfff]", UNKNOWN, text).replace(" ", SPACE))
    return clean


@runtime_checkable
class AnyTokenizer(Protocol):
    """What a run asks of a tokenizer: any object that has these can stand in for `Tokenizer`.

    PAD, BOS, EOS and UNK keep their ids.
    """

    @property
    def vocab_size(self) -> int: ...
    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]: ...
    def decode(self, ids: Ids) -> str: ...
    def tokens(self, ids: Ids) -> list[str]: ...
    def save(self, path: str | os.PathLike) -> None: ...


def require_tokenizer(tokenizer: Any) -> None:
    """Raise `ValueError` unless the object has all that `AnyTokenizer` lists."""
    wanted = [name for name in vars(AnyTokenizer) if name[0] != "_"]
    missing = ", ".join(name for name in wanted if not hasattr(tokenizer, name))
    came = f"{type(tokenizer).__name__} without {missing}"
    require(not missing, f"tokenizer must have {', '.join(wanted)}, got {came}")


class Tokenizer:
    """Turns text into ids and back; made by `train_tokenizer` or `Tokenizer.load`.

    Ids 0 to 3 are PAD, BOS, EOS, UNK; `pieces` follow. With `merges` it is byte-pair encoding,
    without them every piece is a character. Text whose characters are all known comes back from
    `decode(encode(text))` exactly; an unknown character becomes UNK and comes back as "�".
    """

    def __init__(self, pieces: list[str], merges: list[tuple[str, str]] | None = None):
        self.pieces = [*SPECIAL, *pieces]
        self.merges = merges
        self._ids = {piece: index for index, piece in enumerate(self.pieces)}

    @property
    def vocab_size(self) -> int:
        """Number of ids, the four special ones included."""
        return len(self.pieces)

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, ending in EOS, without BOS; the empty string gives [EOS].

        Raises `ValueError` if `text` is not a string.
        """
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` for many texts at once, on all cores."""
        texts = _clean(texts)
        if self.merges is None:
            return [[*(self._ids.get(letter, UNK) for letter in text), EOS] for text in texts]
        marked = [SPACE + text if text else "" for text in texts]  # no text, no word to mark
        return [[*found.ids, EOS] for found in self._bpe.encode_batch(marked)]

    def decode(self, ids: Ids) -> str:
        """The text of a list or 1-D tensor of ids: up to EOS, without BOS and PAD.

        Raises `ValueError` if an id is outside the vocabulary, as `tokens` does.
        """
        ids = self._checked(ids)
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        pieces = [self.pieces[i] for i in ids if i not in (PAD, BOS)]
        text = "".join(UNKNOWN if piece == SPECIAL[UNK] else piece for piece in pieces)
        if self.merges is not None:
            text = text.removeprefix(SPACE)  # the mark before the first word was no space
        return text.replace(SPACE, " ")

    def tokens(self, ids: Ids) -> list[str]:
        """One readable piece per id: "▁" is a space, special ids read "<pad>", "<eos>", …"""
        return [self.pieces[i] for i in self._checked(ids)]

    def save(self, path: str | os.PathLike) -> None:
        """Write the tokenizer as JSON; an existing file is replaced whole or not at all."""
        merges = None if self.merges is None else [" ".join(pair) for pair in self.merges]
        write_json(as_path(path), {"pieces": self.pieces[len(SPECIAL) :], "merges": merges})

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Tokenizer":
        """Read what `save` wrote; `ValueError` if the file is missing, damaged or foreign."""
        content = read_json(as_path(path))
        try:
            pieces, merges = content["pieces"], content["merges"]
            if merges is not None:
                merges = [tuple(pair.split(" ")) for pair in merges]
            _require_pieces(pieces, merges or [])
        except (KeyError, TypeError, AttributeError, ValueError):
            raise ValueError(f"{path} is not a tokenizer that transformer_lab saved") from None
        return cls(pieces, merges)

    @cached_property
    def _bpe(self):
        # The special pieces have ids, but no merge makes them: the text "<eos>" is five
        # characters, and can never end a sentence.
        return _library_bpe(vocab=self._ids, merges=self.merges, unk_token=SPECIAL[UNK])

    def _checked(self, ids: Ids) -> list[int]:
        ids = ids.tolist() if isinstance(ids, Tensor) else ids
        try:
            ids = [operator.index(i) for i in ids]
        except TypeError:
            raise ValueError(f"ids must be a flat list of whole numbers, got {ids!r:.60}") from None
        for i in ids:
            if not 0 <= i < self.vocab_size:
                raise ValueError(f"every id must be from 0 to {self.vocab_size - 1}, got {i}")
        return ids


def _require_pieces(pieces: list[str], merges: list[tuple[str, str]]) -> None:
    "".join(pieces).encode()  # TypeError or UnicodeError unless all are sound strings
    known = set(pieces)
    whole = isinstance(pieces, list) and all(pieces) and not known & set(SPECIAL)
    joined = all({left, right, left + right} <= known for left, right in merges)
    require(whole and len(known) == len(pieces) and joined, "pieces and merges must agree")
