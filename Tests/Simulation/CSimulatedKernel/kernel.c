// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "simulated_kernel.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <openssl/rand.h>

// MARK: Time and chance

static bool active;
static uint64_t now_ns;
static int64_t wall_ns;
static uint64_t chance_state;
static uint64_t digest_value;
static uint64_t step_count;
static uint64_t fault_count;
static struct sim_network network;
static bool is_partitioned;

// Its own generator for the bytes that programs ask for, so that their number does not change the schedule.
static uint64_t bytes_state;

static uint64_t next_number(uint64_t *state) {
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

static bool happens(uint32_t chance) { return chance > 0 && sim_random(1000000) < chance; }

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
static RAND_METHOD rand_method = {rand_seed, rand_bytes, rand_cleanup, rand_add, rand_bytes, rand_status};

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

// MARK: Descriptors

enum kind { NONE, SOCKET, LISTENER, EPOLL, EVENT, TIMER };

struct buffer {
    unsigned char *bytes;
    size_t start, count, capacity;
};

struct registration {
    int descriptor;
    uint32_t events;
    epoll_data_t data;
};

struct object {
    enum kind kind;
    int descriptor;  // -1 after close()
    int duplicate_count;
    bool nonblocking;
    // EVENT
    uint64_t value;
    // TIMER
    uint64_t deadline, generation;
    bool expired;
    // EPOLL
    struct registration *registrations;
    int registration_count, registration_capacity;
    // LISTENER
    int port;
    struct object **backlog;
    int backlog_count, backlog_capacity;
    // SOCKET
    struct object *peer;
    int remote_port;
    bool connecting, connected, closed, fin_queued, fin_sent, fin_received, linger_zero;
    int error, pending_error;
    struct buffer received, unsent;
    size_t in_flight;
    uint64_t acknowledged;
    uint64_t last_arrival;  // of what this end sends
    uint32_t receive_capacity, send_capacity, lowat;
    bool window_closed;
};

#define FIRST_DESCRIPTOR 100000
#define DESCRIPTOR_COUNT 65536
static struct object *table[DESCRIPTOR_COUNT];
static int next_descriptor;
static int next_port;

static struct object *find(int descriptor) {
    int index = descriptor - FIRST_DESCRIPTOR;
    return active && index >= 0 && index < DESCRIPTOR_COUNT ? table[index] : NULL;
}

static struct object *make(enum kind kind) {
    if (next_descriptor >= DESCRIPTOR_COUNT) abort();
    struct object *object = calloc(1, sizeof *object);
    object->kind = kind;
    object->descriptor = FIRST_DESCRIPTOR + next_descriptor;
    table[next_descriptor++] = object;
    if (kind == SOCKET) {
        object->receive_capacity = network.receive_buffer;
        object->send_capacity = network.send_buffer;
    }
    return object;
}

static void append(struct buffer *buffer, const void *bytes, size_t count) {
    if (buffer->start + buffer->count + count > buffer->capacity) {
        if (buffer->start) {
            memmove(buffer->bytes, buffer->bytes + buffer->start, buffer->count);
            buffer->start = 0;
        }
        if (buffer->count + count > buffer->capacity) {
            buffer->capacity = (buffer->count + count) * 2;
            buffer->bytes = realloc(buffer->bytes, buffer->capacity);
        }
    }
    memcpy(buffer->bytes + buffer->start + buffer->count, bytes, count);
    buffer->count += count;
}

static size_t take(struct buffer *buffer, void *bytes, size_t count) {
    if (count > buffer->count) count = buffer->count;
    if (bytes) memcpy(bytes, buffer->bytes + buffer->start, count);
    buffer->start += count;
    buffer->count -= count;
    if (!buffer->count) buffer->start = 0;
    return count;
}

// MARK: Events

enum event_kind { SYN, SYN_ANSWER, SEGMENT, ACKNOWLEDGE, WINDOW, FIN, RESET, TIMER_EXPIRY, JOB };

struct event {
    uint64_t time, number;
    enum event_kind kind;
    struct object *object;
    uint64_t value;
    unsigned char *bytes;
};

static struct event *heap;
static size_t heap_count, heap_capacity;
static uint64_t event_number;

static bool before(const struct event *a, const struct event *b) {
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void schedule(uint64_t time, enum event_kind kind, struct object *object, uint64_t value, unsigned char *bytes) {
    if (heap_count == heap_capacity) {
        heap_capacity = heap_capacity ? heap_capacity * 2 : 256;
        heap = realloc(heap, heap_capacity * sizeof *heap);
    }
    struct event event = {time, event_number++, kind, object, value, bytes};
    size_t i = heap_count++;
    while (i > 0 && before(&event, &heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = event;
}

static struct event pop(void) {
    struct event first = heap[0], last = heap[--heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap_count) break;
        if (child + 1 < heap_count && before(&heap[child + 1], &heap[child])) child++;
        if (!before(&heap[child], &last)) break;
        heap[i] = heap[child];
        i = child;
    }
    if (heap_count) heap[i] = last;
    return first;
}

// MARK: The network

static uint64_t latency(void) {
    return network.latency_min + sim_random(network.latency_max - network.latency_min + 1);
}

/// Segments of one direction arrive in order.
static uint64_t arrival(struct object *sender) {
    uint64_t time = now_ns + latency();
    if (time < sender->last_arrival) time = sender->last_arrival;
    sender->last_arrival = time;
    return time;
}

static size_t unsent_limit(struct object *s) {
    size_t limit = s->send_capacity > s->in_flight ? s->send_capacity - s->in_flight : 0;
    if (s->lowat && limit > s->lowat) limit = s->lowat;
    return limit;
}

static bool is_faulty(struct object *s) {
    return !network.fault_port || s->port == network.fault_port || s->remote_port == network.fault_port;
}

static void reset_peer(struct object *s) {
    if (s->peer) schedule(now_ns + latency(), RESET, s->peer, 0, NULL);
}

/// Sends what the peer's window permits.
static void send_segments(struct object *s) {
    while (s->unsent.count && !s->error && s->peer) {
        struct object *peer = s->peer;
        size_t used = peer->received.count + s->in_flight;
        size_t window = peer->receive_capacity > used ? peer->receive_capacity - used : 0;
        if (network.window <= s->in_flight) return;
        if (window > network.window - s->in_flight) window = network.window - s->in_flight;
        if (!window) {
            s->window_closed = true;
            return;
        }
        size_t count = s->unsent.count < window ? s->unsent.count : window;
        if (count > network.segment_max) count = network.segment_max;
        if (count > 1 && sim_random(4) == 0) count = 1 + sim_random(count);
        unsigned char *bytes = malloc(count);
        take(&s->unsent, bytes, count);
        s->in_flight += count;
        if (is_faulty(s) && happens(network.stall_chance)) {
            fault_count++;
            s->last_arrival = now_ns + network.stall;
        }
        if (is_faulty(s) && happens(network.reset_chance)) {
            fault_count++;
            // The segment is lost, and both ends learn of the reset on their own.
            schedule(now_ns + latency(), RESET, s, 0, NULL);
            schedule(now_ns + latency(), RESET, peer, 0, NULL);
            free(bytes);
            return;
        }
        schedule(arrival(s), SEGMENT, peer, count, bytes);
    }
    if (s->fin_queued && !s->fin_sent && !s->unsent.count && !s->error) {
        s->fin_sent = true;
        if (s->peer) schedule(arrival(s), FIN, s->peer, 0, NULL);
    }
}

static struct object *listener_at(int port) {
    for (int i = 0; i < next_descriptor; i++)
        if (table[i] && table[i]->kind == LISTENER && table[i]->port == port) return table[i];
    return NULL;
}

static void process_event(struct event *event) {
    struct object *s = event->object;
    switch (event->kind) {
        case SYN: {
            struct object *listener = listener_at(s->remote_port);
            if (s->closed || s->descriptor < 0) return;
            if (!listener || (is_faulty(s) && happens(network.refuse_chance))) {
                fault_count += listener != NULL;
                schedule(now_ns + latency(), SYN_ANSWER, s, ECONNREFUSED, NULL);
                return;
            }
            struct object *other = make(SOCKET);
            // It has no descriptor until it is accepted.
            table[--next_descriptor] = NULL;
            other->descriptor = -1;
            other->connected = true;
            other->port = listener->port;
            other->remote_port = s->port;
            other->peer = s;
            s->peer = other;
            if (listener->backlog_count == listener->backlog_capacity) {
                listener->backlog_capacity = listener->backlog_capacity ? listener->backlog_capacity * 2 : 8;
                listener->backlog =
                    realloc(listener->backlog, (size_t)listener->backlog_capacity * sizeof *listener->backlog);
            }
            listener->backlog[listener->backlog_count++] = other;
            schedule(now_ns + latency(), SYN_ANSWER, s, 0, NULL);
            return;
        }
        case SYN_ANSWER:
            if (s->closed) return;
            s->connecting = false;
            if (event->value) {
                s->pending_error = (int)event->value;
                s->error = (int)event->value;
            } else if (!s->error) {
                s->connected = true;
            }
            return;
        case SEGMENT:
            if (s->error) {
                free(event->bytes);
                return;
            }
            if (s->closed) {
                reset_peer(s);
            } else {
                append(&s->received, event->bytes, event->value);
                schedule(now_ns + latency(), ACKNOWLEDGE, s->peer, event->value, NULL);
            }
            free(event->bytes);
            return;
        case ACKNOWLEDGE:
            if (s->error) return;
            s->in_flight -= event->value;
            s->acknowledged += event->value;
            send_segments(s);
            return;
        case WINDOW: send_segments(s); return;
        case FIN: s->fin_received = true; return;
        case RESET:
            if (s->error || (s->fin_sent && s->fin_received)) return;
            s->error = ECONNRESET;
            s->pending_error = ECONNRESET;
            s->connecting = false;
            return;
        case TIMER_EXPIRY:
            if (s->generation == event->value && s->deadline) s->expired = true;
            return;
        case JOB: return;
    }
}

void sim_reset_connections(uint32_t chance) {
    for (int i = 0; i < next_descriptor; i++) {
        struct object *s = table[i];
        if (!s || s->kind != SOCKET || !s->connected || s->error || !is_faulty(s) || !happens(chance)) continue;
        fault_count++;
        schedule(now_ns + latency(), RESET, s, 0, NULL);
        if (s->peer) schedule(now_ns + latency(), RESET, s->peer, 0, NULL);
    }
}

void sim_set_partition(bool value) { is_partitioned = value; }

static uint32_t readiness(struct object *o) {
    uint32_t events = 0;
    switch (o->kind) {
        case EVENT: return o->value ? EPOLLIN : 0;
        case TIMER: return o->expired ? EPOLLIN : 0;
        case LISTENER: return o->backlog_count ? EPOLLIN : 0;
        case SOCKET:
            if (o->connecting) return 0;
            if (!o->connected && !o->error) return EPOLLOUT | EPOLLHUP;
            if (o->received.count || o->fin_received || o->error) events |= EPOLLIN;
            if (o->fin_received || o->error) events |= EPOLLRDHUP;
            if (o->error) events |= EPOLLERR | EPOLLHUP | EPOLLOUT;
            if (o->fin_received && o->fin_sent) events |= EPOLLHUP;
            if (o->unsent.count < unsent_limit(o)) events |= EPOLLOUT;
            return events;
        default: return 0;
    }
}

// MARK: Threads

struct parked {
    pthread_cond_t condition;
    int epoll;
    bool is_parked, is_resumed;
    struct parked *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;
static struct parked *threads;
static int thread_count, parked_count;
static __thread struct parked *self_thread;
/// Whether this thread holds the turn.
static __thread bool is_scheduler;

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

int epoll_wait(int descriptor, struct epoll_event *events, int limit, int timeout) {
    struct object *epoll = find(descriptor);
    if (!epoll) return (int)syscall(SYS_epoll_wait, descriptor, events, limit, timeout);
    if (timeout == 0) return collect(epoll, events, limit);
    pthread_mutex_lock(&mutex);
    if (!self_thread) {
        self_thread = calloc(1, sizeof *self_thread);
        pthread_cond_init(&self_thread->condition, NULL);
        // The order of the list must not depend on which thread comes first.
        struct parked **place = &threads;
        while (*place && (*place)->epoll < descriptor) place = &(*place)->next;
        self_thread->epoll = descriptor;
        self_thread->next = *place;
        *place = self_thread;
    }
    self_thread->is_parked = true;
    self_thread->is_resumed = false;
    parked_count++;
    pthread_cond_broadcast(&settled);
    while (!self_thread->is_resumed) pthread_cond_wait(&self_thread->condition, &mutex);
    int count = collect(epoll, events, limit);
    pthread_mutex_unlock(&mutex);
    return count;
}

static void wait_until_settled(void) {
    while (parked_count < thread_count) pthread_cond_wait(&settled, &mutex);
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
    long long seconds, long long nanoseconds, long long tolerance, long long tolerance_nanoseconds, int clock, void *job,
    void *original
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
    thread->is_resumed = true;
    parked_count--;
    pthread_cond_signal(&thread->condition);
    wait_until_settled();
}

int sim_run(const volatile bool *flag, uint64_t until) {
    for (;;) {
        if (*flag) return 0;
        step_count++;
        pthread_mutex_lock(&mutex);
        wait_until_settled();
        struct parked *ready[64];
        size_t ready_count = 0;
        for (struct parked *thread = threads; thread && ready_count < 64; thread = thread->next)
            if (thread->is_parked && collect(find(thread->epoll), NULL, 0)) ready[ready_count++] = thread;
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

// MARK: Calls

int epoll_create(int size) {
    if (!active) return (int)syscall(SYS_epoll_create1, 0);
    pthread_mutex_lock(&mutex);
    int descriptor = make(EPOLL)->descriptor;
    pthread_mutex_unlock(&mutex);
    return descriptor;
}

int epoll_create1(int flags) { return active ? epoll_create(1) : (int)syscall(SYS_epoll_create1, flags); }

int epoll_ctl(int epoll, int operation, int descriptor, struct epoll_event *event) {
    struct object *object = find(epoll);
    if (!object) return (int)syscall(SYS_epoll_ctl, epoll, operation, descriptor, event);
    for (int i = 0; i < object->registration_count; i++) {
        if (object->registrations[i].descriptor != descriptor) continue;
        if (operation == EPOLL_CTL_DEL) {
            memmove(&object->registrations[i], &object->registrations[i + 1],
                (size_t)(--object->registration_count - i) * sizeof *object->registrations);
        } else {
            object->registrations[i].events = event->events;
            object->registrations[i].data = event->data;
        }
        return 0;
    }
    if (operation != EPOLL_CTL_ADD) {
        errno = ENOENT;
        return -1;
    }
    if (object->registration_count == object->registration_capacity) {
        object->registration_capacity = object->registration_capacity ? object->registration_capacity * 2 : 16;
        object->registrations = realloc(
            object->registrations, (size_t)object->registration_capacity * sizeof *object->registrations);
    }
    object->registrations[object->registration_count++] =
        (struct registration){descriptor, event->events, event->data};
    return 0;
}

int eventfd(unsigned value, int flags) {
    if (!active) return (int)syscall(SYS_eventfd2, value, flags);
    pthread_mutex_lock(&mutex);
    struct object *object = make(EVENT);
    object->value = value;
    pthread_mutex_unlock(&mutex);
    return object->descriptor;
}

int eventfd_write(int descriptor, eventfd_t value) {
    return write(descriptor, &value, sizeof value) == sizeof value ? 0 : -1;
}

int eventfd_read(int descriptor, eventfd_t *value) {
    return read(descriptor, value, sizeof *value) == sizeof *value ? 0 : -1;
}

int timerfd_create(int clock, int flags) {
    if (!active) return (int)syscall(SYS_timerfd_create, clock, flags);
    pthread_mutex_lock(&mutex);
    int descriptor = make(TIMER)->descriptor;
    pthread_mutex_unlock(&mutex);
    return descriptor;
}

int timerfd_settime(int descriptor, int flags, const struct itimerspec *value, struct itimerspec *old) {
    struct object *timer = find(descriptor);
    if (!timer) return (int)syscall(SYS_timerfd_settime, descriptor, flags, value, old);
    uint64_t delay = (uint64_t)value->it_value.tv_sec * 1000000000 + (uint64_t)value->it_value.tv_nsec;
    timer->generation++;
    timer->expired = false;
    timer->deadline = delay ? now_ns + delay : 0;
    if (delay) schedule(timer->deadline, TIMER_EXPIRY, timer, timer->generation, NULL);
    return 0;
}

int socket(int domain, int type, int protocol) {
    if (!active) return (int)syscall(SYS_socket, domain, type, protocol);
    if (domain != AF_INET) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    struct object *object = make(SOCKET);
    object->nonblocking = type & SOCK_NONBLOCK;
    return object->descriptor;
}

static int port_of(const struct sockaddr *address) { return ntohs(((const struct sockaddr_in *)address)->sin_port); }

int bind(int descriptor, const struct sockaddr *address, socklen_t length) {
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_bind, descriptor, address, length);
    int port = port_of(address);
    if (port && listener_at(port)) {
        errno = EADDRINUSE;
        return -1;
    }
    object->port = port ? port : next_port++;
    return 0;
}

int listen(int descriptor, int backlog) {
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_listen, descriptor, backlog);
    object->kind = LISTENER;
    return 0;
}

int connect(int descriptor, const struct sockaddr *address, socklen_t length) {
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_connect, descriptor, address, length);
    object->remote_port = port_of(address);
    if (!object->port) object->port = next_port++;
    object->connecting = true;
    schedule(now_ns + latency(), SYN, object, 0, NULL);
    errno = EINPROGRESS;
    return -1;
}

static void write_address(struct sockaddr *address, socklen_t *length, int port) {
    struct sockaddr_in value = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    value.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!address || !length) return;
    memcpy(address, &value, *length < sizeof value ? *length : sizeof value);
    *length = sizeof value;
}

int accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags) {
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_accept4, descriptor, address, length, flags);
    if (!object->backlog_count) {
        errno = EAGAIN;
        return -1;
    }
    struct object *other = object->backlog[0];
    memmove(object->backlog, object->backlog + 1, (size_t)--object->backlog_count * sizeof *object->backlog);
    if (next_descriptor >= DESCRIPTOR_COUNT) abort();
    other->descriptor = FIRST_DESCRIPTOR + next_descriptor;
    table[next_descriptor++] = other;
    write_address(address, length, other->remote_port);
    return other->descriptor;
}

