/* What a reading of the clock costs a program in C, way by way, in one run.
 *
 *     cost CALLS RUNS
 *
 * Started with the preload library in front of libc. The ways take turns, 2,500 calls each, so that
 * whatever else the machine does meets all of them. Lines: "mean RUN WAY NANOSECONDS" (of all
 * calls of a run), and for each run and pair "ratio RUN PAIR RATIO", the median over the turns of
 * ours divided by theirs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { TURN = 2500 };
enum way { SYSCALL, SYSCALL_DAY, VDSO, VDSO_DAY, OURS, OURS_DAY, COUNTER, WAYS };
static const char *const NAMES[WAYS] = {
    "syscall-clock_gettime", "syscall-gettimeofday", "vdso-clock_gettime", "vdso-gettimeofday",
    "ours-clock_gettime",    "ours-gettimeofday",    "counter",
};
static const struct {
    const char *name;
    enum way ours, theirs;
} PAIRS[] = {
    {"clock_gettime/syscall", OURS, SYSCALL}, {"gettimeofday/syscall", OURS_DAY, SYSCALL_DAY},
    {"clock_gettime/vdso", OURS, VDSO},       {"gettimeofday/vdso", OURS_DAY, VDSO_DAY},
    {"clock_gettime/counter", OURS, COUNTER},
};
enum { PAIR_COUNT = sizeof(PAIRS) / sizeof(PAIRS[0]) };

static int (*libcs)(clockid_t, struct timespec *);
static int (*libcs_day)(struct timeval *, void *);
static volatile uint64_t sink;

static double turn(enum way way)
{
    struct timespec begin, end, time;
    struct timeval day;
    libcs(CLOCK_MONOTONIC, &begin);
    switch (way) {
    case SYSCALL:
        for (int i = 0; i < TURN; i++)
            syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
        break;
    case SYSCALL_DAY:
        for (int i = 0; i < TURN; i++)
            syscall(SYS_gettimeofday, &day, NULL);
        break;
    case VDSO:
        for (int i = 0; i < TURN; i++)
            libcs(CLOCK_MONOTONIC, &time);
        break;
    case VDSO_DAY:
        for (int i = 0; i < TURN; i++)
            libcs_day(&day, NULL);
        break;
    case OURS:
        for (int i = 0; i < TURN; i++)
            clock_gettime(CLOCK_MONOTONIC, &time);
        break;
    case OURS_DAY:
        for (int i = 0; i < TURN; i++)
            gettimeofday(&day, NULL);
        break;
    default:
        for (int i = 0; i < TURN; i++) {
#if defined(__x86_64__)
            sink = __rdtsc();
#else
            uint64_t count;
            __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
            sink = count;
#endif
        }
    }
    libcs(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
           TURN;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **arguments)
{
    long calls = count > 1 ? atol(arguments[1]) : 1000000;
    int runs = count > 2 ? atoi(arguments[2]) : 4;
    int turns = (int)(calls / TURN);
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    libcs = (int (*)(clockid_t, struct timespec *))dlsym(libc, "clock_gettime");
    libcs_day = (int (*)(struct timeval *, void *))dlsym(libc, "gettimeofday");
    if (libcs == clock_gettime || turns < 1) {
        fprintf(stderr, "cost: start it with the preload library in LD_PRELOAD\n");
        return 1;
    }
    double *costs[WAYS], *ratios = calloc((size_t)turns, sizeof(double));
    for (int way = 0; way < WAYS; way++)
        costs[way] = calloc((size_t)turns, sizeof(double));
    for (enum way way = 0; way < WAYS; way++)
        turn(way);
    for (int run = 0; run < runs; run++) {
        for (int t = 0; t < turns; t++)
            for (enum way way = 0; way < WAYS; way++)
                costs[way][t] = turn(way);
        for (enum way way = 0; way < WAYS; way++) {
            double sum = 0;
            for (int t = 0; t < turns; t++)
                sum += costs[way][t];
            printf("mean %d %s %.3f\n", run, NAMES[way], sum / turns);
        }
        for (int pair = 0; pair < PAIR_COUNT; pair++) {
            for (int t = 0; t < turns; t++)
                ratios[t] = costs[PAIRS[pair].ours][t] / costs[PAIRS[pair].theirs][t];
            qsort(ratios, (size_t)turns, sizeof(double), compare);
            printf("ratio %d %s %.5f\n", run, PAIRS[pair].name, ratios[turns / 2]);
        }
    }
    return 0;
}
