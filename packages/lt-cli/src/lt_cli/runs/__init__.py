"""Metrics of finished runs."""
