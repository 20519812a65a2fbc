"""Make what is generated for teaching from the lessons: for now, the slides.

python teaching/make.py            # write it
python teaching/make.py --check    # say what is stale, and fail if anything is
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this file is run as a script

from teaching.slides import deck  # noqa: E402
from transformer_lab.support.files import write_atomically  # noqa: E402


def generated() -> dict[Path, str]:
    """Return every generated file and what it must hold."""
    return deck.pages()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make what is generated for teaching.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    check = parser.parse_args().check
    try:
        files = generated()
    except ValueError as error:
        sys.exit(str(error))
    stale = [p for p, text in files.items() if not p.exists() or p.read_text("utf-8") != text]
    for path in stale:
        print("stale:" if check else "written:", path.relative_to(ROOT))
        if not check:
            write_atomically(path, files[path].encode())
    if check and stale:
        sys.exit("run python teaching/make.py")


if __name__ == "__main__":
    main()
