/* Checks that say what failed and where. A test program ends with the number of them, 0 if all
 * held. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timeb.h>
#include <sys/wait.h>
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

static int failures;

#define CHECK(condition, ...)                                                     \
    do {                                                                          \
        if (!(condition)) {                                                       \
            if (failures++ < 20) {                                                \
                fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__,        \
                        #condition);                                              \
                fprintf(stderr, __VA_ARGS__);                                     \
                fputc('\n', stderr);                                              \
            }                                                                     \
        }                                                                         \
    } while (0)

static inline int64_t nanos(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The kernel's clock, past libc and everything before it. */
static inline int64_t kernel(clockid_t clock)
{
    struct timespec time;
    if (syscall(SYS_clock_gettime, clock, &time) != 0)
        return -1;
    return nanos(time);
}

static inline int64_t ours(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time) != 0)
        return -1;
    return nanos(time);
}

struct clock_name {
    clockid_t id;
    const char *name;
};

static const struct clock_name CLOCKS[] = {
    {CLOCK_REALTIME, "CLOCK_REALTIME"},
    {CLOCK_MONOTONIC, "CLOCK_MONOTONIC"},
    {CLOCK_PROCESS_CPUTIME_ID, "CLOCK_PROCESS_CPUTIME_ID"},
    {CLOCK_THREAD_CPUTIME_ID, "CLOCK_THREAD_CPUTIME_ID"},
    {CLOCK_MONOTONIC_RAW, "CLOCK_MONOTONIC_RAW"},
    {CLOCK_REALTIME_COARSE, "CLOCK_REALTIME_COARSE"},
    {CLOCK_MONOTONIC_COARSE, "CLOCK_MONOTONIC_COARSE"},
    {CLOCK_BOOTTIME, "CLOCK_BOOTTIME"},
    {CLOCK_REALTIME_ALARM, "CLOCK_REALTIME_ALARM"},
    {CLOCK_BOOTTIME_ALARM, "CLOCK_BOOTTIME_ALARM"},
    {CLOCK_TAI, "CLOCK_TAI"},
};
#define CLOCK_COUNT (sizeof(CLOCKS) / sizeof(CLOCKS[0]))
