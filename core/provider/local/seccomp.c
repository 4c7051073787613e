/* SPDX-License-Identifier: MIT */
/*
 * Two filters that the kernel combines (the stricter answer wins). CALLS names the system
 * calls that exist: those which Docker's default profile gives a container without
 * capabilities. What no list knows is ENOSYS, so that libraries fall back as on an older
 * kernel. ARGS refuses arguments. They are two because libseccomp lets an unconditional
 * rule swallow the conditional ones of the same call. Foreign ABIs (int 0x80, x32) are
 * killed by both.
 */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "core/provider/local/local.h"

/* Space-separated, by theme. Names that this libseccomp or this machine lacks are skipped.
 */
static const char *const allowed[] = {
    /* files by descriptor */
    "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close "
    "close_range dup dup2 dup3 fcntl flock fsync fdatasync sync syncfs sync_file_range "
    "ftruncate fallocate fadvise64 readahead copy_file_range sendfile splice tee vmsplice "
    "pipe pipe2 ioctl cachestat getdents getdents64",
    /* files by name */
    "open openat openat2 creat access faccessat faccessat2 stat lstat fstat newfstatat "
    "statx "
    "statfs fstatfs truncate mkdir mkdirat rmdir link linkat symlink symlinkat readlink "
    "readlinkat unlink unlinkat rename renameat renameat2 chdir fchdir getcwd umask mknod "
    "mknodat chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes "
    "futimesat utimensat name_to_handle_at statmount listmount",
    "getxattr lgetxattr fgetxattr setxattr lsetxattr fsetxattr listxattr llistxattr "
    "flistxattr removexattr lremovexattr fremovexattr getxattrat setxattrat listxattrat "
    "removexattrat",
    /* waiting */
    "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_ctl_old "
    "epoll_wait "
    "epoll_wait_old epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 "
    "inotify_init "
    "inotify_init1 inotify_add_watch inotify_rm_watch fanotify_mark io_setup io_destroy "
    "io_submit io_cancel io_getevents io_pgetevents",
    /* time */
    "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep adjtimex "
    "clock_adjtime alarm getitimer setitimer timer_create timer_delete timer_getoverrun "
    "timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times",
    /* memory */
    "brk mmap munmap mremap mprotect madvise mincore msync mlock mlock2 mlockall munlock "
    "munlockall membarrier memfd_create memfd_secret remap_file_pages pkey_alloc pkey_free "
    "pkey_mprotect mseal map_shadow_stack process_mrelease",
    /* processes and threads */
    "fork vfork clone execve execveat exit exit_group wait4 waitid getpid getppid gettid "
    "getpgid getpgrp setpgid getsid setsid getpriority setpriority ioprio_get ioprio_set "
    "sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam "
    "sched_getscheduler sched_setscheduler sched_getattr sched_setattr "
    "sched_get_priority_max sched_get_priority_min sched_rr_get_interval getrlimit "
    "setrlimit "
    "prlimit64 getrusage prctl arch_prctl modify_ldt set_tid_address set_thread_area "
    "get_thread_area set_robust_list get_robust_list rseq getcpu restart_syscall "
    "personality "
    "ptrace process_vm_readv process_vm_writev pidfd_open pidfd_send_signal seccomp "
    "landlock_create_ruleset landlock_add_rule landlock_restrict_self uretprobe "
    "riscv_hwprobe riscv_flush_icache",
    "futex futex_waitv futex_wait futex_wake futex_requeue",
    /* signals */
    "kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend "
    "rt_sigreturn "
    "rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack pause",
    /* identity; without capabilities these change nothing */
    "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid "
    "setregid setresuid setresgid setgroups setfsuid setfsgid capget capset",
    /* sockets; the families are ARGS's business */
    "socket socketpair bind listen accept accept4 connect shutdown getsockname getpeername "
    "getsockopt setsockopt send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg",
    /* System V and POSIX IPC, in a namespace of their own */
    "shmget shmat shmdt shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl "
    "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
    "uname sysinfo getrandom",
};

/* Known and refused: EPERM tells a program more than ENOSYS would. */
static const char *const refused[] = {
    "mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount "
    "fspick mount_setattr setns unshare",
    "keyctl add_key request_key bpf perf_event_open userfaultfd io_uring_setup "
    "io_uring_enter io_uring_register",
    "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon "
    "swapoff "
    "sethostname setdomainname settimeofday clock_settime stime acct quotactl quotactl_fd "
    "syslog iopl ioperm open_by_handle_at fanotify_init lookup_dcookie nfsservctl vhangup",
    "kcmp pidfd_getfd process_madvise mbind set_mempolicy get_mempolicy migrate_pages "
    "move_pages set_mempolicy_home_node",
};

enum { CLONE_ANY_NAMESPACE = 0x7E020000 };
#ifdef __s390x__
enum { CLONE_FLAGS_ARG = 1 };
#else
enum { CLONE_FLAGS_ARG = 0 };
#endif
/* The kernel looks at the low 32 bits of these arguments, so must we: a request with
 * rubbish above them would pass an equal-to. */
#define LOW32 0xffffffffu
#define FAMILY_COUNT 64u /* above every family the kernel knows */