int accept(int descriptor, struct sockaddr *address, socklen_t *length) {
    return accept4(descriptor, address, length, 0);
}

int getsockname(int descriptor, struct sockaddr *address, socklen_t *length) {
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_getsockname, descriptor, address, length);
    write_address(address, length, object->port);
    return 0;
}

int getpeername(int descriptor, struct sockaddr *address, socklen_t *length) {
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_getpeername, descriptor, address, length);
    if (!object->connected) {
        errno = ENOTCONN;
        return -1;
    }
    write_address(address, length, object->remote_port);
    return 0;
}

static ssize_t receive(struct object *s, void *bytes, size_t count, bool peeks) {
    if (s->received.count) {
        if (network.short_io && count > 1 && sim_random(3) == 0) count = 1 + sim_random(count);
        if (peeks) {
            if (count > s->received.count) count = s->received.count;
            memcpy(bytes, s->received.bytes + s->received.start, count);
            return (ssize_t)count;
        }
        size_t result = take(&s->received, bytes, count);
        if (s->peer && s->peer->window_closed) {
            s->peer->window_closed = false;
            schedule(now_ns + latency(), WINDOW, s->peer, 0, NULL);
        }
        return (ssize_t)result;
    }
    if (s->pending_error) {
        errno = s->pending_error;
        s->pending_error = 0;
        return -1;
    }
    if (s->fin_received || s->error) return 0;
    errno = EAGAIN;
    return -1;
}

