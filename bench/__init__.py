"""Benchmarks: us and a peer in one run, interleaved, medians of several rounds."""
