"""What vectors know of words: similarity, analogies, neighbours in context, and probes of frozen layers."""
