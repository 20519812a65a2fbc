"""Make what stands on the lessons: slides, worksheets, an examination, a quiz, pages and tables.

python teaching/make.py                            # all of it, into build/teaching
python teaching/make.py --check                    # write nothing; fail if anything is stale
python teaching/make.py --seed 7 --into FOLDER     # worksheets and examination with other numbers

Some pages that are written by hand have parts that are made. These are renewed where they stand,
and they alone can be stale: build/ is not in git.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this file is run as a script

from teaching.generate import exam, matrix, misconceptions, notes, plan, quiz, tables, worksheets  # noqa: E402
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

    Raises `ValueError` if a table of slides, a list of mistakes … no longer fits the lessons.
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


def variant(seed: int) -> dict[Path, str]:
    """Return worksheets and examination with the numbers of another seed."""
    return worksheets.pages(seed) | exam.pages(seed)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make what stands on the lessons.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    parser.add_argument("--seed", type=int, help="other numbers, for another class")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="where they go")
    options = parser.parse_args()
    if (options.seed is None) != (options.into is None):
        parser.error("--seed and --into go together")
    if options.check and options.into:
        parser.error("--check looks at the repository's own files: leave out --seed and --into")
    try:
        if options.into:
            write(encoded(variant(options.seed)), options.into)
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
