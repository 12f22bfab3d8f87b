# Needs Python 3.11 to 3.15 and make, nothing else. Paths are relative, so the folder's name may hold blanks.
#   make install PYTHON=python3.12    another interpreter; `make clean` first to change the one of .venv
#   make install EXTRAS='ray serve onnx'   adds what `--engine ray`, `elmo serve` and `--format onnx` need
#   make install TORCH=torch==2.7.0   another version of PyTorch than the lock's
#   make ner ALLENNLP_LOG_LEVEL=INFO  shows AllenNLP's whole log

PYTHON ?= python3
VENV := .venv/bin/python
PIP := $(VENV) -m pip install --disable-pip-version-check
UV := $(if $(shell command -v uv),uv,$(VENV) -m uv)
TORCH := -r .venv/torch.txt
export ALLENNLP_LOG_LEVEL ?= WARNING

.PHONY: install ner demo pictures test test-slow short fuzz check audit dist docs lock clean

install: .venv/.installed $(EXTRAS:%=.venv/.installed-%)

# torch goes first, so that the installed build (CPU or CUDA) brings its own requirements; the rest of the lock is
# installed without dependencies, since AllenNLP's own pins cannot be met.
.venv/.installed: requirements/direct.in requirements/main.lock setup.py pyproject.toml | $(VENV)
	grep '^torch==' requirements/main.lock >.venv/torch.txt
	grep -v '^torch==' requirements/main.lock >.venv/constraints.txt
	$(PIP) $(TORCH) -c .venv/constraints.txt
	$(PIP) --no-deps --no-build-isolation -r .venv/constraints.txt
	$(PIP) --no-deps --no-build-isolation -e .
	$(VENV) -m compileall -q elmo_tasks
	touch $@

# The lock of an extra lists what it needs in addition to requirements/main.lock.
.venv/.installed-%: requirements/%.lock .venv/.installed
	$(PIP) --no-deps -r $<
	touch $@

$(VENV):
	@"$(PYTHON)" -c 'import sys; version = sys.version.split()[0]; known = "3.11 to 3.15 are known"; \
	sys.version_info < (3, 11) and sys.exit(f"{sys.executable} is Python {version}; {known}: make PYTHON=python3.15"); \
	sys.version_info < (3, 16) or print(f"warning: Python {version} is tried; {known}", file=sys.stderr)'
	"$(PYTHON)" -m venv --clear .venv || { rm -rf .venv; exit 1; }

RUN := runs/ner_elmo

ner: install
	rm -rf $(RUN)
	$(VENV) -m allennlp train training_configs/ner_elmo.jsonnet -s $(RUN)
	$(VENV) -m allennlp evaluate $(RUN)/model.tar.gz fixtures/ner/test.conll \
		--output-file $(RUN)/test_metrics.json
	$(VENV) -m allennlp predict $(RUN)/model.tar.gz fixtures/ner/predict.jsonl \
		--output-file $(RUN)/predictions.jsonl --silent
	$(VENV) examples/show_ner.py $(RUN)/test_metrics.json $(RUN)/predictions.jsonl

# The trained models, as a page at http://127.0.0.1:8000/
demo: install .venv/.installed-serve
	$(VENV) -m allennlp elmo serve --corpus fixtures/evaluation/corpus.txt

# The pictures of the page in README.md and the site: needs Chromium or Chrome.
pictures: install .venv/.installed-serve
	$(PIP) --quiet --no-deps -r requirements/peers.txt
	$(VENV) docs/pictures.py

PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(VENV) -m pytest -n auto

test: install
	$(PYTEST) -m "not slow"

# The tests that take seconds each: notebooks, the pages' commands, several processes, imitated processors, long kills.
test-slow: install
	$(PYTEST) -m slow

# The property tests for minutes, with random inputs, and floods of the service; `make fuzz FUZZ=1000` for hours.
fuzz: install
	FUZZ=$${FUZZ:-50} $(PYTEST) --dist load tests/robustness tests/serving tests/commands/serve_test.py

# What depends most on the versions of Python and PyTorch: imports, AllenNLP's own parts, one task from start to end.
# All other tests are imported, too, since extras may be missing.
short: install
	$(VENV) -m pytest --collect-only -q -n 0 >.venv/collected || { tail -20 .venv/collected; exit 1; }
	$(PYTEST) -m "not slow" tests/compat tests/elmo/embedder_test.py tests/ner tests/training_configs_test.py \
		tests/drop_in

check: install
	$(VENV) -m ruff format --check .
	$(VENV) -m ruff check .
	$(VENV) -m mypy
	$(VENV) -c 'from importlinter.cli import lint_imports_command as lint; lint()' --no-cache

# Audits our code and the installed packages, with two tools in an environment of their own.
audit: install
	"$(PYTHON)" -m venv --clear .audit
	.audit/bin/python -m pip install --disable-pip-version-check --quiet bandit pip-audit
	.audit/bin/bandit --quiet --recursive --configfile pyproject.toml elmo_tasks
	@.audit/bin/pip-audit --vulnerability-service osv --progress-spinner off --path \
		"$$($(VENV) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" >.audit/report 2>&1; code=$$?; \
	if grep -q ConnectionError .audit/report; \
	then echo "pip-audit cannot reach its database; the installed packages are not audited"; \
	else cat .audit/report; exit $$code; fi

# Our wheel, and wheels of AllenNLP with requirements that can be met: `pip install --find-links dist elmo_tasks`.
dist: install
	rm -rf build dist
	$(VENV) -m pip wheel --disable-pip-version-check --quiet --no-deps --no-build-isolation --wheel-dir dist . ./models
	$(VENV) tools/wheelhouse.py dist
	rm -rf build models/build *.egg-info models/*.egg-info

# The site, from docs/ and the docstrings, into site/. Its tools are in an environment of their own, without torch.
docs: .docs/.installed
	NO_MKDOCS_2_WARNING=1 .docs/bin/mkdocs build --strict

.docs/.installed: requirements/docs.txt
	"$(PYTHON)" -m venv --clear .docs
	.docs/bin/python -m pip install --disable-pip-version-check --quiet --no-deps -r requirements/docs.txt
	touch $@

# The bounds of requirements/direct.in are also given as constraints, since an override replaces them.
COMPILE = $(UV) pip compile --upgrade --override requirements/overrides.txt -c requirements/direct.in --universal \
	--python-version 3.11 --no-header --no-annotate --quiet

# Moves everything to the newest versions that requirements/direct.in and requirements/overrides.txt allow.
lock: | $(VENV)
	@$(UV) --version >/dev/null 2>&1 || $(PIP) uv
	sed '/^# \[ray\]/,$$d' requirements/direct.in | $(COMPILE) - -o requirements/main.lock
	constraints="-c requirements/main.lock"; \
	for extra in ray serve onnx; do \
		lock=requirements/$$extra.lock; \
		sed -n "/^# \[$$extra\]/,/^$$/p" requirements/direct.in | $(COMPILE) - $$constraints -o $$lock || exit 1; \
		grep -vxFf requirements/main.lock $$lock >$$lock.new && mv $$lock.new $$lock; \
		constraints="$$constraints -c $$lock"; \
	done

clean:
	rm -rf .venv .audit .docs build dist runs site elmo_tasks.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
