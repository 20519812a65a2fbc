"""Sentence pairs as the public has them, read and checked: one file of columns, or two aligned."""

import csv
import gzip
import io
import os
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from transformer_lab.support.validation import require, shown

MAX_BYTES = 500_000_000  # of a file, unpacked
MAX_CHARACTERS = 1000  # of one side
MOST_BAD = 0.01  # share of the lines
SAMPLE = 1000  # lines from which the form of a file is told

TextPairs = list[tuple[str, str]]
Files = str | os.PathLike | Sequence[str | os.PathLike]  # one, or two aligned
Columns = str | Sequence[int]
Row = tuple[int, list[str]]  # the number of its line, and its cells

MARKS = {"\t": "tab", ";": "semicolon", ",": "comma"}
LINE_BREAKS = re.compile(" ?[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+ ?")
ATTRIBUTION = re.compile(r"attribution|licen[cs]e|copyright|©|\bCC[ -]?(BY|0)", re.IGNORECASE)
NO_SENTENCE = re.compile(r"[\W\d]*")  # a number, or nothing
OF_COLUMNS = {  # words that name a column, beside the names of languages
    *("source", "src", "target", "tgt", "trg", "input", "output", "original", "translation"),
    *("translated", "sentence", "sentences", "text", "texts", "phrase", "language", "lang", "id"),
    *("question", "answer", "prompt", "response"),
}
NAMED_IN = (  # languages in which a header may name languages: English, anglais, 英语
    *("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk"),
    *("ar", "fa", "he", "hi", "ja", "ko", "th", "tr", "vi", "zh"),
)


def one_line(text: str) -> str:
    """Return a text in one line and one spelling: tabs and whatever breaks a line, as U+2028 does,
    become a space; a letter and its accent become the one letter that Unicode has for both (NFC).
    """
    if text.isascii() and text.isprintable():  # most are, and this is quick
        return text
    return unicodedata.normalize("NFC", LINE_BREAKS.sub(" ", text))


def read_pairs(
    files: Files,
    *,
    columns: Columns | None = None,
    reverse: bool = False,
    skip_bad: bool = False,
) -> tuple[TextPairs, list[str]]:
    """Return the pairs of a file or of two, each text in `one_line`, and notes on what was done.

    One file is UTF-8 text, gzipped or not, with a source, a tab and a target in each line; named
    .csv, with a comma, a semicolon or a tab. CSV has the quotes of its format, a file with tabs
    only if they cannot be the sentences' own. `columns` such as (2, 4), or "2,4", says which hold
    the source and the target; not given, there must be two, or three with an attribution as the
    last. Two files hold a sentence in each line, and as many. A first line that names languages
    or columns is left out. `reverse` gives target and source instead.

    A line with too few or too many columns, with an empty side or one above 1,000 characters is
    bad. Up to 1 % of bad lines are left out, more only with `skip_bad`. Raises `ValueError` for a
    file that is missing, empty, above 500 MB, no UTF-8 text, has too many bad lines or none that
    is good, and for two files of which one is longer.
    """
    paths = as_files(files)
    name = names_of(paths)
    require(type(reverse) is bool, f"reverse must be True or False, got {shown(reverse)}")
    chosen = None if columns is None else _as_columns(columns)
    require(
        chosen is None or len(paths) == 1,
        f"columns must be left out with two files, which are one column each, got {columns}",
    )
    rows, mark = _aligned_rows(*paths) if len(paths) == 2 else _rows_of(paths[0])
    usual = Counter(len(cells) for _, cells in rows).most_common(1)[0][0]
    if chosen is None and usual == 3 and _has_attributions(rows):
        chosen = (1, 2)
    first, second = (chosen or (1, 2))[:: -1 if reverse else 1]
    most, top = max(first, second, usual if chosen else 2), rows[0]
    wanted, notes = f"must be a source, a {mark} and a target", []
    if chosen:
        wanted = f"must have a source in column {first} and a target in column {second}"
        notes = [
            f"{name} has {usual} columns: column {first} is read as the source, column {second} "
            f"as the target"
        ]
    elif len(paths) == 2:
        wanted = "must be a sentence without a tab"
    if header := _header_of(rows, first, second):
        notes.append(f"line {rows[0][0]} of {name} names the columns, {header}: it is left out")
        rows = rows[1:]
        require(bool(rows), f"{name} must hold a pair in each line, got names of columns alone")
    pairs, bad = [], {}
    for number, cells in rows:
        if fault := _fault_of(cells, first, second, most, mark):
            bad.setdefault(fault, []).append(number)
        else:
            pairs.append((one_line(cells[first - 1].strip()), one_line(cells[second - 1].strip())))
    if not bad:
        return pairs, notes
    count = len(rows) - len(pairs)
    found = (
        f"every line of {name} {wanted}, got {count:,} of "
        f"{len(rows):,} lines that are not: {', '.join(map(_listed, bad, bad.values()))}"
    )
    can_choose = len(paths) == 1 and max(usual, first, second) > 2
    how = _columns_of(top) if can_choose and len(top[1]) > 1 else ""
    require(bool(pairs), f"{found}; no pair is left{how}")
    few = count <= MOST_BAD * len(rows)
    require(skip_bad or few, f"{found}; skip_bad leaves them out{how}")
    return pairs, [*notes, f"{found}; they are left out"]


