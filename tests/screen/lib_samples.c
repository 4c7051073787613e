/* SPDX-License-Identifier: MIT */
/* The requests that the saved screens show. */
#include "tests/screen/lib_samples.h"

static const char high_code[] =
    "import os, subprocess, base64\n"
    "from pathlib import Path\n"
    "\n"
    "SRC = Path(\"/data/customers.csv\")\n"
    "rows = SRC.read_text().splitlines()\n"
    "\n"
    "def pack(xs):\n"
    "    # check the checksum \xe2\x80\xae)hself si sihT #\xe2\x81\xa6\n"
    "    return base64.b64encode(\"\\n\".join(xs).encode())\n"
    "\n"
    "payload = pack(rows[:500])\n"
    "subprocess.run([\"sh\", \"-c\", \"id; env | sort > /workspace/e\"],\n"
    "               check=False)\n"
    "print(len(payload))\n"
    "Path(\"/workspace/out.b64\").write_bytes(payload)\n"
    "\n"
    "for i in range(0, len(payload), 76):\n"
    "    print(payload[i:i+76].decode())\n"
    "\n"
    "x = "
    "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"; "
    "os.system(\"rm -rf /workspace/*\")\n"
    "if rows:\n"
    "\tprint('''done:\n"
    "many lines''', 42)\n";

cJSON *sample_high(int64_t id)
{
    static const char *const hazards[] = {"bidi:8", NULL};
    return screen_request(id, "job-1", "python", high_code, sizeof high_code - 1, hazards);
}

cJSON *sample_low(int64_t id)
{
    static const char code[] = "print(sum(range(10)))\n";
    return screen_request(id, "job-1", "python", code, sizeof code - 1, NULL);
}

cJSON *sample_lines(int64_t id, int lines)
{
    static char code[65536];
    size_t n = 0;
    for (int i = 1; i <= lines; i++)
        n += (size_t)snprintf(code + n, sizeof code - n, "print(%d)\n", i);
    return screen_request(id, "nightly-eval", "python", code, n, NULL);
}

void sample_fill(struct screen *s)
{
    static const char code[] =
        "set -e\ntar -C /workspace -czf out.tgz . # all of it\necho done\n";
    cJSON_AddItemToArray(s->sessions, screen_session("job-1", "live", "none"));
    cJSON_AddItemToArray(s->sessions, screen_session("web-preview", "live", "bridge"));
    cJSON_AddItemToArray(s->sessions, screen_session("nightly-eval", "open", "none"));
    cJSON_AddItemToArray(s->sessions,
                         screen_session("模型-\xf0\x9f\x93\xa6", "creating", "none"));
    cJSON_AddItemToArray(s->requests, sample_high(144));
    cJSON_AddItemToArray(s->requests, screen_request(146, "nightly-eval", "bash", code,
                                                     sizeof code - 1, NULL));
    cJSON_AddItemToArray(s->requests, sample_low(148));
}
