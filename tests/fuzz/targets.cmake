# The fuzz targets: fuzz_NAME.c, corpus/NAME, and the libraries that hold the parser.
# b2_fuzz() is what CMakeLists.txt or replay.cmake makes of a row.
b2_fuzz(opt b2_base)
