// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "internal.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

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
    struct object *registered = find(descriptor);
    if (registered) registered->host = object->host;
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
    if (!object) return disk_write(descriptor, bytes, count);
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
    if (!object) {
        disk_close(descriptor);
        return (int)syscall(SYS_close, descriptor);
    }
    table[descriptor - FIRST_DESCRIPTOR] = NULL;
    if (object->duplicate_count-- > 0) return 0;
    object->descriptor = -1;
    end_socket(object, false);
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
