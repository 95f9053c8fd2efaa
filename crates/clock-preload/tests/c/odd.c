/* Programs that are hard on a clock.
 *
 *     odd NAME [SECONDS]
 *
 * Each is a whole program's life: signals, forks, a filter of system calls, many threads, being
 * stopped, a time namespace, faults of its own. */
#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static double seconds = 1.0;

static int64_t deadline(void)
{
    return kernel(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9);
}

/* How far a reading of ours lies outside two readings of libc's vDSO around it. */
static int64_t error_against_kernel(clockid_t clock)
{
    int64_t before = kernel(clock), now = ours(clock), after = kernel(clock);
    if (now < before)
        return before - now;
    return now > after ? now - after : 0;
}

/* -- signals ----------------------------------------------------------------------------------- */

static volatile int64_t last_in_handler;
static volatile long handled;
static sigjmp_buf out;
static volatile sig_atomic_t may_jump;

static void on_alarm(int number)
{
    (void)number;
    int64_t now = ours(CLOCK_MONOTONIC);
    if (now < last_in_handler)
        failures++;
    last_in_handler = now;
    struct timeval day;
    gettimeofday(&day, NULL);
    handled++;
    if (may_jump && handled % 3 == 0)
        siglongjmp(out, 1);
}

/* A timer interrupts readings everywhere, also in the middle of drawing a piece; some handlers
 * never come back to there. */
static void signals(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &timer, NULL);
    int64_t end = deadline();
    volatile int64_t last = 0;
    sigsetjmp(out, 1);
    may_jump = 1;
    while (kernel(CLOCK_MONOTONIC) < end) {
        for (int i = 0; i < 1000; i++) {
            errno = 4711;
            int64_t now = ours(CLOCK_MONOTONIC);
            CHECK(now >= last, "%ld after %ld", now, (long)last);
            last = now;
            CHECK(errno == 4711, "errno %d", errno);
        }
    }
    may_jump = 0;
    struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &none, NULL);
    CHECK(handled > 100, "%ld signals", handled);
    for (int i = 0; i < 1000; i++) {
        int64_t error = error_against_kernel(CLOCK_MONOTONIC);
        CHECK(error < 5000, "%ld ns off after all that", error);
    }
    printf("%ld signals\n", handled);
}

/* -- forks ------------------------------------------------------------------------------------- */

static atomic_int stop;

static void *read_all_the_time(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop)) {
        ours(CLOCK_MONOTONIC);
        ours(CLOCK_REALTIME);
        ours(CLOCK_BOOTTIME);
        ours(CLOCK_MONOTONIC_RAW);
    }
    return NULL;
}

/* What a child does: its clocks must work, be right, and not run back from the parent's. */
static int child(int64_t parents)
{
    int64_t last = parents;
    for (int i = 0; i < 200; i++) {
        int64_t now = ours(CLOCK_MONOTONIC);
        if (now < last)
            return 1;
        last = now;
        if (error_against_kernel(CLOCK_MONOTONIC) > 5000 ||
            error_against_kernel(CLOCK_REALTIME) > 5000)
            return 2;
    }
    return 0;
}

/* Children by fork, vfork and bare clone while other threads hold whatever they hold. */
static void forks(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, read_all_the_time, NULL);
    int64_t end = deadline();
    long children = 0;
    while (kernel(CLOCK_MONOTONIC) < end || children < 300) {
        int64_t now = ours(CLOCK_MONOTONIC);
        pid_t pid;
        switch (children % 3) {
        case 0:
            pid = fork();
            break;
        case 1:
            pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
            break;
        default:
            pid = vfork();
            if (pid == 0) {
                struct timespec time;
                _exit(clock_gettime(CLOCK_MONOTONIC, &time) != 0);
            }
        }
        if (pid == 0)
            _exit(child(now));
        CHECK(pid > 0, "errno %d", errno);
        int status = -1;
        waitpid(pid, &status, 0);
        CHECK(status == 0, "child %ld ended with %#x", children, status);
        children++;
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%ld children\n", children);
}

