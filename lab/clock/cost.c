/* What a reading of the clock costs, by libc's own function and by the library's.
 *
 *     cost READINGS
 *
 * In a guest that counts instructions, nanoseconds are instructions, and the same every run. One
 * line a function: "NAME NANOSECONDS". */
#include "check.h"

static int (*libcs)(clockid_t, struct timespec *);
static int (*libcs_day)(struct timeval *, void *);

#define MEASURE(name, readings, call)                                                     \
    do {                                                                                  \
        for (long i = 0; i < readings / 10 + 1; i++)                                      \
            call;                                                                         \
        int64_t begin = kernel(CLOCK_MONOTONIC);                                          \
        for (long i = 0; i < readings; i++)                                               \
            call;                                                                         \
        printf("%s %.1f\n", name, (double)(kernel(CLOCK_MONOTONIC) - begin) / readings);  \
    } while (0)

int main(int count, char **arguments)
{
    long readings = count > 1 ? atol(arguments[1]) : 100000;
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    libcs = (int (*)(clockid_t, struct timespec *))dlsym(libc, "clock_gettime");
    libcs_day = (int (*)(struct timeval *, void *))dlsym(libc, "gettimeofday");
    struct timespec time;
    struct timeval day;
    MEASURE("kernel-clock_gettime", readings, libcs(CLOCK_MONOTONIC, &time));
    MEASURE("kernel-gettimeofday", readings, libcs_day(&day, NULL));
    MEASURE("ours-clock_gettime", readings, clock_gettime(CLOCK_MONOTONIC, &time));
    MEASURE("ours-gettimeofday", readings, gettimeofday(&day, NULL));
    /* And it is right. */
    int64_t worst = 0, last = 0;
    for (long i = 0; i < readings; i++) {
        int64_t before = kernel(CLOCK_MONOTONIC), now = ours(CLOCK_MONOTONIC),
                after = kernel(CLOCK_MONOTONIC);
        CHECK(now >= last, "%ld after %ld", now, last);
        last = now;
        int64_t error = now < before ? before - now : now > after ? now - after : 0;
        if (error > worst)
            worst = error;
    }
    printf("worst-error %ld\n", worst);
    CHECK(worst < 50000, "%ld ns", worst);
    return failures != 0;
}
