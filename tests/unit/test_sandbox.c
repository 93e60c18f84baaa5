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

/* However much it says before: how it ended stands at the end. */
static void test_output_keeps_its_end(void **state)
{
    struct sandbox_result r = {0};

    (void)state;
    assert_int_equal(
        run(&r, "print('x' * 100000)\nprint('\\0')\nprint('the end')", NULL), B2_OK);
    assert_int_equal(r.output.len, quick.output_bytes);
    assert_string_equal(r.output.data + r.output.len - 8, "the end\n");
    sandbox_result_free(&r);
}

/* System calls that an answer could make through ctypes: none gives more than EPERM. */
static void test_raw_calls(void **state)
{
    static const char program[] =
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def call(name, *args):\n"
        "    ctypes.set_errno(0)\n"
        "    r = getattr(libc, name)(*args)\n"
        "    if r not in (-1, 0xffffffff) or ctypes.get_errno() not in (1, 30, 38):\n"
        "        print(name, r, ctypes.get_errno())\n"
        "call('ptrace', 16, 1, 0, 0)\n"
        "call('memfd_create', b'm', 0)\n"
        "call('shmget', 0, 1 << 20, 0o1777)\n"
        "call('msgget', 0, 0o1777)\n"
        "call('semget', 0, 1, 0o1777)\n"
        "call('socketpair', 1, 1, 0, (ctypes.c_int * 2)())\n"
        "call('mount', b'none', b'/', b'tmpfs', 0, None)\n"
        "call('umount2', b'/usr', 2)\n"
        "call('chroot', b'/usr')\n"
        "call('symlink', b'/etc', b'/usr/z')\n"
        "call('link', b'/usr/bin/env', b'/z')\n"
        "call('rename', b'/usr/bin/env', b'/z')\n"
        "call('mknod', b'/z', 0o20666, 0x101)\n"
        "call('mkfifo', b'/z', 0o666)\n"
        "call('truncate', b'/usr/bin/env', 0)\n"
        "call('ftruncate', 0, 1 << 30)\n"
        "call('fallocate', 0, 0, 0, 1 << 30)\n"
        "call('inotify_init')\n"
        "call('sched_setscheduler', 0, 1, (ctypes.c_int * 1)(1))\n"
        "call('setpriority', 0, 0, -20)\n"
        "call('process_vm_readv', 1, None, 0, None, 0, 0)\n"
        "call('personality', 0x40000)\n"
        "call('setsid')\n"
        "call('swapon', b'/usr', 0)\n"
        "call('reboot', 0xfee1dead)\n"
        "call('setns', 0, 0)\n"
        "call('open', b'/z', os.O_RDWR | os.O_CREAT, 0o666)\n"
        "call('open', b'/', os.O_RDWR | os.O_TMPFILE, 0o666)\n"
        "for n in (425, 426, 427, 434, 437, 438):\n" /* io_uring, pidfd, openat2 */
        "    call('syscall', n, 0, 0, 0, 0, 0, 0)\n"
        "print('all')\n";
    struct sandbox_result r = {0};

    (void)state;
    assert_int_equal(run(&r, program, NULL), B2_OK);
    assert_string_equal(r.output.data, "all\n");
    sandbox_result_free(&r);
}

/* An answer shares its user with process 1 of the sandbox: it must not end a whole run
 * by harming that one. */
static void test_process_1_lives(void **state)
{
    static const char *const programs[] = {
        "import os\nfor s in range(1, 65):\n    try: os.kill(1, s)\n"
        "    except OSError: pass\nprint('done')",
        "import resource\nfor w in range(16):\n"
        "    try: resource.prlimit(1, w, (0, 0))\n"
        "    except (OSError, ValueError): pass\nprint('done')",
        "import os\nos.kill(-1, 9)\nprint('done')",
    };

    (void)state;
    for (size_t i = 0; i < countof(programs); i++) {
        struct sandbox_result r = {0};
        struct b2_err err = {0};
        if (run(&r, programs[i], &err))
            fail_msg("program %d: %s", (int)i, err.msg);
        sandbox_result_free(&r);
    }
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
        cmocka_unit_test(test_output_keeps_its_end),
        cmocka_unit_test(test_raw_calls),
        cmocka_unit_test(test_process_1_lives),
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
