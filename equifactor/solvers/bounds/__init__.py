"""Certified bounds on ln Z from both sides: weighted mini-buckets above, fields of exact blocks below."""