/* A storm: children of children, all at once. */
static void storm(void)
{
    for (int round = 0; round < 20; round++) {
        pid_t pids[50];
        for (int i = 0; i < 50; i++) {
            int64_t now = ours(CLOCK_MONOTONIC);
            pids[i] = fork();
            if (pids[i] == 0) {
                if (fork() == 0)
                    _exit(child(now));
                int status = -1;
                wait(&status);
                _exit(status != 0 || child(now));
            }
            CHECK(pids[i] > 0, "errno %d", errno);
        }
        for (int i = 0; i < 50; i++) {
            int status = -1;
            waitpid(pids[i], &status, 0);
            CHECK(status == 0, "child ended with %#x", status);
        }
    }
}

/* -- a filter of system calls ------------------------------------------------------------------ */

/* After it, only what a thread needs to write and to end; anything else kills. */
static int filter(void)
{
    static const unsigned allowed[] = {SYS_write, SYS_exit_group, SYS_exit, SYS_rt_sigreturn,
                                       SYS_futex, SYS_madvise, SYS_munmap};
    struct sock_filter program[64];
    size_t n = 0, count = sizeof(allowed) / sizeof(allowed[0]);
    program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++)
        program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i],
                                                    (unsigned char)(count - i), 0);
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog whole = {(unsigned short)n, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole, 0, 0);
}

/* The first reading of the program comes after the filter. */
static void seccomp(void)
{
    CHECK(filter() == 0, "errno %d", errno);
    int64_t first = ours(CLOCK_MONOTONIC), last = first;
    while (last < first + (int64_t)(seconds * 1e9)) {
        for (int i = 0; i < 1000; i++) {
            int64_t now = ours(CLOCK_MONOTONIC);
            CHECK(now >= last, "%ld after %ld", now, last);
            last = now;
            struct timeval day;
            struct timespec fine;
            CHECK(gettimeofday(&day, NULL) == 0, "gettimeofday");
            CHECK(clock_gettime(CLOCK_REALTIME, &fine) == 0, "real");
            CHECK(clock_gettime(CLOCK_BOOTTIME, &fine) == 0, "boot");
            CHECK(clock_gettime(CLOCK_MONOTONIC_RAW, &fine) == 0, "raw");
            CHECK(clock_gettime(CLOCK_REALTIME_COARSE, &fine) == 0, "coarse");
            CHECK(time(NULL) > 1000000000, "time");
        }
    }
}

/* -- threads ----------------------------------------------------------------------------------- */

static _Atomic int64_t latest;
static int64_t threads_end;
static atomic_long thread_failures, thread_readings;

static void *against_the_latest(void *argument)
{
    int unordered = argument != NULL;
    int64_t own = 0;
    long readings = 0;
    while (kernel(CLOCK_MONOTONIC) < threads_end) {
        for (int i = 0; i < 1000; i++) {
            int64_t seen = unordered ? own : atomic_load(&latest);
            int64_t now = ours(CLOCK_MONOTONIC);
            if (now < seen && atomic_fetch_add(&thread_failures, 1) < 5)
                fprintf(stderr, "%ld after %ld\n", now, seen);
            own = now;
            while (!unordered && seen < now &&
                   !atomic_compare_exchange_weak(&latest, &seen, now))
                ;
            readings++;
        }
    }
    atomic_fetch_add(&thread_readings, readings);
    return NULL;
}

static void threads(int unordered)
{
    pthread_t all[64];
    threads_end = deadline();
    for (int i = 0; i < 64; i++)
        CHECK(pthread_create(&all[i], NULL, against_the_latest, unordered ? &latest : NULL) == 0,
              "errno %d", errno);
    for (int i = 0; i < 64; i++)
        pthread_join(all[i], NULL);
    failures += atomic_load(&thread_failures) != 0;
    printf("%ld readings by 64 threads\n", atomic_load(&thread_readings));
}

