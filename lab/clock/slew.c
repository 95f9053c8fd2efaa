/* How far the preload library's clocks are from the kernel's while NTP slews them.
 *
 *     slew SECONDS PPM
 *
 * Every tenth of a second the kernel's clock is told to run PPM faster, then PPM slower
 * (adjtimex), and now and then to catch up half a millisecond (adjtime). Between two readings of
 * the kernel's clock (vDSO) lies one of ours; what takes longer than 2 us was interrupted and says
 * nothing. Fails beyond the goals: 99.9% within 1 us, all within 5 us. */
#include "check.h"
#include <sys/timex.h>

static int (*vdso)(clockid_t, struct timespec *);

static int64_t kernels(clockid_t clock)
{
    struct timespec time;
    vdso(clock, &time);
    return nanos(time);
}

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void slew(long ppm, int turn)
{
    struct timex change = {.modes = ADJ_FREQUENCY, .freq = (turn & 1 ? ppm : -ppm) * 65536};
    if (syscall(SYS_adjtimex, &change) < 0)
        perror("adjtimex"), exit(1);
    if (turn % 10 == 5) {
        change = (struct timex){.modes = ADJ_OFFSET_SINGLESHOT, .offset = turn & 2 ? 500 : -500};
        if (syscall(SYS_adjtimex, &change) < 0)
            perror("adjtimex"), exit(1);
    }
}

static void watch(clockid_t clock, const char *name, double seconds, long ppm)
{
    enum { MOST = 8000000 };
    int32_t *errors = malloc(MOST * sizeof(*errors));
    long count = 0, discarded = 0;
    int64_t begin = kernel(CLOCK_MONOTONIC), end = begin + (int64_t)(seconds * 1e9), last = 0;
    int64_t turned = begin, turned_raw = kernel(CLOCK_MONOTONIC_RAW), fastest = 0, slowest = 0;
    int turn = 0;
    while (count < MOST) {
        int64_t before = kernels(clock), now = ours(clock), after = kernels(clock);
        CHECK(now >= last, "%s: %ld after %ld", name, now, last);
        last = now;
        if (after - before > 2000) {
            discarded++;
        } else {
            int64_t error = now - (before + (after - before) / 2);
            errors[count++] = (int32_t)(error < 0 ? -error : error);
        }
        if ((count + discarded) % 64 != 0)
            continue;
        int64_t time = kernels(CLOCK_MONOTONIC);
        if (time > end)
            break;
        if ((time - begin) / 100000000 > turn) {
            int64_t raw = kernel(CLOCK_MONOTONIC_RAW);
            int64_t drift = ((time - turned) - (raw - turned_raw)) * 1000000 / (raw - turned_raw);
            turned = time;
            turned_raw = raw;
            if (drift > fastest)
                fastest = drift;
            if (drift < slowest)
                slowest = drift;
            turn = (int)((time - begin) / 100000000);
            if (ppm != 0)
                slew(ppm, turn);
        }
    }
    qsort(errors, (size_t)count, sizeof(*errors), compare);
    int32_t p999 = errors[count * 999 / 1000], worst = errors[count - 1];
    printf("%s: error p50 %d, p99 %d, p99.9 %d, maximum %d ns; %ld readings, %.2f%% discarded; "
           "the kernel's rate went from %ld to %ld ppm\n",
           name, errors[count / 2], errors[count * 99 / 100], p999, worst, count,
           100.0 * (double)discarded / (double)(count + discarded), slowest, fastest);
    CHECK(count > 1000, "%ld readings are too few", count);
    CHECK(p999 <= 1000, "%d ns", p999);
    CHECK(worst <= 5000, "%d ns", worst);
    free(errors);
}

int main(int count, char **arguments)
{
    double seconds = count > 1 ? atof(arguments[1]) : 5;
    long ppm = count > 2 ? atol(arguments[2]) : 500;
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    vdso = (int (*)(clockid_t, struct timespec *))dlsym(libc, "clock_gettime");
    watch(CLOCK_MONOTONIC, "monotonic", seconds, ppm);
    watch(CLOCK_REALTIME, "real", seconds, ppm);
    return failures != 0;
}
