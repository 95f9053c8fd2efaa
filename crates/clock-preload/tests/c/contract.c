/* The contract of the clock functions, as the Linux Test Project checks it (gettimeofday01 and
 * 02, clock_gettime01 to 04), and as the manual pages state it.
 *
 *     contract SECONDS [guard]
 *
 * SECONDS: how long to watch that no clock steps back. guard: every bad address must give EFAULT,
 * as with REELWAY_CLOCK_EFAULT=guard. */
#include "check.h"

/* Addresses that the kernel refuses. */
static void *const BAD[] = {
    (void *)-1,                      /* LTP's gettimeofday01 */
    (void *)8,                       /* near zero */
    (void *)0xffff888000000000,      /* the kernel's half */
    (void *)0x8000000000000000,      /* neither half */
    (void *)0x0001000000000000,      /* above the program's half */
};
#define BAD_COUNT (sizeof(BAD) / sizeof(BAD[0]))

/* time(2), which the compiler would take for one that only reads. */
static time_t time_at(void *place)
{
    return time(place);
}

/* clock_gettime01: every clock gives a time, and it is the kernel's. */
static void every_clock_gives_the_kernels_time(void)
{
    for (size_t i = 0; i < CLOCK_COUNT; i++) {
        clockid_t clock = CLOCKS[i].id;
        struct timespec time = {-7, -7};
        errno = 4711;
        int64_t before = kernel(clock);
        if (before < 0)
            continue; /* no such clock here, for example no alarm timer */
        errno = 4711;
        int answer = clock_gettime(clock, &time);
        CHECK(answer == 0, "%s: %d, errno %d", CLOCKS[i].name, answer, errno);
        CHECK(errno == 4711, "%s changed errno to %d", CLOCKS[i].name, errno);
        CHECK(time.tv_nsec >= 0 && time.tv_nsec < 1000000000, "%s: %ld ns", CLOCKS[i].name,
              time.tv_nsec);
        int64_t after = kernel(clock);
        CHECK(nanos(time) >= before - 1000 && nanos(time) <= after + 1000,
              "%s: %ld, kernel %ld to %ld", CLOCKS[i].name, nanos(time), before, after);
    }
}

/* clock_gettime02: clocks that are none, and addresses that are none. */
static void bad_arguments_are_refused(void)
{
    struct timespec time;
    const clockid_t none[] = {12, 16, 17, 100, INT_MAX, INT_MIN, -1};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        if (syscall(SYS_clock_gettime, none[i], &time) == 0)
            continue;
        int wanted = errno;
        errno = 0;
        CHECK(clock_gettime(none[i], &time) == -1, "clock %d", none[i]);
        CHECK(errno == wanted, "clock %d: errno %d, not %d", none[i], errno, wanted);
        /* The clock is looked at first. */
        errno = 0;
        CHECK(clock_gettime(none[i], BAD[0]) == -1 && errno == wanted, "clock %d: errno %d",
              none[i], errno);
    }
    for (size_t i = 0; i < BAD_COUNT; i++) {
        for (size_t clock = 0; clock < CLOCK_COUNT; clock++) {
            if (kernel(CLOCKS[clock].id) < 0)
                continue;
            errno = 0;
            CHECK(clock_gettime(CLOCKS[clock].id, BAD[i]) == -1 && errno == EFAULT,
                  "%s at %p: errno %d", CLOCKS[clock].name, BAD[i], errno);
        }
        errno = 0;
        CHECK(gettimeofday(BAD[i], NULL) == -1 && errno == EFAULT, "%p: errno %d", BAD[i], errno);
        errno = 0;
        CHECK(gettimeofday(BAD[i], BAD[(i + 1) % BAD_COUNT]) == -1 && errno == EFAULT, "%p: %d",
              BAD[i], errno);
        struct timeval time;
        errno = 0;
        CHECK(gettimeofday(&time, BAD[i]) == -1 && errno == EFAULT, "%p: %d", BAD[i], errno);
        errno = 0;
        CHECK(time_at(BAD[i]) == -1 && errno == EFAULT, "time(%p): errno %d", BAD[i], errno);
        CHECK(timespec_get(BAD[i], TIME_UTC) == 0, "timespec_get at %p", BAD[i]);
    }
    void *volatile nothing = NULL;
    for (size_t clock = 0; clock < CLOCK_COUNT; clock++) {
        if (kernel(CLOCKS[clock].id) < 0)
            continue;
        errno = 0;
        CHECK(clock_gettime(CLOCKS[clock].id, nothing) == -1 && errno == EFAULT,
              "%s at NULL: errno %d", CLOCKS[clock].name, errno);
    }
}