static ssize_t transmit(struct object *s, const void *bytes, size_t count) {
    if (s->error || s->fin_queued || !s->connected) {
        errno = s->pending_error ? s->pending_error : EPIPE;
        s->pending_error = 0;
        return -1;
    }
    size_t limit = unsent_limit(s);
    // The kernel takes one write that begins below the limit.
    size_t free = s->unsent.count < limit ? limit - s->unsent.count : 0;
    if (!free) {
        errno = EAGAIN;
        return -1;
    }
    if (count > free) count = free;
    if (network.short_io && count > 1 && sim_random(4) == 0) count = 1 + sim_random(count);
    append(&s->unsent, bytes, count);
    send_segments(s);
    return (ssize_t)count;
}

ssize_t read(int descriptor, void *bytes, size_t count) {
    struct object *object = find(descriptor);
    if (!object) return syscall(SYS_read, descriptor, bytes, count);
    switch (object->kind) {
        case EVENT:
            if (!object->value) break;
            memcpy(bytes, &object->value, 8);
            object->value = 0;
            return 8;
        case TIMER: {
            if (!object->expired) break;
            uint64_t one = 1;
            memcpy(bytes, &one, 8);
            object->expired = false;
            return 8;
        }
        case SOCKET: return receive(object, bytes, count, false);
        default: break;
    }
    errno = EAGAIN;
    return -1;
}

