# An image whose command is `allennlp`, with this suite, its trained models and the service. From the folder of the project:
#   docker build -t elmo_tasks .
#       PyPI's PyTorch, for CUDA: run it with `--gpus all`; without a GPU it computes on the CPU
#   docker build -t elmo_tasks --build-arg PIP_EXTRA_INDEX_URL=INDEX .
#       INDEX: PyTorch's own, with its CPU builds, which need a fifth of the space: an image of some 2.2 GB
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" elmo_tasks elmo classify train.csv -o runs/mine
#       --user: files are written to the mounted folder as yours; without it, by a user who may not write there
#   openssl rand -hex 16 >token
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" -p 8000:8000 elmo_tasks \
#       elmo serve elmo:ner --host 0.0.0.0 --token-file token
#       the page, at http://127.0.0.1:8000/; 0.0.0.0 is every address of this machine, and the token keeps strangers out
# Python 3.11 to 3.15
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS allennlp
WORKDIR /source
COPY requirements requirements
COPY tools tools
RUN pip install --no-cache-dir packaging && python tools/wheelhouse.py /dist

FROM python:${PYTHON}-slim AS suite
WORKDIR /source
RUN pip install --no-cache-dir "setuptools>=77"
COPY . .
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist . ./models

FROM python:${PYTHON}-slim
ARG PIP_EXTRA_INDEX_URL=""
# Any user may write caches there.
ENV HOME=/home/elmo ALLENNLP_LOG_LEVEL=WARNING
RUN useradd --create-home elmo && chmod a+rwx /home/elmo
# What the suite needs, PyTorch first of all, is a layer of its own: an edit of the suite does not reinstall it.
COPY requirements/direct.in requirements/serve.lock /needs/
RUN --mount=from=allennlp,source=/dist,target=/dist \
    sed -n '/^# \[core\]/,/^# \[development\]/p; /^# \[serve\]/,/^$/p' /needs/direct.in >/needs/requirements.txt \
    && pip install --no-cache-dir --find-links /dist --constraint /dist/constraints.txt \
    --constraint /needs/serve.lock --requirement /needs/requirements.txt
RUN --mount=from=suite,source=/dist,target=/dist pip install --no-cache-dir --no-deps /dist/*.whl
USER elmo
WORKDIR /work
# A service answers at /health without its token; other commands are always healthy.
HEALTHCHECK --start-period=2m CMD python -c "import urllib.request as web; \
    b'serve' in open('/proc/1/cmdline', 'rb').read().split(b'\0') \
    and web.urlopen('http://127.0.0.1:8000/health', timeout=10)"
ENTRYPOINT ["allennlp"]
