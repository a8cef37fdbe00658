"""`python -m codehub.storage_job`, or `python -m storage_job` where only this folder was copied."""

import sys

from .main import main

sys.exit(main())