/* -- being stopped ----------------------------------------------------------------------------- */

/* Somebody stops this program (SIGSTOP) and lets it go on; the clock is right throughout. */
static void stopped(void)
{
    int64_t end = deadline(), last = 0, longest = 0;
    while (last < end) {
        int64_t before = kernel(CLOCK_MONOTONIC), now = ours(CLOCK_MONOTONIC),
                after = kernel(CLOCK_MONOTONIC);
        CHECK(now >= last, "%ld after %ld", now, last);
        /* A stop between two readings explains any distance between them; a clock that stood
         * still or jumped shows against the two around it. */
        CHECK(now >= before - 5000 && now <= after + 5000, "%ld, kernel %ld to %ld", now, before,
              after);
        CHECK(error_against_kernel(CLOCK_REALTIME) < 5000, "real time");
        if (last != 0 && now - last > longest)
            longest = now - last;
        last = now;
    }
    printf("longest pause %ld ms\n", longest / 1000000);
}

/* -- a time namespace -------------------------------------------------------------------------- */

/* clock_gettime03: a child in a namespace whose clocks are moved. Ends with 77 where the kernel or
 * the rights are missing. */
static void namespaces(void)
{
    enum { NEWTIME = 0x80 };
    int64_t before = ours(CLOCK_MONOTONIC), raw = ours(CLOCK_MONOTONIC_RAW),
            boot = ours(CLOCK_BOOTTIME);
    if (unshare(NEWTIME) != 0) {
        perror("unshare(CLONE_NEWTIME)");
        exit(77);
    }
    FILE *offsets = fopen("/proc/self/timens_offsets", "w");
    if (offsets == NULL || fprintf(offsets, "monotonic 86400 0\nboottime -1 0\n") < 0 ||
        fclose(offsets) != 0) {
        perror("/proc/self/timens_offsets");
        exit(77);
    }
    CHECK(ours(CLOCK_MONOTONIC) < before + 60000000000, "the parent stays where it is");
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 100000; i++) {
            const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
                                        CLOCK_REALTIME};
            for (int c = 0; c < 4; c++) {
                int64_t error = error_against_kernel(clocks[c]);
                CHECK(error < 5000, "clock %d: %ld ns off", clocks[c], error);
            }
        }
        CHECK(ours(CLOCK_MONOTONIC) >= before + 86400000000000, "a day later");
        CHECK(ours(CLOCK_MONOTONIC_RAW) >= raw + 86400000000000, "a day later");
        CHECK(ours(CLOCK_BOOTTIME) < boot + 60000000000, "a second earlier");
        _exit(failures != 0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(status == 0, "the child ended with %#x", status);
    /* A program that starts in such a namespace. */
    pid = fork();
    if (pid == 0) {
        char *arguments[] = {"odd", "stopped", "0.3", NULL};
        execv("/proc/self/exe", arguments);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    CHECK(status == 0, "the program in the namespace ended with %#x", status);
}

/* -- faults of its own, under the guard -------------------------------------------------------- */

static volatile long own_faults;
static char *own_page;
static volatile void *fault_address;

static void on_own_fault(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    own_faults++;
    fault_address = info->si_addr;
    mprotect(own_page, 4096, PROT_READ | PROT_WRITE);
}

/* A program with a handler of SIGSEGV, as virtual machines for languages have it. */
static void faults(void)
{
    own_page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction old, action = {.sa_sigaction = on_own_fault, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR1);
    CHECK(sigaction(SIGSEGV, &action, &old) == 0, "errno %d", errno);
    CHECK(old.sa_handler == SIG_DFL, "the handler before is the default");
    CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_sigaction == on_own_fault,
          "the handler is the program's");
    CHECK((old.sa_flags & SA_SIGINFO) && sigismember(&old.sa_mask, SIGUSR1), "with its flags");
    ((volatile char *)own_page)[100] = 1;
    CHECK(own_faults == 1 && fault_address == own_page + 100, "%ld faults at %p page %p", own_faults, (void*)fault_address, own_page);
    errno = 0;
    CHECK(clock_gettime(CLOCK_MONOTONIC, (void *)(own_page + 4096)) == -1 && errno == EFAULT,
          "errno %d", errno);
    CHECK(own_faults == 1, "the guard's fault is not the program's");
    CHECK(signal(SIGSEGV, SIG_DFL) == (void (*)(int))on_own_fault, "signal gives the old one");
    pid_t pid = fork();
    if (pid == 0) {
        ((volatile char *)own_page)[5000] = 1;
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "ended with %#x", status);
    /* Sent by a program, not by the processor. */
    pid = fork();
    if (pid == 0) {
        raise(SIGSEGV);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "ended with %#x", status);
}

