"""How often what jobs say is read: an ended one once, and the end of one that ran is never taken from memory."""

from dataclasses import dataclass

from codehub.drivers.job_words import Words


@dataclass
class Job:
    """Says something new each time that it is read."""

    words: Words
    reads: int = 0

    async def said(self, *, has_ended: bool = False) -> str:
        return await self.words.of("a", self._read, has_ended=has_ended)

    async def _read(self) -> str:
        self.reads += 1
        return str(self.reads)


async def test_one_that_runs_is_read_again_after_a_while() -> None:
    now = 0.0
    job = Job(Words(5.0, lambda: now))
    assert [await job.said() for _ in range(3)] == ["1", "1", "1"]
    now = 5.0
    assert await job.said() == "2"


async def test_one_that_has_ended_is_read_once_more_and_never_again() -> None:
    now = 0.0
    job = Job(Words(5.0, lambda: now))
    assert await job.said() == "1"
    assert await job.said(has_ended=True) == "2"
    now = 1e9
    assert await job.said(has_ended=True) == "2"


async def test_without_a_pause_one_that_runs_is_read_each_time() -> None:
    job = Job(Words())
    assert [await job.said() for _ in range(2)] == ["1", "2"]


async def test_what_is_not_there_any_more_is_forgotten() -> None:
    job = Job(Words())
    await job.said(has_ended=True)
    job.words.keep({"a"})
    assert await job.said(has_ended=True) == "1"
    job.words.keep(set())
    assert await job.said(has_ended=True) == "2"
