// SPDX-License-Identifier: Apache-2.0

// The disk of a host: real files in a folder of its own. What is written is visible at once, as in the page cache; what
// would survive a power failure is in memory: the content of each file as of its last fsync(), the changes since, and
// the changes of names since the last fsync() of their folder.
//
// At a death, what survives is written to another folder, in which the next host begins.

#define _GNU_SOURCE
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECTOR 512
#define REAL_DESCRIPTOR_COUNT 65536

/// A write, or a change of the length, in which case there are no bytes.
struct change {
    off_t offset;
    size_t count;
    unsigned char *bytes;
};

struct file {
    struct file *next;
    struct host *host;
    ino_t node;
    bool is_folder, is_volatile;
    char path[PATH_MAX];  // of a folder
    unsigned char *durable;
    size_t durable_count, durable_capacity;
    struct change *changes;
    size_t change_count, change_capacity;
    /// The end of the space that it has on the disk.
    off_t allocated;
    struct timespec changed_at;
};

/// A name that has changed since its folder was synchronized; without a file: it was not there.
struct name_change {
    struct host *host;
    char path[PATH_MAX];
    struct file *before;
};

static struct file *files;
static struct file *opened[REAL_DESCRIPTOR_COUNT];
static struct name_change *names;
static size_t name_count, name_capacity;

// MARK: Files

const char *disk_open(const char *folder) {
    mkdir(folder, 0700);
    return strdup(folder);
}

static struct host *host_of(const char *path) {
    if (!active || path[0] != '/') return NULL;
    for (int i = 1; i < HOST_COUNT; i++) {
        if (!hosts[i].folder || hosts[i].is_dead) continue;
        size_t count = strlen(hosts[i].folder);
        if (strncmp(path, hosts[i].folder, count) == 0 && (path[count] == '/' || !path[count])) return &hosts[i];
    }
    return NULL;
}

static bool has_ending(const char *path, const char *ending) {
    size_t count = strlen(path), ending_count = strlen(ending);
    return count >= ending_count && strcmp(path + count - ending_count, ending) == 0;
}

static void set_size(struct file *file, size_t count) {
    if (count > file->durable_capacity) {
        file->durable_capacity = count * 2;
        file->durable = realloc(file->durable, file->durable_capacity);
    }
    if (count > file->durable_count) memset(file->durable + file->durable_count, 0, count - file->durable_count);
    file->durable_count = count;
}

/// Finds what is known of a file, or reads it: what is there without a change is on the disk.
static struct file *find_file(struct host *host, const char *path, bool is_new) {
    struct stat status;
    if (syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0) != 0) return NULL;
    for (struct file *file = files; file; file = file->next)
        if (file->host == host && file->node == status.st_ino) return file;
    struct file *file = calloc(1, sizeof *file);
    file->host = host;
    file->node = status.st_ino;
    file->is_folder = S_ISDIR(status.st_mode);
    file->is_volatile = has_ending(path, "-shm");
    file->allocated = status.st_size;
    file->changed_at = status.st_mtim;
    if (file->is_folder) snprintf(file->path, sizeof file->path, "%s", path);
    if (!file->is_folder && !is_new && status.st_size) {
        set_size(file, (size_t)status.st_size);
        int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
        if (descriptor < 0 || syscall(SYS_pread64, descriptor, file->durable, file->durable_count, 0) < 0) abort();
        syscall(SYS_close, descriptor);
    }
    if (is_new) clock_gettime(CLOCK_REALTIME, &file->changed_at);
    // A new file may have the number of a removed one.
    file->next = files;
    files = file;
    return file;
}

static struct file *file_of(int descriptor) {
    if (!active || descriptor < 0 || descriptor >= REAL_DESCRIPTOR_COUNT) return NULL;
    struct file *file = opened[descriptor];
    return file && !file->host->is_dead ? file : NULL;
}

static void change_file(struct file *file, off_t offset, const void *bytes, size_t count) {
    clock_gettime(CLOCK_REALTIME, &file->changed_at);
    if (file->is_volatile) return;
    if (file->change_count == file->change_capacity) {
        file->change_capacity = file->change_capacity ? file->change_capacity * 2 : 16;
        file->changes = realloc(file->changes, file->change_capacity * sizeof *file->changes);
    }
    struct change change = {offset, count, NULL};
    if (bytes) change.bytes = memcpy(malloc(count + 1), bytes, count);
    file->changes[file->change_count++] = change;
}

