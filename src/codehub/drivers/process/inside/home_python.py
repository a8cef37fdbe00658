"""A Python of the home's own: a virtual environment that keeps what its user installs, also in an archive.

    home_python.py COMMAND…   prepare it, and become COMMAND. Run with the Python that JupyterLab is installed in.

It is almost empty: a `.pth` file shows it the IDE's packages (pip and ipykernel among them), which are shared and
read-only, so it takes no room and is made in a moment; what its user installs comes before them. At each start it is
compared with what it should be, and made right: the interpreter may have moved, the home may have been restored at
another path, somebody may have deleted half of it. What its user installed is never removed.

Nothing here may keep an IDE from starting: with a full disk there is the IDE's own Python, and the log says why.
"""

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

FOLDER = ".local/share/codehub"
_VENV, _JUPYTER = "venv", "jupyter"
_RECORD = "codehub.json"
_PTH = "codehub.pth"
_TMP = ".cache/codehub/tmp"
_LONGEST_TMP = 40  # unix sockets are made below it, and their paths may have a hundred characters
_LONGEST_SHEBANG = 127
_PROGRAMS = {
    "pip": ("pip._internal.cli.main", "main"),
    "pip3": ("pip._internal.cli.main", "main"),
    "ipython": ("IPython", "start_ipython"),
}
_KERNELS = {"python3": "Python 3 (ipykernel)", "python3-ide": "Python 3 (without installed packages)"}

Wanted = Mapping[str, str]


def prepare() -> None:
    """Afterwards the environment (PATH, JUPYTER_PATH, …) is that of the home's Python, as far as there is one."""
    home = Path.home()
    ours = home / FOLDER
    path = [str(home / ".local/bin"), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    try:
        venv = ours / _VENV
        wanted = _wanted(venv)
        if not _is_whole(venv, wanted):
            _repair(venv, wanted)
        _write_kernels(ours / _JUPYTER / "kernels", venv)
    except Exception as error:  # noqa: BLE001 - no room, no venv module, a file in the way: an IDE starts all the same
        _say(f"The home has no Python of its own this time: {error}. What you install will not be kept.")
    else:
        path.insert(0, str(venv / "bin"))
        os.environ["VIRTUAL_ENV"] = str(venv)
        os.environ["JUPYTER_PATH"] = os.pathsep.join([str(ours / _JUPYTER), str(venv / "share/jupyter")])
    os.environ["PATH"] = os.pathsep.join(path)
    _prepare_tmp(home / _TMP)


def _wanted(venv: Path) -> Wanted:
    return {
        "python": sys._base_executable,  # type: ignore[attr-defined]  # noqa: SLF001 - what venv itself uses
        "version": f"{sys.version_info.major}.{sys.version_info.minor}",
        "packages": sysconfig.get_path("purelib"),
        "place": str(venv),
    }


# -- comparing and repairing -----------------------------------------------------------------------------------------


def _is_whole(venv: Path, wanted: Wanted) -> bool:
    programs = venv / "bin"
    return (
        _record(venv) == wanted
        and all(os.access(programs / name, os.X_OK) for name in ("python", "python3", *_PROGRAMS))
        and (venv / "pyvenv.cfg").is_file()
        and (_packages(venv, wanted) / _PTH).is_file()
    )


def _record(venv: Path) -> dict[str, str] | None:
    try:
        found = json.loads((venv / _RECORD).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _repair(venv: Path, wanted: Wanted) -> None:
    """Whatever is there, and wherever an earlier repair was interrupted."""
    import venv as standard  # noqa: PLC0415 - most starts need none of it

    before = _record(venv) or {}
    programs = venv / "bin"
    if programs.is_dir():
        for program in programs.glob("python*"):
            if program.is_symlink():
                program.unlink()
    standard.EnvBuilder(symlinks=True).create(venv)
    packages = _packages(venv, wanted)
    packages.mkdir(parents=True, exist_ok=True)
    _write(packages / _PTH, f"{wanted['packages']}\n")
    if before.get("place", str(venv)) != str(venv):
        _move_programs(programs, before["place"], str(venv))
    for name, (module, function) in _PROGRAMS.items():
        if not os.access(programs / name, os.X_OK):
            body = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
            _write(programs / name, _shebang(venv) + body, 0o755)
    if before.get("version", wanted["version"]) != wanted["version"]:
        _tell_of_upgrade(venv, before["version"], wanted["version"])
    _write(venv / _RECORD, json.dumps(wanted))


def _packages(venv: Path, wanted: Wanted) -> Path:
    return venv / f"lib/python{wanted['version']}/site-packages"


def _shebang(venv: Path) -> str:
    python = venv / "bin/python"
    line = f"#!{python}\n"
    if len(line) <= _LONGEST_SHEBANG and " " not in str(python):
        return line
    return f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n"


def _move_programs(programs: Path, before: str, now: str) -> None:
    """The programs of installed packages name their interpreter by its whole path, in their first lines."""
    for program in programs.iterdir():
        if program.is_symlink() or not program.is_file():
            continue
        content = program.read_bytes()
        first, _, rest = content.partition(b"\n")
        if first == b"#!/bin/sh" and rest.startswith(b"'''exec'"):
            first, rest = b"\n".join(content.split(b"\n", 2)[:2]), rest.split(b"\n", 2)[2]
        if first.startswith(b"#!") and f"{before}/bin/python".encode() in first:
            _write(program, _shebang(Path(now)).encode() + rest, 0o755)


def _tell_of_upgrade(venv: Path, before: str, now: str) -> None:
    """Packages are built for one version of Python: those of the old one stay where they are, and are listed."""
    found = sorted((venv / f"lib/python{before}/site-packages").glob("*.dist-info"))
    if not found:
        return
    names = [folder.name.removesuffix(".dist-info").partition("-") for folder in found]
    listed = venv / f"requirements-{before}.txt"
    _write(listed, "".join(f"{name}=={version}\n" for name, _, version in names))
    _say(f"Python was upgraded from {before} to {now}. Install your packages again: pip install -r {listed}")


# -- kernels, files --------------------------------------------------------------------------------------------------


def _write_kernels(folder: Path, venv: Path) -> None:
    """The default one is the home's; the other one still works when its packages do not."""
    pictures = Path(sys.prefix, "share/jupyter/kernels/python3")
    for (name, title), python in zip(_KERNELS.items(), (str(venv / "bin/python"), sys.executable), strict=True):
        words = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        text = json.dumps({"argv": words, "display_name": title, "language": "python", "metadata": {"debugger": True}})
        place = folder / name
        if (place / "kernel.json").is_file() and (place / "kernel.json").read_text() == text:
            continue
        place.mkdir(parents=True, exist_ok=True)
        for picture in pictures.glob("logo*"):
            shutil.copyfile(picture, place / picture.name)
        _write(place / "kernel.json", text)


def _prepare_tmp(tmp: Path) -> None:
    """On disk: the /tmp of a sandbox is too small for a large package. Emptied at each start, so nobody else's."""
    if "TMPDIR" in os.environ or len(str(tmp)) > _LONGEST_TMP:
        return
    try:
        shutil.rmtree(tmp, ignore_errors=True)
        tmp.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return
    os.environ["TMPDIR"] = str(tmp)


def _write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """All of it or nothing; a link that is there is replaced, not followed."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    draft.write_bytes(content.encode() if isinstance(content, str) else content)
    draft.chmod(mode)
    draft.replace(path)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - the workspace's log


def main(command: list[str]) -> None:
    prepare()
    os.execvp(command[0], command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(sys.argv[1:])
