"""What a server says is shown, and does nothing else to a terminal."""

import pytest

from codehub.cli import doctor, main, output
from codehub.services.doctor import codes
from codehub.services.doctor.finding import failed

EVIL = "gone\x1b[2J\x07\x7f\x9b31m\N{RIGHT-TO-LEFT OVERRIDE}\nWARNING: all is well"


def test_failures_are_one_clean_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main._fail([EVIL], 4)
    assert ended.value.code == 4
    told = capsys.readouterr().err
    assert told.startswith("codehub: gone")
    assert told.removesuffix("\n").isprintable()


def test_findings_and_words_about_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(EVIL)
    doctor._print([failed(codes.SERVER, EVIL, EVIL, check=EVIL)])
    told = capsys.readouterr()
    assert all(line.isprintable() for line in (told.out + told.err).split("\n"))
