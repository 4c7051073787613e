/* SPDX-License-Identifier: MIT */
/*
 * The table of commands: EXEC frames are gathered, started once, watched over their
 * supervisor's reports, and told as ended after the drain. What was told stays known for
 * the last GP_REMEMBER ids, so a server that asks twice gets the same answer and no second
 * start.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/guest/guest.h"

static struct {
    struct {
        uint32_t id; /* 0 = empty */
        struct gp_exit exit;
    } v[GP_REMEMBER];
    size_t next;
} told;

static size_t blob_bytes;    /* mapped for requests being received */
static uint32_t skipping_id; /* continuation frames of a refused EXEC */

uint32_t guest_exec_slot(const struct guest_exec *e)
{
    return (uint32_t)(e - g.slots);
}

struct guest_exec *guest_exec_find(uint32_t id)
{
    for (size_t i = 0; i < g.slots_used; i++)
        if (g.slots[i].id == id && g.slots[i].phase >= GUEST_STARTING)
            return &g.slots[i];
    return NULL;
}

static struct guest_exec *find_receiving(uint32_t id)
{
    for (size_t i = 0; i < g.slots_used; i++)
        if (g.slots[i].id == id && g.slots[i].phase == GUEST_RECEIVING)
            return &g.slots[i];
    return NULL;
}

uint32_t guest_exec_live(void)
{
    uint32_t n = 0;
    for (size_t i = 0; i < g.slots_used; i++)
        n += g.slots[i].phase >= GUEST_STARTING && g.slots[i].phase <= GUEST_ENDED;
    return n;
}

uint32_t guest_exec_supers(void)
{
    uint32_t n = 0;
    for (size_t i = 0; i < g.slots_used; i++)
        n += g.slots[i].super > 0;
    return n;
}

struct guest_exec *guest_exec_of(pid_t pid)
{
    for (size_t i = 0; i < g.slots_used; i++)
        if (pid > 0 && g.slots[i].super == pid)
            return &g.slots[i];
    return NULL;
}

/* ---- what is remembered ---- */

static const struct gp_exit *recall(uint32_t id)
{
    for (size_t i = 0; id && i < GP_REMEMBER; i++)
        if (told.v[i].id == id)
            return &told.v[i].exit;
    return NULL;
}

static void remember(uint32_t id, const struct gp_exit *x)
{
    told.v[told.next].id = id;
    told.v[told.next].exit = *x;
    told.next = (told.next + 1) % GP_REMEMBER;
}

void guest_exec_forget(uint32_t id)
{
    for (size_t i = 0; i < GP_REMEMBER; i++)
        if (told.v[i].id == id)
            told.v[i].id = 0;
}

/*
 * That it runs: by STARTED, and by STATE when asked, which says as much. Neither is said
 * while the start may still fail. True when it was said now, so that output may follow.
 */
static bool tell_begun(struct guest_exec *e)
{
    if (e->phase == GUEST_STARTING)
        return false;
    if (!(e->tell_started || e->tell_state) || !guest_link_up() || !guest_link_room())
        return false;
    struct gp_started s = {.pid = e->main};
    struct gp_state live = {.kind = GP_STATE_LIVE};
    if (e->tell_state)
        guest_link_send(GP_STATE, e->id, &live, sizeof live);
    else
        guest_link_send(GP_STARTED, e->id, &s, sizeof s);
    e->tell_started = e->tell_state = false;
    return true;
}

/* True when the id is known; the answer is sent, or follows its start. */
static bool tell_known(uint32_t id)
{
    struct gp_state s = {.kind = GP_STATE_DONE};
    struct guest_exec *e = guest_exec_find(id);
    if (e && e->phase <= GUEST_ENDED) {
        e->tell_state = true;
        tell_begun(e);
        return true;
    }
    const struct gp_exit *x = recall(id);
    if (!x)
        return false;
    s.exit = *x;
    guest_link_send(GP_STATE, id, &s, sizeof s);
    return true;
}

void guest_exec_query(uint32_t id)
{
    struct gp_state none = {.kind = GP_STATE_UNKNOWN};
    if (!tell_known(id))
        guest_link_send(GP_STATE, id, &none, sizeof none);
}

