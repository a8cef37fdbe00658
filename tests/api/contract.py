"""The API's types, which the dashboard's are made of: `python -m tests.api.contract` prints them for `make docs`."""

import json
import sys

from tests.api.access import application


def contract() -> str:
    """The OpenAPI without its routes: only what is sent and answered."""
    whole = application().openapi()
    kept = {"openapi": whole["openapi"], "info": {"title": "CodeHub", "version": "1"}, "paths": {}}
    return json.dumps({**kept, "components": {"schemas": whole["components"]["schemas"]}})


if __name__ == "__main__":
    sys.stdout.write(contract())
