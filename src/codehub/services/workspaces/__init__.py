"""Workspaces: every verb that people and programs have, each one transaction, given an actor.

creating      a new one, blank or from an archive
changing      names, image, TTLs, and what is wanted of it
deleting      delete, purge, undelete
recovering    an answer to an ERROR
keeping_awake a lease against being stopped for idleness
reading       one, pages of them, their history
showing       the object that all of them answer with
"""
