"""``headwater maintain``: which tables, in which order, within which budget, and how rounds end."""

from __future__ import annotations

import json
import re
import shlex
import signal
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.basics.errors import HeadwaterError
from headwater.cli import main as cli
from headwater.cli.maintain import Asked, Maintainer, Stop, rounds, saved, seconds_of
from headwater.statements.maintenance.planning import MAINTAIN_SCHEMA
from support.commits import add_file, commit, create
from support.paths import ROOT

MISSING = HeadwaterError("DELTA_TABLE_NOT_FOUND", {"tableName": "x"})


def row(action, outcome="planned", level="warning", share=0.5, **more):
    return {**dict.fromkeys(MAINTAIN_SCHEMA.names), "action": action, "level": level, "share": share} | {
        "outcome": outcome,
        **more,
    }


class Session:
    """A session that answers by the beginnings of statements, the longest first, and records them."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def sql(self, text):
        self.asked.append(text)
        for begins in sorted(self.answers, key=len, reverse=True):
            if text.startswith(begins):
                answer = self.answers[begins]
                if isinstance(answer, Exception):
                    raise answer
                return answer(text) if callable(answer) else answer
        raise LookupError(text)


class Refused(Exception):
    """An error of a statement, with its condition."""


def failure(error):
    if isinstance(error, Refused):
        return error.args[0], error.args[0]
    if isinstance(error, LookupError):
        return "TABLE_OR_VIEW_NOT_FOUND", str(error)
    return (error.condition, error.text) if isinstance(error, HeadwaterError) else None


def maintainer(session, *targets, stop=None, **asked):
    return Maintainer(Asked(targets, **asked), session.sql, failure, stop or Stop())


def described(mark=None, kind="delta"):
    return [{"format": kind, "properties": {"headwater.predictiveOptimization": mark} if mark else {}}]


def named(*names):
    return [{"tableName": name} for name in names]


def test_tables_by_name_and_by_path_are_maintained_whatever_marks_them(tmp_path):
    session = Session(**{"DESCRIBE DETAIL `a`.`b c`": described("DISABLE")})
    found = maintainer(session, "a.`b c`", str(tmp_path), "s3://b/t", "a.`b c`").tables()
    assert found == ["`a`.`b c`", f"delta.`{tmp_path}`", "delta.`s3://b/t`"]


def test_of_a_schema_and_a_catalog_those_that_are_marked_are_maintained():
    session = Session(
        **{
            "SHOW TABLES IN `s`": named("on", "off", "says_nothing", "parquet", "view"),
            "SHOW TABLES IN `t`": named("says_nothing"),
            "SHOW NAMESPACES": [{"namespace": "s"}, {"namespace": "t"}],
            "SHOW NAMESPACES IN `c`": [{"namespace": "s"}],
            "SHOW TABLES IN `c`.`s`": named("on"),
            "DESCRIBE DETAIL `s`.`on`": described("ENABLE"),
            "DESCRIBE DETAIL `c`.`s`.`on`": described("enable"),
            "DESCRIBE DETAIL `s`.`off`": described("DISABLE"),
            "DESCRIBE DETAIL `s`.`says_nothing`": described(),
            "DESCRIBE DETAIL `t`.`says_nothing`": described(),
            "DESCRIBE DETAIL `s`.`parquet`": described("ENABLE", "parquet"),
            "DESCRIBE NAMESPACE EXTENDED `s`": [
                {"info_name": "Properties", "info_value": "((a,b), (headwater.predictiveOptimization,ENABLE))"}
            ],
            "DESCRIBE NAMESPACE EXTENDED `t`": [
                {"info_name": "Properties", "info_value": "((headwater.predictiveOptimization,DISABLE))"}
            ],
        }
    )
    of_schema = maintainer(session, "s")
    assert of_schema.tables() == ["`s`.`on`", "`s`.`says_nothing`"]
    assert of_schema.unmarked == 1
    assert maintainer(session, "c").tables() == ["`c`.`s`.`on`"]
    everything = maintainer(session, everything=True)
    assert everything.tables() == ["`s`.`on`", "`s`.`says_nothing`"]
    assert everything.unmarked == 2


def test_what_cannot_be_looked_into_or_has_no_table_is_a_row_and_the_others_are_maintained():
    session = Session(
        **{
            # Spark's own catalog has no tables outside schemas, and other catalogs answer an empty list.
            "SHOW TABLES IN `spark_catalog`": Refused("MISSING_DATABASE_FOR_V1_SESSION_CATALOG"),
            "SHOW NAMESPACES IN `spark_catalog`": [{"namespace": each} for each in ("`my-schema`", "broken", "s")],
            "SHOW TABLES IN `spark_catalog`.`my-schema`": named("a"),
            "SHOW TABLES IN `spark_catalog`.`broken`": Refused("INTERNAL_ERROR"),
            "SHOW TABLES IN `spark_catalog`.`s`": named("b"),
            "SHOW TABLES IN `v2`": [],
            "SHOW NAMESPACES IN `v2`": [{"namespace": "`my-schema`"}, {"namespace": "s.`n t`"}],
            "SHOW TABLES IN `v2`.`my-schema`": named("a"),
            "SHOW TABLES IN `s`.`n t`": named("b"),
            "SHOW TABLES IN `empty`": [],
            "SHOW NAMESPACES IN `empty`": [],
            "SHOW NAMESPACES": [{"namespace": "`my-schema`"}],
            "SHOW NAMESPACES IN `nowhere`": LookupError("nowhere"),
            "SHOW TABLES IN `my-schema`": named("c"),
            "DESCRIBE DETAIL `spark_catalog`.`": described("ENABLE"),
            "DESCRIBE DETAIL `v2`.`": described("ENABLE"),
            "DESCRIBE DETAIL `s`.`": described("ENABLE"),
            "DESCRIBE DETAIL `my-schema`.`": described("ENABLE"),
            "MAINTAIN TABLE": [row("OPTIMIZE")],
        }
    )
    of_catalog = maintainer(session, "spark_catalog")
    assert of_catalog.tables() == ["`spark_catalog`.`my-schema`.`a`", "`spark_catalog`.`s`.`b`"]
    (failed,) = of_catalog.without_tables
    assert (failed["table"], failed["outcome"]) == ("`spark_catalog`.`broken`", "failed")
    assert maintainer(session, "v2").tables() == ["`v2`.`my-schema`.`a`", "`s`.`n t`.`b`"]
    assert maintainer(session, everything=True).tables() == ["`my-schema`.`c`"]
    rows = maintainer(session, "nowhere", "empty", "v2").round()
    assert [(each["table"], each["outcome"]) for each in rows if each["outcome"] != "planned"] == [
        ("`nowhere`", "failed"),
        ("`empty`", "nothing to do"),
    ]
    assert "`empty`: no Delta table was found in it" in saved(rows)


def test_the_mark_of_a_schema_is_its_property_in_any_case():
    mark = "((headwater.predictiveOptimization,%s))"

    def of_schema(**info):
        rows = [{"info_name": name, "info_value": value} for name, value in info.items()]
        answers = {"SHOW TABLES IN `s`": named("t"), "DESCRIBE DETAIL `s`.": described()}
        return maintainer(Session(**answers, **{"DESCRIBE NAMESPACE EXTENDED `s`": rows}), "s").tables()

    assert of_schema(Comment="x", Properties=mark % "enable") == ["`s`.`t`"]
    assert of_schema(Comment=mark % "ENABLE", Properties="") == []
    assert of_schema(Properties=mark % "DISABLE") == []


def test_looking_for_tables_and_planning_end_on_a_signal():
    stop = Stop()

    def listed(text):
        stop.event.set()
        return named("a", "b")

    answers = {"SHOW NAMESPACES": [{"namespace": "s"}, {"namespace": "t"}], "SHOW TABLES IN `s`": listed}
    session = Session(**answers)
    assert maintainer(session, everything=True, stop=stop).planned() == []
    assert session.asked == ["SHOW NAMESPACES", "SHOW TABLES IN `s`"]

    def planned(text):
        stop.event.set()
        return [row("OPTIMIZE")]

    stop = Stop()
    session = Session(**{"DESCRIBE DETAIL": described(), "MAINTAIN TABLE": planned})
    assert [each["table"] for each in maintainer(session, "a", "b", stop=stop).planned()] == ["`a`"]


def test_actions_of_several_tables_are_done_worst_first():
    session = Session(
        **{
            "DESCRIBE DETAIL": described(),
            "MAINTAIN TABLE `a` FORCE DRY RUN": [row("VACUUM", share=0.2), row("OPTIMIZE", level="note", share=0.9)],
            "MAINTAIN TABLE `b` FORCE DRY RUN": [row("CHECKPOINT", share=0.7), row(None, "advice")],
            "MAINTAIN TABLE `a` ONLY (VACUUM)": HeadwaterError("DELTA_TABLE_NOT_FOUND", {"tableName": "a"}),
            "MAINTAIN TABLE": lambda text: [row(text.partition("(")[2].partition(")")[0], "done")],
        }
    )
    done = maintainer(session, "a", "b", force=True).round()
    assert session.asked[-3:] == [
        "MAINTAIN TABLE `b` ONLY (CHECKPOINT) FORCE",
        "MAINTAIN TABLE `a` ONLY (VACUUM) FORCE",
        "MAINTAIN TABLE `a` ONLY (OPTIMIZE) FORCE",
    ]
    assert [(each["table"], each["action"], each["outcome"]) for each in done] == [
        ("`b`", "CHECKPOINT", "done"),
        ("`a`", "VACUUM", "failed"),
        ("`a`", "OPTIMIZE", "done"),
        ("`b`", None, "advice"),
    ]
    assert "`a`: " in saved(done)
    assert "1 failed" in saved(done)


def test_a_budget_counts_for_the_whole_round_and_ends_it():
    session = Session(
        **{
            "DESCRIBE DETAIL": described(),
            "MAINTAIN TABLE `a` BUDGET 600.00 SECONDS DRY RUN": [row("VACUUM")],
            "MAINTAIN TABLE `a` ONLY (VACUUM) BUDGET ": [row("VACUUM", "done")],
        }
    )
    assert [each["outcome"] for each in maintainer(session, "a", budget=600).round()] == ["done"]
    assert 590 < float(session.asked[-1].split()[-2]) <= 600
    short = Session(**{"DESCRIBE DETAIL": described(), "MAINTAIN TABLE `a` BUDGET": [row("VACUUM")]})
    assert [each["outcome"] for each in maintainer(short, "a", budget=0.1).round()] == ["over budget"]
    assert len(short.asked) == 2


def test_a_round_ends_between_two_actions():
    stop = Stop()

    def vacuumed(text):
        stop.event.set()
        return [row("VACUUM", "done")]

    session = Session(
        **{
            "DESCRIBE DETAIL": described(),
            "MAINTAIN TABLE `a` DRY RUN": [row("VACUUM"), row("OPTIMIZE", share=0.1)],
            "MAINTAIN TABLE `a` ONLY (VACUUM)": vacuumed,
        }
    )
    done = maintainer(session, "a", stop=stop).round()
    assert [(each["action"], each["outcome"]) for each in done] == [("VACUUM", "done"), ("OPTIMIZE", "skipped")]


def test_rounds_go_on_after_a_failure_until_a_signal_with_a_line_each(capsys):
    stop = Stop()
    ended: list[int] = []

    def work():
        ended.append(len(ended))
        if len(ended) == 2:
            raise MISSING
        if len(ended) == 3:
            signal.raise_signal(signal.SIGTERM)
        return [{"table": "t", **row("OPTIMIZE", "done", filesBefore=12, filesAfter=1)}]

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        stop.on_signals()
        assert rounds(work, 0.01, stop, as_json=False) == 0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ended) == 3
    assert "round 1: 1 action done on 1 table of 1, 12 files became 1, " in lines[0]
    assert saved([]) == "nothing to do"
    assert "round 2: 0 actions done on 0 tables of 1, 1 failed (None: " in lines[1]


def test_a_round_in_json_is_one_line(capsys):
    stop = Stop()

    def work():
        stop.event.set()
        return [{"table": "t", **row("VACUUM", "done")}]

    assert rounds(work, 60, stop, as_json=True) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["actions"][0]["action"] == "VACUUM"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("0.5d", 43200), ("1H", 3600)]
)
def test_durations(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "10", "10 apples", "-1m", "m", "1m x"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="no duration above 0"):
        seconds_of(text)


def invoked(*arguments):
    return CliRunner().invoke(cli.app, ["maintain", *arguments])


def test_a_dry_run_of_paths_starts_no_spark(tmp_path, monkeypatch):
    monkeypatch.setattr("headwater.cli.maintain._session", lambda *_: pytest.fail("no Spark is needed"))
    create(str(tmp_path / "t"))
    commit(tmp_path / "t", *(add_file(f"f{number}") for number in range(30)))
    for number in range(30):
        (tmp_path / "t" / f"f{number}").touch()
    found = json.loads(invoked(str(tmp_path / "t"), "--dry-run", "--json").stdout)
    (only,) = found["actions"]
    assert (only["action"], only["outcome"], only["filesBefore"]) == ("OPTIMIZE", "planned", 30)
    assert only["statement"] == f"OPTIMIZE delta.`{tmp_path / 't'}`"
    shown = invoked(str(tmp_path / "t"), "--dry-run", "--budget", "1s").stdout
    assert "OPTIMIZE" in shown
    assert invoked(str(tmp_path / "t"), "--dry-run", "--only", "vacuum").stdout.strip() == "Nothing to do."
    create(str(tmp_path / "u"), **{"headwater.predictiveOptimization": "DISABLE"})
    commit(tmp_path / "u", *(add_file(f"f{number}") for number in range(30)))
    disabled, forced = (
        json.loads(invoked(str(tmp_path / "u"), "--dry-run", "--json", *more).stdout)["actions"]
        for more in ((), ("--force",))
    )
    assert "skipped" in {each["outcome"] for each in disabled}
    assert "skipped" not in {each["outcome"] for each in forced}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give --all"),
        (("t", "--all"), "give --all"),
        (("t", "--budget", "soon"), "no duration"),
        (("t", "--every", "1h", "--dry-run"), "leave out --every"),
        (("t", "--only", "fsck"), "--only takes"),
        (("t", "--conf", "a"), "NAME=VALUE"),
        (("a..b",), "is no name"),
        (("",), "is no name"),
    ],
)
def test_a_wrong_command_line(arguments, says):
    ended = invoked(*arguments)
    assert ended.exit_code == 2
    assert says in " ".join(ended.output.replace("│", " ").split())


GUIDE = (ROOT / "docs" / "guides" / "maintain.md").read_text("utf-8")


def found(pattern: str, text: str = GUIDE) -> str:
    match = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    assert match is not None, pattern
    return textwrap.dedent(match.group(1))


def block(language: str) -> str:
    return found(rf"^ *```{language}\n(.*?)^ *```$")


def scheduled() -> Iterator[str]:
    """The command lines of the guide's examples for schedulers, and of its other examples."""
    yield found(r"^ExecStart=([^\n]+)$", block("ini"))
    yield found(r"\* etl cd \S+ && ([^\n]+)$", block("cron"))
    compile(block("py"), "dag", "exec")
    yield found(r'bash_command="exec (.+?)"', block("py"))
    yield found(r"command: \[(.+?)\]", block("yaml")).replace(",", "")
    yield from (line.partition("#")[0] for line in re.findall(r"^    (headwater maintain .*)$", GUIDE, re.MULTILINE))


def test_the_examples_of_the_guide_are_command_lines_of_ours(monkeypatch):
    ran: list[tuple[Asked, dict[str, Any]]] = []

    def run(asked, **more):
        ran.append((asked, more))
        return 0

    monkeypatch.setattr("headwater.cli.maintain.run", run)
    commands = list(scheduled())
    for command in commands:
        program, name, *arguments = shlex.split(command)
        assert (program.rpartition("/")[2], name) == ("headwater", "maintain")
        assert invoked(*arguments).exit_code == 0, command
    assert len(ran) == len(commands) >= 8
    assert (ran[0][0].everything, ran[0][0].budget, ran[0][1]["every"]) == (True, 1200, 3600)
