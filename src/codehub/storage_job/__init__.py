"""The storage job: moves a home into an archive and back. It imports nothing of CodeHub.

A program of its own that runs where the volume is: `python -m codehub.storage_job` with one request on standard input,
or this folder copied into an image, with obstore and zstandard beside it, as `python -m storage_job`. `protocol.py` is
all that whoever starts it needs to read.
"""
