/* SPDX-License-Identifier: MIT */
/* Linked with the whole of libboxgate and without curses: that it links is the test. */
#include <stdio.h>

int main(void)
{
    puts("ok core links without ncurses");
    return 0;
}
