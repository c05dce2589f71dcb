// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

// MARK: Descriptors

struct object *table[DESCRIPTOR_COUNT];
int next_descriptor;
int next_port;

struct object *find(int descriptor) {
    int index = descriptor - FIRST_DESCRIPTOR;
    return active && index >= 0 && index < DESCRIPTOR_COUNT ? table[index] : NULL;
}

struct object *make(enum kind kind) {
    if (next_descriptor >= DESCRIPTOR_COUNT) abort();
    struct object *object = calloc(1, sizeof *object);
    object->kind = kind;
    object->descriptor = FIRST_DESCRIPTOR + next_descriptor;
    object->host = calling_host();
    table[next_descriptor++] = object;
    if (kind == SOCKET) {
        object->receive_capacity = network.receive_buffer;
        object->send_capacity = network.send_buffer;
    }
    return object;
}

void append(struct buffer *buffer, const void *bytes, size_t count) {
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

size_t take(struct buffer *buffer, void *bytes, size_t count) {
    if (count > buffer->count) count = buffer->count;
    if (bytes) memcpy(bytes, buffer->bytes + buffer->start, count);
    buffer->start += count;
    buffer->count -= count;
    if (!buffer->count) buffer->start = 0;
    return count;
}

// MARK: Events

struct event *heap;
size_t heap_count;
static size_t heap_capacity;
static uint64_t event_number;

static bool before(const struct event *a, const struct event *b) {
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

void schedule(uint64_t time, enum event_kind kind, struct object *object, uint64_t value, unsigned char *bytes) {
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

struct event pop(void) {
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

uint64_t latency(void) {
    return network.latency_min + sim_random(network.latency_max - network.latency_min + 1);
}

/// Segments of one direction arrive in order.
static uint64_t arrival(struct object *sender) {
    uint64_t time = now_ns + latency();
    if (time < sender->last_arrival) time = sender->last_arrival;
    sender->last_arrival = time;
    return time;
}

size_t unsent_limit(struct object *s) {
    size_t limit = s->send_capacity > s->in_flight ? s->send_capacity - s->in_flight : 0;
    if (s->lowat && limit > s->lowat) limit = s->lowat;
    return limit;
}

bool is_faulty(struct object *s) {
    return !network.fault_port || s->port == network.fault_port || s->remote_port == network.fault_port;
}

void reset_peer(struct object *s) {
    if (s->peer) schedule(now_ns + latency(), RESET, s->peer, 0, NULL);
}

/// Sends what the peer's window permits.
void send_segments(struct object *s) {
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

void end_socket(struct object *s, bool is_power_failure) {
    s->closed = true;
    if (s->kind != SOCKET || !s->connected || s->error) return;
    if (is_power_failure) {
        // The peer learns of it when it sends something.
        take(&s->received, NULL, s->received.count);
        take(&s->unsent, NULL, s->unsent.count);
        // If its window is closed, it probes.
        if (s->peer) schedule(now_ns + 1000000000, WINDOW, s->peer, 0, NULL);
    } else if (s->received.count || s->linger_zero) {
        s->error = ECONNRESET;
        reset_peer(s);
    } else if (!s->fin_queued) {
        s->fin_queued = true;
        send_segments(s);
    }
}

struct object *listener_at(int port) {
    for (int i = 0; i < next_descriptor; i++)
        if (table[i] && table[i]->kind == LISTENER && table[i]->port == port) return table[i];
    return NULL;
}

void process_event(struct event *event) {
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
            other->host = listener->host;
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
        case WAKE: wake_thread(event->bytes); return;
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

uint32_t readiness(struct object *o) {
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
