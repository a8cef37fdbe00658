"""How every benchmark ends: a line per figure, and the same as JSON under bench/results."""

import json
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One measured thing, all rounds of it; the medians are what counts."""

    part: str
    unit: str
    ours: list[float]
    peer: list[float]

    def line(self, name: str) -> str:
        ours, peer = median(self.ours), median(self.peer)
        return f"{name}-{self.part}: ours {ours:.4g} {self.unit}, peer {peer:.4g} {self.unit}, ratio {ours / peer:.3f}"


def report(name: str, figures: list[Figure]) -> None:
    RESULTS.mkdir(exist_ok=True)
    content = {
        "name": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "figures": [asdict(figure) for figure in figures],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    for figure in figures:
        print(figure.line(name))
