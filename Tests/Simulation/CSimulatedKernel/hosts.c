// SPDX-License-Identifier: Apache-2.0

// Hosts: what is killed together. The threads of a dead host never run again; what runs on, such as a task of Swift,
// has no effect outside of it, since its sockets are closed and its files were copied.

#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct host hosts[HOST_COUNT];
static int host_count = 1;
int current_host;

int sim_add_host(const char *folder, const char *next_folder) {
    int number = host_count;
    for (int i = 1; i < host_count; i++)
        if (!hosts[i].is_dead && strcmp(hosts[i].folder, folder) == 0) number = i;
    struct host *host = number == host_count ? reserve_host(folder) : &hosts[number];
    host->next_folder = disk_open(next_folder);
    return number;
}

struct host *reserve_host(const char *folder) {
    if (host_count == HOST_COUNT) abort();
    hosts[host_count].folder = disk_open(folder);
    return &hosts[host_count++];
}

void sim_enter_host(int host) { current_host = host; }
bool sim_is_dead(int host) { return hosts[host].is_dead; }

void sim_plan_death(
    int host, bool is_power_failure, uint64_t step_count_until, uint64_t disk_call_count_until,
    uint64_t sync_count_until
) {
    hosts[host].is_power_failure = is_power_failure;
    hosts[host].death_step = step_count_until ? step_count + step_count_until : 0;
    hosts[host].calls_until_death = disk_call_count_until;
    hosts[host].syncs_until_death = sync_count_until;
}

void sim_kill_host(int number, bool is_power_failure) {
    struct host *host = &hosts[number];
    if (host->is_dead) return;
    sim_note(0xDEAD ^ (uint64_t)number);
    disk_survive(host, is_power_failure);
    host->is_dead = true;
    for (int i = 0; i < next_descriptor; i++) {
        struct object *object = table[i];
        if (!object || object->host != number) continue;
        if (object->kind == LISTENER) {
            object->port = -1;
            for (int j = 0; j < object->backlog_count; j++) end_socket(object->backlog[j], is_power_failure);
            object->backlog_count = 0;
        } else if (object->kind == SOCKET && !object->closed) {
            end_socket(object, is_power_failure);
        }
    }
}

void check_deaths(void) {
    for (int i = 1; i < host_count; i++)
        if (hosts[i].death_step && step_count >= hosts[i].death_step) sim_kill_host(i, hosts[i].is_power_failure);
}
