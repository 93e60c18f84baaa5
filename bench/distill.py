"""Tokens a second of `distill` against a plain PyTorch loop of the same work, in turn.

    bench/distill.py OUT.csv TEACHER STUDENT TEXT [--batch 2] [--ctx 256] [--steps 3]
                     [--rounds 2] [--threads 2] [--gemm f32|bf16]

The same work: forward KL over the whole vocabulary against a resident teacher, latents
behind ternary codes with a scale per group in a block-rotated basis, gradients straight
through the rounding, AdamW on latents, logarithms of scales and norms, clipping, the whole
student trained, all F32 or, with --gemm bf16, products of BF16 (PyTorch: autocast). PyTorch gets random weights of the same shapes (its speed does
not depend on them), its fused AdamW and attention, and rotates activations, which is less
work than rotating weights. Each round runs PyTorch and then ours for some steps; the first
step of each is thrown away. Two rates are written: of the wall clock, and of processor
seconds (user), which other work on the machine disturbs less; with it the ratio of their
medians. Ours: `tokens_per_s` of the report without its start and evaluations; processor
seconds as the difference of two runs of different length. The contender `bonsai2 cached`
learns from a --teacher-cache that an earlier run over the same sequences left;
`bonsai2 caching` is what making it took, in tokens of the teacher a second.
"""
import argparse
import csv
import datetime
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ.get("B2_PROGRAM", os.path.join(HERE, "..", "build", "release", "bonsai2"))
FIELDS = ["date", "processor", "cpus", "load_before", "student", "batch", "ctx", "steps", "threads",
          "gemm", "contender", "rounds", "tokens_per_s", "tokens_per_cpu_s", "ratio", "ratio_cpu", "version"]


def processor():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown")


def shapes(path):
    """What PyTorch has to know of the student."""
    meta = json.loads(subprocess.run([PROGRAM, "inspect", path, "--json", "--quiet"], check=True,
                                     capture_output=True, text=True).stdout)
    dims = {t["name"]: t["shape"] for t in meta["tensors"]}
    layers = 1 + max(int(name.split(".")[1]) for name in dims if name.startswith("blk."))
    d, vocab = dims["token_embd.weight"][:2]
    q, k = dims["blk.0.attn_q.weight"][1], dims["blk.0.attn_k.weight"][1]
    return {"layers": layers, "d": d, "vocab": vocab, "f": dims["blk.0.ffn_up.weight"][1], "q": q, "k": k}