ssize_t recv(int descriptor, void *bytes, size_t count, int flags) {
    struct object *object = find(descriptor);
    if (!object) return syscall(SYS_recvfrom, descriptor, bytes, count, flags, NULL, NULL);
    return receive(object, bytes, count, flags & MSG_PEEK);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    struct object *object = find(descriptor);
    if (!object) return syscall(SYS_write, descriptor, bytes, count);
    if (object->kind == EVENT) {
        uint64_t value;
        memcpy(&value, bytes, 8);
        __atomic_fetch_add(&object->value, value, __ATOMIC_SEQ_CST);
        return 8;
    }
    return transmit(object, bytes, count);
}

ssize_t send(int descriptor, const void *bytes, size_t count, int flags) {
    struct object *object = find(descriptor);
    if (!object) return syscall(SYS_sendto, descriptor, bytes, count, flags, NULL, 0);
    return transmit(object, bytes, count);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    struct object *object = find(descriptor);
    if (!object) return syscall(SYS_writev, descriptor, parts, count);
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t result = transmit(object, parts[i].iov_base, parts[i].iov_len);
        if (result < 0) return total ? total : -1;
        total += result;
        if ((size_t)result < parts[i].iov_len) break;
    }
    return total;
}

int shutdown(int descriptor, int how) {
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_shutdown, descriptor, how);
    if (!object->connected || object->error) {
        errno = ENOTCONN;
        return -1;
    }
    if (how != SHUT_RD && !object->fin_queued) {
        object->fin_queued = true;
        send_segments(object);
    }
    return 0;
}

