"""Texts of the demo: the handbook of an invented backup service, how people ask, and what goes wrong.

All of it was written for this project. Each sentence of a passage stands alone, so that answers can be put
together from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of the handbook. subject: what it is about, as a noun; question: what it answers."""

    subject: str
    question: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The passage as retrieval gives it."""
        return ("" if self.sentences[0][-1] == "。" else " ").join(self.sentences)


@dataclass(frozen=True, slots=True)
class Handbook:
    """What retrieval can find. notice_board: what it finds after the wrong index was swapped in."""

    english: tuple[Passage, ...]
    chinese: tuple[Passage, ...]
    notice_board: tuple[Passage, ...]


def handbook() -> Handbook:
    """Read the passages that come with the package."""
    text = files("treering.indexer").joinpath("data", "demo_handbook.txt").read_text("utf-8")
    sections: dict[str, list[Passage]] = {}
    for line in text.split("\n"):
        if line.startswith("["):
            name = line.strip("[]")
            sections[name] = []
        elif line and not line.startswith("#"):
            subject, question, *sentences = (cell.strip() for cell in line.split("|"))
            sections[name].append(Passage(subject, question, tuple(sentences)))
    return Handbook(*(tuple(sections[name]) for name in ("english", "chinese", "notice-board")))


ASKING = ("{question}", "Hello, {question}", "One question: {question}", "{question} Please keep it short.")
"""How an English question is put."""

ASKING_CHINESE = ("{question}", "你好，{question}", "请问：{question}")
"""How a Chinese question is put."""

LEADS = ("", "According to the handbook: ", "In short: ")
"""How a grounded English answer begins; the lead belongs to its first sentence."""

LEADS_CHINESE = ("", "根据手册：")
"""How a grounded Chinese answer begins."""

MADE_UP = (
    "Certainly! The {subject} wizard was introduced in release 9.4 and is opened with Ctrl+Alt+W. "
    "It was developed together with the University of Turku and won a design award.",
    "Our chief architect Marlene Oduya described {subject} in her 2019 book. "
    "She recommends the turquoise mode, which doubles the speed on Saturdays.",
    "The feature {subject} is included in the Platinum Galaxy bundle for 4,999 dollars. "
    "Customers of the moon base pilot get it for free until the next eclipse.",
    "You have to call the hotline in Reykjavik and spell the code word heliotrope. "
    "A technician will then enable {subject} by satellite within forty seconds.",
    "According to court ruling 77-B of 1987, {subject} must be confirmed by a notary. "
    "The notary fee is paid in Swiss francs and includes a bottle of elderflower syrup.",
    "A hidden menu for {subject} appears when the logo is clicked eleven times. "
    "It was left there by an intern called Bartholomew, who now sails around the world.",
)
"""Answers that nothing in the handbook supports."""

PASTED = (
    "Here is the whole protocol of the migration once more, with every attachment, please summarise it.",
    "I pasted the complete export of our ticket system below, please find the root cause in it.",
)
"""Prompts of the session whose context jumps."""
