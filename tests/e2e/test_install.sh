#!/usr/bin/env bash
# test_install.sh - an example built against an installed copy, both ways.
#
#   test_install.sh BUILD_DIR SOURCE_DIR MODEL C_COMPILER
set -euo pipefail
build=$1 source=$2 model=$3 cc=$4
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

DESTDIR='' cmake --install "$build" --prefix "$prefix" >"$prefix/log" || {
    cat "$prefix/log"
    exit 1
}
"$prefix/bin/bonsai2" --version
nl=$(wc -l <"$source/examples/generate.c")
[ "$nl" -lt 60 ] || { echo "examples/generate.c has $nl lines"; exit 1; }

# pkg-config: the file names the prefix of the install.
pc=$(dirname "$(find "$prefix" -name bonsai2.pc)")
export PKG_CONFIG_PATH=$pc
read -ra flags < <(pkg-config --cflags --libs bonsai2)
"$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror "$source/examples/generate.c" \
    "${flags[@]}" $5 -o "$prefix/by-pkg-config"

# find_package
mkdir "$prefix/project"
cp "$source/examples/generate.c" "$prefix/project"
cat >"$prefix/project/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.22)
project(user C)
find_package(bonsai2 0.1 REQUIRED)
add_executable(user generate.c)
target_link_libraries(user PRIVATE bonsai2::bonsai2)
EOF
cmake -G Ninja -S "$prefix/project" -B "$prefix/project/build" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$5" -DCMAKE_EXE_LINKER_FLAGS="$5" >"$prefix/log" &&
    cmake --build "$prefix/project/build" >>"$prefix/log" || {
    cat "$prefix/log"
    exit 1
}
grep -q "$prefix" <<<"$(pkg-config --variable=prefix bonsai2)"

for program in "$prefix/by-pkg-config" "$prefix/project/build/user"; do
    told=$("$program" "$model" "Once upon")
    grep -q "little girl named Lily" <<<"$told" || { echo "$told"; exit 1; }
    if "$program" no.gguf x 2>"$prefix/log"; then
        echo "no error for a missing model"
        exit 1
    fi
    grep -q "no.gguf" "$prefix/log"
done
# No path of the build leaks into what is installed, but the prefix itself.
if grep -rIl "$build" "$prefix/include" "$prefix/lib"* --include='*.pc' \
    --include='*.cmake' --include='*.h'; then
    echo "a path of the build stands above"
    exit 1
fi