def _fault_of(cells: list[str], first: int, second: int, most: int, mark: str) -> str:
    """Say what is wrong with a row, if anything is; `mark` stands between its two columns."""
    if len(cells) < max(first, second):
        return f"without a {mark}" if most == 2 else "with too few columns"
    if len(cells) > most:
        return f"with more than one {mark}" if most == 2 else "with too many columns"
    sides = cells[first - 1].strip(), cells[second - 1].strip()
    if not all(sides):
        return "with an empty side"
    too_long = max(map(len, sides)) > MAX_CHARACTERS
    return f"with a side above {MAX_CHARACTERS:,} characters" if too_long else ""


def _listed(fault: str, numbers: list[int]) -> str:
    some = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    return f"{len(numbers):,} {fault} (line {some})"


# ---- Rows


def _rows_of(path: Path) -> tuple[list[Row], str]:
    """Return the rows of a file, and what stands between two columns: a tab, or in CSV a comma."""
    text = _text_of(path).rstrip("\n")
    is_csv = path.name.lower().removesuffix(".gz").endswith(".csv")
    mark = _separator(text) if is_csv else "\t"
    if mark == "\t" and not _is_quoted(text):
        return [(n, line.split("\t")) for n, line in enumerate(text.split("\n"), 1)], "tab"
    rows, reader, number = [], _csv(text, mark), 1
    try:
        for cells in reader:
            rows.append((number, cells))
            number = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path} must be CSV, a quoted column must end, got in the row of line {number:,}: "
            f"{error}"
        ) from None
    return rows, MARKS[mark]


def _csv(text: str, mark: str, *, strict: bool = True):
    return csv.reader(io.StringIO(text, newline="\n"), delimiter=mark, strict=strict)


def _separator(text: str) -> str:
    """Return what separates the columns of a CSV file: what makes its rows even, else a comma."""
    best = max(MARKS, key=lambda mark: _evenness(text, mark))
    return best if _evenness(text, best) else ","


def _evenness(text: str, mark: str) -> float:
    """Return the share of the first rows that have the usual number of columns; 0 if that is 1."""
    first = "\n".join(text.split("\n", SAMPLE)[:SAMPLE])
    try:
        widths = Counter(map(len, _csv(first, mark, strict=False)))
    except csv.Error:  # a column of more than 131,072 characters
        return 0.0
    usual, count = widths.most_common(1)[0]
    return count / widths.total() if usual > 1 else 0.0


def _is_quoted(text: str) -> bool:
    """Whether the quotes of a file with tabs are its format's, as a spreadsheet writes them.

    They may be the sentences' own: "Go!", he said. They are the format's only if each of them
    ends with its column, and all texts stand in them, or one that has doubled quotes inside, or
    if the lines have the same number of columns only without them.
    """
    if not re.search(r'(^|\t)"', text, re.MULTILINE):
        return False
    try:
        quoted = {len(row) for row in _csv(text, "\t")}
    except csv.Error:
        return False
    rows = [line.split("\t") for line in text.split("\n")]
    texts = [cell for row in rows for cell in row if not NO_SENTENCE.fullmatch(cell)]
    inside = [cell[1:-1] for cell in texts if len(cell) > 1 and cell[0] == cell[-1] == '"']
    even = len(quoted) == 1 < len({len(row) for row in rows})
    return even or len(inside) == len(texts) or any('""' in cell for cell in inside)


def _aligned_rows(source: Path, target: Path) -> tuple[list[Row], str]:
    """Return the lines of two files side by side; a line that has a tab is too many columns."""
    sides = [_text_of(path).removesuffix("\n").split("\n") for path in (source, target)]
    counts = [len(lines) for lines in sides]
    require(
        counts[0] == counts[1],
        f"{source} and {target} must have as many lines, a sentence and its translation in each, "
        f"got {counts[0]:,} and {counts[1]:,}",
    )
    rows = [(n, f"{a}\t{b}".split("\t")) for n, (a, b) in enumerate(zip(*sides, strict=True), 1)]
    while not "".join(rows[-1][1]).strip():
        rows.pop()
    return rows, "tab"


# ---- Columns


def _as_columns(columns: Any) -> tuple[int, int]:
    """Return the numbers of two columns, which may be text such as "2,4"."""
    given = columns.split(",") if isinstance(columns, str) else columns
    try:
        numbers = [int(str(number)) for number in given]
    except (TypeError, ValueError):
        numbers = []
    require(
        len({*numbers}) == len(numbers) == 2 and min(numbers) > 0,
        f"columns must be two different numbers from 1, such as 2,4, got {shown(columns)}",
    )
    return numbers[0], numbers[1]