int close(int descriptor) {
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_close, descriptor);
    table[descriptor - FIRST_DESCRIPTOR] = NULL;
    if (object->duplicate_count-- > 0) return 0;
    object->descriptor = -1;
    object->closed = true;
    if (object->kind == SOCKET && object->connected && !object->error) {
        if (object->received.count || object->linger_zero) {
            object->error = ECONNRESET;
            reset_peer(object);
        } else if (!object->fin_queued) {
            object->fin_queued = true;
            send_segments(object);
        }
    }
    return 0;
}

int setsockopt(int descriptor, int level, int name, const void *value, socklen_t length) {
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_setsockopt, descriptor, level, name, value, length);
    int number = 0;
    if (length >= sizeof number) memcpy(&number, value, sizeof number);
    if (level == SOL_SOCKET && name == SO_LINGER) {
        const struct linger *linger = value;
        object->linger_zero = linger->l_onoff && !linger->l_linger;
    } else if (level == SOL_SOCKET && name == SO_RCVBUF) {
        object->receive_capacity = (uint32_t)number * 2;
    } else if (level == SOL_SOCKET && name == SO_SNDBUF) {
        object->send_capacity = (uint32_t)number * 2;
    } else if (level == IPPROTO_TCP && name == TCP_NOTSENT_LOWAT) {
        object->lowat = (uint32_t)number;
    }
    return 0;
}

