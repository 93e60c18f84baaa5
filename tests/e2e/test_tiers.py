"""test_tiers.py BONSAI2 TINY_MODEL STORIES - a table of tokens in two types, from the outside.

A budget that leaves only the table to choose takes its frequent rows in four bits. The file
must be the same model as its F32 export, at every level, batch shape and number of threads;
it goes through every command that reads or makes models; what contradicts itself is refused.
"""
import json, os, random, subprocess, sys, tempfile

from program import call, check, data, js

TINY, STORIES = sys.argv[2:]

with tempfile.TemporaryDirectory() as tmp:
    at = lambda name: os.path.join(tmp, name)
    src, out, again, f32, text = (at(n) for n in ("s.gguf", "o.gguf", "a.gguf", "f.gguf", "t.txt"))
    subprocess.run([TINY, src, "7", "2"], check=True)
    with open(text, "w") as f:  # some letters far more often than others
        f.write("\n".join(" ".join("abcde"[(i * k) % 5] * (1 + k % 3) for k in range(12))
                          for i in range(400)))
    # Only the table is open. Costs are measured, then written by hand.
    base = ["compress", src, "--calib", text, "--calib-tokens", "1024", "--calib-ctx", "64",
            "--refine", "0", "--mismatch", "0", "--rule", "blk.*=keep", "--costs", at("costs.json")]
    dry = js(*base, "--budget", "1GB", "--dry-run")
    with open(at("costs.json")) as f:
        costs = json.load(f)
    table = dict(next(t[1] for t in costs["tensors"] if t[0] == "token_embd.weight"))
    two = [name for name in table if "," in name]
    check(len(two) >= 3 and "Q4_0 16, B2_Q2" in two, f"candidates {sorted(table)}")
    check(all(table[n] > table["Q4_0"] for n in two), f"damages {table}")
    check(table["Q4_0 64, B2_Q2"] < table["B2_Q2"], f"damages {table}")
    by_hand = {"B2_Q2": 3.0, "Q4_0 16, B2_Q2": 2.0, "Q4_0 32, B2_Q2": 1.5, "Q4_0 64, B2_Q2": 1.0}
    for t in costs["tensors"]:
        t[1] = [[name, by_hand.get(name, nat if name in ("F32", "Q8_0") else 0.5 if name[:2] != "B2"
                                   else 4.0)] for name, nat in t[1]]
    with open(at("costs.json"), "w") as f:
        json.dump(costs, f)

    # The budget of each of them takes it, and a dry run says the same.
    row = {"Q4_0": 108, "B2_Q2": 51, "B2_Q3": 75}
    others = next(t for t in dry["tensors"] if t["name"] == "token_embd.weight")["bytes"]
    fixed = dry["output_bytes"] - others
    budget = fixed + 64 * row["Q4_0"] + 256 * row["B2_Q2"] + 800
    plan = js(*base, "--budget", str(budget), "--dry-run")
    rep = js(*base, "--budget", str(budget), "-o", out)
    check(plan["output_bytes"] == rep["output_bytes"] == os.path.getsize(out) <= budget, "bytes")
    got = next(t for t in rep["tensors"] if t["name"] == "token_embd.weight")
    check((got["type"], got["hot_type"], got["hot_rows"]) == ("B2_Q2", "Q4_0", 64), f"{got}")
    check(got["bytes"] == 64 * row["Q4_0"] + 256 * row["B2_Q2"], f"{got}")
    look = js("inspect", out)
    shape = {t["name"]: (t["type"], t["shape"]) for t in look["tensors"]}
    check(shape["token_embd.hot.weight"] == ("Q4_0", [192, 64]) and
          shape["token_embd.rare.weight"] == ("B2_Q2", [192, 256]) and
          "token_embd.weight" not in shape, "tensors")
    check(look["n_params"] == js("inspect", src)["n_params"], "parameters")
    check("two tensors: 64 frequent tokens in Q4_0, 256 others in B2_Q2" in call("inspect", out).stdout,
          "inspect does not tell")
    check("bonsai2.tiers" in call(*base, "--budget", str(budget), "--dry-run").stdout,
          "the report says who can read it")
    for threads in ("1", "3"):
        js(*base, "--budget", str(budget), "-o", again, "--force", "--threads", threads)
        check(data(again) == data(out), f"other bytes with {threads} threads")

    # The head's metric: a trained model's table of one type loses less than by rounding.
    random.seed(3)
    words = ("once upon a time there was little girl boy dog cat who had red ball happy sad played in "
             "the park with her his friend mom said to be nice they went home saw big tree").split()
    story = at("story.txt")
    with open(story, "w") as f:
        f.write("".join(" ".join(random.choices(words, k=12)) + ".\n" for _ in range(600)))
    for kind in ("B2_T64", "B2_Q2", "Q4_0"):
        kld = []
        for how in ([], ["--calib", story, "--calib-tokens", "2048", "--calib-ctx", "128"]):
            call("compress", STORIES, "--rule", "*=keep", "--rule", f"token_embd.weight={kind}", *how,
                 "-o", again, "--force", "--quiet")
            kld.append(js("eval", "kld", "-m", again, "--baseline", STORIES, "--text", story, "--ctx",
                          "128", "--chunks", "8")["mean_kld"])
        check(kld[1] < 0.85 * kld[0], f"{kind}: compensated {kld[1]}, rounded {kld[0]}")

    # The frequent rows are those of the text: in F32 they are nearer to the source.
    prompt = ["-p", "abc", "-n", "6", "--temp", "0"]
    call("export", out, "--format", "gguf-f32", "-o", f32, "--quiet")
    check("token_embd.weight" in {t["name"] for t in js("inspect", f32)["tensors"]}, "F32 export")
    want = js("run", "-m", f32, "--exact", *prompt)
    for args, env in (([], {}), ([], {"B2_CPU": "scalar"}), (["--batch", "1"], {}),
                      (["--threads", "1"], {})):
        run = js("run", "-m", out, "--exact", *prompt, *args, **env)
        check(run["tokens"] == want["tokens"] and run["logits_sha256"] == want["logits_sha256"],
              f"logits differ from the F32 export ({args}, {env})")
    fast = js("run", "-m", out, *prompt)["logits_sha256"]
    for args, env in ((["--batch", "1"], {}), ([], {"B2_CPU": "scalar"}), (["--threads", "1"], {}),
                      (["--repack", "fast"], {})):
        check(js("run", "-m", out, *prompt, *args, **env)["logits_sha256"] == fast,
              f"8-bit logits differ ({args}, {env})")

    # Every command that makes a model of a model.
    call("export", out, "--format", "gguf", "-o", again, "--force", "--quiet")
    check(js("run", "-m", again, *prompt)["logits_sha256"] == fast, "export --format gguf")
    check("token_embd.hot.weight" in {t["name"] for t in js("inspect", again)["tensors"]},
          "a copy keeps both")
    call("export", out, "--format", "hf-f32", "-o", at("hf"), "--quiet")
    check(js("run", "-m", at("hf"), "--exact", *prompt)["logits_sha256"] == want["logits_sha256"],
          "the folder's logits")
    call("export", out, "--format", "gguf-q8_0", "--lossy", "--only", "blk.*", "-o", again, "--force", "--quiet")
    check("token_embd.hot.weight" in {t["name"] for t in js("inspect", again)["tensors"]},
          "--only leaves the table alone")
    call("compress", out, "--rule", "*=keep", "--rule", "token_embd.weight=Q8_0", "-o", again,
         "--force", "--quiet")
    check(js("inspect", again)["n_params"] == look["n_params"], "compressed again")
    call("compress", out, "--rule", "*=keep", "-o", again, "--force", "--quiet")
    check(os.path.getsize(again) < 1.01 * os.path.getsize(out) and
          js("run", "-m", again, *prompt)["logits_sha256"] == fast, "kept as it is")
    p = call("compress", out, "--rule", "*=Q8_0", "--rule", "token_embd.weight=keep", "-o", at("no.gguf"),
             ok=False)
    check("token_embd.*=keep" in p.stderr, "keeping the table alone")
    k = js("eval", "kld", "-m", out, "--baseline", src, "--text", text, "--ctx", "64", "--chunks", "4")
    check(0 < k["mean_kld"] < 5, "eval kld")
    call("plan", out)
    call("prune", out, "--ffn", "0.25", "--calib", text, "--calib-tokens", "512", "--calib-ctx",
         "64", "-o", again, "--force", "--quiet")
    check("token_embd.hot.weight" in {t["name"] for t in js("inspect", again)["tensors"]} and
          js("run", "-m", again, *prompt)["tokens"], "prune")

    p = js("eval", "rollback", "-m", out, "--baseline", src, "--text", text, "--ctx", "64",
           "--chunks", "2")
    gain = next(r for r in p["classes"] if r["name"] == "token_embd")
    check(gain["bytes_more"] == 320 * 192 * 4 - got["bytes"], f"rollback: {gain}")
    # Learning moves the layers; the table stays as it is and serves as table and as head.
    layers, taught = at("l.gguf"), at("d.gguf")
    call("compress", src, "--rule", "blk.*.weight=B2_T64", "--calib", text, "--calib-tokens", "1024",
         "--calib-ctx", "64", "--refine", "0", "--budget", "145000", "-o", layers, "--force", "--quiet",
         "--types", "Q4_0,B2_Q2")
    check("token_embd.hot.weight" in {t["name"] for t in js("inspect", layers)["tensors"]}, "student")
    call("distill", "--teacher", src, "--student", layers, "--calib", text,
         "--ctx", "64", "--batch", "2", "--steps", "24", "--eval-every", "6",
         "--rate", "0.003", "--scale-rate", "0.003", "-o", taught, "--quiet")
    before, after = (js("eval", "kld", "-m", path, "--baseline", src, "--text", text, "--ctx", "64",
                        "--chunks", "4")["mean_kld"] for path in (layers, taught))
    check(after < before, f"distill: {before} became {after}")
    pick = lambda path: [t for t in js("inspect", path)["tensors"] if "token_embd" in t["name"]]
    check(len(pick(taught)) == 2 and pick(taught) == pick(layers), "distill keeps the table")

    # A file that contradicts itself: the marks of one row more, then of fewer rows.
    raw = data(out)
    key = raw.index(b"bonsai2.tiers.hot") + len("bonsai2.tiers.hot") + 4 + 4 + 8
    marks = raw[key:key + 40]
    free = next(i for i in range(40) if marks[i] != 255)
    for new in (marks[:free] + bytes([marks[free] | (marks[free] + 1)]) + marks[free + 1:], bytes(40)):
        with open(again, "wb") as f:
            f.write(raw[:key] + new + raw[key + 40:])
        for args in (["run", "-m", again, "-p", "a", "-n", "1"],
                     ["export", again, "--format", "gguf-f32", "-o", at("no.gguf")],
                     ["compress", again, "--rule", "*=Q8_0", "-o", at("no.gguf")]):
            p = call(*args, ok=False)
            check("token_embd.hot.weight" in p.stderr or "bonsai2.tiers.hot" in p.stderr,
                  f"{args[0]}: {p.stderr}")
    with open(again, "wb") as f:
        f.write(raw.replace(b"bonsai2.tiers.hot", b"bonsai2.tiers.hut"))
    check("newer version" in call("run", "-m", again, "-p", "a", ok=False).stderr, "a strange key")
print("ok")
