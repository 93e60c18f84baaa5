/*
 * sandbox.h - runs a program that nobody trusts, such as one that a model wrote.
 *
 * Linux only. All of these layers, or none: without one the run is refused.
 *   namespaces  user, mount, process, network, IPC, host name: no network at all, no
 *               other process in sight, an unprivileged user (also when root asks)
 *   file system an empty root with the system's /usr (and /lib…) bound read-only
 *   limits      memory, processor time, processes, open files; no file may grow
 *   filter      seccomp: system calls off a short list fail, so do opening a file for
 *               writing, new processes and sockets
 *   clock       the whole tree is killed when its time is over
 * Needs no privilege where the system lets users make namespaces (most do).
 */
#ifndef BASE_SANDBOX_H
#define BASE_SANDBOX_H

#include "base/error.h"
#include "base/str.h"

struct sandbox_limits {
    double wall_s, cpu_s;
    uint64_t memory_bytes; /* of address space */
    size_t output_bytes;   /* what is kept of its output: its end */
};

enum sandbox_end { SANDBOX_EXIT, SANDBOX_SIGNAL, SANDBOX_TIMEOUT };

struct sandbox_result {
    enum sandbox_end end;
    int code;          /* exit code or signal */
    struct str output; /* stdout and stderr as they came; owned */
};

/* Runs argv[0] (an absolute path, NULL-terminated argv) with n bytes of input on stdin and
 * an environment of PATH and LANG alone. B2_EUNSUP: this system has not all layers (says
 * which and what helps). B2_EIO: something else failed. The result is owned by the
 * caller also then: sandbox_result_free. */
enum b2_status sandbox_run(struct sandbox_result *out, const char *const *argv,
                           const char *input, size_t n,
                           const struct sandbox_limits *limits,
                           struct b2_err *err) NODISCARD;
void sandbox_result_free(struct sandbox_result *r); /* zeroed is fine */

/* Absolute path of the Python 3 that a sandbox can reach, in buf. B2_ENOTFOUND: none. */
enum b2_status sandbox_python(char *buf, size_t n, struct b2_err *err) NODISCARD;

#endif