/* NULL where it is allowed. */
static void null_is_allowed_where_it_is(void)
{
    void *volatile nothing = NULL;
    struct timezone zone = {-7, -7}, kernels = {-8, -8};
    errno = 4711;
    CHECK(gettimeofday(nothing, nothing) == 0, "errno %d", errno);
    CHECK(gettimeofday(nothing, &zone) == 0, "errno %d", errno);
    syscall(SYS_gettimeofday, NULL, &kernels);
    CHECK(zone.tz_minuteswest == kernels.tz_minuteswest && zone.tz_dsttime == kernels.tz_dsttime,
          "zone %d %d", zone.tz_minuteswest, zone.tz_dsttime);
    CHECK(time(nothing) > 1500000000, "time");
    CHECK(errno == 4711, "errno %d", errno);
}

/* All ways to ask for the real time say the same. */
static void all_functions_agree(void)
{
    errno = 4711;
    int64_t before = kernel(CLOCK_REALTIME), coarse = kernel(CLOCK_REALTIME_COARSE);
    struct timeval day;
    struct timezone zone;
    CHECK(gettimeofday(&day, NULL) == 0, "errno %d", errno);
    CHECK(day.tv_usec >= 0 && day.tv_usec < 1000000, "%ld us", (long)day.tv_usec);
    int64_t of_day = (int64_t)day.tv_sec * 1000000 + day.tv_usec;
    CHECK(of_day >= before / 1000 - 1, "%ld us before %ld", of_day, before / 1000);
    CHECK(gettimeofday(&day, &zone) == 0, "errno %d", errno);

    struct timespec got;
    CHECK(timespec_get(&got, TIME_UTC) == TIME_UTC, "timespec_get");
    CHECK(nanos(got) >= before - 1000, "timespec_get");
    CHECK(timespec_get(&got, 4711) == 0, "a base that is none");

    time_t place = 0, second = time(&place);
    CHECK(second == place, "%ld stored, %ld returned", (long)place, (long)second);
    CHECK(second >= coarse / 1000000000 && second <= kernel(CLOCK_REALTIME) / 1000000000,
          "time %ld", (long)second);

    /* Programs of today cannot link to it, those of yesterday call it. */
    int (*old_ftime)(struct timeb *) = (int (*)(struct timeb *))dlsym(RTLD_DEFAULT, "ftime");
    if (old_ftime != NULL) {
        struct timeb old;
        memset(&old, 0x55, sizeof(old));
        CHECK(old_ftime(&old) == 0, "ftime");
        int64_t milli = (int64_t)old.time * 1000 + old.millitm;
        CHECK(milli >= before / 1000000 && milli <= kernel(CLOCK_REALTIME) / 1000000 + 1,
              "ftime %ld", milli);
        CHECK(old.timezone == 0 && old.dstflag == 0, "ftime's zone");
    }
    CHECK(errno == 4711, "errno %d", errno);

    /* A place that is not aligned, as some packed structure has it. */
    char room[64];
    CHECK(clock_gettime(CLOCK_MONOTONIC, (void *)(room + 3)) == 0, "unaligned");
    struct timespec copy;
    memcpy(&copy, room + 3, sizeof(copy));
    CHECK(copy.tv_nsec >= 0 && copy.tv_nsec < 1000000000, "%ld ns", copy.tv_nsec);
}

