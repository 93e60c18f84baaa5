"""test_distill_pruned.py BONSAI2 TINY_MODEL - a pruned model learns from the whole one.

Teacher and student have other layers (fewer of them, narrower ones); what comes out is
nearer to the whole model than what came in, the same for any number of threads and after
kills, and as the last stage of compress.
"""
import os, subprocess, sys, tempfile

from program import call, check, data, js, killed, write_words

TINY = sys.argv[2]

with tempfile.TemporaryDirectory() as tmp:
    path = lambda name: os.path.join(tmp, name)
    whole, text = path("whole.gguf"), path("text.txt")
    subprocess.run([TINY, whole, "7", "4"], check=True)
    write_words(text, 900, 97)
    kld = lambda model: js("eval", "kld", "-m", model, "--baseline", whole, "--text", text, "--ctx",
                           "64", "--chunks", "8", "--exact")["mean_kld"]
    learn = ["--calib", text, "--ctx", "32", "--batch", "2", "--steps", "24", "--eval-every", "6",
             "--held-tokens", "128", "--rate", "0.01", "--gemm", "f32"]

    for what in (["--layers", "1"], ["--ffn", "0.5", "--kv", "0.5", "--multiple", "64"]):
        pruned, student, out = path("pruned.gguf"), path("student.gguf"), path("out.gguf")
        call("prune", whole, *what, "--cap", "0.9", "--calib", text, "--calib-tokens", "512", "--calib-ctx",
             "32", "--rounds", "1", "-o", pruned, "--force", "--quiet")
        check(os.path.getsize(pruned) < os.path.getsize(whole), f"{what}: nothing went")
        call("compress", pruned, "--rule", "*=B2_T64", "--rule", "token_embd*=keep", "--rotate", "none",
             "-o", student, "--force", "--quiet")
        args = ["distill", "--teacher", whole, "--student", student, "--original", pruned, *learn]

        rep = js(*args, "--threads", "1", "-o", out, "--force")
        want = data(out)
        check(rep["improved"] and rep["kld"] < 0.9 * rep["kld_before"], f"{what}: {rep['kld_before']} to {rep['kld']}")
        before, after = kld(student), kld(out)
        check(after < 0.9 * before, f"{what}: {before} to {after} nat from the whole model")
        check(len(rep["recipe"]["original_sha256"]) == 64, "the recipe does not tell of the original")

        js(*args, "--threads", "3", "-o", path("t.gguf"), "--force")
        check(data(path("t.gguf")) == want, f"{what}: other bytes with 3 threads")
        for seconds in (0.1, 0.5):
            killed([*args, "--threads", "1", "-o", path("k.gguf"), "--quiet"], path("k.gguf"), seconds)
            check(data(path("k.gguf")) == want, f"{what}: other bytes after a kill at {seconds} s")
            os.remove(path("k.gguf"))

        plan = js(*args, "--dry-run")
        check(plan["layers"] == (3 if "--layers" in what else 4) and plan["plan_bytes"] > 0, f"{plan}")
        js(*args, "--mem-limit", str(plan["plan_bytes"] - 1), "-o", path("m.gguf"), "--force")
        check(data(path("m.gguf")) == want, f"{what}: other bytes under a limit")

    # As the last stage of compress.
    rep = js("compress", pruned, "--teacher", whole, "--effort", "best", "--rule", "*=B2_T64", "--rule",
             "token_embd*=keep", "--rotate", "none", "--calib-tokens", "512", "--calib-ctx", "32", "--refine",
             "0", *learn, "--rate", "0.001", "-o", path("best.gguf"))
    learnt = rep["distillation"]
    check(learnt["kld"] < learnt["kld_before"], f"effort best: {learnt}")
    check(kld(path("best.gguf")) < kld(student), "effort best beside fitted rounding")

    # What cannot be.
    for args, word in (
            (["--teacher", whole, "--student", student], "different shapes"),
            (["--teacher", whole, "--student", student, "--original", whole], "different shapes"),
            (["--teacher", whole, "--student", student, "--original", path("no.gguf")], "no.gguf")):
        p = call("distill", *args, *learn, "-o", path("x.gguf"), ok=False)
        check(word in p.stderr, f"{args}: {p.stderr}")
    subprocess.run([TINY, path("o.gguf"), "8", "2"], check=True)
    call("prune", whole, "--layers", "1", "--calib", text, "--calib-tokens", "512", "--calib-ctx", "32",
         "--rounds", "1", "-o", pruned, "--force", "--quiet")
    call("compress", pruned, "--rule", "*=B2_T64", "--rule", "token_embd*=keep", "--rotate", "none", "-o",
         student, "--force", "--quiet")
    p = call("distill", "--teacher", whole, "--student", student, "--original", pruned, "--hidden", "1", *learn,
             "-o", path("x.gguf"), ok=False)
    check("layer by layer" in p.stderr, p.stderr)
    p = call("compress", pruned, "--teacher", whole, "-o", path("x.gguf"), ok=False, code=2)
    check("--effort best" in p.stderr, p.stderr)
print("ok")
