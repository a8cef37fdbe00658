"""The gate over a real PostgreSQL and a real Valkey."""