int getsockopt(int descriptor, int level, int name, void *value, socklen_t *length) {
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_getsockopt, descriptor, level, name, value, length);
    int number = 0;
    if (level == IPPROTO_TCP && name == TCP_INFO) {
        struct information {
            uint8_t state;
            uint8_t other[119];
            uint64_t acknowledged, received;
            uint32_t segments[2], unsent, least_rtt;
        } information = {.state = object->error || object->closed ? 7 : 1};
        information.acknowledged = object->acknowledged;
        information.unsent = (uint32_t)object->unsent.count;
        if (*length > sizeof information) *length = sizeof information;
        memcpy(value, &information, *length);
        return 0;
    }
    if (level == SOL_SOCKET && name == SO_ERROR) {
        number = object->pending_error;
        object->pending_error = 0;
    } else if (level == SOL_SOCKET && name == SO_RCVBUF) {
        number = (int)object->receive_capacity;
    } else if (level == SOL_SOCKET && name == SO_SNDBUF) {
        number = (int)object->send_capacity;
    } else if (level == SOL_SOCKET && name == SO_TYPE) {
        number = SOCK_STREAM;
    }
    if (*length > sizeof number) *length = sizeof number;
    memcpy(value, &number, *length);
    return 0;
}

int ioctl(int descriptor, unsigned long request, ...) {
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_ioctl, descriptor, request, argument);
    switch (request) {
        case FIONREAD: *(int *)argument = (int)object->received.count; return 0;
        case TIOCOUTQ: *(int *)argument = (int)(object->unsent.count + object->in_flight); return 0;
        default: errno = EINVAL; return -1;
    }
}

