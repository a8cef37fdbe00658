"""Limits on how many workspaces there may be, and may run at once, per user and in all.

What counts is counted by the database under a lock (db/limits.py), so that concurrent requests cannot overshoot;
this file says what the count means.
"""

from dataclasses import dataclass

from codehub.model.sentences import number_of


@dataclass(frozen=True, slots=True)
class Usage:
    """How many workspaces run or are to run."""

    user: int
    total: int


@dataclass(frozen=True, slots=True)
class Quota:
    """How many may run, of one user and in all; and how many one user may have."""

    per_user: int
    total: int
    workspaces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLimits:
    """What administrators set; None leaves it to what stands behind it: the installation's, then the settings'."""

    per_user: int | None = None
    total: int | None = None
    workspaces: int | None = None

    def over(self, quota: Quota) -> Quota:
        return Quota(
            per_user=quota.per_user if self.per_user is None else self.per_user,
            total=quota.total if self.total is None else self.total,
            workspaces=quota.workspaces if self.workspaces is None else self.workspaces,
        )


def refusal(usage: Usage, quota: Quota) -> str | None:
    """Why one more than `usage` may not run, or None when it may."""
    if quota.per_user == 0:
        return "An administrator has set your limit of running workspaces to 0."
    if usage.user >= quota.per_user:
        return f"You have {number_of(usage.user, 'running workspace')}, the most you may have. Stop one first."
    if usage.total >= quota.total:
        return f"All {quota.total} places for running workspaces are taken. Try again later."
    return None
