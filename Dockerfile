# An image whose command is `allennlp`, with this suite. From the folder of the project:
#   docker build -t elmo_tasks .
#       PyPI's PyTorch, for CUDA: run it with `--gpus all`; without a GPU it computes on the CPU
#   docker build -t elmo_tasks --build-arg PIP_EXTRA_INDEX_URL=INDEX .
#       INDEX: PyTorch's own, with its CPU builds, which need a fifth of the space
#   docker run --rm -v "$PWD:/work" elmo_tasks elmo doctor
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS wheels
WORKDIR /source
COPY . .
RUN pip install --no-cache-dir packaging "setuptools>=77,<80.9" \
    && pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && python wheelhouse.py /dist

FROM python:${PYTHON}-slim
ARG PIP_EXTRA_INDEX_URL=""
RUN --mount=from=wheels,source=/dist,target=/dist \
    pip install --no-cache-dir --find-links /dist --constraint /dist/constraints.txt "elmo_tasks[allennlp]" \
    && useradd --create-home elmo
USER elmo
WORKDIR /work
ENV ALLENNLP_LOG_LEVEL=WARNING
ENTRYPOINT ["allennlp"]
