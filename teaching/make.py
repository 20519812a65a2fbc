"""Make what stands on the lessons: slides, worksheets, examples, a quiz, pages, tables; and papers.

python teaching/make.py                            # all of it, into build/teaching
python teaching/make.py --check                    # write nothing; fail if anything is stale
python teaching/make.py --seed 7 --into FOLDER     # worksheets with other numbers
python teaching/make.py --new-secret FILE          # a secret, for one paper
python teaching/make.py --secret FILE --paper 1,5,9 --minutes 90 --into FOLDER   # paper and key

Some pages that are written by hand have parts that are made. These are renewed where they stand,
and they alone can be stale: build/ is not in git.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this file is run as a script

from teaching.generate import (  # noqa: E402
    exam,
    matrix,
    misconceptions,
    notes,
    plan,
    quiz,
    secret,
    tables,
    worksheets,
)
from teaching.page import make as page  # noqa: E402
from teaching.slides import deck  # noqa: E402
from transformer_lab.support.files import write_atomically  # noqa: E402

BUILD = ROOT / "build" / "teaching"
# Each has `pages()`, which returns files by their paths and what they must hold: the first, pages
# of the repository with parts that are made; the others, new files in a folder.
RENEWED = (tables, plan, notes)
MADE = (deck, worksheets, exam, quiz, page, misconceptions, matrix)


def stale() -> dict[Path, bytes]:
    """Return the pages with parts that are not what they must be, as they must be."""
    found = _all(RENEWED)
    return {path: new for path, new in found.items() if path.read_bytes() != new}


def made(makers=MADE) -> dict[Path, bytes]:
    """Return every file that is made, by its path in build/teaching.

    Raises `ValueError` if a text of slides, a list of mistakes … no longer fits the lessons.
    """
    return _all(makers)


def _all(makers) -> dict[Path, bytes]:
    files, faults = {}, []
    for maker in makers:
        try:
            files |= maker.pages()
        except ValueError as error:
            faults.append(f"{maker.__name__}: {error}")
    if faults:
        raise ValueError("\n".join(faults))
    return encoded(files)


def encoded(files: Mapping[Path, str | bytes]) -> dict[Path, bytes]:
    return {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}


def write(files: Mapping[Path, bytes], folder: Path) -> None:
    """Write files into a folder, those alone that are not there already."""
    for path, content in files.items():
        file = folder / path
        if not file.is_file() or file.read_bytes() != content:
            write_atomically(file, content)


def numbers(text: str) -> list[int]:
    """Return the numbers in a text such as 1,5,9."""
    return [int(part) for part in text.split(",")]


def asked_for(options: argparse.Namespace) -> dict[Path, str]:
    """Return worksheets with other numbers, or a paper with its key."""
    if options.seed is not None:
        return worksheets.pages(options.seed)
    keys = [secret.read(file) for file in [*options.unlike, options.secret]]
    secret.outside(options.into / "key.html")
    chosen = options.paper, options.minutes, options.title
    return exam.sheet(*chosen, *keys, pools=options.pools)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make what stands on the lessons.")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    one.add_argument("--seed", type=int, help="worksheets with other numbers, for another class")
    one.add_argument("--new-secret", type=Path, metavar="FILE", help="make the secret of a paper")
    one.add_argument("--secret", type=Path, metavar="FILE", help="make a paper with its secret")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="where worksheets or papers go")
    papers = parser.add_argument_group("papers")
    papers.add_argument("--paper", type=numbers, metavar="1,5,9", help="its questions, by number")
    papers.add_argument("--minutes", type=int, default=90, help="how long it takes (90)")
    papers.add_argument("--title", default="Examination", help="what stands above it")
    papers.add_argument(
        "--unlike", type=Path, metavar="FILE", nargs="+", default=[],
        help="secrets of earlier papers, in their order, none of whose questions come again",
    )  # fmt: skip
    papers.add_argument("--pools", type=Path, metavar="FOLDER", help="questions of your own")
    options = parser.parse_args()
    if (options.secret is None) != (options.paper is None):
        parser.error("--secret and --paper go together")
    if (options.into is None) != (options.seed is None and options.secret is None):
        parser.error("--into goes with --seed or with --secret")
    try:
        if options.new_secret:
            secret.new(options.new_secret)
            return
        if options.into:
            write(encoded(asked_for(options)), options.into)
            return
        old, new = stale(), made()
    except ValueError as error:
        sys.exit(str(error))
    for path in old:
        print("stale:" if options.check else "renewed:", path.relative_to(ROOT))
    if not options.check:
        write(old, ROOT)
        for path in {*BUILD.rglob("*")} - {BUILD / path for path in new}:
            if path.is_file():  # of a lesson that is no more
                path.unlink()
        write(new, BUILD)
        print(f"{len(new)} files are in {BUILD.relative_to(ROOT)}")
    elif old:
        sys.exit("run python teaching/make.py")


if __name__ == "__main__":
    main()
