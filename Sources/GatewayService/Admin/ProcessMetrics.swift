// SPDX-License-Identifier: Apache-2.0

import Glibc
import OpenSSLTLS

/// The process metrics of Prometheus' own client libraries, under the same names.
struct ProcessMetrics: Sendable {
    /// When the process started, in seconds since 1970.
    ///
    /// It is computed once, since it is a difference of two clocks.
    private let startTime: Double?

    init() {
        self.startTime = Self.readStartTime()
    }

    /// The current values, without those that the system does not provide.
    var samples: [GatewayMetrics.Sample] {
        var samples: [GatewayMetrics.Sample] = []
        func add(_ name: String, _ value: Double?) {
            let kind = name.hasSuffix("_total") ? GatewayMetrics.Kind.counter : .gauge
            if let value { samples.append(GatewayMetrics.Sample(name: name, kind: kind, value: value)) }
        }
        let memory = Self.memory
        add("process_cpu_seconds_total", Self.cpuSeconds)
        add("process_virtual_memory_bytes", memory?.virtual)
        add("process_resident_memory_bytes", memory?.resident)
        add("process_open_fds", Self.openFileCount)
        add("process_max_fds", Self.openFileCountMax)
        add("process_start_time_seconds", self.startTime)
        return samples
    }

    private static var cpuSeconds: Double? {
        var usage = rusage()
        guard unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 else { return nil }
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1_000_000 }
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }

    private static var memory: (virtual: Double, resident: Double)? {
        let pages = Self.text("/proc/self/statm").split(separator: " ").compactMap { Double($0) }
        let pageByteCount = Double(sysconf(Int32(_SC_PAGESIZE)))
        guard pages.count > 1 else { return nil }
        return (pages[0] * pageByteCount, pages[1] * pageByteCount)
    }

    private static var openFileCount: Double? {
        guard let folder = unsafe opendir("/proc/self/fd") else { return nil }
        defer { unsafe closedir(folder) }
        var count = 0
        while unsafe readdir(folder) != nil { count += 1 }
        // Not counted: the entries "." and "..", and the descriptor that reads the directory.
        return Double(count - 3)
    }

    private static var openFileCountMax: Double? {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return Double(limit.rlim_cur)
    }

    private static func readStartTime() -> Double? {
        // The name of the program, in parentheses, may contain spaces.
        let fields = Self.text("/proc/self/stat").split(separator: ")").last?.split(separator: " ") ?? []
        // Field 22 of the file, in clock ticks since boot; after the split, the third field is the first.
        guard fields.count > 19, let ticks = Double(fields[19]) else { return nil }
        var (now, sinceStart) = (timespec(), timespec())
        // The boot time is not read from /proc, since a hardened unit sees only processes there.
        unsafe clock_gettime(CLOCK_REALTIME, &now)
        unsafe clock_gettime(CLOCK_BOOTTIME, &sinceStart)
        func seconds(_ time: timespec) -> Double { Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000 }
        let start = seconds(now) - seconds(sinceStart) + ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
        return (start * 100).rounded() / 100
    }

    private static func text(_ path: String) -> String {
        String(decoding: (try? FileBytes.read(path)) ?? [], as: UTF8.self)
    }
}
