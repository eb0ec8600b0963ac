"""Strategies for models that fit no device: parameters, layers or stages spread over the ranks, and what they share."""
