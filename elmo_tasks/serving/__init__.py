"""Archives as a service over HTTP: `allennlp elmo serve`. This package needs the extra `serve`."""