def _has_attributions(rows: list[Row]) -> bool:
    """Whether the third column says who wrote the sentences, as the files of Tatoeba's pairs do."""
    thirds = [cells[2] for _, cells in rows if len(cells) == 3]
    return sum(map(bool, map(ATTRIBUTION.search, thirds))) >= (1 - MOST_BAD) * len(thirds)


def _columns_of(row: Row) -> str:
    """Say what the columns of a line are, and how two of them are chosen."""
    number, cells = row
    cells = [one_line(cell[:99]).strip() for cell in cells]
    listed = ", ".join(f"{n} = {cell:.30}" for n, cell in enumerate(cells[:9], 1))
    texts = [n for n, cell in enumerate(cells, 1) if not NO_SENTENCE.fullmatch(cell)]
    which = ",".join(map(str, texts[:2] if len(texts) > 1 else (1, 2)))
    more = ", …" if len(cells) > 9 else ""
    return (
        f"; line {number} has {len(cells)} columns, {listed}{more}: choose two, as columns={which}"
    )


def _header_of(rows: list[Row], *columns: int) -> str:
    """Return what the first line calls its columns, if it does and no line after it could.

    he and el are the codes of languages, and words; above a list of words they are no header.
    """
    called = _names_in(rows[0][1], columns)
    if not called:
        return ""
    after = [cells for _, cells in islice(rows, 1, SAMPLE)]
    are_words = all(len(rows[0][1][column - 1].strip()) < 4 for column in columns)
    if are_words and sum(" " in "\t".join(cells).strip() for cells in after) < len(after) / 2:
        return ""
    return "" if any(_names_in(cells, columns) for cells in after) else called


def _names_in(cells: list[str], columns: Iterable[int]) -> str:
    """Return the cells of these columns if each is the name of a language or a column, else ""."""
    if len(cells) < max(columns):
        return ""
    names = [one_line(cells[column - 1].strip()[:99]) for column in columns]
    are_names = len({*names}) == len(names) and all(map(_is_name, names))
    return " and ".join(map(repr, names)) if are_names else ""


def _is_name(cell: str) -> bool:
    """Whether a cell names a language or a column, such as English, de, zh-CN, source_text."""
    if len(cell) > 40:
        return False
    words = [word for word in _words_of(cell) if word not in OF_COLUMNS]
    languages, regions = _languages_and_regions()
    is_code = words[:1] and words[0] in languages and {*words[1:]} <= regions
    return bool(_words_of(cell)) and (not words or is_code or " ".join(words) in languages)


def _words_of(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text.casefold())


@cache
def _languages_and_regions() -> tuple[set[str], set[str]]:
    """Return codes of languages with their names in the most common of them; codes of regions."""
    from babel import Locale
    from babel.core import get_global

    languages = {*get_global("language_aliases")}  # eng, deu, cmn
    for code in NAMED_IN:
        known = Locale(code).languages
        languages |= {*known} | {" ".join(_words_of(name)) for name in known.values()}
    english = Locale("en")
    return languages, {code.casefold() for code in (*english.scripts, *english.territories)}


# ---- Files


def as_files(files: Any) -> list[Path]:
    """Return the paths of one file or two; `ValueError`, which says what is there, for others."""
    given = [*files] if isinstance(files, list | tuple) else [files]
    require(
        len(given) in (1, 2),
        f"pairs must come from one file, or from two with as many lines, got {len(given)} files",
    )
    return [as_file(path) for path in given]


def names_of(paths: list[Path]) -> str:
    return " and ".join(map(str, paths))


def as_file(path: Any) -> Path:
    """Return the path; `ValueError`, which says what is there, unless it leads to a file."""
    right = isinstance(path, str | os.PathLike)
    require(right, f"a file of pairs must be given as a path, got {type(path).__name__}")
    path = Path(path)
    came = "a folder" if path.is_dir() else "no file" if path.exists() else "nothing there"
    require(path.is_file(), f"{path} must be a file with a pair in each line, got {came}")
    return path


def _text_of(path: Path) -> str:
    """Return the text of a file; in it, nothing but a newline ends a line."""
    content = content_of(path)
    require(bool(content.strip()), f"{path} must hold a pair in each line, got an empty file")
    came = "UTF-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "a binary file"
    require(b"\0" not in content, f"{path} must be UTF-8 text, got {came}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        raise ValueError(
            f"{path} must be UTF-8 text, got the byte 0x{byte:02x} in line {line:,}"
        ) from None
    return re.sub("\r+\n", "\n", text).replace("\r", " ")


def content_of(path: Path) -> bytes:
    """Return what is in the file, unpacked if it is gzipped; at most 500 MB are read."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if content.startswith(b"\x1f\x8b"):
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{path} must be a file that can be read, got: {reason}") from None
    require(len(content) <= MAX_BYTES, f"{path} must hold at most {MAX_BYTES:,} bytes, got more")
    return content
