// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "internal.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// MARK: Threads

struct parked {
    /// Its turn: a thread is handed the processor by one call, and without the mutex, for which it would wait again.
    atomic_int turn;
    int epoll;
    /// The condition for which it waits instead.
    const void *signal;
    int host;
    bool is_parked, is_signalled;
    struct parked *next;
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/// The turn of the scheduler.
static atomic_int settled;
static struct parked *threads;
static int thread_count, parked_count;
static __thread struct parked *self_thread;

/// Jobs run on it.
static bool is_first_thread(void) {
    static __thread int is_first = -1;
    if (is_first < 0) is_first = syscall(SYS_gettid) == syscall(SYS_getpid);
    return is_first;
}

static void give_turn(atomic_int *turn) {
    atomic_store(turn, 1);
    syscall(SYS_futex, turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void await_turn(atomic_int *turn) {
    while (!atomic_exchange(turn, 0)) syscall(SYS_futex, turn, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static int collect(struct object *epoll, struct epoll_event *events, int limit) {
    int count = 0;
    for (int i = 0; i < epoll->registration_count; i++) {
        struct registration *registration = &epoll->registrations[i];
        struct object *object = find(registration->descriptor);
        if (!object) continue;
        uint32_t ready = readiness(object) & (registration->events | EPOLLERR | EPOLLHUP);
        if (!ready) continue;
        if (events) {
            if (count == limit) break;
            events[count].events = ready;
            events[count].data = registration->data;
        }
        count++;
    }
    return count;
}

bool calling_thread_may_wait(void) { return self_thread != NULL; }
int calling_host(void) { return self_thread ? self_thread->host : current_host; }

// The original calls; dlsym() finds those of an old version.
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_signal)(pthread_cond_t *);
static int (*real_broadcast)(pthread_cond_t *);

__attribute__((constructor)) static void find_originals(void) {
#if defined(__x86_64__)
    const char *version = "GLIBC_2.3.2";
#else
    const char *version = "GLIBC_2.17";
#endif
    real_wait = dlvsym(RTLD_NEXT, "pthread_cond_wait", version);
    real_signal = dlvsym(RTLD_NEXT, "pthread_cond_signal", version);
    real_broadcast = dlvsym(RTLD_NEXT, "pthread_cond_broadcast", version);
    if (!real_wait || !real_signal || !real_broadcast) abort();
}

/// Waits until the scheduler chooses this thread; with the mutex, which is free meanwhile.
static void park(int epoll, const void *signal) {
    if (!self_thread) {
        // A new thread runs until here before anything else happens, so their order is always the same.
        self_thread = calloc(1, sizeof *self_thread);
        self_thread->host = current_host;
        struct parked **place = &threads;
        while (*place) place = &(*place)->next;
        *place = self_thread;
    }
    self_thread->epoll = epoll;
    self_thread->signal = signal;
    self_thread->is_parked = true;
    self_thread->is_signalled = false;
    parked_count++;
    pthread_mutex_unlock(&mutex);
    give_turn(&settled);
    await_turn(&self_thread->turn);
    pthread_mutex_lock(&mutex);
}

int epoll_wait(int descriptor, struct epoll_event *events, int limit, int timeout) {
    struct object *epoll = find(descriptor);
    if (!epoll) return (int)syscall(SYS_epoll_wait, descriptor, events, limit, timeout);
    if (timeout == 0) return collect(epoll, events, limit);
    pthread_mutex_lock(&mutex);
    park(descriptor, NULL);
    int count = collect(epoll, events, limit);
    pthread_mutex_unlock(&mutex);
    return count;
}

/// Waits in the same way; the threads of pools do.
int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock) {
    if (!active || is_first_thread()) return real_wait(condition, lock);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(lock);
    park(-1, condition);
    pthread_mutex_unlock(&mutex);
    return pthread_mutex_lock(lock);
}

static void set_signalled(pthread_cond_t *condition, bool is_broadcast) {
    for (struct parked *thread = threads; active && thread; thread = thread->next)
        if (thread->is_parked && thread->signal == condition && !thread->is_signalled) {
            thread->is_signalled = true;
            if (!is_broadcast) return;
        }
}

int pthread_cond_signal(pthread_cond_t *condition) {
    set_signalled(condition, false);
    return real_signal(condition);
}

int pthread_cond_broadcast(pthread_cond_t *condition) {
    set_signalled(condition, true);
    return real_broadcast(condition);
}

void wake_thread(void *thread) { ((struct parked *)thread)->is_signalled = true; }

/// Others run meanwhile, except if the thread is that of the jobs.
int usleep(useconds_t microseconds) {
    uint64_t end = now_ns + (uint64_t)microseconds * 1000;
    if (active && self_thread) {
        pthread_mutex_lock(&mutex);
        schedule(end, WAKE, NULL, 0, (unsigned char *)self_thread);
        park(-1, self_thread);
        pthread_mutex_unlock(&mutex);
        return 0;
    }
    if (active) {
        now_ns = end;
        return 0;
    }
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    return (int)syscall(SYS_nanosleep, &time, NULL);
}

static void wait_until_settled(void) {
    while (parked_count < thread_count) {
        pthread_mutex_unlock(&mutex);
        await_turn(&settled);
        pthread_mutex_lock(&mutex);
    }
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    static int (*original)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!original) original = dlsym(RTLD_NEXT, "pthread_create");
    if (active) {
        Dl_info info;
        if (dladdr(__builtin_return_address(0), &info) && info.dli_fname && strstr(info.dli_fname, "libdispatch")) {
            fprintf(stderr, "simulation: Dispatch creates a thread\n");
            abort();
        }
        pthread_mutex_lock(&mutex);
        thread_count++;
        pthread_mutex_unlock(&mutex);
    }
    int result = original(thread, attributes, body, argument);
    if (active) {
        // Until it waits for events, so that the two do not run at the same time.
        pthread_mutex_lock(&mutex);
        wait_until_settled();
        pthread_mutex_unlock(&mutex);
    }
    return result;
}

// MARK: Jobs

#define SWIFT_CC __attribute__((swiftcall))
extern SWIFT_CC void swift_job_run(void *job, void *identity, uintptr_t implementation);

enum job_kind { SWIFT_JOB, BLOCK, FUNCTION };

struct job {
    enum job_kind kind;
    void *pointer, *context, *queue;
};

static struct job *jobs;
static size_t job_count, job_capacity;

static void add_job(struct job job) {
    pthread_mutex_lock(&mutex);
    if (job_count == job_capacity) {
        job_capacity = job_capacity ? job_capacity * 2 : 256;
        jobs = realloc(jobs, job_capacity * sizeof *jobs);
    }
    jobs[job_count++] = job;
    pthread_mutex_unlock(&mutex);
}

static SWIFT_CC void enqueue_global(void *job, void *original) { add_job((struct job){SWIFT_JOB, job, NULL, NULL}); }

static void schedule_job(uint64_t time, struct job job) {
    struct job *copy = malloc(sizeof job);
    *copy = job;
    schedule(time > now_ns ? time : now_ns, JOB, NULL, 0, (unsigned char *)copy);
}

static SWIFT_CC void enqueue_after(unsigned long long delay, void *job, void *original) {
    schedule_job(now_ns + delay, (struct job){SWIFT_JOB, job, NULL, NULL});
}

static SWIFT_CC void enqueue_at(
    long long seconds, long long nanoseconds, long long tolerance, long long tolerance_nanoseconds, int clock,
    void *job, void *original
) {
    schedule_job(
        (uint64_t)seconds * 1000000000 + (uint64_t)nanoseconds, (struct job){SWIFT_JOB, job, NULL, NULL});
}

extern void *_Block_copy(const void *block);
extern void _Block_release(const void *block);
struct block {
    void *isa;
    int flags, reserved;
    void (*invoke)(struct block *);
};

void dispatch_async(void *queue, void *block) {
    static void (*original)(void *, void *);
    if (!active) {
        if (!original) original = dlsym(RTLD_NEXT, "dispatch_async");
        original(queue, block);
        return;
    }
    add_job((struct job){BLOCK, _Block_copy(block), NULL, queue});
}

void dispatch_async_f(void *queue, void *context, void (*function)(void *)) {
    static void (*original)(void *, void *, void (*)(void *));
    if (!active) {
        if (!original) original = dlsym(RTLD_NEXT, "dispatch_async_f");
        original(queue, context, function);
        return;
    }
    add_job((struct job){FUNCTION, (void *)function, context, queue});
}

/// What Swift's executor calls for Task.sleep(), with a time of the monotonic clock in the lower bits.
void dispatch_after_f(uint64_t time, void *queue, void *context, void (*function)(void *)) {
    static void (*original)(uint64_t, void *, void *, void (*)(void *));
    if (!active) {
        if (!original) original = dlsym(RTLD_NEXT, "dispatch_after_f");
        original(time, queue, context, function);
        return;
    }
    schedule_job(time & 0x3FFFFFFFFFFFFFFFull, (struct job){FUNCTION, (void *)function, context, NULL});
}

/// What asyncAfter() calls.
void dispatch_after(uint64_t time, void *queue, void *block) {
    static void (*original)(uint64_t, void *, void *);
    if (!active) {
        if (!original) original = dlsym(RTLD_NEXT, "dispatch_after");
        original(time, queue, block);
        return;
    }
    schedule_job(time & 0x3FFFFFFFFFFFFFFFull, (struct job){BLOCK, _Block_copy(block), NULL, queue});
}

/// It would start a thread, for a queue on which nothing runs.
void dispatch_queue_set_width(void *queue, long width) {
    static void (*original)(void *, long);
    if (active) return;
    if (!original) original = dlsym(RTLD_NEXT, "dispatch_queue_set_width");
    original(queue, width);
}

// With a tolerance, the executor uses a timer of Dispatch instead.
struct timer_source {
    uint64_t time;
    void *context;
    void (*handler)(void *);
};

static struct timer_source *sources[4096];

static struct timer_source *find_source(const void *pointer) {
    for (size_t i = 0; active && i < sizeof sources / sizeof *sources; i++)
        if (pointer && sources[i] == pointer) return sources[i];
    return NULL;
}

void *dispatch_source_create(const void *type, uintptr_t handle, uintptr_t mask, void *queue) {
    static void *(*original)(const void *, uintptr_t, uintptr_t, void *);
    if (!active) {
        if (!original) original = dlsym(RTLD_NEXT, "dispatch_source_create");
        return original(type, handle, mask, queue);
    }
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (!sources[i]) return sources[i] = calloc(1, sizeof **sources);
    abort();
}

void dispatch_source_set_timer(void *source, uint64_t time, uint64_t interval, uint64_t leeway) {
    static void (*original)(void *, uint64_t, uint64_t, uint64_t);
    struct timer_source *timer = find_source(source);
    if (!timer) {
        if (!original) original = dlsym(RTLD_NEXT, "dispatch_source_set_timer");
        original(source, time, interval, leeway);
        return;
    }
    timer->time = time & 0x3FFFFFFFFFFFFFFFull;
}

void dispatch_set_context(void *object, void *context) {
    static void (*original)(void *, void *);
    struct timer_source *timer = find_source(object);
    if (!timer) {
        if (!original) original = dlsym(RTLD_NEXT, "dispatch_set_context");
        original(object, context);
        return;
    }
    timer->context = context;
}

void dispatch_source_set_event_handler_f(void *source, void (*handler)(void *)) {
    static void (*original)(void *, void (*)(void *));
    struct timer_source *timer = find_source(source);
    if (!timer) {
        if (!original) original = dlsym(RTLD_NEXT, "dispatch_source_set_event_handler_f");
        original(source, handler);
        return;
    }
    timer->handler = handler;
}

void dispatch_activate(void *object) {
    static void (*original)(void *);
    struct timer_source *timer = find_source(object);
    if (!timer) {
        if (!original) original = dlsym(RTLD_NEXT, "dispatch_activate");
        original(object);
        return;
    }
    schedule_job(timer->time, (struct job){FUNCTION, (void *)timer->handler, timer->context, NULL});
}

void dispatch_release(void *object) {
    static void (*original)(void *);
    for (size_t i = 0; active && i < sizeof sources / sizeof *sources; i++)
        if (object && sources[i] == object) {
            free(sources[i]);
            sources[i] = NULL;
            return;
        }
    // The last release of a queue may start a thread; the process ends soon.
    if (active) return;
    if (!original) original = dlsym(RTLD_NEXT, "dispatch_release");
    original(object);
}

/// Removes a job; the blocks of one queue keep their order.
static struct job take_job(void) {
    size_t index = sim_random(job_count);
    if (jobs[index].queue)
        for (size_t i = 0; i < index; i++)
            if (jobs[i].queue == jobs[index].queue) {
                index = i;
                break;
            }
    struct job job = jobs[index];
    memmove(&jobs[index], &jobs[index + 1], (--job_count - index) * sizeof *jobs);
    return job;
}

static void run_job(struct job job) {
    switch (job.kind) {
        case SWIFT_JOB: swift_job_run(job.pointer, NULL, 0); return;
        case FUNCTION: ((void (*)(void *))job.pointer)(job.context); return;
        case BLOCK:
            ((struct block *)job.pointer)->invoke(job.pointer);
            _Block_release(job.pointer);
            return;
    }
}

// MARK: The scheduler

static void resume(struct parked *thread) {
    thread->is_parked = false;
    parked_count--;
    pthread_mutex_unlock(&mutex);
    give_turn(&thread->turn);
    pthread_mutex_lock(&mutex);
    wait_until_settled();
}

static bool is_ready(struct parked *thread) {
    if (!thread->is_parked || hosts[thread->host].is_dead) return false;
    return thread->signal ? thread->is_signalled : collect(find(thread->epoll), NULL, 0) > 0;
}

int sim_run(const volatile bool *flag, uint64_t until) {
    for (;;) {
        if (*flag) return 0;
        step_count++;
        check_deaths();
        pthread_mutex_lock(&mutex);
        wait_until_settled();
        struct parked *ready[64];
        size_t ready_count = 0;
        for (struct parked *thread = threads; thread && ready_count < 64; thread = thread->next)
            if (is_ready(thread)) ready[ready_count++] = thread;
        size_t choices = ready_count + (job_count ? 1 + ready_count : 0);
        if (choices) {
            size_t choice = sim_random(choices);
            sim_note(choice + 1);
            if (choice < ready_count) {
                resume(ready[choice]);
                pthread_mutex_unlock(&mutex);
            } else {
                struct job job = take_job();
                pthread_mutex_unlock(&mutex);
                run_job(job);
            }
            continue;
        }
        pthread_mutex_unlock(&mutex);
        if (!heap_count) return 2;
        if (heap[0].time > until) return 1;
        struct event event = pop();
        if (is_partitioned && event.kind <= RESET && is_faulty(event.object)) {
            schedule(event.time + 50000000, event.kind, event.object, event.value, event.bytes);
            if (event.time > now_ns) now_ns = event.time;
            continue;
        }
        if (event.time > now_ns) now_ns = event.time;
        sim_note(event.time ^ (uint64_t)event.kind << 56);
        if (event.kind == JOB) {
            add_job(*(struct job *)event.bytes);
            free(event.bytes);
        } else {
            process_event(&event);
        }
    }
}

void sim_start(uint64_t seed, int64_t wall_seconds) {
    // Neighbouring seeds must not share numbers.
    uint64_t state = seed;
    chance_state = next_number(&state);
    chance_state ^= next_number(&state) << 1;
    bytes_state = next_number(&state);
    digest_value = 0xCBF29CE484222325ull;
    now_ns = 1000000000000ull;
    wall_ns = wall_seconds * 1000000000ll - (int64_t)now_ns;
    next_port = 20000;
    network = (struct sim_network){.latency_min = 50000, .latency_max = 500000, .send_buffer = 100000,
        .receive_buffer = 100000, .window = 50000, .segment_max = 16000};
    const char *names[] = {"swift_task_enqueueGlobal_hook", "swift_task_enqueueGlobalWithDelay_hook",
        "swift_task_enqueueGlobalWithDeadline_hook"};
    void *functions[] = {(void *)enqueue_global, (void *)enqueue_after, (void *)enqueue_at};
    for (int i = 0; i < 3; i++) {
        void **hook = dlsym(RTLD_DEFAULT, names[i]);
        if (!hook) abort();
        *hook = functions[i];
    }
    RAND_set_rand_method(&rand_method);
    active = true;
}
