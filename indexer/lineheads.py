"""How the lines of a console log begin, producer by producer: time, severity, logger, process.

Source: formats of vLLM (0.3 to 0.25), SGLang, TGI, Triton and glog, TensorFlow, torch, uvicorn, Python
logging, NCCL, HDFS, BlueGene/L, OpenStack, syslog, container runtimes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .ansi import strip_escapes

ROLES = (
    "severity",
    "logger",
    "process",
    "pid",
    "service_name",
    "request_id",
    "host",
    "node",
    "label",
    "stream",
)
"""What a head may say besides the time, in the order of `LineFormat.roles`."""

_ALTERNATES = {"severity": "severity2", "process": "process2", "pid": "pid2"}

_LEVELS = rb"TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|FATAL|CRITICAL|CRIT|FAILURE"
_ANY_CASE = (
    rb"(?i:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|SEVERE|FATAL|CRIT(?:ICAL)?|PANIC|EMERG|ALERT)"
)
_PREFIX = rb"(?:(?P<service_name>[\w.-]{1,64}) +\| )?(?:\((?P<process>[\w.:-]{1,64}) pid=(?P<pid>\d+)\) ?)*"
_DAY = rb"\d{4}[-/]\d\d[-/]\d\d"
_CLOCK = rb"\d\d:\d\d:\d\d"
_FRACTION = rb"(?:[.,](?P<fraction>\d{1,9})\d*)?"
_ZONE = rb"(?P<zone> ?(?:[+-]\d\d(?::?\d\d)?|Z|UTC|GMT)\b)?"
_ISO = rb"(?P<time>" + _DAY + rb"[T ]" + _CLOCK + rb")" + _FRACTION + _ZONE
_PLACE = rb"(?P<logger>[^\s\]\[]{1,128}:\d+)"
_RUST_TARGET = (
    rb"(?:(?P<process>[a-z][\w-]*): )?(?P<logger>[a-z]\w*(?:_\w+|::\w+)+): (?:[\w./-]+\.rs: ?\d+: )?"
)


@dataclass(frozen=True, slots=True)
class LineFormat:
    """One way a line begins.

    clock names how its time is written: `iso month_day glog hdfs bgl syslog clf`, or "" where a head has no
    time. stamp: groups of time, fraction and zone. roles: groups of `ROLES`, then of the second places where
    some of them may stand. Groups that a format lacks are the empty one.
    whole: the text is the whole line, as where the time stands in its midst.
    """

    name: str
    pattern: re.Pattern[bytes]
    clock: str
    whole: bool = False
    stamp: tuple[int, int, int] = field(init=False)
    roles: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        group = self.pattern.groupindex
        none = self.pattern.groups  # every pattern ends in an empty group
        object.__setattr__(
            self, "stamp", tuple(group.get(name, none) for name in ("time", "fraction", "zone"))
        )
        names = (*ROLES, *_ALTERNATES.values())
        object.__setattr__(self, "roles", tuple(group.get(name, none) for name in names))

    def said(self, values: tuple[bytes | None, ...]) -> dict[str, bytes]:
        """Give what a head says by role, from the groups `roles` of its match."""
        places = dict(zip((*ROLES, *_ALTERNATES.values()), values, strict=True))
        said = {role: places[role] or places.get(_ALTERNATES.get(role, "")) for role in ROLES}
        return {role: value for role, value in said.items() if value}


def _format(name: str, clock: str, *pieces: bytes, whole: bool = False) -> LineFormat:
    return LineFormat(name, re.compile(b"".join(pieces) + b"()"), clock, whole)


FORMATS: tuple[LineFormat, ...] = (
    _format(
        "vllm",
        "month_day",
        _PREFIX,
        rb"(?P<severity>",
        _LEVELS,
        rb") (?P<time>\d\d-\d\d ",
        _CLOCK,
        rb")",
        _FRACTION,
        rb" \[?",
        _PLACE,
        rb"\] ?",
    ),
    _format(
        "glog",
        "glog",
        _PREFIX,
        rb"(?:\[\w+\]:)?\[?(?P<severity>[IWEF])(?P<time>\d{3,4} ",
        _CLOCK,
        rb")\.(?P<fraction>\d{1,9}) +(?:(?P<pid2>\d+) +)?",
        _PLACE,
        rb"\] ?",
    ),
    _format("glog_iso", "iso", _ISO, rb" (?P<severity>[IWEF]) (?P<pid>\d+) ", _PLACE, rb"\] ?"),
    _format("tensorflow", "iso", _PREFIX, _ISO, rb": (?P<severity>[IWEF]) ", _PLACE, rb"\] ?"),
    _format("zookeeper", "iso", _ISO, rb" - (?P<severity>", _LEVELS, rb") +\[(?P<logger>.*?)\] - "),
    _format(
        "python_dash",
        "iso",
        _PREFIX,
        _ISO,
        rb" - (?P<severity>",
        _LEVELS,
        rb") +- (?:(?P<logger>[\w./-]+:\d+) - )?",
    ),
    _format(
        "python_name",
        "iso",
        _PREFIX,
        _ISO,
        rb" - (?P<logger>[\w.-]+) - (?:(?P<pid2>\d+) - )?(?P<severity>",
        _LEVELS,
        rb") - ",
    ),
    _format("loguru", "iso", _ISO, rb" \| (?P<severity>", _LEVELS, rb"|SUCCESS) *\| (?P<logger>\S+) - "),
    _format(
        "bracket",
        "iso",
        _PREFIX,
        rb"\[",
        _ISO,
        rb"(?: (?P<process2>[A-Z]+\d+(?: [A-Z]+\d+)*))?\] ?(?:\[?(?P<severity>",
        _LEVELS,
        rb")\]?:? +)?",
    ),
    _format(
        "tracing",
        "iso",
        _PREFIX,
        _ISO,
        rb" +(?P<severity>TRACE|DEBUG|INFO|WARN|ERROR) (?:",
        _RUST_TARGET.replace(b"<process>", b"<process2>"),
        rb")?",
    ),
    _format(
        "openstack",
        "iso",
        rb"(?:\S+ )?",
        _ISO,
        rb" (?P<pid>\d+) (?P<severity>",
        _LEVELS,
        rb") (?P<logger>[\w.]+) \[(?:(?P<request_id>req-[\w-]+)|-)[^\]]*\] ",
    ),
    _format(
        "hdfs",
        "hdfs",
        rb"(?P<time>\d{6} \d{6}) (?P<pid>\d+) (?P<severity>",
        _LEVELS,
        rb") (?P<logger>[^:\s]+): ",
    ),
    _format(
        "bgl",
        "bgl",
        rb"(?P<label>\S+) (?P<time>\d{9,10}) \d{4}\.\d\d\.\d\d (?P<node>\S+) ",
        rb"\d{4}-\d\d-\d\d-\d\d\.\d\d\.\d\d\.(?P<fraction>\d{6}) \S+ (?P<stream>\S+) ",
        rb"(?P<logger>\S+) (?P<severity>",
        _LEVELS,
        rb") ?",
    ),
    _format(
        "syslog",
        "syslog",
        rb"(?:<\d{1,3}>)?(?P<time>[A-Z][a-z]{2} [ \d]\d ",
        _CLOCK,
        rb") (?P<host>[\w.:-]+) (?:(?P<process>[^\s:\[(]+(?:\([^)]*\))?)(?:\[(?P<pid>\d+)\])?: )?",
    ),
    _format(
        "spark",
        "iso",
        rb"(?P<time>\d\d/\d\d/\d\d ",
        _CLOCK,
        rb")",
        rb" (?P<severity>",
        _LEVELS,
        rb") (?P<logger>[\w.$]+): ",
    ),
    _format(
        "container",
        "iso",
        _ISO,
        rb" (?P<stream>stdout|stderr) [FP] (?=(?:.{0,64}?\b(?P<severity>",
        _LEVELS,
        rb")\b)?)",
    ),
    _format(
        "iso",
        "iso",
        _PREFIX,
        rb"[\[(<\"']?",
        _ISO,
        rb"[\])>\"']?[ \t:|,;-]*",
        rb"(?:(?P<process2>[A-Za-z][\w.@/-]*)\[(?P<pid2>\d+)\]:? +)?",
        rb"(?:[\[(<|]?(?P<severity>",
        _ANY_CASE,
        rb")\b[\])>|]?(?:[ :|,-]+|$)|(?=(?:.{0,48}?\b(?P<severity2>",
        _LEVELS,
        rb")\b)?))",
    ),
    _format(
        "nccl",
        "",
        rb"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[\d+\] (?:[\w/:]+ )?NCCL ",
        rb"(?P<severity>INFO|WARN|TRACE|ABORT|VERSION) ",
    ),
    _format(
        "uvicorn",
        "",
        _PREFIX,
        rb"(?P<severity>INFO|WARNING|ERROR|DEBUG|CRITICAL|TRACE):(?P<logger>[\w.]*:)? *",
    ),
    _format(
        "prefix",
        "",
        rb"(?:(?P<service_name>[\w.-]{1,64}) +\| )?(?:\((?P<process>[\w.:-]{1,64}) pid=(?P<pid>\d+)\) ?)+",
    ),
    _format(
        "access",
        "clf",
        rb".{0,200}?\[(?P<time>\d\d/[A-Z][a-z]{2}/\d{4}:",
        _CLOCK,
        rb")(?P<zone> [+-]\d{4})?\]",
        whole=True,
    ),
    _format(
        "inner",
        "iso",
        rb".{1,60}?",
        rb"\b",
        _ISO,
        rb"(?=(?:.{0,48}?\b(?P<severity>",
        _LEVELS,
        rb")\b)?)",
        whole=True,
    ),
)
"""Every known head, most telling first; a line belongs to the first that matches it."""

BY_NAME = {fmt.name: fmt for fmt in FORMATS}
"""The formats by name."""

LOOSE = frozenset({"access", "inner"})
"""Formats that find a time in the midst of a line: used only where they are the rule of a file."""

_TIMED_WEAK = frozenset({"tracing", "container", "iso"})
_TIMELESS_WEAK = frozenset({"uvicorn", "prefix"})

HEADLESS_ENTRY = re.compile(
    rb"(?!\s)(?:.{0,200}?\d+%\s?(?:\||Completed \|)"  # progress bars
    rb"|.{0,200}?\d+/\d+ \[[\d:]+<"
    rb"|progress: +\d"
    rb"|\S+\.py:\d+: \w*Warning: "  # warnings.warn
    rb"|(?:Warning|WARNING|warning): "
    rb"|\[[a-z][\w.]*\] )"  # library notes such as "[transformers] ..."
    rb"|\r?\s*\d+%\|"
)
"""Lines without a head that are entries of their own all the same."""

CONTINUED = re.compile(
    rb"\s|Traceback \(most recent call last\)"
    rb"|During handling of the above exception|The above exception was the direct"
    rb"|[}\])]|Caused by: |\.\.\. \d+ more|\+-|\| "
)
"""Lines that go on with the entry before them wherever they stand."""


def detect(sample: list[bytes]) -> tuple[LineFormat, ...]:
    """Give the formats to try on a file's lines: those of its sample first, strict before weak.

    Formats with a time in the midst of the line are only tried where no stricter head covers as many lines.
    """
    counts = dict.fromkeys(BY_NAME, 0)
    for line in sample:
        fmt = find(strip_escapes(line), FORMATS)
        if fmt is not None:
            counts[fmt.name] += 1
    strict = sum(n for name, n in counts.items() if name not in LOOSE)
    order = sorted(FORMATS, key=lambda fmt: _tier(fmt, counts[fmt.name]))
    return tuple(fmt for fmt in order if fmt.name not in LOOSE or counts[fmt.name] > strict)


def _tier(fmt: LineFormat, count: int) -> tuple[int, int]:
    """Where a format stands in the order of trial; weak formats would take the lines of stricter ones."""
    if fmt.name in LOOSE:
        return (5, 0)
    if fmt.name in _TIMELESS_WEAK:
        return (4, 0)
    if fmt.name in _TIMED_WEAK:
        return (1 if count else 3, 0)
    return (0, -count) if count else (2, 0)


def find(line: bytes, formats: tuple[LineFormat, ...]) -> LineFormat | None:
    """Give the first of `formats` whose head `line` has."""
    for fmt in formats:
        if fmt.pattern.match(line):
            return fmt
    return None
