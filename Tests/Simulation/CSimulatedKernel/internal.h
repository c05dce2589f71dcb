// SPDX-License-Identifier: Apache-2.0

// What the files of the simulated kernel share.

#ifndef INTERNAL_H
#define INTERNAL_H

#include "simulated_kernel.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/types.h>

// A method for random numbers is deprecated, and has no successor that the program can install.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/rand.h>

// MARK: Time and chance

extern bool active;
extern uint64_t now_ns;
extern int64_t wall_ns;
extern uint64_t chance_state;
extern uint64_t digest_value;
extern uint64_t step_count;
extern uint64_t fault_count;
extern struct sim_network network;
extern bool is_partitioned;
extern uint64_t bytes_state;
extern RAND_METHOD rand_method;

uint64_t next_number(uint64_t *state);
bool happens(uint32_t chance);

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
    int host;
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

extern struct object *table[DESCRIPTOR_COUNT];
extern int next_descriptor;
extern int next_port;

struct object *find(int descriptor);
struct object *make(enum kind kind);
void append(struct buffer *buffer, const void *bytes, size_t count);
size_t take(struct buffer *buffer, void *bytes, size_t count);

// MARK: Events

enum event_kind { SYN, SYN_ANSWER, SEGMENT, ACKNOWLEDGE, WINDOW, FIN, RESET, TIMER_EXPIRY, JOB, WAKE };

struct event {
    uint64_t time, number;
    enum event_kind kind;
    struct object *object;
    uint64_t value;
    unsigned char *bytes;
};

extern struct event *heap;
extern size_t heap_count;

void schedule(uint64_t time, enum event_kind kind, struct object *object, uint64_t value, unsigned char *bytes);
struct event pop(void);

// MARK: The network

uint64_t latency(void);
bool is_faulty(struct object *s);
void reset_peer(struct object *s);
void send_segments(struct object *s);
struct object *listener_at(int port);
void process_event(struct event *event);
uint32_t readiness(struct object *o);
size_t unsent_limit(struct object *s);

/// Closes a socket as the system does with those of a process that ends; after a power failure, nothing is sent.
void end_socket(struct object *s, bool is_power_failure);

// MARK: Threads

extern pthread_mutex_t mutex;

/// Ends the pause of a thread.
void wake_thread(void *thread);

/// Whether others run while the calling thread waits: it is not that of the jobs.
bool calling_thread_may_wait(void);

/// The host of the calling thread.
int calling_host(void);

// MARK: Hosts

#define HOST_COUNT 4096

struct host {
    const char *folder, *next_folder;
    bool is_dead, is_power_failure, is_full;
    uint32_t sync_failure_chance, sync_duration_max;
    uint64_t death_step, calls_until_death, syncs_until_death;
};

/// Without a number, a host never dies: it is the one of what is not under test.
extern struct host hosts[HOST_COUNT];
extern int current_host;

/// Makes a host that is added later with this folder: after a death, that of what survived.
struct host *reserve_host(const char *folder);

void check_deaths(void);

// MARK: Disks

const char *disk_open(const char *folder);
void disk_survive(struct host *host, bool is_power_failure);
void disk_close(int descriptor);
ssize_t disk_write(int descriptor, const void *bytes, size_t count);

#endif
