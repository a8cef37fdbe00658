"""`codehub images`: what new workspaces can be."""

from codehub.cli import options, output
from codehub.cli.connecting import connected


def images(json: options.Json = False) -> None:
    """Show what new workspaces can be."""
    with connected() as client:
        found = client.images()
    if json:
        output.print_json(found)
        return
    if not found.items:
        output.say("Nothing can be started now. Whoever runs the server can see why: codehub doctor")
        return
    rows = [
        [one.name, ", ".join(f"{name} (default)" if name == found.default_backend else name for name in one.backends)]
        for one in found.items
    ]
    output.print_table(["IMAGE", "BACKENDS"], rows)
