// SPDX-License-Identifier: Apache-2.0

import CSimulatedKernel
import NIOConcurrencyHelpers

/// A network from the seed.
enum Network {
    /// Makes a network; only connections of the port have faults, or all.
    static func make(faultPort: Int = 0) {
        let latency = Chance.one(of: [1000, 100_000, 5_000_000, 100_000_000])
        let (resets, stalls, refusals) = (
            Chance.one(of: [0, 0, 300, 5000, 50_000]), Chance.one(of: [0, 0, 1000, 20_000]),
            Chance.one(of: [0, 0, 100_000, 500_000])
        )
        sim_set_network(
            sim_network(
                latency_min: UInt64(latency),
                latency_max: UInt64(latency * Chance.number(1...10)),
                send_buffer: UInt32(Chance.one(of: [4096, 20_000, 200_000, 4_000_000])),
                receive_buffer: UInt32(Chance.one(of: [2048, 20_000, 200_000])),
                window: UInt32(Chance.one(of: [1460, 14_600, 100_000])),
                segment_max: UInt32(Chance.one(of: [536, 1460, 16_000])),
                short_io: Chance.once(in: 2) && simplified.contains(.shortIO),
                reset_chance: simplified.contains(.resets) ? UInt32(resets) : 0,
                stall_chance: simplified.contains(.stalls) ? UInt32(stalls) : 0,
                stall: UInt64(Chance.number(1...90)) * 1_000_000_000,
                refuse_chance: simplified.contains(.refusals) ? UInt32(refusals) : 0,
                fault_port: CInt(faultPort)
            )
        )
    }

    private static let clockError = NIOLockedValueBox(0)

    private static func jumpClock(_ seconds: Int) {
        self.clockError.withLockedValue { $0 += seconds }
        sim_jump_wall_clock(Int64(seconds) * 1_000_000_000)
    }

    /// Makes a network without faults, and sets the wall clock right.
    static func makeReliable() {
        self.jumpClock(self.clockError.withLockedValue { -$0 })
        sim_set_network(
            sim_network(
                latency_min: 100_000,
                latency_max: 500_000,
                send_buffer: 200_000,
                receive_buffer: 200_000,
                window: 100_000,
                segment_max: 16_000,
                short_io: false,
                reset_chance: 0,
                stall_chance: 0,
                stall: 0,
                refuse_chance: 0,
                fault_port: 0
            )
        )
    }

    /// Resets connections, stops all traffic for a while, and moves the wall clock.
    static func makeTrouble(_ history: History) async throws {
        guard simplified.contains(.trouble) else { return }
        for _ in 0..<Chance.number(0...4) {
            try await SimulatedTime.pass(Chance.duration(1...3000))
            switch Chance.number(0...2) {
            case 0:
                history.note("connections are reset")
                sim_reset_connections(UInt32(Chance.one(of: [300_000, 1_000_000])))
            case 1:
                history.note("no packet passes")
                sim_set_partition(true)
                try await SimulatedTime.pass(Chance.duration(10...60_000))
                sim_set_partition(false)
                history.note("packets pass again")
            default: self.jumpClock(Chance.number(-3600...3600))
            }
        }
    }
}
