/* A library whose constructor, and whose function called by another's, asks for the time before
 * anything else is ready. */
#include "check.h"

__attribute__((constructor(101))) static void early(void)
{
    int64_t last = 0;
    for (int i = 0; i < 100000; i++) {
        int64_t before = kernel(CLOCK_MONOTONIC), now = ours(CLOCK_MONOTONIC),
                after = kernel(CLOCK_MONOTONIC);
        CHECK(now >= last, "%ld after %ld", now, last);
        CHECK(now >= before - 5000 && now <= after + 5000, "%ld, kernel %ld to %ld", now, before,
              after);
        last = now;
    }
    struct timeval day;
    CHECK(gettimeofday(&day, NULL) == 0 && day.tv_sec > 1000000000, "gettimeofday");
    if (failures != 0)
        _exit(1);
    printf("early: the time is right\n");
}
