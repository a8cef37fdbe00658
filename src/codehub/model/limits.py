"""Limits on how many workspaces may run at once, per user and in all.

What counts is counted by the database under a lock (db/limits.py), so that concurrent requests cannot overshoot;
this file says what the count means.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """How many workspaces run or are to run."""

    user: int
    total: int


@dataclass(frozen=True, slots=True)
class Quota:
    """How many may."""

    per_user: int
    total: int


def refusal(usage: Usage, quota: Quota) -> str | None:
    """Why one more than `usage` may not run, or None when it may."""
    if usage.user >= quota.per_user:
        return f"You have {usage.user} running workspaces, the most you may have. Stop one first."
    if usage.total >= quota.total:
        return f"All {quota.total} places for running workspaces are taken. Try again later."
    return None
