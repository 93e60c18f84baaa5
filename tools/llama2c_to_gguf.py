#!/usr/bin/env python3
"""Converts a llama2.c checkpoint and its tokenizer to a GGUF file (arch llama, F32).

    llama2c_to_gguf.py MODEL.bin TOKENIZER.bin OUT.gguf

Standard library only. The checkpoint is the "version 0" format of llama2.c (export.py):
seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len), then
F32 tensors; a negative vocab_size means that the classifier is not the embedding. Its
rotary pairs are neighbours, as GGUF's `llama` wants them, so no row is moved.
"""
import struct
import sys

ALIGN = 32
T_NORMAL, T_UNKNOWN, T_CONTROL, T_BYTE = 1, 2, 3, 6  # tokenizer.ggml.token_type
MT_U32, MT_F32, MT_BOOL, MT_STR, MT_ARR, MT_I32 = 4, 6, 7, 8, 9, 5
RMS_EPS, ROPE_BASE = 1e-5, 10000.0  # constants of llama2.c's run.c


def read_tokenizer(path, n_vocab):
    """int32 longest piece; then per token: f32 score, int32 length, bytes."""
    with open(path, "rb") as f:
        data = f.read()
    pos, tokens, scores, types = 4, [], [], []
    for i in range(n_vocab):
        score, size = struct.unpack_from("<fi", data, pos)
        piece = data[pos + 8:pos + 8 + size]
        pos += 8 + size
        if size < 0 or len(piece) != size:
            sys.exit(f"{path}: token {i} is cut short")
        if i < 3:  # the file has these with newlines around them, for printing
            piece = (b"<unk>", b"<s>", b"</s>")[i]
            kind = T_UNKNOWN if i == 0 else T_CONTROL
        elif i < 259:
            kind = T_BYTE
        else:  # the file prints U+2581, SentencePiece's space, as a space
            piece, kind = piece.replace(b" ", "\u2581".encode()), T_NORMAL
        tokens.append(piece)
        scores.append(score)
        types.append(kind)
    if pos != len(data):
        sys.exit(f"{path}: {len(data) - pos} bytes after the last of {n_vocab} tokens")
    return tokens, scores, types


def read_model(path):
    """The seven numbers and [(gguf name, ne, bytes)]; ne has the row length first."""
    with open(path, "rb") as f:
        data = f.read()
    if len(data) < 28:
        sys.exit(f"{path}: no llama2.c header")
    head = struct.unpack_from("<7i", data)
    dim, hidden, layers, heads, kv_heads, vocab, seq_len = head
    if min(dim, hidden, layers, heads, kv_heads, seq_len) < 1 or dim % heads:
        sys.exit(f"{path}: not a llama2.c checkpoint (header {head})")
    kv_dim, shared = dim // heads * kv_heads, vocab > 0
    pos = 28

    def take(*ne):
        nonlocal pos
        size = 4
        for n in ne:
            size *= n
        if pos + size > len(data):
            sys.exit(f"{path}: cut short: needs {pos + size} bytes, has {len(data)}")
        pos += size
        return ne, data[pos - size:pos]

    def per_layer(name, *ne):
        return [(f"blk.{i}.{name}.weight", *take(*ne)) for i in range(layers)]

    tensors = [("token_embd.weight", *take(dim, abs(vocab)))]
    groups = [("attn_norm", dim), ("attn_q", dim, dim), ("attn_k", dim, kv_dim),
              ("attn_v", dim, kv_dim), ("attn_output", dim, dim), ("ffn_norm", dim),
              ("ffn_gate", dim, hidden), ("ffn_down", hidden, dim), ("ffn_up", dim, hidden)]
    for name, *ne in groups:
        tensors += per_layer(name, *ne)
    tensors.append(("output_norm.weight", *take(dim)))
    take(dim // heads // 2, 2 * seq_len)  # tables of cosines and sines: recomputed
    if not shared:
        tensors.append(("output.weight", *take(dim, -vocab)))
    if pos != len(data):
        sys.exit(f"{path}: {len(data) - pos} bytes too many")
    return head, tensors


def put_str(b):
    b = b if isinstance(b, bytes) else b.encode()
    return struct.pack("<Q", len(b)) + b


def put_kv(key, kind, value, elem=None):
    one = {MT_U32: "<I", MT_I32: "<i", MT_F32: "<f", MT_BOOL: "<?"}

    def put(k, v):
        return put_str(v) if k == MT_STR else struct.pack(one[k], v)

    out = put_str(key) + struct.pack("<I", kind)
    if kind != MT_ARR:
        return out + put(kind, value)
    return out + struct.pack("<IQ", elem, len(value)) + b"".join(put(elem, v) for v in value)


def metadata(head, tok):
    dim, hidden, layers, heads, kv_heads, vocab, seq_len = head
    tokens, scores, types = tok
    return [
        put_kv("general.architecture", MT_STR, "llama"),
        put_kv("general.file_type", MT_U32, 0),
        put_kv("llama.context_length", MT_U32, seq_len),
        put_kv("llama.embedding_length", MT_U32, dim),
        put_kv("llama.feed_forward_length", MT_U32, hidden),
        put_kv("llama.block_count", MT_U32, layers),
        put_kv("llama.attention.head_count", MT_U32, heads),
        put_kv("llama.attention.head_count_kv", MT_U32, kv_heads),
        put_kv("llama.attention.layer_norm_rms_epsilon", MT_F32, RMS_EPS),
        put_kv("llama.rope.dimension_count", MT_U32, dim // heads),
        put_kv("llama.rope.freq_base", MT_F32, ROPE_BASE),
        put_kv("llama.vocab_size", MT_U32, abs(vocab)),
        put_kv("tokenizer.ggml.model", MT_STR, "llama"),
        put_kv("tokenizer.ggml.tokens", MT_ARR, tokens, MT_STR),
        put_kv("tokenizer.ggml.scores", MT_ARR, scores, MT_F32),
        put_kv("tokenizer.ggml.token_type", MT_ARR, types, MT_I32),
        put_kv("tokenizer.ggml.unknown_token_id", MT_U32, 0),
        put_kv("tokenizer.ggml.bos_token_id", MT_U32, 1),
        put_kv("tokenizer.ggml.eos_token_id", MT_U32, 2),
        put_kv("tokenizer.ggml.add_bos_token", MT_BOOL, True),
        put_kv("tokenizer.ggml.add_eos_token", MT_BOOL, False),
        put_kv("tokenizer.ggml.add_space_prefix", MT_BOOL, True),
    ]


def padded(b):
    return b + bytes(-len(b) % ALIGN)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    head, tensors = read_model(sys.argv[1])
    kvs = metadata(head, read_tokenizer(sys.argv[2], abs(head[5])))
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(kvs)) + b"".join(kvs)
    offset = 0
    for name, ne, data in tensors:
        out += put_str(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, 0, offset)
        offset += len(padded(data))
    with open(sys.argv[3], "wb") as f:
        f.write(padded(out))
        for _, _, data in tensors:
            f.write(padded(data))


if __name__ == "__main__":
    main()
