/* SPDX-License-Identifier: MIT */
/* Who is let in by the link's listener: pid, token, time, number of peers, bytes. */
#include <sys/wait.h>

#include "core/base/values.h"
#include "tests/test.h"
#include "tests/unit/guest/fake_guest.h"

/* A child dials, says a proper hello and stays until the link is closed on it. */
static pid_t other_process(void)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    struct gp_hello hello = {.magic = GP_MAGIC, .version = GP_VERSION};
    struct gp_head h = {.len = sizeof hello, .type = GP_HELLO};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char frame[sizeof h + sizeof hello], c;
    strcpy(a.sun_path, path);
    memcpy(frame, &h, sizeof h);
    memcpy(frame + sizeof h, &hello, sizeof hello);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a))
        _exit(2);
    /* 0: turned away without a byte; 1: got an answer. */
    _exit(send(fd, frame, sizeof frame, MSG_NOSIGNAL) > 0 && recv(fd, &c, 1, 0) > 0);
}

static int ended(pid_t pid, int *status)
{
    return waitpid(pid, status, WNOHANG) == pid;
}

static void guest_of_the_right_pid_is_welcome(void **state BG_UNUSED)
{
    struct fake f;
    struct stat st;
    listen_for(getpid(), NULL);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
    assert_false(bg_channel_up(ch));
    fake_link(&f);
    struct gp_welcome w;
    memcpy(&w, f.p, sizeof w);
    assert_int_equal(w.linger_ms, 7000);
    assert_int_equal(w.linger_empty_ms, 3000);
    assert_true(bg_channel_up(ch));
    assert_int_equal(news.ready, 1);
    assert_int_equal(stat(path, &st), -1); /* nobody else can dial now */
    close(f.fd);
}

