"""Visits: what whoever is not let through gets to see."""
