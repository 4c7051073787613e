/* SPDX-License-Identifier: MIT */
/* The system call filter in a real sandbox, rule by rule. Numbers are those of x86_64. */
#include "tests/test.h"
#include "tests/unit/provider/local_shared.h"

#define SYS_HEAD                                             \
    "import ctypes, os, sys\n"                               \
    "libc = ctypes.CDLL(None, use_errno=True)\n"             \
    "def call(*a):\n"                                        \
    "    ctypes.set_errno(0)\n"                              \
    "    r = libc.syscall(*[ctypes.c_long(x) for x in a])\n" \
    "    return ctypes.get_errno() if r < 0 else 0\n"

static void unknown_calls_do_not_exist(void **state)
{
    (void)state;
    /* an unused number, clone3 */
    python_prints(SYS_HEAD "print(call(1999), call(435, 0, 0))\n", "38 38\n");
}

static void dangerous_calls_are_refused(void **state)
{
    (void)state;
    /* add_key request_key keyctl, bpf, io_uring x3, userfaultfd, perf_event_open */
    python_prints(SYS_HEAD "print([call(n, 0, 0, 0, 0, 0) for n in "
                           "(248, 249, 250, 321, 425, 426, 427, 323, 298)])\n",
                  "[1, 1, 1, 1, 1, 1, 1, 1, 1]\n");
    /* mount umount2 pivot_root chroot unshare setns open_tree move_mount fsopen fsconfig
     * fsmount fspick mount_setattr, kexec_load, init_module, reboot */
    python_prints(SYS_HEAD
                  "print(set(call(n, 0, 0, 0, 0, 0) for n in "
                  "(165, 166, 155, 161, 272, 308, 428, 429, 430, 431, 432, 433, 442, "
                  "246, 175, 169)))\n",
                  "{1}\n");
}

static void clone_makes_no_namespaces(void **state)
{
    (void)state;
    python_prints(
        SYS_HEAD
        "flags = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, "
        "0x40000000)\n"
        "print(set(call(56, f | 17, 0, 0, 0, 0) for f in flags))\n"
        "print(call(56, (1 << 32) | 0x10000000 | 17, 0, 0, 0, 0))\n"
        "pid = libc.syscall(ctypes.c_long(56), ctypes.c_long(17), 0, 0, 0, 0)\n"
        "if pid == 0: os._exit(0)\n"
        "print(os.waitpid(pid, 0)[1])\n",
        "{1}\n1\n0\n");
}

static void only_four_socket_families(void **state)
{
    (void)state;
    python_prints(
        SYS_HEAD
        "ok = [f for f in range(0, 70) if call(41, f, 1 if f != 16 else 3, 0) == 0]\n"
        "print(ok)\n"
        /* every other family, packet and vsock among them; rubbish above 32 bits */
        "print(set(call(41, f, 3, 0) for f in range(0, 70) if f not in (1, 2, 10, 16)))\n"
        "print(call(41, (7 << 32) | 17, 3, 0), call(41, 1 << 31, 1, 0))\n"
        /* netlink other than route: audit, kobject-uevent, generic */
        "print([call(41, 16, 3, p) for p in (9, 15, 16)], call(41, 16, 3, 0))\n",
        "[1, 2, 10, 16]\n{97}\n97 97\n[93, 93, 93] 0\n");
}

static void terminals_take_no_typed_ahead_words(void **state)
{
    (void)state;
    python_prints(SYS_HEAD "import pty\n"
                           "m, s = pty.openpty()\n"
                           "b = ctypes.addressof(ctypes.create_string_buffer(b'x'))\n"
                           "print(call(16, s, 0x5412, b), call(16, s, 0x541c, b))\n"
                           "print(call(16, s, (5 << 32) | 0x5412, b))\n"
                           "print(call(16, s, 0x5413, ctypes.addressof("
                           "ctypes.create_string_buffer(8))))\n", /* TIOCGWINSZ works */
                  "1 1\n1\n0\n");
}

static void personality_is_limited(void **state)
{
    (void)state;
    python_prints(SYS_HEAD
                  "print(call(135, 0xffffffff), call(135, 0), call(135, 0x0040000), "
                  "call(135, 0x20000), call(135, 0x20008 | 0x400000))\n",
                  "0 0 1 0 1\n");
}

static void foreign_abis_are_killed(void **state)
{
    (void)state;
    /* x32: the call's bit 30. */
    python_prints(SYS_HEAD "pid = os.fork()\n"
                           "if pid == 0:\n"
                           "    call(0x40000000 + 39)\n"
                           "    os._exit(0)\n"
                           "print(os.waitpid(pid, 0)[1] & 127)\n",
                  "31\n");
    /* int 0x80 (getpid), by hand: SIGSYS from the filter, or SIGSEGV on a kernel without.
     */
    python_prints(
        SYS_HEAD
        "import mmap\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    m = mmap.mmap(-1, 4096, prot=7)\n"
        "    m.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n"
        "    f = "
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n"
        "    f()\n"
        "    os._exit(0)\n"
        "print(os.waitpid(pid, 0)[1] & 127 in (31, 11))\n",
        "True\n");
}
int main(void)
{
#ifdef __x86_64__
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_calls_do_not_exist),
        cmocka_unit_test(dangerous_calls_are_refused),
        cmocka_unit_test(clone_makes_no_namespaces),
        cmocka_unit_test(only_four_socket_families),
        cmocka_unit_test(terminals_take_no_typed_ahead_words),
        cmocka_unit_test(personality_is_limited),
        cmocka_unit_test(foreign_abis_are_killed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
#else
    puts("skip the filter's rules: their numbers are written down for x86_64 only");
    return 0;
#endif
}
