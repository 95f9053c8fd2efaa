/* Follows the real time while another process sets it.
 *
 *     step
 *
 * The clock is set past the library, back and forth. Its readings must follow within milliseconds, as
 * often as its tracker looks (a busy host may hold it up once, not every second time), and the
 * monotonic clock must not notice. Then a leap second is inserted at midnight. */
#include "check.h"
#include <sys/timex.h>

/* How long ours takes to come within 5 us of the kernel's, nanoseconds. */
static int64_t time_to_follow(void)
{
    int64_t begin = kernel(CLOCK_MONOTONIC);
    for (;;) {
        int64_t before = kernel(CLOCK_REALTIME), now = ours(CLOCK_REALTIME),
                after = kernel(CLOCK_REALTIME);
        if (now >= before - 5000 && now <= after + 5000)
            return kernel(CLOCK_MONOTONIC) - begin;
        if (kernel(CLOCK_MONOTONIC) - begin > 1000000000)
            return 1000000000;
    }
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void set(int64_t nanos)
{
    /* By the system call: the library in this process does not see it. */
    struct timespec time = {nanos / 1000000000, nanos % 1000000000};
    if (syscall(SYS_clock_settime, CLOCK_REALTIME, &time) != 0)
        perror("clock_settime"), exit(1);
}

int main(void)
{
    int64_t took[5 * 9];
    size_t count = 0;
    const int64_t steps[] = {3600000000000, -3600000000000, 1000000000, -1000000000, 100000000,
                             -100000000,    1000000,        -1000000,   86400000000000};
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            for (int j = 0; j < 20000; j++) {
                ours(CLOCK_REALTIME);
                ours(CLOCK_MONOTONIC);
            }
            int64_t monotonic = ours(CLOCK_MONOTONIC);
            set(kernel(CLOCK_REALTIME) + steps[i]);
            took[count++] = time_to_follow();
            int64_t now = ours(CLOCK_MONOTONIC);
            CHECK(now >= monotonic && now - monotonic < 900000000, "monotonic moved by %ld ns",
                  now - monotonic);
            usleep(15000);
        }
    }
    qsort(took, count, sizeof(took[0]), compare);
    int64_t median = took[count / 2], worst = took[count - 1];
    printf("a step by another is followed in %ld us, at the latest in %ld us\n", median / 1000,
           worst / 1000);
    CHECK(median < 20000000, "%ld ns", median);
    CHECK(worst < 500000000, "%ld ns", worst);

    /* 2030-12-31 23:59:58, and a leap second to insert. */
    set(1924991998LL * 1000000000);
    struct timex leap = {.modes = ADJ_STATUS | ADJ_MAXERROR, .status = STA_INS, .maxerror = 0};
    CHECK(syscall(SYS_adjtimex, &leap) >= 0, "errno %d", errno);
    int64_t last = 0, back = 0;
    int64_t end = kernel(CLOCK_MONOTONIC) + 4500000000;
    while (kernel(CLOCK_MONOTONIC) < end) {
        int64_t now = ours(CLOCK_REALTIME);
        if (last - now > back)
            back = last - now;
        last = now;
    }
    struct timex state = {0};
    int answer = (int)syscall(SYS_adjtimex, &state);
    printf("a leap second: the real time went back by %ld ms, the kernel says %d\n",
           back / 1000000, answer);
    CHECK(answer == TIME_WAIT, "the kernel inserted it: %d", answer);
    CHECK(back > 900000000 && back < 1100000000, "%ld ns back", back);
    CHECK(time_to_follow() < 500000000, "and is right afterwards");
    return failures != 0;
}