static void change_name(struct host *host, const char *path, struct file *before) {
    if (name_count == name_capacity) {
        name_capacity = name_capacity ? name_capacity * 2 : 16;
        names = realloc(names, name_capacity * sizeof *names);
    }
    struct name_change *change = &names[name_count++];
    change->host = host;
    change->before = before;
    snprintf(change->path, sizeof change->path, "%s", path);
}

// MARK: What survives

static void apply(struct file *file, struct change *change) {
    if (!change->bytes) {
        set_size(file, (size_t)change->offset);
        return;
    }
    if ((size_t)change->offset + change->count > file->durable_count)
        set_size(file, (size_t)change->offset + change->count);
    memcpy(file->durable + change->offset, change->bytes, change->count);
}

/// Applies a change to a part of the file.
static void apply_within(struct file *file, struct change *change, size_t start, size_t end) {
    size_t from = (size_t)change->offset > start ? (size_t)change->offset : start;
    size_t to = (size_t)change->offset + change->count;
    if (to > end) to = end;
    if (!change->bytes && (size_t)change->offset < end) {
        memset(file->durable + from, 0, end - from);
    } else if (change->bytes && from < to) {
        memcpy(file->durable + from, change->bytes + (from - (size_t)change->offset), to - from);
    }
}

/// Applies a part of the changes: the system writes each sector at another time, as it is then, or not at all.
static void apply_partly(struct file *file) {
    if (!file->change_count) return;
    size_t size = file->durable_count, longest = size;
    size_t size_count = sim_random(file->change_count + 1);
    for (size_t i = 0; i < file->change_count; i++) {
        struct change *change = &file->changes[i];
        size_t end = (size_t)change->offset + change->count;
        if (end > longest) longest = end;
        if (i < size_count && (!change->bytes || end > size)) size = end;
    }
    set_size(file, longest);
    // A power failure before anything was written, after everything was, and between.
    uint64_t way = sim_random(4);
    for (size_t start = 0; start < longest; start += SECTOR) {
        size_t count = way == 0 ? 0 : way == 1 ? file->change_count : sim_random(file->change_count + 1);
        if (way == 2 && sim_random(2)) count = file->change_count;
        size_t end = start + SECTOR < longest ? start + SECTOR : longest;
        for (size_t i = 0; i < count; i++) apply_within(file, &file->changes[i], start, end);
    }
    if (way == 1)
        for (size_t i = 0; i < file->change_count; i++) apply(file, &file->changes[i]);
    else if (way != 0) set_size(file, size);
}

static void forget_changes(struct file *file) {
    for (size_t i = 0; i < file->change_count; i++) free(file->changes[i].bytes);
    file->change_count = 0;
}

static struct host *surviving;
static bool survives_power;

/// The path in the next folder.
static const char *next_path(const char *path) {
    static char result[PATH_MAX];
    snprintf(result, sizeof result, "%s%s", surviving->next_folder, path + strlen(surviving->folder));
    return result;
}

