"""What a registry's refusal means. Pure."""


def is_registry_outage(message: str) -> bool:
    """Whether a pull failed because nobody answered, rather than because there is no such image."""
    text = message.lower()
    signs = ("timeout", "timed out", "connection refused", "connection reset", "no such host", "i/o", "unexpected eof")
    more = ("tls handshake", "server misbehaving", "temporary failure", "unreachable", "toomanyrequests", "503", "502")
    return any(sign in text for sign in (*signs, *more))
