"""Backups of the database, and restoring them with the archive store and the infrastructure taken into account.

A backup is one file: a tar of `manifest.json` and `database.dump` (PostgreSQL's custom format). Archives are not in it:
they are in the archive store, which is backed up by itself; the manifest says which of them the database needs.
"""
