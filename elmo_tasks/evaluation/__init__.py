"""Intrinsic evaluation of vectors: similarity, analogies, neighbours in context, probes, learned mixes."""
