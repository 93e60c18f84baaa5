/*
 * test_sandbox.c - untrusted programs are contained; what a system cannot give is said.
 *
 *   test_sandbox      with the privileges of whoever runs it
 *   test_sandbox user gives up root first: an ordinary user has a sandbox too
 *
 * Each program tries something and prints what came of it. Programs that end in time are
 * compared with what they must print, the others with how they must end.
 */
#define _GNU_SOURCE
#include "base/sandbox.h"

#include "base/clock.h"
#include "base/file.h"
#include "unit/unit.h"

#include <grp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static const struct sandbox_limits quick = {.wall_s = 60.0,
                                            .cpu_s = 1.0,
                                            .memory_bytes = (uint64_t)1 << 28,
                                            .output_bytes = 4096};

static char python[64];

static enum b2_status run_for(struct sandbox_result *out, const char *program,
                              double wall_s, struct b2_err *err)
{
    const char *argv[] = {python, "-I", "-S", "-B", "-", NULL};
    struct sandbox_limits limits = quick;

    limits.wall_s = wall_s;
    return sandbox_run(out, argv, program, strlen(program), &limits, err);
}

/* Long enough that a busy machine does not matter to programs that end. */
static enum b2_status run(struct sandbox_result *out, const char *program,
                          struct b2_err *err)
{
    return run_for(out, program, 60.0, err);
}

#define TRY(what)                                                                      \
    "try:\n"                                                                           \
    "    " what "\n"                                                                   \
    "    print('REACHED')\n"                                                           \
    "except BaseException as e: print(type(e).__name__)\n"

static void test_contained(void **state)
{
    static const struct {
        const char *program, *want;
    } table[] = {
        {"print(sum(range(10)))", "45\n"},
        /* a fork bomb: not even one */
        {"import os\n" TRY("os.fork()"), "PermissionError\n"},
        {"import os\nn = 0\nfor i in range(1000):\n    try:\n        os.fork(); n += "
         "1\n"
         "    except OSError: pass\nprint(n)",
         "0\n"},
        {"import threading\n" TRY("threading.Thread(target=print).start()"),
         "RuntimeError\n"},
        {"import subprocess\n" TRY("subprocess.run(['/bin/true'])"),
         "PermissionError\n"},
        /* network */
        {"import socket\n" TRY("socket.socket().connect(('127.0.0.1', 80))"),
         "PermissionError\n"},
        {"import socket\n" TRY("socket.getaddrinfo('example.org', 80)"), "gaierror\n"},
        /* files */
        {TRY("open('/tmp/x', 'w')"), "OSError\n"},
        {TRY("open('/usr/x', 'w')"), "OSError\n"},
        {TRY("open('x', 'a')"), "OSError\n"},
        {TRY("open('/etc/passwd').read()"), "FileNotFoundError\n"},
        {TRY("open('/proc/self/environ').read()"), "FileNotFoundError\n"},
        {"import os\n" TRY("os.mkdir('/usr/y')"), "PermissionError\n"},
        {"import os\n" TRY("os.unlink('/usr/bin/env')"), "PermissionError\n"},
        {"import os\n" TRY("os.chmod('/usr/bin/env', 0o777)"), "PermissionError\n"},
        {"import os\nprint(sorted(os.listdir('/'))[0], os.listdir('/usr') != [])",
         "bin True\n"},
        /* memory */
        {TRY("x = bytearray(10 * 2**30)"), "MemoryError\n"},
        /* who it is, whom it sees, what it was given */
        {"import os\nprint(os.getuid(), os.getppid(), sorted(os.environ))",
         "65534 1 ['LANG', 'OPENBLAS_NUM_THREADS', 'PATH']\n"},
        {"import os\n" TRY("os.kill(-1, 0)"), "ProcessLookupError\n"},
        {"import os\n" TRY("os.setuid(0)"), "PermissionError\n"},
        {"import ctypes\nprint(ctypes.CDLL(None, use_errno=True).unshare(0x10000000), "
         "ctypes.get_errno())",
         "-1 1\n"},
        {"import os\nprint([f for f in range(3, 64) if os.path.exists('/dev/fd/%d' % "
         "f)])",
         "[]\n"},
        {"import os\nn = 0\nfor f in range(3, 64):\n    try:\n        os.fstat(f); n "
         "+= 1\n"
         "    except OSError: pass\nprint(n)",
         "0\n"},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct sandbox_result r = {0};
        struct b2_err err = {0};
        if (run(&r, table[i].program, &err))
            fail_msg("row %d: %s", (int)i, err.msg);
        if (r.end != SANDBOX_EXIT || r.code != 0 ||
            strcmp(r.output.data, table[i].want) != 0)
            fail_msg("row %d: end %d code %d, got '%s' want '%s'", (int)i, r.end,
                     r.code, r.output.data, table[i].want);
        sandbox_result_free(&r);
    }
}

