/* SPDX-License-Identifier: MIT */
/* The server's log: safe to read on a terminal, bounded, and nobody else's file. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/utf8.h"
#include "core/base/values.h"
#include "tests/test.h"

static char dir[64], *file;

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/boxgate-log.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    file = bg_path_join(dir, "server.log");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(file);
    return bg_rm_rf(dir, NULL) ? 0 : -1;
}

static char *contents(const char *path)
{
    struct bg_buf b;
    struct bg_error e = {0};
    bg_buf_init(&b, BG_LOG_BYTES * 2);
    if (!bg_read_file(path, BG_LOG_BYTES * 2, true, &b, &e))
        fail_msg("%s", e.msg);
    return bg_buf_steal(&b);
}

static void one_line_each(void **state)
{
    (void)state;
    struct bg_error e = {0};
    struct bg_log *log = bg_log_open(file, BG_LOG_INFO, &e);
    assert_non_null(log);
    bg_log(log, BG_LOG_ERROR, "first %d", 1);
    bg_log(log, BG_LOG_DEBUG, "not wanted");
    bg_log(log, BG_LOG_INFO, "second");
    bg_log_close(log);
    log = bg_log_open(file, BG_LOG_DEBUG, &e);
    bg_log(log, BG_LOG_WARN, "third");
    bg_log(log, BG_LOG_DEBUG, "fourth");
    bg_log_close(log);
    bg_autofree char *text = contents(file);
    static const char *const want[] = {" error first 1\n", " info second\n",
                                       " warn third\n", " debug fourth\n"};
    const char *at = text;
    for (size_t i = 0; i < bg_countof(want); i++) {
        char stamp[BG_TIME_LEN];
        memcpy(stamp, at, BG_TIME_LEN - 1);
        stamp[BG_TIME_LEN - 1] = '\0';
        assert_true(bg_time_parse(stamp) > 0);
        at += BG_TIME_LEN - 1;
        assert_memory_equal(at, want[i], strlen(want[i]));
        at += strlen(want[i]);
    }
    assert_string_equal(at, "");
}

static void hostile_names_stay_on_their_line(void **state)
{
    (void)state;
    struct bg_log *log = bg_log_open(file, BG_LOG_INFO, NULL);
    bg_log(log, BG_LOG_INFO, "client %s",
           "x\n2026-11-30T00:00:00.000Z error forged\x1b]52;c;AAAA\x07\xe2\x80\xae\xff");
    bg_log_close(log);
    bg_autofree char *text = contents(file);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    for (const char *c = text; c[1]; c++)
        assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
    assert_null(strstr(text, "\xe2\x80\xae"));
    assert_true(bg_utf8_valid(text, strlen(text)));
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    char big[10000];
    memset(big, '\x1b', sizeof big);
    big[sizeof big - 1] = '\0';
    struct bg_log *log = bg_log_open(file, BG_LOG_INFO, NULL);
    bg_log(log, BG_LOG_INFO, "%s", big);
    memset(big, 'a', sizeof big - 1);
    bg_log(log, BG_LOG_INFO, "%s", big);
    bg_log_close(log);
    bg_autofree char *text = contents(file);
    char *second = strchr(text, '\n') + 1;
    assert_true(strlen(text) < 40000);
    assert_string_equal(text + strlen(text) - 7, " [cut]\n");
    assert_ptr_equal(strchr(second, '\n'), text + strlen(text) - 1);
}

static off_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    return st.st_size;
}

static void rotates_and_stays_bounded(void **state)
{
    (void)state;
    char big[4000];
    memset(big, 'a', sizeof big);
    big[sizeof big - 1] = '\0';
    struct bg_log *log = bg_log_open(file, BG_LOG_INFO, NULL);
    bg_log(log, BG_LOG_INFO, "oldest");
    for (int i = 0; i < 5200; i++) /* 5 files' worth */
        bg_log(log, BG_LOG_INFO, "%s", big);
    bg_log(log, BG_LOG_INFO, "newest");
    bg_log_close(log);
    int files = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        files += e->d_name[0] != '.';
    closedir(d);
    assert_int_equal(files, BG_LOG_FILES);
    for (int i = 1; i < BG_LOG_FILES; i++) {
        bg_autofree char *old = bg_xasprintf("%s.%d", file, i);
        assert_in_range(size_of(old), BG_LOG_BYTES - 5000, BG_LOG_BYTES);
        bg_autofree char *text = contents(old);
        assert_null(strstr(text, "oldest"));
    }
    assert_true(size_of(file) < BG_LOG_BYTES);
    bg_autofree char *text = contents(file);
    assert_non_null(strstr(text, "newest"));
}

static void foreign_or_odd_files_are_refused(void **state)
{
    (void)state;
    struct bg_error e = {0};
    bg_autofree char *real = bg_path_join(dir, "real");
    assert_true(bg_write_file_atomic(real, "", 0, 0644, &e));
    assert_int_equal(symlink(real, file), 0);
    assert_null(bg_log_open(file, BG_LOG_INFO, &e));
    assert_int_equal(e.code, BG_ERR_IO);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_null(bg_log_open(file, BG_LOG_INFO, &e));
    /* A file of ours with wide rights is narrowed. */
    struct bg_log *log = bg_log_open(real, BG_LOG_INFO, &e);
    assert_non_null(log);
    bg_log_close(log);
    assert_int_equal(size_of(real), 0);
}

static void stderr_and_nothing(void **state)
{
    (void)state;
    bg_log(NULL, BG_LOG_ERROR, "dropped");
    bg_log_close(NULL);
    int saved = dup(STDERR_FILENO);
    int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    dup2(fd, STDERR_FILENO);
    struct bg_log *log = bg_log_open(NULL, BG_LOG_WARN, NULL);
    bg_log(log, BG_LOG_WARN, "to stderr");
    bg_log_close(log);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(fd);
    bg_autofree char *text = contents(file);
    assert_non_null(strstr(text, " warn to stderr\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_line_each, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile_names_stay_on_their_line, setup, teardown),
        cmocka_unit_test_setup_teardown(long_messages_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(rotates_and_stays_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(foreign_or_odd_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(stderr_and_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
