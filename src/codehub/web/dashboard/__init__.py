"""The dashboard: `built/` is what Vite makes of frontend/ (`make dashboard`), in the wheel too; pages.py serves it."""
