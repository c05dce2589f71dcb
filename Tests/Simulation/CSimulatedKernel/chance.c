// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

bool active;
uint64_t now_ns;
int64_t wall_ns;
uint64_t chance_state;
uint64_t digest_value;
uint64_t step_count;
uint64_t fault_count;
struct sim_network network;
bool is_partitioned;

// Its own generator for the bytes that programs ask for, so that their number does not change the schedule.
uint64_t bytes_state;

uint64_t next_number(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

uint64_t sim_random(uint64_t limit) { return limit == 0 ? 0 : next_number(&chance_state) % limit; }
uint64_t sim_now(void) { return now_ns; }
uint64_t sim_step_count(void) { return step_count; }
uint64_t sim_digest(void) { return digest_value; }
uint64_t sim_fault_count(void) { return fault_count; }
void sim_note(uint64_t number) { digest_value = (digest_value ^ number) * 0x100000001B3ull; }
void sim_jump_wall_clock(int64_t nanoseconds) { wall_ns += nanoseconds; }
void sim_set_network(struct sim_network value) { network = value; }

bool happens(uint32_t chance) { return chance > 0 && sim_random(1000000) < chance; }

static void fill(void *buffer, size_t count) {
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < count; i += 8) {
        uint64_t number = next_number(&bytes_state);
        memcpy(bytes + i, &number, count - i < 8 ? count - i : 8);
    }
}

static int rand_bytes(unsigned char *buffer, int count) {
    fill(buffer, (size_t)count);
    return 1;
}
static int rand_status(void) { return 1; }
static int rand_seed(const void *buffer, int count) { return 1; }
static int rand_add(const void *buffer, int count, double entropy) { return 1; }
static void rand_cleanup(void) {}
RAND_METHOD rand_method = {rand_seed, rand_bytes, rand_cleanup, rand_add, rand_bytes, rand_status};

/// Swift's standard library asks for random bytes in this way.
long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    if (active && number == SYS_getrandom) {
        fill((void *)a, (size_t)b);
        return b;
    }
    long result;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    result = x0;
#endif
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

ssize_t getrandom(void *buffer, size_t count, unsigned flags) {
    if (!active) return syscall(SYS_getrandom, buffer, count, flags);
    fill(buffer, count);
    return (ssize_t)count;
}

int getentropy(void *buffer, size_t count) {
    if (!active) return syscall(SYS_getrandom, buffer, count, 0) == (long)count ? 0 : -1;
    fill(buffer, count);
    return 0;
}

void arc4random_buf(void *buffer, size_t count) { getrandom(buffer, count, 0); }

int clock_gettime(clockid_t clock, struct timespec *value) {
    if (!active) return (int)syscall(SYS_clock_gettime, clock, value);
    uint64_t time;
    switch (clock) {
        case CLOCK_REALTIME:
        case CLOCK_REALTIME_COARSE: time = now_ns + (uint64_t)wall_ns; break;
        case CLOCK_MONOTONIC:
        case CLOCK_MONOTONIC_RAW:
        case CLOCK_MONOTONIC_COARSE:
        // A program that waits for a part of a nanosecond must not wait forever.
        case CLOCK_BOOTTIME: time = ++now_ns; break;
        default: return (int)syscall(SYS_clock_gettime, clock, value);
    }
    value->tv_sec = (time_t)(time / 1000000000);
    value->tv_nsec = (long)(time % 1000000000);
    return 0;
}

time_t time(time_t *result) {
    struct timespec value;
    clock_gettime(CLOCK_REALTIME, &value);
    if (result) *result = value.tv_sec;
    return value.tv_sec;
}

int gettimeofday(struct timeval *value, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    value->tv_sec = now.tv_sec;
    value->tv_usec = now.tv_nsec / 1000;
    return 0;
}

// MARK: The process

int sim_fork(int processor) {
    int process = fork();
    if (process == 0 && processor >= 0) {
        // Its threads wake each other thousands of times, which takes less time on one processor.
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(processor, &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    return process;
}

int sim_process(void) { return (int)syscall(SYS_getpid); }

int64_t sim_real_seconds(void) {
    struct timespec value;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &value);
    return value.tv_sec;
}

void sim_fix_addresses(char *const arguments[]) {
    static const char name[] = "SWIFT_DETERMINISTIC_HASHING";
    int old = personality(0xFFFFFFFF);
    if ((old & ADDR_NO_RANDOMIZE) && getenv(name)) return;
    personality((unsigned long)(old | ADDR_NO_RANDOMIZE));
    setenv(name, "1", 1);
    execv("/proc/self/exe", arguments);
}
