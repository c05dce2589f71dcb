// SPDX-License-Identifier: Apache-2.0
//
// Runs a command and writes its costs as one JSON line. The peak memory of a child in wait4(2) is at least that of its
// parent process, so this is a small program instead of the script.

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t child;
static volatile sig_atomic_t overdue;

static void stop_child(int signal) {
    if (signal == SIGALRM) overdue = 1;
    if (child > 0) kill((pid_t)child, SIGKILL);
}

static double seconds(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "Wanted: measure REPORT-FILE DEADLINE-SECONDS COMMAND [ARGUMENT ...]\n");
        return 64;
    }
    unsigned deadline = (unsigned)strtoul(arguments[2], NULL, 10);
    FILE *report = fopen(arguments[1], "we");
    if (!report || deadline == 0) {
        fprintf(stderr, "measure: no report file or no deadline\n");
        return 64;
    }
    struct sigaction stop = {.sa_handler = stop_child};
    sigaction(SIGALRM, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);

    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pid_t started = fork();
    if (started < 0) {
        perror("measure: fork");
        return 70;
    }
    if (started == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(arguments[3], arguments + 3);
        fprintf(stderr, "measure: %s: %s\n", arguments[3], strerror(errno));
        _exit(127);
    }
    child = started;
    alarm(deadline);
    int status;
    struct rusage usage;
    while (wait4(started, &status, 0, &usage) < 0) {
        if (errno != EINTR) return 70;
    }
    child = 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double wall = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    double cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    fprintf(report, "{\"exit\": %d, \"overdue\": %s, ", code, overdue ? "true" : "false");
    fprintf(report, "\"wall_seconds\": %.6f, \"cpu_seconds\": %.6f, \"rss_kib\": %ld}\n", wall, cpu, usage.ru_maxrss);
    return fclose(report) == 0 ? code : 74;
}
