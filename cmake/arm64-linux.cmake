# Toolchain for 64-bit ARM on Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross. Linked
# statically, so that an emulator needs no ARM system beside it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