/* ---- receiving EXEC ---- */

static void free_slot(struct guest_exec *e)
{
    if (e->phase == GUEST_RECEIVING)
        blob_bytes -= e->blob_size;
    guest_start_unmap(e);
    guest_drain_free(e);
    if (e->status_fd >= 0)
        close(e->status_fd);
    memset(e, 0, sizeof *e);
    while (g.slots_used && g.slots[g.slots_used - 1].phase == GUEST_FREE)
        g.slots_used--;
}

static struct guest_exec *take_slot(uint32_t id)
{
    for (size_t i = 0; i < GUEST_SLOTS; i++) {
        struct guest_exec *e = &g.slots[i];
        if (e->phase != GUEST_FREE)
            continue;
        e->id = id;
        e->phase = GUEST_RECEIVING;
        e->status_fd = e->in.fd = e->out[0].fd = e->out[1].fd = -1;
        if (i >= g.slots_used)
            g.slots_used = i + 1;
        return e;
    }
    return NULL;
}

static void refuse(const struct gp_head *h, enum gp_err err)
{
    struct gp_error x = {.err = (uint32_t)err};
    char text[128];
    size_t n = guest_start_error_text(&x, text, sizeof text);
    guest_link_send2(GP_ERROR, h->id, &x, sizeof x, text, n);
    skipping_id = h->flags & GP_F_MORE ? h->id : 0;
}

/* Every string costs four bytes of the blob, so the counts are bounded by its length. */
static bool plausible(const struct gp_exec *r)
{
    uint64_t strings = (uint64_t)r->argc + r->envc + 1;
    return r->argc > 0 && r->total <= GP_EXEC_MAX && strings * 4 <= r->total;
}

static enum gp_err begin(const struct gp_head *h, const char *p, struct guest_exec **out)
{
    struct gp_exec r;
    if (h->id == 0 || h->len < sizeof r)
        return GP_ERR_BAD;
    memcpy(&r, p, sizeof r);
    if (!plausible(&r))
        return GP_ERR_BAD;
    size_t size = (((size_t)r.total + 1 + 15) & ~(size_t)15) +
                  ((size_t)r.argc + r.envc + 2) * sizeof(char *);
    if (blob_bytes + size > GUEST_BLOBS)
        return GP_ERR_LIMIT;
    struct guest_exec *e = take_slot(h->id);
    if (!e)
        return GP_ERR_LIMIT;
    void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) {
        free_slot(e);
        return GP_ERR_OTHER;
    }
    e->req = r;
    e->flags = h->flags;
    e->blob = m;
    e->blob_size = size;
    blob_bytes += size;
    *out = e;
    return 0;
}

static void start(struct guest_exec *e)
{
    e->phase = GUEST_STARTING;
    blob_bytes -= e->blob_size;
    e->deadline_at = e->req.deadline_ms ? g.now + e->req.deadline_ms : 0;
    guest_start(e); /* a failure is in e->error and told in this turn */
    guest_start_unmap(e);
}

static bool skip_frame(const struct gp_head *h)
{
    if (!skipping_id || skipping_id != h->id)
        return false;
    if (!(h->flags & GP_F_MORE))
        skipping_id = 0;
    return true;
}

void guest_exec_frame(const struct gp_head *h, const char *p)
{
    if (skip_frame(h))
        return;
    uint32_t n = h->len;
    struct guest_exec *e = find_receiving(h->id);
    if (!e) {
        if (tell_known(h->id)) {
            skipping_id = h->flags & GP_F_MORE ? h->id : 0;
            return;
        }
        enum gp_err err = begin(h, p, &e);
        if (err) {
            refuse(h, err);
            return;
        }
        p += sizeof(struct gp_exec);
        n -= (uint32_t)sizeof(struct gp_exec);
    }
    bool more = h->flags & GP_F_MORE;
    uint32_t left = e->req.total - e->blob_len;
    if (n > left || (!more && n < left)) {
        free_slot(e);
        refuse(h, GP_ERR_BAD);
        return;
    }
    memcpy(e->blob + e->blob_len, p, n);
    e->blob_len += n;
    if (!more)
        start(e);
}