static bool add_names(scmp_filter_ctx ctx, uint32_t action, const char *const *lists,
                      size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bg_autofree char *copy = bg_xstrdup(lists[i]);
        char *save = NULL;
        for (char *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
            int nr = seccomp_syscall_resolve_name(s);
            if (nr == __NR_SCMP_ERROR || nr < 0)
                continue; /* not on this machine: the default, ENOSYS, holds */
            if (seccomp_rule_add(ctx, action, nr, 0) != 0)
                return false;
        }
    }
    return true;
}

static bool fill_calls(scmp_filter_ctx ctx)
{
    return add_names(ctx, SCMP_ACT_ALLOW, allowed, bg_countof(allowed)) &&
           add_names(ctx, SCMP_ACT_ERRNO(EPERM), refused, bg_countof(refused));
}

static bool refuse_masked(scmp_filter_ctx ctx, int err, int nr, unsigned arg, uint64_t mask,
                          uint64_t value)
{
    return seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint32_t)err), nr, 1,
                            SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, mask, value)) == 0;
}

static bool fill_clone(scmp_filter_ctx ctx)
{
    for (unsigned bit = 0; bit < 32; bit++) {
        uint64_t flag = 1ull << bit;
        if (!(flag & CLONE_ANY_NAMESPACE))
            continue;
        if (!refuse_masked(ctx, EPERM, SCMP_SYS(clone), CLONE_FLAGS_ARG, flag, flag))
            return false;
    }
    return true;
}

static bool family_allowed(unsigned f)
{
    return f == AF_UNIX || f == AF_INET || f == AF_INET6 || f == AF_NETLINK;
}

static bool fill_socket(scmp_filter_ctx ctx)
{
    int nr[] = {SCMP_SYS(socket), SCMP_SYS(socketpair)};

    for (size_t i = 0; i < bg_countof(nr); i++) {
        for (unsigned f = 0; f < FAMILY_COUNT; f++)
            if (!family_allowed(f) && !refuse_masked(ctx, EAFNOSUPPORT, nr[i], 0, LOW32, f))
                return false;
        for (unsigned bit = 6; bit < 32; bit++) /* all from FAMILY_COUNT up */
            if (!refuse_masked(ctx, EAFNOSUPPORT, nr[i], 0, 1ull << bit, 1ull << bit))
                return false;
    }
    /* Of netlink only ROUTE, which is protocol 0. */
    for (unsigned bit = 0; bit < 32; bit++)
        if (seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, AF_NETLINK),
                             SCMP_A2(SCMP_CMP_MASKED_EQ, 1ull << bit, 1ull << bit)) != 0)
            return false;
    return true;
}

static bool fill_ioctl(scmp_filter_ctx ctx)
{
    /* Both put words into a terminal that somebody else reads. */
    return refuse_masked(ctx, EPERM, SCMP_SYS(ioctl), 1, LOW32, TIOCSTI) &&
           refuse_masked(ctx, EPERM, SCMP_SYS(ioctl), 1, LOW32, TIOCLINUX);
}

/* Docker's five: PER_LINUX, PER_LINUX32, both with UNAME26, and the query. Everything else
 * has a bit outside of 0x20008; the query has all bits. */
static bool fill_personality(scmp_filter_ctx ctx)
{
    const uint64_t ok_bits = 0x20008;

    for (unsigned bit = 0; bit < 31; bit++) {
        uint64_t flag = 1ull << bit, top = 1ull << 31;
        if (flag & ok_bits)
            continue;
        /* The bit is set and the top one is not: neither one of the four nor the query. */
        if (!refuse_masked(ctx, EPERM, SCMP_SYS(personality), 0, flag | top, flag))
            return false;
        /* The top one is set and this one is not: not the query. */
        if (!refuse_masked(ctx, EPERM, SCMP_SYS(personality), 0, flag | top, top))
            return false;
    }
    return true;
}

static bool fill_args(scmp_filter_ctx ctx)
{
    return fill_clone(ctx) && fill_socket(ctx) && fill_ioctl(ctx) && fill_personality(ctx);
}

int local_seccomp_fd(enum local_filter f, struct bg_error *err)
{
    bool calls = f == LOCAL_FILTER_CALLS;
    scmp_filter_ctx ctx = seccomp_init(calls ? SCMP_ACT_ERRNO(ENOSYS) : SCMP_ACT_ALLOW);
    int fd = -1;
    bool ok;

    if (!ctx) {
        bg_fail(err, BG_ERR_UNAVAILABLE, 0, "libseccomp has no filter for this machine");
        return -1;
    }
    ok = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0;
    if (ok && calls) /* a binary tree instead of a list of 300 */
        ok = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0;
    if (ok)
        ok = calls ? fill_calls(ctx) : fill_args(ctx);
    if (ok) {
        fd = memfd_create("boxgate-seccomp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        ok = fd >= 0 && seccomp_export_bpf(ctx, fd) == 0 &&
             fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0;
    }
    seccomp_release(ctx);
    if (!ok) {
        bg_fail(err, BG_ERR_UNAVAILABLE, 0, "the system call filter could not be built");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}
