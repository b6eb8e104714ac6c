# The commands people type. The work is in scripts/ and CMakeLists.txt; `make` alone prints this list.
.NOTPARALLEL:
.PHONY: help demo test build clean format check-format
RECIPE ?= fashion-mnist

help:
	@echo 'make demo          install what is missing, build, train, be preempted, resume, report'
	@echo '                   (RECIPE=NAME trains another recipe)'
	@echo 'make test          install what is missing, build, run the tests'
	@echo 'make build         install what is missing, build build/release/tern and the tests'
	@echo 'make format        format the C++ files; make check-format only looks'
	@echo 'make clean         remove build/; runs/ and the caches stay (docs/hacking.md)'

demo:
	@scripts/install-deps build
	@scripts/build release programs
	@RECIPE='$(RECIPE)' scripts/demo

test:
	@scripts/install-deps test
	@scripts/build release
	@scripts/run-tests release

build:
	@scripts/install-deps build
	@scripts/build release

clean:
	@rm -rf build

format:
	@scripts/format

check-format:
	@scripts/format --check
