"""The claims of *Myth or fact?* as a quiz: GIFT for Moodle, QTI 2.1 for other platforms.

Each claim is a question with three choices: fact, myth, depends; the lesson's verdict is the
feedback to every choice. An open question, whose verdict is an answer, is asked as one: a few
sentences to write, and the lesson's answer as the feedback.
"""

from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from course.lessons import Claim, lessons

FOLDER = Path("quiz")
CHOICES = ("fact", "myth", "depends")
QTI = "http://www.imsglobal.org/xsd/imsqti_v2p1"
CP = "http://www.imsglobal.org/xsd/imscp_v1p1"

MARKED = """    <responseCondition>
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
"""


def claims() -> list[Claim]:
    """Return every claim of the lessons that are there, in their order."""
    return [claim for lesson in lessons().values() for claim in lesson.claims]


def pages() -> dict[Path, str]:
    """Return the quiz in both formats; the folder qti/ is zipped as it is to be imported."""
    asked = claims()
    made = {
        FOLDER / "claims.gift": gift(asked),
        FOLDER / "qti" / "imsmanifest.xml": manifest(asked),
    }
    return made | {FOLDER / "qti" / f"{claim.number}.xml": item(claim) for claim in asked}


def feedback(claim: Claim) -> str:
    return f"{claim.verdict.capitalize()}: {claim.why} (lesson {claim.lesson[:2]})"


def plain(text: str) -> str:
    """Return Markdown without its marks."""
    parts = text.replace("`", "").replace("$", "").split(" * ")  # between spaces it is a product
    return " * ".join(part.replace("*", "") for part in parts)


def gift(asked: list[Claim]) -> str:
    """Return the claims in Moodle's GIFT format."""
    blocks, lesson = [], None
    for claim in asked:
        if claim.lesson != lesson:
            lesson = claim.lesson
            blocks.append(f"$CATEGORY: Transformer Lab/Myth or fact/{lesson[:2]}\n")
        marks = {choice: "=" if choice == claim.verdict else "~" for choice in CHOICES}
        lines = [f"\n{mark}{choice}" for choice, mark in marks.items()]
        body = "".join(lines) + "\n" if claim.verdict in CHOICES else ""
        told = f"####{_gift(feedback(claim))}"  # whatever is chosen
        blocks.append(f"::{claim.number}:: {_gift(claim.text)} {{{body}{told}}}\n")
    first = "// The claims of the course as a quiz. Made by python teaching/make.py\n\n"
    return first + "\n".join(blocks)


def _gift(text: str) -> str:
    """Return text in which the format's own signs are escaped."""
    return "".join(f"\\{sign}" if sign in "\\~=#{}:" else sign for sign in plain(text))


def _correct(choice: str) -> str:
    return f""">
    <correctResponse>
      <value>{choice}</value>
    </correctResponse>
  </responseDeclaration>"""


def item(claim: Claim) -> str:
    """Return a claim as a QTI 2.1 item."""
    prompt = f"      <prompt>{escape(plain(claim.text))}</prompt>\n"
    if claim.verdict in CHOICES:
        choices = "".join(
            f'      <simpleChoice identifier="{choice}">{choice}</simpleChoice>\n'
            for choice in CHOICES
        )
        answer, kind = _correct(claim.verdict), "identifier"
        asked = f"""    <choiceInteraction responseIdentifier="RESPONSE" shuffle="false"
        maxChoices="1">
{prompt}{choices}    </choiceInteraction>"""
        marked = MARKED
    else:
        answer, kind, marked = "/>", "string", ""
        asked = f"""    <extendedTextInteraction responseIdentifier="RESPONSE" expectedLines="4">
{prompt}    </extendedTextInteraction>"""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<assessmentItem xmlns="{QTI}" identifier="{claim.number}"
    title={quoteattr(f"Claim {claim.number}")}
    adaptive="false" timeDependent="false">
  <responseDeclaration identifier="RESPONSE" cardinality="single" baseType="{kind}"{answer}
  <outcomeDeclaration identifier="SCORE" cardinality="single" baseType="float">
    <defaultValue>
      <value>0</value>
    </defaultValue>
  </outcomeDeclaration>
  <outcomeDeclaration identifier="FEEDBACK" cardinality="single" baseType="identifier"/>
  <itemBody>
{asked}
  </itemBody>
  <responseProcessing>
{marked}    <setOutcomeValue identifier="FEEDBACK">
      <baseValue baseType="identifier">verdict</baseValue>
    </setOutcomeValue>
  </responseProcessing>
  <modalFeedback outcomeIdentifier="FEEDBACK" identifier="verdict" showHide="show">{escape(plain(feedback(claim)))}</modalFeedback>
</assessmentItem>
"""  # noqa: E501


def manifest(asked: list[Claim]) -> str:
    """Return the manifest of a QTI 2.1 package with an item for each claim."""
    resources = "".join(
        f'    <resource identifier="R{c.number}" type="imsqti_item_xmlv2p1" '
        f'href="{c.number}.xml">\n'
        f'      <file href="{c.number}.xml"/>\n    </resource>\n'
        for c in asked
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