static void write_copy(const char *path, struct file *file, const struct timespec *changed_at) {
    if (file && file->is_folder) {
        syscall(SYS_mkdirat, AT_FDCWD, next_path(path), 0700);
        return;
    }
    int out = (int)syscall(SYS_openat, AT_FDCWD, next_path(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0) return;  // In a folder that does not survive.
    if (file && !survives_power) {
        size_t count = file->durable_count;
        for (size_t done = 0; done < count;) {
            long part = syscall(SYS_write, out, file->durable + done, count - done);
            if (part <= 0) abort();
            done += (size_t)part;
        }
    } else {
        int in = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
        static unsigned char bytes[65536];
        long count;
        while ((count = syscall(SYS_read, in, bytes, sizeof bytes)) > 0)
            if (syscall(SYS_write, out, bytes, (size_t)count) != count) abort();
        syscall(SYS_close, in);
    }
    struct timespec times[2] = {*changed_at, *changed_at};
    syscall(SYS_utimensat, out, NULL, times, 0);
    struct stat status;
    if (file && survives_power && syscall(SYS_fstat, out, &status) == 0) file->node = status.st_ino;
    syscall(SYS_close, out);
}

static int copy_live(const char *path, const struct stat *status, int kind, struct FTW *place) {
    if (kind == FTW_D) {
        syscall(SYS_mkdirat, AT_FDCWD, next_path(path), 0700);
        return 0;
    }
    struct file *file = find_file(surviving, path, false);
    if (!survives_power && (!file || file->is_volatile)) return 0;
    write_copy(path, file, file ? &file->changed_at : &status->st_mtim);
    return 0;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    remove(path);
    return 0;
}

void sim_remove_tree(const char *path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

static int compare_folders(const char *a, const char *b) {
    const char *a_end = strrchr(a, '/'), *b_end = strrchr(b, '/');
    if (a_end - a != b_end - b) return 1;
    return strncmp(a, b, (size_t)(a_end - a));
}

/// Takes back the last changes of names in each folder, a random number of them.
static void lose_names(void) {
    bool *is_lost = calloc(name_count + 1, sizeof *is_lost);
    bool *is_decided = calloc(name_count + 1, sizeof *is_decided);
    for (size_t i = 0; i < name_count; i++) {
        if (names[i].host != surviving || is_decided[i]) continue;
        size_t count = 0;
        for (size_t j = i; j < name_count; j++)
            count += names[j].host == surviving && compare_folders(names[i].path, names[j].path) == 0;
        size_t kept = sim_random(count + 1), index = 0;
        for (size_t j = i; j < name_count; j++) {
            if (names[j].host != surviving || compare_folders(names[i].path, names[j].path) != 0) continue;
            is_decided[j] = true;
            is_lost[j] = index++ >= kept;
        }
    }
    for (size_t i = name_count; i-- > 0;) {
        if (!is_lost[i]) continue;
        sim_remove_tree(next_path(names[i].path));
        if (names[i].before) write_copy(names[i].path, names[i].before, &names[i].before->changed_at);
    }
    free(is_lost);
    free(is_decided);
}

/// What a killed process has not synchronized may still be lost by a later power failure.
static void hand_over(struct file *file, struct host *successor) {
    struct stat status;
    const char *path = file->is_folder ? file->path : NULL;
    if (path) snprintf(file->path, sizeof file->path, "%s", next_path(path));
    if (path && syscall(SYS_newfstatat, AT_FDCWD, file->path, &status, 0) == 0) file->node = status.st_ino;
    file->host = successor;
}

void disk_survive(struct host *host, bool is_power_failure) {
    if (!host->folder) return;
    surviving = host;
    survives_power = !is_power_failure;
    if (is_power_failure)
        for (struct file *file = files; file; file = file->next)
            if (file->host == host) {
                apply_partly(file);
                forget_changes(file);
            }
    nftw(host->folder, copy_live, 16, FTW_PHYS);
    if (is_power_failure) lose_names();
    struct host *successor = is_power_failure ? NULL : reserve_host(host->next_folder);
    for (int i = 0; i < REAL_DESCRIPTOR_COUNT; i++)
        if (opened[i] && opened[i]->host == host) opened[i] = NULL;
    for (struct file *file = files; file; file = file->next)
        if (file->host == host) hand_over(file, successor);
    for (size_t i = 0; i < name_count; i++) {
        if (names[i].host != host) continue;
        snprintf(names[i].path, sizeof names[i].path, "%s", next_path(names[i].path));
        names[i].host = successor;
    }
}

static char candidates[64][PATH_MAX];
static int candidate_count;

/// Collects files whose damage is noticed: SQLite ends a log that is damaged, and others have no content.
static int collect_candidate(const char *path, const struct stat *status, int kind, struct FTW *place) {
    static const char *const endings[] = {"-wal", "-shm", "-journal", ".lock", ".next", "devices.sqlite"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (has_ending(path, endings[i])) return 0;
    if (kind == FTW_F && status->st_size > 0 && candidate_count < 64) strcpy(candidates[candidate_count++], path);
    return 0;
}

static int compare_paths(const void *a, const void *b) { return strcmp(a, b); }

const char *sim_flip_bit(const char *folder) {
    candidate_count = 0;
    nftw(folder, collect_candidate, 16, FTW_PHYS);
    if (!candidate_count) return "";
    qsort(candidates, (size_t)candidate_count, sizeof *candidates, compare_paths);
    const char *path = candidates[sim_random((uint64_t)candidate_count)];
    struct stat status;
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (descriptor < 0 || syscall(SYS_fstat, descriptor, &status) != 0) abort();
    off_t offset = 0;
    unsigned char byte = 0;
    // Mostly where something is: much of a database is empty.
    for (int i = 0; i < 8 && !byte; i++) {
        offset = (off_t)sim_random((uint64_t)status.st_size);
        if (syscall(SYS_pread64, descriptor, &byte, 1, offset) != 1) abort();
    }
    byte ^= (unsigned char)(1 << sim_random(8));
    if (syscall(SYS_pwrite64, descriptor, &byte, 1, offset) != 1) abort();
    syscall(SYS_close, descriptor);
    return path + strlen(folder);
}

void sim_set_sync_duration(int host, uint32_t microseconds) { hosts[host].sync_duration_max = microseconds; }

void sim_set_disk(int host, bool is_full, uint32_t sync_failure_chance) {
    hosts[host].is_full = is_full;
    hosts[host].sync_failure_chance = sync_failure_chance;
}

/// Counts a call that changes the disk; the planned death may be before it.
static bool dies_now(struct host *host) {
    sim_note(0xD15C);
    return host->calls_until_death && --host->calls_until_death == 0;
}

static void die(struct host *host) {
    if (!host->is_dead) sim_kill_host((int)(host - hosts), host->is_power_failure);
}

// MARK: Calls

static int open_file(const char *path, int flags, mode_t mode) {
    struct host *host = host_of(path);
    if (!host) return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    struct stat status;
    bool is_new = (flags & O_CREAT) && syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0) != 0;
    if (is_new) {
        if (dies_now(host)) die(host);
        if (host->is_full && sim_random(2) == 0) {
            errno = ENOSPC;
            return -1;
        }
    }
    struct file *before = is_new || !(flags & O_TRUNC) ? NULL : find_file(host, path, false);
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (descriptor < 0 || descriptor >= REAL_DESCRIPTOR_COUNT || host->is_dead) return descriptor;
    struct file *file = before;
    if (is_new) {
        // Its number may be that of a removed file.
        syscall(SYS_fstat, descriptor, &status);
        for (struct file *other = files; other; other = other->next)
            if (other->host == host && other->node == status.st_ino) other->node = 0;
        file = find_file(host, path, true);
        change_name(host, path, NULL);
    } else if (!file) {
        file = find_file(host, path, false);
    } else {
        change_file(file, 0, NULL, 0);
        file->allocated = 0;
    }
    opened[descriptor] = file;
    return descriptor;
}

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list list; \
        va_start(list, flags); \
        mode = va_arg(list, mode_t); \
        va_end(list); \
    }

int open(const char *path, int flags, ...) {
    MODE
    return open_file(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE
    return open_file(path, flags, mode);
}

void disk_close(int descriptor) {
    if (descriptor >= 0 && descriptor < REAL_DESCRIPTOR_COUNT) opened[descriptor] = NULL;
}

/// Writes to a file at an offset; -1: at its position.
static ssize_t write_file(int descriptor, const void *bytes, size_t count, off_t offset) {
    struct file *file = file_of(descriptor);
    off_t start = offset;
    if (file && offset < 0) {
        start = syscall(SYS_lseek, descriptor, 0, SEEK_CUR);
        if (syscall(SYS_fcntl, descriptor, F_GETFL) & O_APPEND) start = syscall(SYS_lseek, descriptor, 0, SEEK_END);
    }
    if (file) {
        struct host *host = file->host;
        if (host->is_full && start + (off_t)count > file->allocated) {
            if (start >= file->allocated || sim_random(2)) {
                errno = ENOSPC;
                return -1;
            }
            count = (size_t)(file->allocated - start);
        }
        if (dies_now(host)) {
            size_t part = sim_random(count + 1);
            if (syscall(SYS_pwrite64, descriptor, bytes, part, start) < 0) abort();
            change_file(file, start, bytes, part);
            die(host);
        } else {
            change_file(file, start, bytes, count);
        }
        if (start + (off_t)count > file->allocated) file->allocated = start + (off_t)count;
    }
    return offset < 0 ? syscall(SYS_write, descriptor, bytes, count)
                      : syscall(SYS_pwrite64, descriptor, bytes, count, offset);
}

ssize_t disk_write(int descriptor, const void *bytes, size_t count) { return write_file(descriptor, bytes, count, -1); }
ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    return write_file(descriptor, bytes, count, offset);
}
ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off_t offset) {
    return write_file(descriptor, bytes, count, offset);
}

