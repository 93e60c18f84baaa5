# Forwards to CMake presets; prints each command, so that it teaches them.
PRESET ?= release

.PHONY: all build test check asan tsan coverage fuzz format tidy install clean

all: build
build:
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET)
test: build
	ctest --preset $(PRESET)
check:
	tools/check.sh
asan tsan coverage:
	cmake --preset $@
	cmake --build --preset $@
	ctest --test-dir build/$@ --output-on-failure -LE 'model|oracle'
fuzz:
	tools/fuzz.sh 60
format:
	tools/check.sh --fix-format
tidy:
	tools/check.sh --tidy
install: build
	cmake --install build/$(PRESET)
clean:
	rm -rf build
