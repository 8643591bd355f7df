/* What tasks of the crash suite run: says on disk that it lives, so that a checker can judge later.
 *
 * One JSON line per event (start, tick, end), each in a single write to a file opened with O_APPEND:
 * lines of many processes never mix, and a kill at any moment loses at most the line not yet written.
 * Times are CLOCK_BOOTTIME, untouched by jumps of the wall clock; the wall clock is said beside it, to be
 * compared with what the server recorded.
 * It never waits for anybody and needs nothing but a kernel; starting it costs less than a shell.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum mode { ALONE, SETSID, DOUBLE_FORK, NO_ENVIRONMENT };

static const char *file, *task, *attempt, *gpus;
static const char *who = "main", *until_file = NULL;
static char boot[64];
static long run_ms = 0, tick_ms = 20, code = 0, signal_number = 0, child_ms = 0;
static int ignores_term = 0, sink = -1;
static enum mode mode = ALONE;

static long long now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void say(const char *what, long with_code)
{
    char line[1024], shown[32] = "null";
    if (!strcmp(what, "end"))
        snprintf(shown, sizeof shown, "%ld", with_code);
    int size = snprintf(line, sizeof line,
                        "{\"task\":\"%s\",\"attempt\":\"%s\",\"pid\":%d,\"boot\":\"%s\",\"ns\":%lld,"
                        "\"wall\":%lld,\"what\":\"%s\",\"who\":\"%s\",\"gpus\":\"%s\",\"code\":%s}\n",
                        task, attempt, (int)getpid(), boot, now_ns(CLOCK_BOOTTIME),
                        now_ns(CLOCK_REALTIME), what, who, gpus, shown);
    /* A witness that cannot testify must not run on in silence. */
    if (write(sink, line, size) != size)
        _exit(97);
}

static void tick_for(long ms)
{
    long long until = now_ns(CLOCK_BOOTTIME) + ms * 1000000LL;
    for (;;) {
        long long left = until - now_ns(CLOCK_BOOTTIME);
        if (left <= 0 || (until_file && !access(until_file, F_OK)))
            return;
        long long nap = tick_ms * 1000000LL < left ? tick_ms * 1000000LL : left;
        struct timespec t = {nap / 1000000000LL, nap % 1000000000LL};
        nanosleep(&t, NULL);
        say("tick", 0);
    }
}

static void grandchild(const char *self)
{
    if (fork() != 0)
        return;
    who = "child";
    setsid();
    if (mode != SETSID && fork() != 0)
        _exit(0);
    if (mode == NO_ENVIRONMENT) {
        char run[32], every[32];
        char *none[] = {NULL};
        snprintf(run, sizeof run, "%ld", child_ms);
        snprintf(every, sizeof every, "%ld", tick_ms);
        char *argv[] = {(char *)self, (char *)file, "--as", (char *)task, (char *)attempt,
                        (char *)gpus, "--run-ms", run, "--tick-ms", every,
                        ignores_term ? "--ignore-term" : NULL, NULL};
        execve(self, argv, none);
        _exit(96);
    }
    say("start", 0);
    until_file = NULL;
    tick_for(child_ms);
    say("end", 0);
    _exit(0);
}

static const char *named(const char *variable)
{
    const char *value = getenv(variable);
    return value ? value : "";
}

static void read_options(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--ignore-term")) {
            ignores_term = 1;
        } else if (!strcmp(argv[i], "--as") && i + 3 < argc) {
            who = "child";
            task = argv[++i];
            attempt = argv[++i];
            gpus = argv[++i];
        } else if (i + 1 >= argc) {
            _exit(95);
        } else if (!strcmp(argv[i], "--run-ms")) {
            run_ms = atol(argv[++i]);
        } else if (!strcmp(argv[i], "--tick-ms")) {
            tick_ms = atol(argv[++i]);
        } else if (!strcmp(argv[i], "--code")) {
            code = atol(argv[++i]);
        } else if (!strcmp(argv[i], "--signal")) {
            signal_number = atol(argv[++i]);
        } else if (!strcmp(argv[i], "--until")) {
            until_file = argv[++i];
        } else if (!strcmp(argv[i], "--child-ms")) {
            child_ms = atol(argv[++i]);
        } else if (!strcmp(argv[i], "--child")) {
            const char *how = argv[++i];
            mode = !strcmp(how, "setsid") ? SETSID : !strcmp(how, "double-fork") ? DOUBLE_FORK : NO_ENVIRONMENT;
        } else {
            _exit(95);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 95;
    file = argv[1];
    task = named("STOKER_TASK_ID");
    attempt = named("STOKER_ATTEMPT");
    gpus = named("STOKER_GPU_IDS");
    read_options(argc, argv);
    int source = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = source < 0 ? 0 : read(source, boot, sizeof boot - 1);
    boot[got > 36 ? 36 : got < 0 ? 0 : got] = '\0';
    sink = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (sink < 0)
        return 97;
    if (ignores_term)
        signal(SIGTERM, SIG_IGN);
    say("start", 0);
    if (!strcmp(who, "main"))
        dprintf(1, "begun %s\n", attempt);
    if (mode != ALONE)
        grandchild(argv[0]);
    tick_for(run_ms);
    if (signal_number) {
        say("end", -signal_number);
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    if (!strcmp(who, "main"))
        dprintf(1, "over %ld\n", code);
    say("end", code);
    return code;
}
