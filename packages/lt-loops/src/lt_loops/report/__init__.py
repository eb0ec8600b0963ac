"""Printed reports: announcements of a run, results of an evaluation."""