int ftruncate(int descriptor, off_t count) {
    struct file *file = file_of(descriptor);
    if (file) {
        if (dies_now(file->host)) die(file->host);
        change_file(file, count, NULL, 0);
        file->allocated = count;
    }
    return (int)syscall(SYS_ftruncate, descriptor, count);
}
int ftruncate64(int descriptor, off_t count) { return ftruncate(descriptor, count); }

int fallocate(int descriptor, int mode, off_t offset, off_t count) {
    struct file *file = file_of(descriptor);
    if (!file) return (int)syscall(SYS_fallocate, descriptor, mode, offset, count);
    if (file->host->is_full) {
        errno = ENOSPC;
        return -1;
    }
    if (dies_now(file->host)) die(file->host);
    if (offset + count > file->allocated) file->allocated = offset + count;
    return 0;
}

static int synchronize(int descriptor) {
    struct file *file = file_of(descriptor);
    // A file of a dead host is not read again.
    if (!file) return active ? 0 : (int)syscall(SYS_fsync, descriptor);
    struct host *host = file->host;
    if (host->sync_duration_max && calling_thread_may_wait()) {
        usleep((useconds_t)sim_random(host->sync_duration_max));
        file = file_of(descriptor);
        if (!file) return 0;
    }
    if (dies_now(host) || (host->syncs_until_death && --host->syncs_until_death == 0)) die(host);
    if (happens(host->sync_failure_chance)) {
        // The system takes what it could not write for written.
        fault_count++;
        apply_partly(file);
        forget_changes(file);
        errno = EIO;
        return -1;
    }
    if (file->is_folder) {
        size_t kept = 0;
        char any[PATH_MAX + 2];
        snprintf(any, sizeof any, "%s/x", file->path);
        for (size_t i = 0; i < name_count; i++)
            if (names[i].host != host || compare_folders(any, names[i].path) != 0) names[kept++] = names[i];
        name_count = kept;
    } else {
        for (size_t i = 0; i < file->change_count; i++) apply(file, &file->changes[i]);
        forget_changes(file);
    }
    return 0;
}

