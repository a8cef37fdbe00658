"""Redis or Valkey: hints and buffers. Losing all of it costs latency, never correctness."""
