"""gguf_small.py - a GGUF file read and written with the standard library alone.

For tests that judge files from outside: everything here is from the format's own
description, nothing from the program under test.
"""
import struct

SIMPLE = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
BLOCK = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 143: (128, 28), 0x42320040: (64, 14)}


class File:
    """keys: name -> (type, value); an array's type is (9, element type). tensors: name ->
    (type, [ne0, ne1...], bytes)."""

    def __init__(self, path=None):
        self.keys, self.tensors = {}, {}
        if path:
            self.read(open(path, "rb").read())

    def read(self, data):
        self.data, self.at = data, 0
        magic, version, n_tensors, n_keys = self.take("<4sIQQ")
        assert magic == b"GGUF" and version == 3
        for _ in range(n_keys):
            name = self.text()
            kind, = self.take("<I")
            self.keys[name] = self.value(kind)
        table = []
        for _ in range(n_tensors):
            name = self.text()
            rank, = self.take("<I")
            ne = list(self.take("<%dQ" % rank))
            table.append((name, ne) + self.take("<IQ"))
        align = self.keys.get("general.alignment", (4, 32))[1]
        start = (self.at + align - 1) // align * align
        for name, ne, kind, offset in table:
            block, size = BLOCK[kind]
            n = ne[0] // block * size
            for k in ne[1:]:
                n *= k
            self.tensors[name] = (kind, ne, data[start + offset:start + offset + n])

    def take(self, fmt):
        v = struct.unpack_from(fmt, self.data, self.at)
        self.at += struct.calcsize(fmt)
        return v

    def text(self):
        n, = self.take("<Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return 8, self.text()
        if kind == 9:
            item, n = self.take("<IQ")
            if item == 8:
                return (9, 8), [self.text() for _ in range(n)]
            return (9, item), list(self.take("<%d%s" % (n, SIMPLE[item])))
        return kind, self.take("<" + SIMPLE[kind])[0]

    def write(self, path):
        text = lambda s: struct.pack("<Q", len(s.encode())) + s.encode()

        def put(kind, v):
            if kind == 8:
                return text(v)
            if isinstance(kind, tuple):
                head = struct.pack("<IQ", kind[1], len(v))
                return head + b"".join(put(kind[1], x) for x in v)
            return struct.pack("<" + SIMPLE[kind], v)

        out = [struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(self.keys))]
        for name, (kind, v) in self.keys.items():
            out.append(text(name) + struct.pack("<I", kind if isinstance(kind, int) else 9) + put(kind, v))
        align, offset, body = self.keys.get("general.alignment", (4, 32))[1], 0, []
        for name, (kind, ne, data) in self.tensors.items():
            out.append(text(name) + struct.pack("<I%dQIQ" % len(ne), len(ne), *ne, kind, offset))
            pad = -len(data) % align
            body.append(data + b"\0" * pad)
            offset += len(data) + pad
        head = b"".join(out)
        with open(path, "wb") as f:
            f.write(head + b"\0" * (-len(head) % align) + b"".join(body))


def floats(values):
    return struct.pack("<%df" % len(values), *values)


def llama(tokens_of, d, f, heads, layers, rng, change=lambda name, row, values: None):
    """A llama of random weights with the tokenizer of tokens_of. change may edit a row."""
    out = File()
    for name, v in tokens_of.keys.items():
        if name.startswith("tokenizer.") or name in ("general.architecture", "llama.vocab_size"):
            out.keys[name] = v
    for name, v in (("context_length", 128), ("embedding_length", d), ("feed_forward_length", f),
                    ("attention.head_count", heads), ("attention.head_count_kv", heads),
                    ("block_count", layers)):
        out.keys["llama." + name] = (4, v)
    for name in ("llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"):
        if name in tokens_of.keys:
            out.keys[name] = tokens_of.keys[name]

    def add(name, cols, rows=0):
        data = []
        for r in range(max(rows, 1)):
            row = [rng.gauss(0, .05) if rows else 1 + rng.gauss(0, .1) for _ in range(cols)]
            change(name, r, row)
            data += row
        out.tensors[name] = (0, [cols, rows] if rows else [cols], floats(data))

    add("token_embd.weight", d, tokens_of.keys["llama.vocab_size"][1])
    for i in range(layers):
        for name, cols, rows in (("attn_norm", d, 0), ("attn_q", d, d), ("attn_k", d, d), ("attn_v", d, d),
                                 ("attn_output", d, d), ("ffn_norm", d, 0), ("ffn_gate", d, f),
                                 ("ffn_up", d, f), ("ffn_down", f, d)):
            add("blk.%d.%s.weight" % (i, name), cols, rows)
    add("output_norm.weight", d)
    return out


def words(path, n, seed):
    """Text whose lines are unlike each other."""
    import random
    rng = random.Random(seed)
    with open(path, "w") as f:
        for _ in range(n):
            f.write(" ".join("w%d" % rng.randrange(997) for _ in range(9)) + "\n")
