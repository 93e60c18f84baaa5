#!/usr/bin/env python3
"""damage_head.py IN.gguf OUT.gguf [ID...] - a model whose head confuses some tokens.

The rows of the output head that belong to the tokens ID change places (each takes the next
one's); everything else stays. A head that is tied to the token table becomes a tensor of its
own first, so that reading those tokens is not hurt: without IDs that is all, an untied copy.
The damage is small, local and invisible to a mean: what a collapse of one task looks like.
"""
import struct
import sys

HEAD, TABLE = b"output.weight", b"token_embd.weight"
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9
# Type of a tensor: weights of a block, bytes of a block (ggml's tables).
BLOCKS = {0: (1, 4), 1: (1, 2), 30: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24),
          8: (32, 34), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210)}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, fmt):
        v, = struct.unpack_from("<" + fmt, self.data, self.at)
        self.at += struct.calcsize(fmt)
        return v

    def text(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def skip(self, kind):
        """Over a key's value."""
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            of, n = self.number("I"), self.number("Q")
            if of in SCALARS:
                self.at += SCALARS[of] * n
            else:
                for _ in range(n):
                    self.skip(of)
        else:
            self.at += SCALARS[kind]


def read(path):
    """(raw bytes of the keys, their number, alignment, {name: (ne, type, bytes)})"""
    with open(path, "rb") as f:
        r = Reader(f.read())
    if r.number("I") != 0x46554747 or r.number("I") not in (2, 3):
        sys.exit(path + ": no GGUF of version 2 or 3")
    n_tensors, n_keys = r.number("Q"), r.number("Q")
    begin, align, infos, tensors = r.at, 32, [], {}
    for _ in range(n_keys):
        name, kind = r.text(), r.number("I")
        if name == b"general.alignment":
            align = struct.unpack_from("<I", r.data, r.at)[0]
        r.skip(kind)
    keys = r.data[begin:r.at]
    for _ in range(n_tensors):
        name = r.text()
        ne = [r.number("Q") for _ in range(r.number("I"))]
        infos.append((name, ne, r.number("I"), r.number("Q")))
    base = -(-r.at // align) * align
    for i, (name, ne, kind, offset) in enumerate(infos):
        end = min([o for _, _, _, o in infos if o > offset], default=len(r.data) - base)
        tensors[name] = (ne, kind, r.data[base + offset:base + end])
    return keys, n_keys, align, tensors


def write(path, keys, n_keys, align, tensors):
    head, offset = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), n_keys) + keys, 0
    for name, (ne, kind, data) in tensors.items():
        head += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(ne))
        head += struct.pack("<%dQ" % len(ne), *ne) + struct.pack("<IQ", kind, offset)
        offset += -(-len(data) // align) * align
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % align))
        for _, _, data in tensors.values():
            f.write(data + bytes(-len(data) % align))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    keys, n_keys, align, tensors = read(sys.argv[1])
    ids = [int(word) for word in sys.argv[3:]]
    ne, kind, data = tensors.get(HEAD) or tensors[TABLE]
    if kind not in BLOCKS:
        sys.exit("%s: the head is of type %d, whose rows are not known here" % (sys.argv[1], kind))
    if len(set(ids)) != len(ids) or any(not 0 <= i < ne[1] for i in ids):
        sys.exit("tokens must be different and below %d" % ne[1])
    n = ne[0] // BLOCKS[kind][0] * BLOCKS[kind][1]
    rows = bytearray(data)
    for i, other in zip(ids, ids[1:] + ids[:1]):
        rows[i * n:(i + 1) * n] = data[other * n:(other + 1) * n]
    tensors[HEAD] = (ne, kind, bytes(rows))
    write(sys.argv[2], keys, n_keys, align, tensors)


if __name__ == "__main__":
    main()
