"""Experiments that take longer than a lesson may: the lessons read their results."""