int fsync(int descriptor) { return synchronize(descriptor); }
int fdatasync(int descriptor) { return synchronize(descriptor); }

int rename(const char *path, const char *other) {
    struct host *host = host_of(path);
    if (host && dies_now(host)) die(host);
    if (host && !host->is_dead) {
        struct file *file = find_file(host, path, false), *replaced = find_file(host, other, false);
        if (file) {
            change_name(host, other, replaced);
            change_name(host, path, file);
        }
    }
    return (int)syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, 0);
}

int link(const char *path, const char *other) {
    struct host *host = host_of(other);
    int result = (int)syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, other, 0);
    if (host && result == 0) change_name(host, other, NULL);
    return result;
}

static int remove_name(const char *path, int flags) {
    struct host *host = host_of(path);
    if (host && dies_now(host)) die(host);
    struct file *file = host && !host->is_dead ? find_file(host, path, false) : NULL;
    if (file) change_name(host, path, file);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, flags);
}

int unlink(const char *path) { return remove_name(path, 0); }
int rmdir(const char *path) { return remove_name(path, AT_REMOVEDIR); }

int mkdir(const char *path, mode_t mode) {
    struct host *host = host_of(path);
    if (host && dies_now(host)) die(host);
    int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (host && !host->is_dead && result == 0) change_name(host, path, NULL);
    return result;
}

int fstat(int descriptor, struct stat *status) {
    int result = (int)syscall(SYS_fstat, descriptor, status);
    struct file *file = file_of(descriptor);
    if (file && result == 0) status->st_mtim = file->changed_at;
    return result;
}

pid_t getpid(void) { return active ? 4242 : (pid_t)syscall(SYS_getpid); }
