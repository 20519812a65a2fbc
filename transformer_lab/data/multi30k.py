"""Multi30k: photographs' captions in English and German, from a folder, the cache or the source."""

import gzip
import hashlib
import http.client
import io
import os
import time
import urllib.request
import zlib
from pathlib import Path

from platformdirs import user_cache_path

from transformer_lab.support.files import as_path, write_atomically
from transformer_lab.support.validation import require, shown

MULTI30K_URL = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1"
)
MULTI30K_SPLITS = {
    "train": "train",
    "val": "val",
    "test2016": "test_2016_flickr",
    "test2017": "test_2017_flickr",
    "mscoco": "test_2017_mscoco",
}
MULTI30K_FILES = {"raw": "{}.{}.gz", "tok": "{}.lc.norm.tok.{}"}  # named as at the source
# SHA-256 of the text, unpacked.
MULTI30K_SHA256 = {
    "raw/train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "raw/train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "raw/val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "raw/val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "raw/test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "raw/test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "raw/test_2017_flickr.en": "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
    "raw/test_2017_flickr.de": "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
    "raw/test_2017_mscoco.en": "43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2",
    "raw/test_2017_mscoco.de": "58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22",
    "tok/train.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "tok/train.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "tok/val.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "tok/val.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "tok/test_2016_flickr.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "tok/test_2016_flickr.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    "tok/test_2017_flickr.en": "c9d1dfd7a26add989382e534af235af9f0f658b2a30e7eb0efdaf142496ee54f",
    "tok/test_2017_flickr.de": "02067e4a9402786a4fcb8c1b6f4307e4a5073ced64800abead5273b54f5f31f6",
    "tok/test_2017_mscoco.en": "fe69ae004d71c42ead0301e70c57de5b1b6b5fb7f52210d42b22801e98e656f3",
    "tok/test_2017_mscoco.de": "e2825990b8a4e5289d2cdba801d57c187810bab9b4f5d87a30c35800a0d871b6",
}
TIMEOUT = 30.0  # seconds without an answer
DEADLINE = 300.0  # seconds for one file
MAX_BYTES = 10_000_000  # the largest file has 2.2 MB


def load_multi30k(
    variant: str = "raw", folder: str | os.PathLike | None = None
) -> dict[str, list[tuple[str, str]]]:
    """Multi30k's (English, German) caption pairs: train, val, test2016, test2017 and mscoco.

    `variant="raw"` is cased text, for people; `"tok"` is lower-cased and tokenised, as published
    results use it. Looks in `folder`, or else `$TRANSFORMER_LAB_DATA`, and its `multi30k/`, then
    in the user's cache. What is missing is downloaded into the cache (raw 1.4 MB, tok 4.4 MB).
    Every file is checked by its SHA-256. Raises `ValueError` for another variant, an absent folder
    or a damaged file in it, and `OSError` if a download fails, saying what to do.
    The captions are for non-commercial research and education.
    """
    known = isinstance(variant, str) and variant in MULTI30K_FILES
    require(known, f'variant must be "raw" or "tok", got {shown(variant)}')
    given = folder or os.environ.get("TRANSFORMER_LAB_DATA")
    place = as_path(given, "folder").absolute() if given else None
    if place and not place.is_dir():
        raise ValueError(
            f"the data folder (given, or TRANSFORMER_LAB_DATA) must hold multi30k/, got {place}, "
            f"which {'is a file' if place.exists() else 'does not exist'}"
        )
    data = {}
    for split, stem in MULTI30K_SPLITS.items():
        texts = [_find(variant, stem, language, place) for language in ("en", "de")]
        data[split] = list(zip(*map(_lines, texts), strict=True))
    return data


def _lines(text: bytes) -> list[str]:
    return text.decode("utf-8").removesuffix("\n").split("\n")  # splitlines() would split at more


def _find(variant: str, stem: str, language: str, folder: Path | None) -> bytes:
    """The checked text of one file: from `folder`, from the cache, or downloaded."""
    name = MULTI30K_FILES[variant].format(stem, language)
    sha256 = MULTI30K_SHA256[f"{variant}/{stem}.{language}"]
    plain = name.removesuffix(".gz")
    for place in (folder / "multi30k", folder) if folder else ():
        for path in (place / f"{plain}.gz", place / plain):
            if path.is_file():
                text = _checked_text(path.read_bytes(), sha256)
                require(
                    text is not None,
                    f"{path} must be the file that Multi30k published, got another SHA-256; "
                    f"without the file, it is downloaded",
                )
                return text
    cached = user_cache_path("transformer_lab", appauthor=False) / "multi30k" / name
    if cached.is_file() and (text := _checked_text(cached.read_bytes(), sha256)) is not None:
        return text
    return _download(f"{MULTI30K_URL}/{variant}/{name}", sha256, cached)


def _checked_text(content: bytes, sha256: str) -> bytes | None:
    """The text in `content`, unpacked if it is gzipped; None if its sum is another one."""
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MAX_BYTES)
        except (OSError, EOFError, zlib.error):
            return None
    return content if hashlib.sha256(content).hexdigest() == sha256 else None


def _download(url: str, sha256: str, path: Path) -> bytes:
    """Fetch `url`, keep it at `path` if it is the right file, and return its text."""
    try:
        content = _fetch(url)
        if (text := _checked_text(content, sha256)) is None:
            raise OSError("what came is not the published file: cut short, or changed on the way")
        write_atomically(path, content)
    except (OSError, http.client.HTTPException) as error:
        raise OSError(
            f"could not download {url} to {path} ({error}); try again, or fetch the Multi30k files "
            f"elsewhere, put them in a folder multi30k/ and set TRANSFORMER_LAB_DATA to the "
            f"folder that holds it"
        ) from error
    return text


def _fetch(url: str) -> bytes:
    start, content = time.monotonic(), b""
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
        while chunk := response.read1(65536):
            content += chunk
            if len(content) > MAX_BYTES:
                raise OSError(f"more than {MAX_BYTES:,} bytes came")
            if time.monotonic() - start > DEADLINE:
                raise OSError(f"not complete after {DEADLINE:g} seconds")
    return content
