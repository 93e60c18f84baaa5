"""gguf_plain.py - a reader of GGUF files for tests, written from shared/FORMATS.md alone; it
shares no code with the program."""
import struct

F32, PTQ1_0 = 0, 143
U32, I32, BOOL, STR = 4, 5, 7, 8
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", U32: "I", I32: "i", 6: "f", BOOL: "?", 10: "Q", 11: "q", 12: "d"}


class Gguf:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.raw = f.read()
        self.at, self.kind, self.value, self.tensor = 8, {}, {}, {}
        n_tensors, n_keys = self.take("QQ")
        for _ in range(n_keys):
            name, kind = self.text(), self.take("I")[0]
            self.kind[name], self.value[name] = self.read(kind)
        for _ in range(n_tensors):
            name, rank = self.text(), self.take("I")[0]
            dims = self.take(f"{rank}Q")
            self.tensor[name] = [dims, *self.take("IQ")]
        align = self.value.get("general.alignment", 32)
        self.data = -(-self.at // align) * align

    def take(self, what):
        v = struct.unpack_from("<" + what, self.raw, self.at)
        self.at += struct.calcsize("<" + what)
        return v

    def text(self):
        n = self.take("Q")[0]
        self.at += n
        return self.raw[self.at - n:self.at].decode("utf-8", "replace")

    def read(self, kind):
        if kind == STR:
            return kind, self.text()
        if kind != 9:
            return kind, self.take(SCALARS[kind])[0]
        of, n = self.take("IQ")
        return [of], [self.read(of)[1] for _ in range(n)]

    def row(self, name, r):
        (width, *_), kind, offset = self.tensor[name]
        if kind == F32:
            return list(struct.unpack_from(f"<{width}f", self.raw, self.data + offset + 4 * r * width))
        assert kind == PTQ1_0, f"{name}: type {kind}"
        out = []
        for b in range(width // 128):
            out += block(self.raw, self.data + offset + 28 * (r * width // 128 + b))
        return out


def block(raw, at):
    """128 weights of a PTQ1_0 block (FORMATS.md 1.3)."""
    trit = lambda byte, n: (3 * ((byte * 3 ** n) % 256) >> 8) - 1
    d = struct.unpack_from("<e", raw, at + 26)[0]
    out = [0.0] * 128
    for first, stride, start, digits in ((0, 16, 0, 5), (16, 8, 80, 5), (24, 2, 120, 4)):
        for m in range(stride):
            for n in range(digits):
                out[start + m + stride * n] = d * trit(raw[at + first + m], n)
    return out
