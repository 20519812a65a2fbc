# Every target sets up first what it needs: see .setup/setup.sh.
python := .venv/bin/python
notebooks := $(wildcard notebooks solutions)
longest := $(wildcard notebooks/10_*.ipynb notebooks/14_*.ipynb) # they train for minutes

# JupyterLab refuses to run as root unless told; without a display a text browser would take the terminal.
lab_flags := $(if $(filter 0,$(shell id -u)),--allow-root)
lab_flags += $(if $(DISPLAY)$(WAYLAND_DISPLAY)$(BROWSER)$(filter Darwin,$(shell uname)),,--no-browser)

.DEFAULT_GOAL := help
.PHONY: help lab test test-evidence test-teaching test-benchmarks check bench teaching book test-book setup clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*##/ {printf "make %-15s %s\n", $$1, $$2}' Makefile

lab: setup ## open JupyterLab on the first lesson of your own in work/ (LAB_ARGS="--port=9000" passes flags on)
	@$(python) -m course lab $(lab_flags) $(LAB_ARGS)

test: check ## run the tests: lint, package, lessons (but two that train for minutes), exercises
	@OMP_NUM_THREADS=1 $(python) -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder \
	    -m "not serial and not setup and not teaching and not book and not evidence" \
	    --nbval $(notebooks) tests --ignore=notebooks/evidence --ignore=tests/benchmarks --ignore=tests/browser \
	    $(longest:%=--ignore=%) --ignore=tests/exercises # the check cells of solutions/ run these
	@$(python) -m pytest -q -m serial $$(grep -rl --include="*.py" mark.serial tests) || [ $$? -eq 5 ] # 5: there is none

test-evidence: setup ## run those two lessons, and the evidence of all: it must print what is stored, and run on a GPU (imitated)
	@OMP_NUM_THREADS=1 $(python) -m pytest -q -n 2 --dist loadfile -m "" \
	    --nbval $(longest) notebooks/evidence tests/notebooks/test_gpu.py

test-teaching: .venv/teaching ## try grading, hand-outs and a hub, in some minutes more (installs nbgrader)
	@OMP_NUM_THREADS=1 $(python) -m pytest -q -m teaching tests/teaching

test-benchmarks: setup ## run each script of benchmarks/ at toy size
	@OMP_NUM_THREADS=1 $(python) -m pytest -q -n 2 --dist loadfile -m "not serial" tests/benchmarks

check: setup ## lint, format and types, in seconds
	@$(python) -m ruff check
	@$(python) -m ruff format --check
	@$(python) -m mypy

bench: setup ## measure speed and quality into benchmarks/results (BENCH_ARGS passes flags on)
	@$(python) -m benchmarks $(BENCH_ARGS)

teaching: setup ## make slides, worksheets, an examination, a quiz … into build/teaching
	@$(python) teaching/make.py

book: .venv/book ## build the book into build/book/html (BOOK_ARGS="--repository=OWNER/NAME" adds launch links)
	@$(python) teaching/book/make.py $(BOOK_ARGS)

test-book: .venv/book ## in a browser: lessons, exercises, every page of the book, built anew, and every slide
	@OMP_NUM_THREADS=1 $(python) -m pytest -q -m "book or not setup" tests/browser tests/setup/test_lists.py

# What these two need besides, once: nbgrader would put menus into every learner's JupyterLab, and the
# book's Sphinx is large (extras in pyproject.toml). The recipe looks itself: setup may have made .venv anew.
.venv/book .venv/teaching: setup
	@[ $@ -nt pyproject.toml ] && [ $@ -nt constraints.txt ] || { \
	    $(python) -m pip install -q -c constraints.txt --no-build-isolation -e ".[$(@F)]" && touch $@; }

setup: ## make .venv, and do nothing if it is up to date (PYTHON=python3.12 chooses one)
	@PYTHON="$(PYTHON)" sh .setup/setup.sh

clean: ## remove .venv and caches; work/, runs/ and examples that made tests fail stay
	rm -rf .venv .venv.log build *.egg-info .pytest_cache .ruff_cache .mypy_cache
