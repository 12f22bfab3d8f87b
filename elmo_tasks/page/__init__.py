"""The page of `allennlp elmo serve`, and the looks that it shares with the HTML of other verbs."""