def torch_main(args):
    """Prints tokens a second of the wall and of the processor, first step left out."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    s = json.loads(args.shapes)
    head_dim, group = 64, 64

    def hadamard(n):
        h = torch.ones(1, 1)
        while h.shape[0] < n:
            h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
        return h / math.sqrt(n)

    class Ternary(torch.nn.Module):
        def __init__(self, rows, cols):
            super().__init__()
            self.block = cols & -cols
            self.register_buffer("h", hadamard(self.block))
            self.register_buffer("a0", torch.full((rows, cols // group, 1), 0.02))
            self.u = torch.nn.Parameter(torch.randn(rows, cols // group, group) * 0.7)
            self.ls = torch.nn.Parameter(torch.zeros(rows, cols // group, 1))

        def forward(self, x):
            a = self.a0 * self.ls.exp()
            with torch.no_grad():
                code = torch.sign(self.u) * (self.u.abs() >= a / (2 * self.a0))
            w = a * code + self.a0 * (self.u - self.u.detach())
            x = (x.view(*x.shape[:-1], -1, self.block) @ self.h).reshape(x.shape)
            return F.linear(x, w.view(w.shape[0], -1))

    class Plain(torch.nn.Module):
        def __init__(self, rows, cols):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(rows, cols) * 0.02, requires_grad=False)

        def forward(self, x):
            return F.linear(x, self.w)

    def norm(x, g):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * g

    at = torch.arange(args.ctx)[:, None] * 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)[None]
    cos, sin = at.cos(), at.sin()

    def turn(x):
        a, b = x[..., : head_dim // 2], x[..., head_dim // 2:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    class Model(torch.nn.Module):
        def __init__(self, kind, trained):
            super().__init__()
            size = [(s["q"], s["d"]), (s["k"], s["d"]), (s["k"], s["d"]), (s["d"], s["q"]),
                    (s["f"], s["d"]), (s["f"], s["d"]), (s["d"], s["f"])]
            self.lin = torch.nn.ModuleList(kind(*size[i % 7]) for i in range(7 * s["layers"]))
            self.norms = torch.nn.ParameterList(
                torch.nn.Parameter(torch.ones(s["d"]), requires_grad=trained) for _ in range(2 * s["layers"] + 1))

        def forward(self, x):
            b, t, _ = x.shape
            for i in range(s["layers"]):
                lin = self.lin[7 * i: 7 * i + 7]
                h = norm(x, self.norms[2 * i])
                q, k, v = (p(h).view(b, t, -1, head_dim).transpose(1, 2) for p in lin[:3])
                o = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True, enable_gqa=True)
                x = x + lin[3](o.transpose(1, 2).reshape(b, t, -1))
                h = norm(x, self.norms[2 * i + 1])
                x = x + lin[6](F.silu(lin[4](h)) * lin[5](h))
            return norm(x, self.norms[-1])

    embed = torch.randn(s["vocab"], s["d"]) * 0.05
    teacher, student = Model(Plain, False), Model(Ternary, True)
    params = [p for p in student.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(params, lr=1e-3, betas=(0.9, 0.95), weight_decay=0, fused=True)

    def step():
        ids = torch.randint(s["vocab"], (args.batch, args.ctx))
        with torch.autocast("cpu", torch.bfloat16, enabled=args.gemm == "bf16"):
            with torch.no_grad():
                t = F.linear(teacher(embed[ids]), embed)
            y = F.linear(student(embed[ids]), embed)
        t, y = (F.log_softmax(x.float(), -1) for x in (t, y))
        loss = F.kl_div(y.view(-1, s["vocab"]), t.view(-1, s["vocab"]), reduction="batchmean", log_target=True)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        adam.step()

    step()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(args.steps):
        step()
    tokens = args.steps * args.batch * args.ctx
    print(json.dumps({"wall": tokens / (time.perf_counter() - wall), "cpu": tokens / (time.process_time() - cpu)}))


def run_torch(args, dims):
    words = [sys.executable, __file__, "--torch", "--shapes", json.dumps(dims), "--batch", str(args.batch),
             "--gemm", args.gemm, "--ctx", str(args.ctx), "--steps", str(args.steps), "--threads", str(args.threads)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def distill(args, steps, folder, *more):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    out = subprocess.run(
        [PROGRAM, "distill", "--teacher", args.teacher, "--student", args.student, "--calib", args.text,
         "--batch", str(args.batch), "--ctx", str(args.ctx), "--steps", str(steps), "--eval-every", "1000000",
         "--held-tokens", str(args.ctx), "--warmup", "1", "--threads", str(args.threads), "--gemm", args.gemm, "--force",
         "--json",
         "--quiet", "-o", os.path.join(folder, "out.gguf"), *more], check=True, capture_output=True, text=True).stdout
    report = json.loads(out)
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return report["tokens_per_s"], cpu, report["seconds"]


def cache(folder, steps):
    """A cache is of the sequences, which depend on how many steps there are."""
    return "--teacher-cache", os.path.join(folder, "cache-%d" % steps)


def run_ours(args, folder, cached=False):
    """Of a short and a long run."""
    run = lambda n: distill(args, n, folder, *(cache(folder, n) if cached else ()))
    _, short, _ = run(1)
    wall, long, _ = run(1 + args.steps)
    return {"wall": wall, "cpu": args.steps * args.batch * args.ctx / max(long - short, 1e-9)}


def run_caching(args, folder):
    """Makes what run_ours(cached) reads: seconds of a run that makes it, less one that has it."""
    rates = {}
    for n in 1, 1 + args.steps:
        _, cpu_made, made = distill(args, n, folder, *cache(folder, n))
        _, cpu, had = distill(args, n, folder, *cache(folder, n))
        tokens = n * args.batch * args.ctx + args.ctx  # one sequence is held out
        rates = {"wall": tokens / max(made - had, 1e-9), "cpu": tokens / max(cpu_made - cpu, 1e-9)}
    return rates  # of the longer


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--shapes", help=argparse.SUPPRESS)
    p.add_argument("out", nargs="?")
    p.add_argument("teacher", nargs="?")
    p.add_argument("student", nargs="?")
    p.add_argument("text", nargs="?")
    for name, value in (("batch", 2), ("ctx", 256), ("steps", 3), ("rounds", 2), ("threads", 2)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--gemm", choices=("f32", "bf16"), default="f32")
    args = p.parse_args()
    if args.torch:
        return torch_main(args)
    dims, load = shapes(args.student), os.getloadavg()[0]
    names = ("torch", "bonsai2", "bonsai2 cached", "bonsai2 caching")
    rates = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        rates["bonsai2 caching"].append(run_caching(args, folder))
        for i in range(args.rounds):
            rates["torch"].append(run_torch(args, dims))
            rates["bonsai2"].append(run_ours(args, folder))
            rates["bonsai2 cached"].append(run_ours(args, folder, cached=True))
            print("round %d of %d: %s" % (i + 1, args.rounds, {k: v[-1] for k, v in rates.items()}), file=sys.stderr)
    mid = {name: {key: statistics.median(r[key] for r in rows) for key in ("wall", "cpu")}
           for name, rows in rates.items()}
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True).stdout.split()[1]
    new = not os.path.exists(args.out) or os.path.getsize(args.out) == 0
    with open(args.out, "a", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        if new:
            w.writerow(FIELDS)
        for name in names:
            w.writerow([datetime.date.today().isoformat(), processor(), os.cpu_count(), "%.2f" % load,
                        os.path.basename(args.student), args.batch, args.ctx, args.steps, args.threads, args.gemm, name,
                        args.rounds, "%.1f" % mid[name]["wall"], "%.1f" % mid[name]["cpu"],
                        *("%.2f" % (mid[name][key] / mid["torch"][key]) for key in ("wall", "cpu")), version])
    return 0


if __name__ == "__main__":
    sys.exit(main())
