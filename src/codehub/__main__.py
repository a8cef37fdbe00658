"""`python -m codehub` is `codehub`."""

from codehub.cli.main import main

main()
