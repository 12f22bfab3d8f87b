"""Archives as a service over HTTP: `allennlp elmo serve`. It needs the extra `serve`, except `answers`."""