static void another_process_is_turned_away_and_the_third_loses(void **state BG_UNUSED)
{
    int status = -1;
    listen_for(getpid(), NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(news.lost, 0);
        pid_t pid = other_process();
        UNTIL(ended(pid, &status));
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(news.ready, 0);
    assert_int_equal(news.lost, 1);
    assert_int_equal(news.err.code, BG_ERR_PROTOCOL);
}

static void a_peer_waits_for_its_pid_to_be_known(void **state BG_UNUSED)
{
    struct fake f = {0};
    int status;
    listen_for(0, NULL);
    pid_t child = other_process(); /* dials, too; only one of them will be the guest */
    f.fd = dial();
    fake_hello(&f, NULL);
    int64_t end = bg_mono_ms() + BG_AUTH_MS + 100; /* longer than an unknown peer gets */
    while (bg_mono_ms() < end)
        bg_loop_turn(loop, 20);
    assert_int_equal(news.ready, 0);
    bg_channel_expect_pid(ch, getpid());
    assert_int_equal(news.ready, 0); /* not inside the call */
    assert_true(fake_next(&f));
    assert_int_equal(f.h.type, GP_WELCOME);
    assert_int_equal(news.ready, 1);
    UNTIL(ended(child, &status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(f.fd);
}

static void the_token_decides_where_pids_cant(void **state BG_UNUSED)
{
    struct fake f = {0}, g = {0};
    unsigned char token[GP_TOKEN_LEN], wrong[GP_TOKEN_LEN];
    memset(token, 0x5a, sizeof token);
    memcpy(wrong, token, sizeof wrong);
    wrong[GP_TOKEN_LEN - 1] ^= 1;
    listen_for(-1, token);
    f.fd = dial();
    fake_hello(&f, wrong);
    assert_false(fake_next(&f));
    close(f.fd);
    f.fd = dial();
    fake_hello(&f, NULL);
    assert_false(fake_next(&f));
    close(f.fd);
    assert_int_equal(news.ready, 0);
    g.fd = dial();
    fake_hello(&g, token);
    assert_true(fake_next(&g));
    assert_int_equal(g.h.type, GP_WELCOME);
    close(g.fd);
}

static void silent_peers_lose_their_place_after_a_second(void **state BG_UNUSED)
{
    int silent[BG_AUTH_CONNS];
    struct fake f = {0};
    listen_for(getpid(), NULL);
    int64_t begin = bg_mono_ms();
    for (int i = 0; i < BG_AUTH_CONNS; i++) {
        silent[i] = dial();
        bg_loop_turn(loop, 0);
    }
    fake_link(&f); /* has no place before one of them is gone */
    assert_true(bg_mono_ms() - begin >= BG_AUTH_MS - 20);
    assert_int_equal(news.lost, 0);
    for (int i = 0; i < BG_AUTH_CONNS; i++)
        close(silent[i]);
    close(f.fd);
}

static void a_malformed_hello_is_cut_off_at_once(void **state BG_UNUSED)
{
    struct gp_hello hello = {.magic = GP_MAGIC, .version = GP_VERSION + 1};
    struct fake f = {0};
    listen_for(getpid(), NULL);
    int64_t begin = bg_mono_ms();
    f.fd = dial();
    fake_send(&f, GP_HELLO, 0, &hello, sizeof hello);
    assert_false(fake_next(&f));
    close(f.fd);
    f.fd = dial(); /* a frame that would be fine later */
    fake_send(&f, GP_PONG, 0, NULL, 0);
    assert_false(fake_next(&f));
    close(f.fd);
    assert_int_equal(news.lost, 0);
    f.fd = dial();
    fake_bytes(&f, "GET / HTTP/1.1\r\n\r\n", 18);
    assert_false(fake_next(&f));
    close(f.fd);
    assert_int_equal(news.lost, 1);
    assert_int_equal(news.ready, 0);
    assert_true(bg_mono_ms() - begin < BG_AUTH_MS);
}

static void a_lost_link_is_dialled_again_with_a_new_epoch(void **state BG_UNUSED)
{
    struct fake f;
    listen_for(getpid(), NULL);
    fake_link(&f);
    uint32_t epoch = f.epoch;
    close(f.fd);
    UNTIL(news.down == 1);
    assert_false(bg_channel_up(ch));
    fake_link(&f);
    assert_int_equal(f.epoch, epoch + 1);
    assert_int_equal(news.ready, 2);
    bg_channel_shutdown(ch);
    fake_expect(&f, GP_SHUTDOWN);
    close(f.fd);
    UNTIL(news.down == 2);
    assert_int_equal(access(path, F_OK), -1); /* not opened again */
}

static void what_cant_be_listened_at_is_an_error(void **state BG_UNUSED)
{
    struct bg_error err = {0};
    char longer[200] = "/tmp/";
    struct bg_channel_opts o = {.sock_path = path, .expect_pid = -1};
    assert_null(bg_channel_listen(loop, &o, &channel_events, NULL, &err));
    assert_int_equal(err.code, BG_ERR_USAGE);
    memset(longer + 5, 'x', 150);
    o = (struct bg_channel_opts){.sock_path = longer, .expect_pid = 1};
    assert_null(bg_channel_listen(loop, &o, &channel_events, NULL, &err));
    assert_int_equal(err.code, BG_ERR_PATH);
    o.sock_path = "/nowhere/at/all/s";
    assert_null(bg_channel_listen(loop, &o, &channel_events, NULL, &err));
    assert_int_equal(err.code, BG_ERR_IO);
    assert_int_equal(err.sys, ENOENT);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        T(guest_of_the_right_pid_is_welcome),
        T(another_process_is_turned_away_and_the_third_loses),
        T(a_peer_waits_for_its_pid_to_be_known),
        T(the_token_decides_where_pids_cant),
        T(silent_peers_lose_their_place_after_a_second),
        T(a_malformed_hello_is_cut_off_at_once),
        T(a_lost_link_is_dialled_again_with_a_new_epoch),
        T(what_cant_be_listened_at_is_an_error),
    };
    return cmocka_run_group_tests_name("door", tests, NULL, NULL);
}
