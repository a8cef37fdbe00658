"""What drivers read from the names and labels of what they find."""

from uuid import UUID


def uuid_of(text: object) -> UUID | None:
    """The id, if the text is one in its usual spelling."""
    try:
        found = UUID(str(text))
    except ValueError:
        return None
    return found if str(found) == text else None
