"""Vectors of sentences: one encoder, which learns from several tasks."""
