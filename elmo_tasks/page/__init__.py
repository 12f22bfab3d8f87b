"""The page of `allennlp elmo serve`, and the style that it shares with the HTML of other verbs."""
