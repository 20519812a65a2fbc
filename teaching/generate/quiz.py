"""The quiz: true or false, as GIFT for Moodle and as QTI 2.1 for other platforms.

teaching/quiz.toml has the items. Each grew from a claim of *Myth or fact?*, but says by itself what
it is about; the reason is the feedback to either answer.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from course.lessons import ROOT, lessons

WRITTEN = ROOT / "teaching" / "quiz.toml"
FOLDER = Path("quiz")
CHOICES = ("true", "false")
QTI = "http://www.imsglobal.org/xsd/imsqti_v2p1"
CP = "http://www.imsglobal.org/xsd/imscp_v1p1"


@dataclass(frozen=True)
class Item:
    """`number` is that of a claim, `lesson` its two digits; `feedback` follows either answer."""

    number: str
    lesson: str
    text: str
    right: bool
    feedback: str


def items() -> list[Item]:
    """Return all items, in the order of the lessons.

    Raises `ValueError` for one whose claim is in no lesson.
    """
    of = {claim.number: lesson.number for lesson in lessons().values() for claim in lesson.claims}
    written = tomllib.loads(WRITTEN.read_text("utf-8"))
    if unknown := set(written) - set(of):
        raise ValueError(f"{WRITTEN.name}: no lesson has the claims {sorted(unknown)}")
    found = []
    for number, entry in written.items():
        told = f"{str(entry['true']).capitalize()}. {entry['why']} (Lesson {of[number]})"
        found.append(Item(number, of[number], entry["text"], entry["true"], told))
    return sorted(found, key=lambda item: item.lesson)


def pages() -> dict[Path, str]:
    """Return the quiz in both formats; the folder qti/ is zipped as it is to be imported."""
    found = items()
    made = {
        FOLDER / "claims.gift": gift(found),
        FOLDER / "qti" / "imsmanifest.xml": manifest(found),
    }
    return made | {FOLDER / "qti" / f"{each.number}.xml": qti(each) for each in found}


def gift(found: list[Item]) -> str:
    """Return items in Moodle's GIFT format."""
    blocks, lesson = [], None
    for item in found:
        if item.lesson != lesson:
            lesson = item.lesson
            blocks.append(f"$CATEGORY: Transformer Lab/True or false/{lesson}\n")
        answer = f"{str(item.right).upper()}####{_gift(item.feedback)}"
        blocks.append(f"::{item.number}:: {_gift(item.text)} {{{answer}}}\n")
    first = "// True or false, by lesson. Made by python teaching/make.py\n\n"
    return first + "\n".join(blocks)


def _gift(text: str) -> str:
    """Return text in which the format's own signs are escaped."""
    return "".join(f"\\{sign}" if sign in "\\~=#{}:" else sign for sign in text)


def qti(item: Item) -> str:
    """Return an item as QTI 2.1."""
    choices = "".join(
        f'      <simpleChoice identifier="{choice}">{choice}</simpleChoice>\n' for choice in CHOICES
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<assessmentItem xmlns="{QTI}" identifier="{item.number}"
    title={quoteattr(f"Lesson {item.lesson}, {item.number}")}
    adaptive="false" timeDependent="false">
  <responseDeclaration identifier="RESPONSE" cardinality="single" baseType="identifier">
    <correctResponse>
      <value>{str(item.right).lower()}</value>
    </correctResponse>
  </responseDeclaration>
  <outcomeDeclaration identifier="SCORE" cardinality="single" baseType="float">
    <defaultValue>
      <value>0</value>
    </defaultValue>
  </outcomeDeclaration>
  <outcomeDeclaration identifier="FEEDBACK" cardinality="single" baseType="identifier"/>
  <itemBody>
    <choiceInteraction responseIdentifier="RESPONSE" shuffle="false" maxChoices="1">
      <prompt>{escape(item.text)}</prompt>
{choices}    </choiceInteraction>
  </itemBody>
  <responseProcessing>
    <responseCondition>
      <responseIf>
        <match>
          <variable identifier="RESPONSE"/>
          <correct identifier="RESPONSE"/>
        </match>
        <setOutcomeValue identifier="SCORE">
          <baseValue baseType="float">1</baseValue>
        </setOutcomeValue>
      </responseIf>
    </responseCondition>
    <setOutcomeValue identifier="FEEDBACK">
      <baseValue baseType="identifier">why</baseValue>
    </setOutcomeValue>
  </responseProcessing>
  <modalFeedback outcomeIdentifier="FEEDBACK" identifier="why" showHide="show">{escape(item.feedback)}</modalFeedback>
</assessmentItem>
"""  # noqa: E501


def manifest(found: list[Item]) -> str:
    """Return the manifest of a QTI 2.1 package with all items."""
    resources = "".join(
        f'    <resource identifier="R{item.number}" type="imsqti_item_xmlv2p1" '
        f'href="{item.number}.xml">\n'
        f'      <file href="{item.number}.xml"/>\n    </resource>\n'
        for item in found
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<manifest xmlns="{CP}" identifier="transformer-lab-claims">
  <metadata>
    <schema>QTIv2.1 Package</schema>
    <schemaversion>1.0.0</schemaversion>
  </metadata>
  <organizations/>
  <resources>
{resources}  </resources>
</manifest>
"""
