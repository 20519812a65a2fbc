"""The links under the teaching notes: `[02 §5]` in the text becomes a link to that section."""

import re
from pathlib import Path

from teaching.generate.course import TEACHING, lessons

MARK = "\n<!-- links: made by python teaching/make.py -->\n"
PLACE = re.compile(r"\[(\d\d) ([^\]]+)\](?![(:])")


def pages() -> dict[Path, str]:
    """Return each week's notes with their links; those to lessons still to come stay plain."""
    return {
        path: with_links(path.read_text("utf-8"))
        for path in sorted((TEACHING / "notes").glob("week_*.md"))
    }


def with_links(text: str) -> str:
    """Return notes with a line for each link; `ValueError` for a section that is not there."""
    body = text.split(MARK)[0].rstrip("\n") + "\n"
    places = sorted({place for place in PLACE.findall(body) if place[0] in lessons()})
    links = [f"[{n} {place}]: {lessons()[n].link(place, '../..')}" for n, place in places]
    return body + MARK + "\n" + "".join(f"{link}\n" for link in links)
