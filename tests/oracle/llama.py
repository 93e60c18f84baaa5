"""llama.cpp as an independent program: logits of every position of a token sequence.

The shared object inside the wheel `xllamacpp` exports llama.cpp's C interface (build
11549); `llama-cpp-py-sync` 0.11548 holds matching cffi declarations (its own library
wants a newer C library than Debian 12 has, so only its declarations are used). The two
versions belong together: the structs have no version of their own.
"""
import contextlib
import glob
import importlib.util
import os

import numpy as np


def _site(package):
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ImportError(package)
    return spec.submodule_search_locations[0]


def _declarations():
    """The ffi object, without running the package's __init__ and its library search."""
    path = os.path.join(_site("llama_cpp_py_sync"), "_cffi_bindings.py")
    spec = importlib.util.spec_from_file_location("llama_declarations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ffi


ffi = _declarations()
lib = ffi.dlopen(glob.glob(os.path.join(_site("xllamacpp"), "xllamacpp*.so"))[0])


@ffi.callback("void(enum ggml_log_level, const char *, void *)")
def _log(level, text, _):
    if level == lib.GGML_LOG_LEVEL_ERROR:
        os.write(2, b"llama.cpp: " + ffi.string(text))


lib.llama_log_set(_log, ffi.NULL)
lib.llama_backend_init()


class Llama:
    """A model and one context. cache: "f32" or "f16". Flash attention is off, so that
    attention is the plain formula."""

    def __init__(self, path, ctx=512, threads=2, cache="f32"):
        mp = lib.llama_model_default_params()
        mp.n_gpu_layers = 0
        mp.use_extra_bufts = False  # no repacked weights: the plain kernels
        self.model = lib.llama_model_load_from_file(os.fsencode(path), mp)
        if self.model == ffi.NULL:
            raise RuntimeError("llama.cpp does not load " + path)
        cp = lib.llama_context_default_params()
        cp.n_ctx = cp.n_batch = cp.n_ubatch = ctx
        cp.n_threads = cp.n_threads_batch = threads
        cp.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        cp.type_k = cp.type_v = (
            lib.GGML_TYPE_F32 if cache == "f32" else lib.GGML_TYPE_F16)
        cp.no_perf = True
        self.context = lib.llama_init_from_model(self.model, cp)
        if self.context == ffi.NULL:
            raise RuntimeError("llama.cpp makes no context for " + path)
        self.vocab = lib.llama_model_get_vocab(self.model)
        self.n_vocab = lib.llama_vocab_n_tokens(self.vocab)

    def tokenize(self, text, special=False, add_special=True):
        data = text if isinstance(text, bytes) else text.encode()
        room = len(data) + 8
        ids = ffi.new("llama_token[]", room)
        n = lib.llama_tokenize(self.vocab, data, len(data), ids, room, add_special,
                               special)
        if n < 0:
            raise RuntimeError("llama_tokenize wants %d places" % -n)
        return list(ids[0:n])

    def logits(self, ids):
        """[len(ids), n_vocab] float32 after each token, from an empty cache."""
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        n = len(ids)
        batch = lib.llama_batch_init(n, 0, 1)
        try:
            batch.n_tokens = n
            for i, token in enumerate(ids):
                batch.token[i] = token
                batch.pos[i] = i
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = 0
                batch.logits[i] = 1
            rc = lib.llama_decode(self.context, batch)
            if rc != 0:
                raise RuntimeError("llama_decode gives %d" % rc)
            flat = ffi.buffer(lib.llama_get_logits(self.context), n * self.n_vocab * 4)
            return np.frombuffer(flat, np.float32).reshape(n, self.n_vocab).copy()
        finally:
            lib.llama_batch_free(batch)

    def close(self):
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)


@contextlib.contextmanager
def opened(path, **kw):
    model = Llama(path, **kw)
    try:
        yield model
    finally:
        model.close()
