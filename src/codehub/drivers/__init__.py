"""The only code that touches infrastructure. base.py says what every driver promises."""
