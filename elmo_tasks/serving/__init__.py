"""Archives as a service over HTTP: `allennlp elmo serve`. All but `answers` needs the extra `serve`."""
