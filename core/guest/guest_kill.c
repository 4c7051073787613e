/* SPDX-License-Identifier: MIT */
/*
 * Ending whole trees. Everything below a supervisor is found by ppid and killed in rounds
 * until nothing is left; the supervisor itself is last, so that orphans keep falling back
 * to it and no fork escapes. No SIGSTOP first: it costs more than it saves. No heap, no
 * fork.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "core/guest/guest.h"

static bool may_kill_all; /* set while the whole sandbox ends */

/* The only command with anything alive: one call ends its tree, whatever it forks
 * meanwhile. */
static bool is_only(const struct guest_exec *e)
{
    return g.init && e->super && guest_exec_supers() == 1;
}

static void term_tree(const struct guest_exec *e)
{
    struct guest_procs ps = guest_proc_scan(NULL);
    for (size_t i = 0; i < ps.n; i++)
        if (ps.v[i].top == e->super && ps.v[i].pid != e->super &&
            !guest_proc_gone(&ps.v[i]))
            kill(ps.v[i].pid, SIGTERM);
}

void guest_kill_begin(struct guest_exec *e, enum gp_why why, uint32_t grace_ms)
{
    if (!e->super || e->killing == GUEST_KILL_ROUNDS)
        return;
    bool first = e->killing == GUEST_KILL_NONE;
    if (first && e->phase <= GUEST_RUNNING)
        e->exit.why = (uint32_t)why;
    if (grace_ms) {
        int64_t at = g.now + grace_ms;
        if (first)
            term_tree(e);
        e->kill_at = first || at < e->kill_at ? at : e->kill_at;
        e->killing = GUEST_KILL_TERM;
        return;
    }
    e->killing = GUEST_KILL_ROUNDS;
    e->kill_since = g.now;
}

/* Its tree has to go now. */
static bool doomed(const struct guest_exec *e)
{
    return e->killing == GUEST_KILL_ROUNDS || may_kill_all;
}

/*
 * While /proc is still being read: an orphan is killed in the moment it is met. A program
 * that forks and exits in a loop is always one, and would be gone by the end of the look.
 */
static void kill_orphan(const struct guest_proc *p)
{
    const struct guest_exec *e = p->ppid == g.pid ? NULL : guest_exec_of(p->ppid);
    if (p->ppid == g.pid ? !guest_exec_of(p->pid) : e && doomed(e))
        kill(p->pid, SIGKILL);
}

/* One round over all trees that have to go; true when it met anything alive in them. */
static bool round_of_kill(void)
{
    bool met = false, met_stray = false;
    for (size_t i = 0; i < g.slots_used; i++) {
        struct guest_exec *e = &g.slots[i];
        e->kill_left = 0;
        if (e->killing == GUEST_KILL_ROUNDS && is_only(e))
            kill(-1, SIGKILL);
    }
    struct guest_procs ps = guest_proc_scan(kill_orphan);
    for (size_t i = 0; i < ps.n; i++) {
        const struct guest_proc *p = &ps.v[i];
        if (p->top <= 0 || guest_proc_gone(p))
            continue;
        struct guest_exec *e = guest_exec_of(p->top);
        if (e && (p->pid == e->super || !doomed(e)))
            continue;
        kill(p->pid, SIGKILL);
        met = true;
        if (e)
            e->kill_left++;
        else
            met_stray = true;
    }
    if (!ps.v && g.init && !g.slots_used)
        kill(-1,
             SIGKILL); /* blind, and nothing of ours is alive: all there is are strays */
    g.strays = met_stray || !ps.whole;
    return met || !ps.whole;
}

static bool wanted(void)
{
    if (g.strays)
        return true;
    for (size_t i = 0; i < g.slots_used; i++)
        if (g.slots[i].killing == GUEST_KILL_ROUNDS)
            return true;
    return false;
}

/* After the rounds of this turn: who is through, and whose supervisor needs the last push.
 */
static void settle(struct guest_exec *e)
{
    if (e->killing == GUEST_KILL_NONE)
        return;
    if (!e->super && !g.strays) {
        e->killing = GUEST_KILL_NONE;
        e->kill_left = 0;
        return;
    }
    if (e->killing != GUEST_KILL_ROUNDS)
        return;
    int64_t passed = g.now - e->kill_since;
    if (e->super && e->kill_left == 0 && passed >= GUEST_SUPER_MS)
        kill(e->super, SIGKILL);
    if (passed >= GUEST_KILL_MS)
        e->kill_over = true;
}

void guest_kill_turn(void)
{
    for (size_t i = 0; i < g.slots_used; i++) {
        struct guest_exec *e = &g.slots[i];
        if (e->killing == GUEST_KILL_TERM && e->super && g.now >= e->kill_at) {
            e->killing = GUEST_KILL_ROUNDS;
            e->kill_since = g.now;
        }
    }
    while (wanted() && guest_clock() - g.now < GUEST_ROUNDS_MS) {
        bool met = round_of_kill();
        guest_exec_reap();
        if (!met)
            break;
    }
    for (size_t i = 0; i < g.slots_used; i++)
        settle(&g.slots[i]);
}

int64_t guest_kill_wait(void)
{
    int64_t ms = g.strays ? 1 : -1;
    for (size_t i = 0; i < g.slots_used; i++) {
        const struct guest_exec *e = &g.slots[i];
        int64_t left = -1;
        if (e->killing == GUEST_KILL_ROUNDS)
            left = e->kill_over ? GUEST_KILL_SLOW_MS : 1;
        else if (e->killing == GUEST_KILL_TERM)
            left = e->kill_at > g.now ? e->kill_at - g.now : 0;
        if (left >= 0 && (ms < 0 || left < ms))
            ms = left;
    }
    return ms;
}

uint32_t guest_kill_count(const struct guest_exec *e)
{
    uint32_t n = 0;
    struct guest_procs ps = guest_proc_scan(NULL);
    for (size_t i = 0; i < ps.n; i++)
        n += ps.v[i].top == e->super && ps.v[i].pid != e->super &&
             !guest_proc_gone(&ps.v[i]);
    return n;
}

void guest_kill_all(void)
{
    int64_t end = guest_clock() + GUEST_KILL_MS;
    may_kill_all = true;
    while (guest_clock() < end) {
        if (g.init)
            kill(-1, SIGKILL);
        bool met = round_of_kill();
        for (size_t i = 0; !met && i < g.slots_used; i++)
            if (g.slots[i].super)
                kill(g.slots[i].super, SIGKILL);
        guest_exec_reap();
        if (!met && !g.strays && guest_exec_supers() == 0)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}
