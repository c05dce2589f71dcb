// SPDX-License-Identifier: Apache-2.0

// The system that the simulation runs on: its calls replace those of the C library in the program they are linked into.
//
// While it is active, one thread runs at a time: the one that the scheduler chose. Threads wait only in epoll_wait();
// jobs of Swift's concurrency and of Dispatch are run by sim_run(). Time passes only when nothing else can happen.

#ifndef SIMULATED_KERNEL_H
#define SIMULATED_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// How the network behaves; times in nanoseconds.
struct sim_network {
    /// The time that a segment takes: from the least to the greatest, chosen for each.
    uint64_t latency_min;
    uint64_t latency_max;
    /// The sizes of the buffers of new sockets, and the most bytes on the way at a time.
    uint32_t send_buffer;
    uint32_t receive_buffer;
    uint32_t window;
    /// The longest segment.
    uint32_t segment_max;
    /// Whether reads and writes are sometimes shorter than they could be.
    bool short_io;
    /// The chance, in millionths, that a segment resets the connection instead of arriving.
    uint32_t reset_chance;
    /// The chance, in millionths, that a segment is followed by a silence of `stall`.
    uint32_t stall_chance;
    uint64_t stall;
    /// The chance, in millionths, that a connection is refused.
    uint32_t refuse_chance;
    /// The port whose connections have these faults; 0: all.
    int fault_port;
};

/// Starts the simulation of time, network and chance; before that, calls go to the real system.
void sim_start(uint64_t seed, int64_t wall_seconds);

/// Replaces the behaviour of the network.
void sim_set_network(struct sim_network network);

/// A number below the limit from the seed.
uint64_t sim_random(uint64_t limit);

/// The simulated monotonic time in nanoseconds.
uint64_t sim_now(void);

/// Moves the wall clock, as an administrator or a time service does.
void sim_jump_wall_clock(int64_t nanoseconds);

/// Resets open connections, of the faulty port, with some chance in millionths each.
void sim_reset_connections(uint32_t chance);

/// Stops or restores the traffic of the faulty port, or all: segments wait.
void sim_set_partition(bool is_partitioned);

// MARK: Hosts and their disks

/// Adds a host with its disk, which is a folder; what survives its death is then in another one.
///
/// Returns its number; 0 is the host of everything else, which never dies.
int sim_add_host(const char *folder, const char *next_folder);

/// Makes new threads and sockets those of a host.
void sim_enter_host(int host);

/// Ends a host: its threads never run again, and its sockets are closed. What it has written survives; after a power
/// failure, only what was synchronized does, and a part of the rest.
void sim_kill_host(int host, bool is_power_failure);

/// Plans the end of a host after some steps, after some calls that change its disk, and before the end of a
/// synchronization; 0: not.
void sim_plan_death(
    int host, bool is_power_failure, uint64_t step_count_until, uint64_t disk_call_count_until,
    uint64_t sync_count_until
);

bool sim_is_dead(int host);

/// Makes the disk of a host full, or lets fsync() fail with some chance in millionths.
void sim_set_disk(int host, bool is_full, uint32_t sync_failure_chance);

/// Lets fsync() take up to this time, on other threads than that of jobs.
void sim_set_sync_duration(int host, uint32_t microseconds);

/// Flips a bit in one of the files of a folder that no process has open since a power failure.
///
/// Returns the path in the folder; empty if there is no file.
const char *sim_flip_bit(const char *folder);

/// Removes a folder with everything in it.
void sim_remove_tree(const char *path);

/// Runs everything until the flag is set or the simulated time is over.
///
/// Returns 0 if the flag was set, 1 if the time is over, and 2 if nothing can happen any more.
int sim_run(const volatile bool *flag, uint64_t until);

/// The number of steps that were run, and a digest of what happened in them: equal for equal seeds.
uint64_t sim_step_count(void);
uint64_t sim_digest(void);

/// Adds a number to the digest.
void sim_note(uint64_t number);

/// The number of connections that were reset, refused and stalled.
uint64_t sim_fault_count(void);

/// Starts the program again without random addresses and hashes, on which the order of sets depends.
void sim_fix_addresses(char *const arguments[]);

/// fork(), which Swift does not offer: each seed has a process of its own, on one processor; -1: on any.
int sim_fork(int processor);

/// The number of this process, which a simulated program does not see.
int sim_process(void);

/// The monotonic time of the real system, in seconds.
int64_t sim_real_seconds(void);

#endif