int fcntl(int descriptor, int operation, ...) {
    va_list list;
    va_start(list, operation);
    void *argument = va_arg(list, void *);
    va_end(list);
    struct object *object = find(descriptor);
    if (!object) return (int)syscall(SYS_fcntl, descriptor, operation, argument);
    switch (operation) {
        case F_GETFL: return O_RDWR | O_NONBLOCK;
        case F_DUPFD:
        case F_DUPFD_CLOEXEC:
            if (next_descriptor >= DESCRIPTOR_COUNT) abort();
            object->duplicate_count++;
            table[next_descriptor] = object;
            return FIRST_DESCRIPTOR + next_descriptor++;
        default: return 0;
    }
}

int getaddrinfo(
    const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **result
) {
    static int (*original)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!active) {
        if (!original) original = dlsym(RTLD_NEXT, "getaddrinfo");
        return original(name, service, hints, result);
    }
    struct {
        struct addrinfo information;
        struct sockaddr_in address;
    } *answer = calloc(1, sizeof *answer);
    answer->address.sin_family = AF_INET;
    answer->address.sin_port = htons((uint16_t)(service ? atoi(service) : 0));
    answer->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    answer->information.ai_family = AF_INET;
    answer->information.ai_socktype = SOCK_STREAM;
    answer->information.ai_protocol = IPPROTO_TCP;
    answer->information.ai_addrlen = sizeof answer->address;
    answer->information.ai_addr = (struct sockaddr *)&answer->address;
    *result = &answer->information;
    return 0;
}

void freeaddrinfo(struct addrinfo *information) {
    static void (*original)(struct addrinfo *);
    if (active) {
        free(information);
        return;
    }
    if (!original) original = dlsym(RTLD_NEXT, "freeaddrinfo");
    original(information);
}


int sim_fork(void) { return fork(); }

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
