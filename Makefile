# The commands people type. The work is in scripts/ and CMakeLists.txt; `make` alone prints this list.
.NOTPARALLEL:
.PHONY: help demo test build install uninstall dist image clean format check-format
RECIPE ?= fashion-mnist
PREFIX ?= /usr/local

help:
	@echo 'make demo          install what is missing, build, train, be preempted, resume, report'
	@echo '                   (RECIPE=cifar10-tutorial or another trains that; DATA=DIR: its data is there)'
	@echo 'make test          install what is missing, build, run the tests'
	@echo 'make build         install what is missing, build build/release/tern and the tests'
	@echo 'make install       install what is built below PREFIX=/usr/local (packagers: DESTDIR=);'
	@echo '                   make uninstall with the same PREFIX removes it'
	@echo 'make dist          dist/tern-VERSION-linux-x86_64.tar.gz, which runs where it is unpacked'
	@echo '                   (TERN_CUDA=OFF leaves out the GPU kernels)'
	@echo 'make image         the container image localhost/tern:VERSION (docs/containers.md; as root)'
	@echo 'make format        format the C++ files; make check-format only looks'
	@echo 'make clean         remove build/ and dist/; runs/ and the caches stay (docs/hacking.md)'

demo:
	@scripts/install-deps build
	@scripts/build release programs
	@RECIPE='$(RECIPE)' DATA='$(DATA)' EPOCHS='$(EPOCHS)' scripts/demo

test:
	@scripts/install-deps test
	@scripts/build release
	@scripts/run-tests release

build:
	@scripts/install-deps build
	@scripts/build release

install:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install

uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install --remove

dist:
	@TERN_CUDA='$(TERN_CUDA)' scripts/dist

image:
	@scripts/install-deps image
	@TERN_CUDA='$(TERN_CUDA)' scripts/image

clean:
	@rm -rf build dist

format:
	@scripts/format

check-format:
	@scripts/format --check