/* ---- reports ---- */

static void on_failed(struct guest_exec *e, enum guest_step step, int sys)
{
    enum gp_err err = GP_ERR_OTHER;
    if (step == GUEST_STEP_CWD)
        err = GP_ERR_CWD;
    else if (sys == EAGAIN) /* fork, or execve after a change of user: RLIMIT_NPROC */
        err = GP_ERR_LIMIT;
    else if (step == GUEST_STEP_EXEC &&
             (sys == ENOENT || sys == ENOTDIR || sys == ENAMETOOLONG || sys == ELOOP))
        err = GP_ERR_NOENT;
    else if (step == GUEST_STEP_EXEC && (sys == EACCES || sys == ENOEXEC || sys == EISDIR))
        err = GP_ERR_ACCES;
    guest_start_fail(e, err, sys);
}

/* The last command that the counters may speak of; several at once all see them move. */
static uint32_t oom_kills(const struct guest_exec *e)
{
    uint64_t now = guest_stats_oom_kills();
    uint64_t n = now > e->oom_before ? now - e->oom_before : 0;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static void end(struct guest_exec *e, int code, int sig)
{
    e->phase = GUEST_ENDED;
    e->ended_at = g.now;
    e->exit.code = code;
    e->exit.signal = sig;
    e->exit.duration_ms = (uint32_t)(g.now - e->began_at);
}

static void on_done(struct guest_exec *e, int st, bool alone)
{
    e->alone = alone;
    if (WIFSIGNALED(st))
        end(e, -1, WTERMSIG(st));
    else
        end(e, WEXITSTATUS(st), 0);
}

/* Everything the supervisor has said so far. */
static void read_status(struct guest_exec *e)
{
    struct guest_report r;
    e->status_ready = false;
    while (e->status_fd >= 0 && read(e->status_fd, &r, sizeof r) == (ssize_t)sizeof r) {
        if (r.kind == GUEST_R_STARTED && e->phase == GUEST_STARTING) {
            e->phase = GUEST_RUNNING;
            e->main = r.a;
            e->tell_started = true;
        } else if (r.kind == GUEST_R_FAILED && e->phase == GUEST_STARTING) {
            on_failed(e, r.a, r.b);
        } else if (r.kind == GUEST_R_DONE && e->phase == GUEST_RUNNING) {
            on_done(e, r.a, r.b);
        }
    }
}

/* The supervisor is reaped. Without a report the command is lost, never a success. */
static void super_gone(struct guest_exec *e, bool clean)
{
    read_status(e);
    e->super = 0;
    close(e->status_fd);
    e->status_fd = -1;
    if (!clean)
        g.strays = true; /* what it had below is ours now and is killed at once */
    if (e->tell_error || e->phase > GUEST_RUNNING)
        return;
    if (e->phase == GUEST_STARTING)
        e->tell_started = true; /* it may have: the safe side of not knowing */
    if (!e->killing) {
        e->lost = true;
        e->exit.why = GP_WHY_SUPERVISOR_LOST;
    }
    end(e, -1, SIGKILL);
}

void guest_exec_reap(void)
{
    int st;
    pid_t pid;
    g.child_died = false;
    while ((pid = waitpid(-1, &st, WNOHANG | WUNTRACED | __WALL)) > 0) {
        struct guest_exec *e = guest_exec_of(pid);
        if (WIFSTOPPED(st)) {
            /* A stopped supervisor reaps and reports nothing: only a program does that. */
            if (e)
                kill(pid, SIGKILL);
        } else if (e) {
            super_gone(e, WIFEXITED(st) && WEXITSTATUS(st) == 0);
        } else {
            g.strays = true;
        }
    }
}

/* ---- telling ---- */

static void tell_error(struct guest_exec *e)
{
    char text[128];
    size_t n = guest_start_error_text(&e->error, text, sizeof text);
    if (e->super || !guest_link_room())
        return; /* the supervisor of a failed start is about to end */
    if (guest_link_up()) {
        guest_link_send2(GP_ERROR, e->id, &e->error, sizeof e->error, text, n);
        if (e->kill_asked)
            guest_link_send(GP_KILLED, e->id, &(uint32_t){0}, 4);
    }
    free_slot(e);
}

static bool may_exit(const struct guest_exec *e)
{
    if (e->phase != GUEST_ENDED || e->tell_started || !guest_link_up() ||
        !guest_link_room())
        return false;
    if (e->killing && !e->kill_over)
        return false;
    if (e->lost && g.strays)
        return false;
    return guest_drain_done(e) && !guest_link_sending(guest_exec_slot(e));
}

static void tell_exit(struct guest_exec *e)
{
    e->exit.oom_kills = oom_kills(e);
    if (e->exit.why == GP_WHY_EXITED && e->exit.oom_kills && e->exit.signal == SIGKILL)
        e->exit.why = GP_WHY_OOM;
    e->exit.leftover = e->super && !e->alone ? guest_kill_count(e) : 0;
    guest_link_send(GP_EXIT, e->id, &e->exit, sizeof e->exit);
    remember(e->id, &e->exit);
    e->phase = GUEST_LEFT;
    guest_drain_free(e);
}

static bool tell(struct guest_exec *e)
{
    if (e->tell_error) {
        tell_error(e);
        return false;
    }
    bool begun = tell_begun(e);
    if (may_exit(e))
        tell_exit(e);
    if (e->kill_asked && (!e->killing || e->kill_over) && guest_link_room()) {
        uint32_t left = e->killing ? e->kill_left : 0;
        if (guest_link_up())
            guest_link_send(GP_KILLED, e->id, &left, sizeof left);
        e->kill_asked = false;
    }
    if (e->phase == GUEST_LEFT && !e->super && !e->kill_asked)
        free_slot(e);
    return begun;
}

/* The clock counts only while the main process lives: what it left is no part of the run.
 */
static void check_deadline(struct guest_exec *e)
{
    if (!e->deadline_at || e->phase > GUEST_RUNNING || e->killing || g.now < e->deadline_at)
        return;
    read_status(e); /* it may have ended in time, unread */
    if (e->phase <= GUEST_RUNNING && !e->tell_error)
        guest_kill_begin(e, GP_WHY_DEADLINE, 0);
}

bool guest_exec_turn(void)
{
    bool begun = false;
    for (size_t i = 0; i < g.slots_used; i++) {
        struct guest_exec *e = &g.slots[i];
        if (e->phase < GUEST_STARTING)
            continue;
        if (e->status_ready)
            read_status(e);
        check_deadline(e);
        if (e->phase == GUEST_ENDED && !e->drained && g.now - e->ended_at >= GP_DRAIN_MS)
            guest_drain_finish(e);
        begun |= tell(e);
    }
    return begun;
}

int64_t guest_exec_wait(void)
{
    int64_t ms = -1;
    for (size_t i = 0; i < g.slots_used; i++) {
        const struct guest_exec *e = &g.slots[i];
        int64_t at = 0;
        if (e->phase == GUEST_ENDED && !e->drained && !guest_drain_done(e))
            at = e->ended_at + GP_DRAIN_MS;
        else if (e->deadline_at && !e->killing &&
                 (e->phase == GUEST_STARTING || e->phase == GUEST_RUNNING))
            at = e->deadline_at;
        if (!at)
            continue;
        int64_t left = at > g.now ? at - g.now : 0;
        ms = ms < 0 || left < ms ? left : ms;
    }
    return ms;
}

void guest_exec_link_down(void)
{
    skipping_id = 0;
    for (size_t i = 0; i < g.slots_used; i++) {
        struct guest_exec *e = &g.slots[i];
        if (e->phase == GUEST_RECEIVING)
            free_slot(e);
        else if (e->phase != GUEST_FREE && e->in.fd >= 0 && !e->in.eof)
            e->in.frozen = true;
        e->kill_asked = e->tell_state = false;
    }
}

void guest_exec_link_up(void)
{
    for (size_t i = 0; i < g.slots_used; i++)
        for (int w = 0; w < 2; w++) {
            uint32_t credit = g.slots[i].req.credit;
            g.slots[i].out[w].credit = credit < GP_CREDIT_MAX ? credit : GP_CREDIT_MAX;
        }
}
