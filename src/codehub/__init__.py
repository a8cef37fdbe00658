"""CodeHub: browser-IDE workspaces that cost nothing while nobody is in them and never lose a byte."""

__version__ = "0.2.0"
