/* SPDX-License-Identifier: MIT */
/* A plain main for fuzz targets: feeds every file of tests/data/fuzz/<target>/ and counts
 * them. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int feed(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return -1;
    static uint8_t buf[1 << 22];
    size_t n = fread(buf, 1, sizeof buf, f);
    fclose(f);
    /* An exact allocation, so that a read past the end is seen by the sanitizer. */
    uint8_t *p = malloc(n ? n : 1);
    if (!p)
        return -1;
    memcpy(p, buf, n);
    LLVMFuzzerTestOneInput(p, n);
    free(p);
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    const char *src = getenv("BOXGATE_SRC");
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/tests/data/fuzz/%s", src ? src : ".", name);
    if (argc > 1)
        return feed(argv[1]) ? 1 : 0;
    DIR *d = opendir(dir);
    if (!d) {
        printf("not ok %s: no corpus at %s\n", name, dir);
        return 1;
    }
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char path[8192];
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (feed(path)) {
            printf("not ok %s: cannot read %s\n", name, e->d_name);
            return 1;
        }
        n++;
    }
    closedir(d);
    printf(n ? "ok %s replayed %d inputs\n" : "not ok %s: empty corpus (%d)\n", name, n);
    return n ? 0 : 1;
}
