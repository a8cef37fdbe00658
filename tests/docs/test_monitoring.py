"""Alert rules and dashboard name only metrics that there are; the runbook has an entry for everything that may ring."""

import importlib
import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from codehub.config import setting_names
from codehub.coordinator.collect import GcReport
from codehub.coordinator.listen import ListenerStatus
from codehub.coordinator.loop import LoopStatus
from codehub.coordinator.measures import Deeds, Standing, StandingCollector
from codehub.db.census import Census
from codehub.dependencies import Dependency
from codehub.metrics import Metrics
from codehub.model.workspace import InstanceBackend
from codehub.services.doctor import codes
from codehub.web.hub_measures import HubCollector
from codehub.web.live import Hub
from codehub.web.proxy.gate import GateStatus
from codehub.web.proxy.measures import EngineCollector, GateCollector, Tally
from codehub.web.proxy.visitors import Visitors
from tests.support import missing

ROOT = Path(__file__).parents[2]
ALERTS, DASHBOARD = ROOT / "deploy/prometheus/alerts.yaml", ROOT / "deploy/grafana/codehub.json"
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
_NAME = re.compile(r"\bcodehub_[a-z_]+")


def exposed() -> set[str]:
    """Every name that a process of ours can show."""
    registry = Metrics().registry
    report = GcReport(at=datetime.now(UTC), dry_run=False, found=0, known=0, orphans=0, due=(), foreign=(), missing=())
    standing = Standing(
        loops={"controller": LoopStatus()},
        errands=0,
        is_catching_up=False,
        outages=["x"],
        unknown=0,
        lost_commits=0,
        listener=ListenerStatus(),
        gc=report,
        census=Census({}, {}),
    )
    Deeds(registry)
    StandingCollector(lambda: standing, registry)
    HubCollector(Hub(cast("Any", None), cast("Any", None)), registry)
    EngineCollector(cast("Any", SimpleNamespace(clients=(), tunnels=(), greeting=0, tally=Tally())), registry)
    GateCollector(cast("Any", SimpleNamespace(status=GateStatus(), visitors=Visitors(30))), registry)
    return names_in(registry)


def names_in(registry: CollectorRegistry) -> set[str]:
    endings = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"], "info": ["_info"]}
    return {family.name + end for family in registry.collect() for end in endings.get(family.type, [""])}


def rules() -> list[dict[str, Any]]:
    yaml = importlib.import_module("yaml")
    loaded = yaml.safe_load(ALERTS.read_text())
    return [rule for group in loaded["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("page", [ALERTS, DASHBOARD], ids=lambda page: page.name)
def test_every_metric_that_is_named_exists(page: Path) -> None:
    named = set(_NAME.findall(page.read_text()))
    assert len(named) > 10
    assert named - exposed() == set()


def test_the_dashboard_shows_everything_that_is_ours() -> None:
    shown = set(_NAME.findall(DASHBOARD.read_text()))
    ours = {
        name for name in exposed() if name.startswith("codehub_") and not name.endswith(("_count", "_sum", "_info"))
    }
    details = {"codehub_loop_runs_total", "codehub_events_heard_total", "codehub_events_gaps_total"}
    details |= {"codehub_streams_gaps_total", "codehub_streams_reads_total", "codehub_streams_events_total"}
    assert ours - shown - details == {"codehub_unknown_resources"}


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert all(target["expr"] for panel in panels for target in panel["targets"])


def test_every_alert_is_whole_and_has_an_entry_in_the_runbook() -> None:
    found = rules()
    assert len({rule["alert"] for rule in found}) == len(found)
    for rule in found:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"].endswith(".")
        assert f"\n### {rule['alert']}\n" in RUNBOOK, rule["alert"]


def test_the_entry_of_a_dependency_that_is_down_names_every_dependency() -> None:
    assert {str(backend) for backend in InstanceBackend} <= set(Dependency)
    _, _, rest = RUNBOOK.partition("\n### CodeHubDependencyDown\n")
    named = re.findall(r"`([a-z0-9]+)`", rest.partition("\n### ")[0])
    assert sorted(named) == sorted(Dependency)


def test_every_code_of_the_doctor_has_an_entry_in_the_runbook() -> None:
    for code in codes.ALL:
        assert f"\n### {code.id}\n\n**{code.title}.**" in RUNBOOK, code.id
    headings = re.findall(r"^### (CH-\S+)$", RUNBOOK, re.MULTILINE)
    assert headings == [code.id for code in codes.ALL]


@pytest.mark.parametrize("name", ["runbook.md", "backup.md", "sizing.md", "security.md"])
def test_settings_and_commands_that_pages_name_exist(name: str) -> None:
    page, commands = (ROOT / "docs" / name).read_text(), (ROOT / "docs/cli.md").read_text()
    named = set(re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)", page))
    assert named - set(setting_names()) == set()
    for line in re.findall(r"(?:^    |`)(codehub [^`\n]+)", page, re.MULTILINE):
        words, options = line.split(), re.findall(r"--[a-z-]+", line)
        known = [" ".join(words[:count]) for count in (3, 2) if f"# {' '.join(words[:count])}\n" in commands]
        assert known, line
        section = commands.split(f"# {known[0]}\n", 1)[1].split("\n#", 1)[0]
        assert all(option in section for option in options), line


def test_prometheus_itself_takes_the_rules() -> None:
    """Syntax, functions and templates of every expression; Debian's package `prometheus` has promtool."""
    promtool = shutil.which("promtool")
    if promtool is None:
        missing("the program promtool", "apt install prometheus")
    done = subprocess.run([promtool, "check", "rules", ALERTS], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{ALERTS.read_text().count('- alert:')} rules found" in done.stdout
