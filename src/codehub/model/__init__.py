"""The rules of CodeHub as pure functions over frozen values.

Standard library only; nothing here awaits, reads a clock or draws a random number: `now` and fresh ids are arguments.
Start with `workspace.py` for the vocabulary and `tick.py` for how the rules play together.
"""