/* Programs that do not end by themselves, or not well. */
static void test_ends(void **state)
{
    static const struct {
        const char *program;
        enum sandbox_end end;
        int code;
    } table[] = {
        {"while True: pass", SANDBOX_SIGNAL, 9}, /* processor time */
        {"import time\ntime.sleep(1000)", SANDBOX_TIMEOUT, 0},
        /* silent, but still there */
        {"import os, time\nos.close(1); os.close(2)\ntime.sleep(1000)", SANDBOX_TIMEOUT,
         0},
        {"import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
         "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\ntime.sleep(1000)",
         SANDBOX_TIMEOUT, 0},
        {"raise SystemExit(7)", SANDBOX_EXIT, 7},
        {"x = [0]\nwhile True: x = x + x", SANDBOX_EXIT, 1}, /* MemoryError */
        {"import os\nos.kill(os.getpid(), 11)", SANDBOX_SIGNAL, 11},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct sandbox_result r = {0};
        struct b2_err err = {0};
        double start_s = clock_s();
        double wall_s = table[i].end == SANDBOX_TIMEOUT ? 0.7 : 60.0;
        if (run_for(&r, table[i].program, wall_s, &err))
            fail_msg("row %d: %s", (int)i, err.msg);
        if (r.end != table[i].end || r.code != table[i].code)
            fail_msg("row %d: end %d code %d: %s", (int)i, r.end, r.code,
                     r.output.data);
        ROW_CHECK(i, clock_s() - start_s < 100.0); /* killed, not waited for */
        sandbox_result_free(&r);
    }
}

static void test_output_is_cut(void **state)
{
    struct sandbox_result r = {0};

    (void)state;
    assert_int_equal(run(&r, "for i in range(100000): print('0123456789')", NULL),
                     B2_OK);
    assert_int_equal(r.end, SANDBOX_EXIT);
    assert_int_equal(r.output.len, quick.output_bytes);
    sandbox_result_free(&r);
}

static void test_no_such_program(void **state)
{
    static const char *const argv[] = {"/usr/bin/no-such-program", NULL};
    struct sandbox_result r = {0};
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(sandbox_run(&r, argv, "", 0, &quick, &err), B2_EIO);
    assert_non_null(strstr(err.msg, "/usr/bin/no-such-program cannot be started"));
    sandbox_result_free(&r);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contained),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_output_is_cut),
        cmocka_unit_test(test_no_such_program),
    };
    struct sandbox_result r = {0};
    struct b2_err err = {0};

    if (argc > 1 && strcmp(argv[1], "user") == 0 && geteuid() == 0 &&
        (setgroups(0, NULL) != 0 || setresgid(12345, 12345, 12345) != 0 ||
         setresuid(12345, 12345, 12345) != 0 ||
         prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)) /* or /proc stays root's */
        return 1;
    if (sandbox_python(python, sizeof python, &err) || run(&r, "", &err)) {
        printf("skipped: %s\n", err.msg);
        return 77;
    }
    sandbox_result_free(&r);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
