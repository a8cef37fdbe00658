"""Practice: restoring archives, and losing parts, before it happens by itself.

A drill changes no row and nothing that belongs to a workspace; `chaos` is for test installations only.
"""