/* -- setting the clock ------------------------------------------------------------------------- */

/* Whoever sets the clock sees it at once. */
static void set_and_see(int64_t wanted)
{
    ours(CLOCK_REALTIME);
    struct timespec time = {wanted, 0};
    if (clock_settime(CLOCK_REALTIME, &time) != 0) {
        perror("clock_settime");
        exit(77);
    }
    int64_t now = ours(CLOCK_REALTIME);
    CHECK(now >= wanted * 1000000000 && now < wanted * 1000000000 + 1000000000, "%ld", now);
}

/* Run in the lab: it moves the machine's time. */
static void setting(void)
{
    for (int i = 0; i < 20; i++) {
        int64_t wanted = 1000000000LL + i * 1000;
        set_and_see(wanted);
        struct timeval day = {wanted + 500, 0};
        CHECK(settimeofday(&day, NULL) == 0, "errno %d", errno);
        gettimeofday(&day, NULL);
        CHECK(day.tv_sec - wanted - 500 < 2, "%ld", (long)day.tv_sec);
    }
    /* Over the edges of 32 bits, with and without a sign, and at the last second that the kernel
     * takes (thirty years before its nanoseconds overflow, in 2232). */
    const int64_t edges[] = {INT32_MAX, UINT32_MAX, 8277291034};
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        set_and_see(edges[i]);
        int64_t end = kernel(CLOCK_MONOTONIC) + 1500000000, last = 0;
        while (kernel(CLOCK_MONOTONIC) < end) {
            int64_t before = kernel(CLOCK_REALTIME), now = ours(CLOCK_REALTIME);
            CHECK(now >= before - 5000 && now <= kernel(CLOCK_REALTIME) + 5000, "%ld, kernel %ld",
                  now, before);
            CHECK(now >= last, "%ld after %ld", now, last);
            last = now;
            time_t place, second = time(&place);
            struct timeval day;
            gettimeofday(&day, NULL);
            CHECK(second == place && day.tv_sec - second <= 1 && second >= edges[i],
                  "time %ld, gettimeofday %ld", (long)second, (long)day.tv_sec);
        }
        CHECK(last / 1000000000 > edges[i], "it went on to %ld", last / 1000000000);
    }
    printf("the edges of time_t are passed\n");
}

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : "";
    if (count > 2)
        seconds = atof(arguments[2]);
    if (strcmp(name, "signals") == 0)
        signals();
    else if (strcmp(name, "forks") == 0)
        forks();
    else if (strcmp(name, "storm") == 0)
        storm();
    else if (strcmp(name, "seccomp") == 0)
        seccomp();
    else if (strcmp(name, "threads") == 0)
        threads(0);
    else if (strcmp(name, "unordered-threads") == 0)
        threads(1);
    else if (strcmp(name, "stopped") == 0)
        stopped();
    else if (strcmp(name, "namespaces") == 0)
        namespaces();
    else if (strcmp(name, "faults") == 0)
        faults();
    else if (strcmp(name, "setting") == 0)
        setting();
    else {
        fprintf(stderr, "no such test: %s\n", name);
        return 2;
    }
    return failures != 0;
}
