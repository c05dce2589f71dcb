// SPDX-License-Identifier: Apache-2.0

import CSimulatedKernel
import NIOConcurrencyHelpers
import NIOPosix

/// A machine with a disk.
///
/// Its processes are killed, and its power fails; then it begins anew with what survived.
final class Machine: Sendable {
    /// A process of the machine: its event loops and threads, and the folder that is its disk.
    struct Process: Sendable {
        let group: MultiThreadedEventLoopGroup
        let pool: NIOThreadPool
        let folder: String
        fileprivate let host: CInt

        /// Whether what it does still has an effect.
        var isAlive: Bool { !sim_is_dead(self.host) }

        fileprivate let failure = NIOLockedValueBox(false)
        fileprivate var hadPowerFailure: Bool { self.failure.withLockedValue { $0 } }
    }

    private struct State {
        var host: CInt = 0
        var lifeCount = 0
        var hasLostPower = false
        var hasDiskFailed = false
        var hasDamage = false
    }

    private let base: String
    private let history: History
    /// In microseconds.
    private let syncDurationMax = Chance.one(of: [0, 100, 20_000, 500_000])
    /// Whether bits of files flip while the power is off.
    private let isDamaged: Bool
    private let state = NIOLockedValueBox(State())

    /// Creates a machine with an empty disk, whose name is a word.
    init(_ name: String, isDamaged: Bool = false, _ history: History) {
        self.isDamaged = isDamaged && simplified.contains(.flips)
        self.base = "\(seedFolder)/\(name)"
        self.history = history
        self.begin()
    }

    /// The folder that is its disk.
    var folder: String { self.state.withLockedValue { "\(self.base)-\($0.lifeCount)" } }

    /// Whether its power has failed, so that bytes of what was written last may be on the disk without those before.
    var hasLostPower: Bool { self.state.withLockedValue(\.hasLostPower) }

    /// Whether its system has failed to write.
    ///
    /// It takes the bytes for written, and the next process cannot know.
    var hasDiskFailed: Bool { self.state.withLockedValue(\.hasDiskFailed) }

    /// Whether a bit of a file has flipped.
    var hasDamage: Bool { self.state.withLockedValue(\.hasDamage) }

    private func begin() {
        self.state.withLockedValue { state in
            state.lifeCount += 1
            let (folder, next) = ("\(self.base)-\(state.lifeCount)", "\(self.base)-\(state.lifeCount + 1)")
            state.host = sim_add_host(folder, next)
            sim_set_sync_duration(state.host, UInt32(self.syncDurationMax))
        }
    }

    /// What goes wrong on a machine.
    enum Trouble: CaseIterable { case none, death, disk, diskAndDeath }

    /// Runs a process until it ends.
    ///
    /// Returns its result; `nil` if the machine died before.
    func run<Value: Sendable>(
        _ trouble: Trouble,
        _ body: @escaping @Sendable (Process) async throws -> Value
    ) async throws -> Value? {
        let host = self.state.withLockedValue(\.host)
        sim_enter_host(host)
        let group = MultiThreadedEventLoopGroup(
            numberOfThreads: simplified.contains(.threads) ? Chance.number(1...2) : 1
        )
        let pool = NIOThreadPool(numberOfThreads: simplified.contains(.threads) ? Chance.number(1...2) : 1)
        pool.start()
        sim_enter_host(0)
        let process = Process(group: group, pool: pool, folder: self.folder, host: host)
        let result = NIOLockedValueBox<Result<Value, any Error>?>(nil)
        let task = Task {
            do {
                let value = try await body(process)
                result.withLockedValue { $0 = .success(value) }
            } catch {
                result.withLockedValue { $0 = .failure(error) }
            }
        }
        async let end: Void = self.make(trouble, process)
        while process.isAlive, result.withLockedValue({ $0 == nil }) {
            try await SimulatedTime.pass(Chance.duration(1...500))
        }
        let isOver = process.isAlive
        try await end
        sim_set_disk(host, false, 0)
        sim_plan_death(host, false, 0, 0, 0)
        if isOver, process.isAlive, let result = result.withLockedValue({ $0 }) {
            // Its threads end with it.
            sim_kill_host(host, false)
            self.begin()
            return try result.get()
        }
        task.cancel()
        self.history.note("the machine begins again")
        if process.hadPowerFailure { self.state.withLockedValue { $0.hasLostPower = true } }
        self.begin()
        if self.isDamaged, process.hadPowerFailure, Chance.once(in: 2) {
            let name = String(cString: sim_flip_bit(self.folder))
            self.state.withLockedValue { $0.hasDamage = $0.hasDamage || !name.isEmpty }
            self.history.note("a bit flips in \(name.split(separator: ".").last ?? "no file")")
        }
        return nil
    }

    private func make(_ trouble: Trouble, _ process: Process) async throws {
        switch trouble {
        case .none: break
        case .death where simplified.contains(.deaths): try await self.kill(process)
        case .disk where simplified.contains(.disks): try await self.disturbDisk(process, trouble)
        case .diskAndDeath where simplified.contains(.disks) && simplified.contains(.deaths):
            try await self.disturbDisk(process, trouble)
            try await self.kill(process)
        case .death, .disk, .diskAndDeath: break
        }
    }

    private func kill(_ process: Process) async throws {
        let isPowerFailure = simplified.contains(.powerFailures) && Chance.once(in: 2)
        process.failure.withLockedValue { $0 = isPowerFailure }
        self.history.note(isPowerFailure ? "the power will fail" : "the process will be killed")
        // Mostly early: a number of any magnitude.
        func count(_ magnitude: Int) -> UInt64 { UInt64(Chance.number(1...(1 << Chance.number(1...magnitude)))) }
        switch Chance.number(0...4) {
        case 0: sim_plan_death(process.host, isPowerFailure, count(13), 0, 0)
        case 1, 2: sim_plan_death(process.host, isPowerFailure, 0, count(7), 0)
        case 3: sim_plan_death(process.host, isPowerFailure, 0, 0, count(4))
        default:
            try await SimulatedTime.pass(Chance.duration(0...Chance.one(of: [10, 500, 5000])))
            sim_kill_host(process.host, isPowerFailure)
        }
    }

    /// Fills the disk for a while, or lets the system fail to write.
    private func disturbDisk(_ process: Process, _ trouble: Trouble) async throws {
        // After a death, a process does not know that an earlier fsync() failed.
        let isFull = trouble == .diskAndDeath || Chance.once(in: 2)
        try await SimulatedTime.pass(Chance.duration(0...Chance.one(of: [0, 10, 1000])))
        self.history.note(isFull ? "the disk is full" : "the disk fails")
        if !isFull { self.state.withLockedValue { $0.hasDiskFailed = true } }
        sim_set_disk(process.host, isFull, isFull ? 0 : UInt32(Chance.one(of: [50_000, 300_000])))
        try await SimulatedTime.pass(Chance.duration(1...Chance.one(of: [10, 1000, 60_000])))
        // It may die meanwhile.
        guard trouble == .disk else { return }
        sim_set_disk(process.host, false, 0)
        self.history.note("the disk is well again")
    }
}
