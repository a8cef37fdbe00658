"""Traces, off by default: what took how long, from a request to the driver calls of an operation.

Whatever belongs to one operation has the operation's op_id as its trace id, in whichever process and under whichever
leader it happened; requests, ticks and operations are joined by the attributes `codehub.workspace` and `codehub.op_id`.
While tracing is off a span costs one look at a variable.
"""

from codehub.tracing.spans import Span, is_on, record, span

__all__ = ["Span", "is_on", "record", "span"]
