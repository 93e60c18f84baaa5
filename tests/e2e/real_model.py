"""Where the real model lies: B2_MODEL_SMOLLM2, or where tools/fetch_model.sh puts it."""
import os
import sys


def find_model():
    """The path; without the model the test ends here, skipped by name."""
    env = os.environ.get
    folder = env("B2_CACHE") or os.path.join(
        env("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "bonsai2")
    path = env("B2_MODEL_SMOLLM2") or os.path.join(
        folder, "SmolLM2-135M-Instruct.Q4_1.gguf")
    if not os.path.exists(path):
        print("skipped: the model is not in the cache: run tools/fetch_model.sh")
        sys.exit(77)
    return path
