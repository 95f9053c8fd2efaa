/* The clocks over a suspension of the machine.
 *
 * Reads all the time; half way, a child suspends the machine. The counter runs on meanwhile, the
 * monotonic clock does not: they have moved apart, and the library must notice. */
#include "check.h"

static int64_t error(clockid_t clock)
{
    int64_t before = kernel(clock), now = ours(clock), after = kernel(clock);
    if (now < before)
        return before - now;
    return now > after ? now - after : 0;
}

int main(void)
{
    int64_t monotonic = ours(CLOCK_MONOTONIC), boot = ours(CLOCK_BOOTTIME);
    int64_t end = kernel(CLOCK_MONOTONIC) + 8000000000, last = 0, wrong = 0, wrong_from = 0;
    pid_t pid = fork();
    if (pid == 0) {
        unsetenv("LD_PRELOAD");
        sleep(1);
        _exit(system("/suspend") != 0);
    }
    while (kernel(CLOCK_MONOTONIC) < end) {
        int64_t now = ours(CLOCK_MONOTONIC);
        CHECK(now >= last, "%ld after %ld", now, last);
        last = now;
        if (error(CLOCK_MONOTONIC) > 5000 || error(CLOCK_BOOTTIME) > 5000 ||
            error(CLOCK_REALTIME) > 5000) {
            if (wrong_from == 0)
                wrong_from = now;
            wrong = now - wrong_from;
        }
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(status == 0, "the machine did not suspend: %#x", status);
    int64_t asleep = (ours(CLOCK_BOOTTIME) - boot) - (ours(CLOCK_MONOTONIC) - monotonic);
    printf("asleep for %ld ms; a clock was off for %ld us at most\n", asleep / 1000000,
           wrong / 1000);
    CHECK(asleep > 1000000000, "%ld ns", asleep);
    CHECK(wrong < 50000000, "%ld ns", wrong);
    return failures != 0;
}
