#!/usr/bin/env python3
"""Writes greedy.inc: the first greedy ids of stories260K according to llama.cpp.

    python3 tools/llama2c_to_gguf.py stories260K.bin tok512.bin OUT.gguf
    make.py OUT.gguf

Needs PyPI cffi, xllamacpp (the library) and llama-cpp-py-sync (its declarations).
Context from the begin token alone, one token at a time, cache F32, no flash attention.
"""
import importlib.util
import pathlib
import sys

import cffi

HERE = pathlib.Path(__file__).parent
N_IDS = 64


def package_dir(name):
    return pathlib.Path(importlib.util.find_spec(name).submodule_search_locations[0])


def load_llama():
    source = (package_dir("llama_cpp_py_sync") / "_cffi_bindings.py").read_text()
    cdef = source.split('_LLAMA_H_CDEF = """', 1)[1].split('"""', 1)[0]
    ffi = cffi.FFI()
    ffi.cdef(cdef)
    library = next(package_dir("xllamacpp").glob("xllamacpp*.so"))
    return ffi, ffi.dlopen(str(library))


def greedy(path):
    ffi, lib = load_llama()
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_threads = 256, 1
    params.type_k = params.type_v = 0  # F32
    params.flash_attn_type = 0
    ctx = lib.llama_init_from_model(model, params)
    n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    ids, gaps, token = [], [], ffi.new("llama_token[1]", [1])
    for _ in range(N_IDS):
        if lib.llama_decode(ctx, lib.llama_batch_get_one(token, 1)):
            sys.exit("llama_decode failed")
        row = list(lib.llama_get_logits_ith(ctx, -1)[0:n_vocab])
        best = max(range(n_vocab), key=row.__getitem__)
        gaps.append(row[best] - max(row[:best] + row[best + 1:]))
        ids.append(best)
        token[0] = best
    return ids, gaps


def main():
    ids, gaps = greedy(sys.argv[1])
    text = "".join(f"{{{i}, {g:.4f}f}},\n" for i, g in zip(ids, gaps))
    (HERE / "greedy.inc").write_text(text)
    print(ids)


if __name__ == "__main__":
    main()