/* clock_gettime04: ours, libc's and the system call in turn; never back, never 5 ms apart. */
static void in_turn_with_the_kernels_it_never_steps_back(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    int (*libcs)(clockid_t, struct timespec *) =
        (int (*)(clockid_t, struct timespec *))dlsym(libc, "clock_gettime");
    const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                                CLOCK_BOOTTIME, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE};
    for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
        int64_t last = 0, worst = 0, backs = 0, deepest = 0;
        for (int turn = 0; turn < 100000; turn++) {
            struct timespec time;
            int way = turn % 3;
            int answer = way == 0   ? clock_gettime(clocks[i], &time)
                         : way == 1 ? (int)syscall(SYS_clock_gettime, clocks[i], &time)
                                    : libcs(clocks[i], &time);
            CHECK(answer == 0, "clock %d", clocks[i]);
            int64_t now = nanos(time);
            if (last != 0 && now < last) {
                backs++;
                if (last - now > deepest)
                    deepest = last - now;
            }
            if (last != 0 && now - last > worst)
                worst = now - last;
            last = now;
        }
        /* The two clocks differ by the error that the design page states; a reading of one right
         * after one of the other may show it. */
        CHECK(deepest <= 5000, "clock %d: %ld ns back", clocks[i], deepest);
        if (backs > 0)
            printf("clock %d: %ld of 100000 readings up to %ld ns behind the one before, by "
                   "another way\n",
                   clocks[i], backs, deepest);
        printf("clock %d: largest step %ld us\n", clocks[i], worst / 1000);
    }
}

/* gettimeofday02, and the same for all clocks: watched for a while. */
static void no_clock_steps_back(double seconds)
{
    int64_t end = kernel(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9);
    int64_t last[CLOCK_COUNT] = {0}, last_day = 0;
    long readings = 0;
    while (kernel(CLOCK_MONOTONIC) < end) {
        for (int round = 0; round < 1000; round++) {
            for (size_t i = 0; i < CLOCK_COUNT; i++) {
                int64_t now = ours(CLOCKS[i].id);
                if (now == -1 && last[i] == 0)
                    continue; /* no such clock here */
                CHECK(now >= last[i], "%s: %ld after %ld", CLOCKS[i].name, now, last[i]);
                last[i] = now;
            }
            struct timeval day;
            gettimeofday(&day, NULL);
            int64_t now = (int64_t)day.tv_sec * 1000000 + day.tv_usec;
            CHECK(now >= last_day, "gettimeofday: %ld after %ld", now, last_day);
            last_day = now;
            /* gettimeofday is never behind clock_gettime before it, nor ahead of one after it. */
            int64_t fine = ours(CLOCK_REALTIME);
            gettimeofday(&day, NULL);
            CHECK((int64_t)day.tv_sec * 1000000 + day.tv_usec >= fine / 1000, "gettimeofday");
            CHECK(ours(CLOCK_REALTIME) / 1000 >= (int64_t)day.tv_sec * 1000000 + day.tv_usec,
                  "clock_gettime");
            readings++;
        }
    }
    printf("%ld rounds\n", readings);
}

/* With the guard: an address of the program's half where nothing may be written. */
static void any_bad_address_is_refused(void)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + 4096, 4096, PROT_NONE);
    char *only_readable = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *const bad[] = {page + 4096, page + 4096 - 8, only_readable, (void *)0x123456789000};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (size_t clock = 0; clock < CLOCK_COUNT; clock++) {
            if (kernel(CLOCKS[clock].id) < 0)
                continue;
            errno = 0;
            CHECK(clock_gettime(CLOCKS[clock].id, bad[i]) == -1 && errno == EFAULT,
                  "%s at %p: errno %d", CLOCKS[clock].name, bad[i], errno);
        }
        struct timeval day;
        errno = 0;
        CHECK(gettimeofday(bad[i], NULL) == -1 && errno == EFAULT, "%p: %d", bad[i], errno);
        if (i != 1) {
            errno = 0;
            CHECK(gettimeofday(&day, bad[i]) == -1 && errno == EFAULT, "%p: %d", bad[i], errno);
            errno = 0;
            CHECK(time_at(bad[i]) == -1 && errno == EFAULT, "time(%p): %d", bad[i], errno);
        }
        CHECK(timespec_get(bad[i], TIME_UTC) == 0, "timespec_get at %p", bad[i]);
    }
}

int main(int count, char **arguments)
{
    every_clock_gives_the_kernels_time();
    bad_arguments_are_refused();
    null_is_allowed_where_it_is();
    all_functions_agree();
    in_turn_with_the_kernels_it_never_steps_back();
    if (count > 2 && strcmp(arguments[2], "guard") == 0)
        any_bad_address_is_refused();
    no_clock_steps_back(count > 1 ? atof(arguments[1]) : 1.0);
    return failures != 0;
}
