"""Vectors of sentences that have learned from sentences: one encoder, and a head for each of several tasks."""
