// SPDX-License-Identifier: Apache-2.0

// Runs scenarios, each from a seed and in a process of its own.
//
//     Simulation [--first N] [--count N] [--seconds N] [--failures N]   runs many seeds, and prints those that fail
//     Simulation --scenario NAME ...                                    passes over those of the other scenarios
//     Simulation --seed N                                               runs one, simplifies it if it fails, and prints
//                                                                       its history

import CSimulatedKernel
import Glibc

/// The simulated wall clock at the start of each seed: 2026-06-01.
let wallSeconds: Int64 = 1_780_272_000

sim_fix_addresses(CommandLine.unsafeArgv)

var first: UInt64 = 1
var count: UInt64 = 100
var seconds = Int64.max
var failureCountMax = Int.max
var single: UInt64?
var arguments = CommandLine.arguments.dropFirst()
/// The scenario that is run; `nil` for all.
nonisolated(unsafe) var scenarioWanted: Scenario?
while let option = arguments.popFirst() {
    if option == "--scenario", let scenario = arguments.first.flatMap(Scenario.init) {
        scenarioWanted = scenario
        arguments.removeFirst()
        continue
    }
    guard let value = arguments.popFirst(), let number = UInt64(value) else {
        print("usage: Simulation [--first N] [--count N] [--seconds N] [--failures N] [--scenario NAME] [--seed N]")
        exit(64)
    }
    switch option {
    case "--first": first = number
    case "--count": count = number
    case "--seconds": seconds = Int64(number)
    case "--failures": failureCountMax = Int(number)
    case "--seed": single = number
    default:
        print("unknown option \(option)")
        exit(64)
    }
}

// Certificates are the same for every seed.
sim_start(0, wallSeconds)
let materials = try Materials()

/// The folder of all seeds of this process, in memory if possible.
let runFolder = "\(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp")/apns-legacy-simulation-\(sim_process())"
mkdir(runFolder, 0o700)
/// The folder of the seed that runs.
nonisolated(unsafe) var seedFolder = runFolder

/// Runs a seed in this process, and ends the process.
func runSeed(
    _ seed: UInt64,
    _ simplifications: Simplifications = Simplifications(),
    isVerbose: Bool,
    isLast: Bool = false
) -> Never {
    alarm(120)
    simplified = simplifications
    seedFolder = "\(runFolder)/\(seed)"
    mkdir(seedFolder, 0o700)
    let result = Run(seed, materials, isVerbose: isVerbose).run()
    if isVerbose || result != nil, !simplifications.isQuiet {
        print("seed \(seed): \(result ?? "passed"), \(sim_step_count()) steps, digest \(sim_digest())")
    }
    fflush(nil)
    sim_remove_tree(isLast ? runFolder : seedFolder)
    _exit(result == nil ? 0 : 1)
}

/// Whether a seed fails, in a process of its own.
func fails(_ seed: UInt64, _ simplifications: Simplifications) -> Bool {
    var simplifications = simplifications
    simplifications.isQuiet = true
    fflush(nil)
    let process = sim_fork(-1)
    if process == 0 { runSeed(seed, simplifications, isVerbose: false) }
    var status: CInt = 0
    waitpid(process, &status, 0)
    return status != 0
}

if let single {
    var simplifications = Simplifications()
    if fails(single, simplifications) { simplifications.shrink { fails(single, $0) } }
    print(simplifications)
    runSeed(single, simplifications, isVerbose: true, isLast: true)
}

let start = sim_real_seconds()
let workerCount = sysconf(CInt(_SC_NPROCESSORS_ONLN))
var running: [pid_t: (seed: UInt64, processor: Int)] = [:]
var failedSeeds: [UInt64] = []
var runCount: UInt64 = 0

/// Waits for the process of a seed.
@MainActor func collect() {
    var status: CInt = 0
    let process = waitpid(-1, &status, 0)
    guard let (seed, _) = running.removeValue(forKey: process) else { return }
    runCount += 1
    guard status != 0 else { return }
    failedSeeds.append(seed)
    if status & 0x7F != 0 { print("seed \(seed): ended by signal \(status & 0x7F)") }
}

for seed in first..<first + count {
    if sim_real_seconds() - start >= seconds || failedSeeds.count >= failureCountMax { break }
    fflush(nil)
    let processor = (0..<workerCount).first { worker in !running.values.contains { $0.processor == worker } } ?? 0
    let process = sim_fork(CInt(processor))
    if process == 0 { runSeed(seed, isVerbose: false) }
    running[process] = (seed, processor)
    if running.count >= workerCount { collect() }
}
while !running.isEmpty { collect() }
print("\(runCount) seeds, \(failedSeeds.count) failed, \(sim_real_seconds() - start) s")
sim_remove_tree(runFolder)
exit(failedSeeds.isEmpty ? 0 : 1)
