"""Make what is generated for teaching: from lessons, solutions, answers and the files here.

python teaching/make.py                            # write what is stale
python teaching/make.py --check                    # say what is stale, and fail if anything is
python teaching/make.py --seed 7 --into FOLDER     # worksheets and examination with other numbers
"""

import argparse
import sys
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
    worksheets,
)
from teaching.slides import deck  # noqa: E402
from transformer_lab.support.files import write_atomically  # noqa: E402

# Each has `pages()`, which returns its files and what they must hold.
MAKERS = (plan, notes, deck, worksheets, exam, misconceptions, quiz, matrix)


def generated(makers=MAKERS) -> tuple[dict[Path, str], list[str]]:
    """Return every generated file and what it must hold, and what could not be made."""
    files, faults = {}, []
    for maker in makers:
        try:
            files |= maker.pages()
        except ValueError as error:
            faults.append(f"{maker.__name__}: {error}")
    return files, faults


def variant(seed: int, folder: Path) -> dict[Path, str]:
    """Return worksheets and examination with the numbers of another seed, below `folder`."""
    here = Path(__file__).resolve().parent
    made = worksheets.pages(seed) | exam.pages(seed)
    return {folder / path.relative_to(here): text for path, text in made.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Make what is generated for teaching.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    parser.add_argument("--seed", type=int, help="other numbers, for another class")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="where they go")
    options = parser.parse_args()
    if (options.seed is None) != (options.into is None):
        parser.error("--seed and --into go together")
    if options.check and options.into:
        parser.error("--check looks at the repository's own files: leave out --seed and --into")
    if options.into:
        files, faults = variant(options.seed, options.into), []
    else:
        files, faults = generated()
    stale = [p for p, text in files.items() if not p.exists() or p.read_text("utf-8") != text]
    for path in stale:
        print("stale:" if options.check else "written:", path)
        if not options.check:
            write_atomically(path, files[path].encode())
    if options.check and stale:
        faults.append("run python teaching/make.py")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
