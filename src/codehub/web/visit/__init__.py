"""What a visitor sees whom the gate does not let pass (ADR 8): wake, wait, pages in two languages, hand-over."""
