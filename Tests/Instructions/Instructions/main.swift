// SPDX-License-Identifier: Apache-2.0

// Runs one path of the library on fixed input, on one thread, as `Scripts/instructions` measures it.
//
//     Instructions PATH        prints the number of operations and of allocations
//
// The instructions of a path are those of the function `measured`, in the profile of callgrind.

import CAllocations
import Glibc

let paths: [(name: String, make: () throws -> any Path)] = [
    ("encode", { try EncodePath() }), ("parse", { try ParsePath() }), ("session", { SessionPath() }),
    ("client", { try ClientPath() }), ("read", { try ReadPath() }), ("journal", { try JournalPath() }),
    ("gateway", { try GatewayPath() }),
    ("purge", { try PurgePath() }),
]

guard CommandLine.arguments.count == 2, let path = paths.first(where: { $0.name == CommandLine.arguments[1] }) else {
    print("usage: Instructions \(paths.map(\.name).joined(separator: "|"))")
    exit(64)
}
let chosen = try path.make()
// What is initialized once does not count.
try chosen.run()
let before = allocation_count()
withoutActuallyEscaping({ do { try chosen.run() } catch { fatalError("\(error)") } }) { run in
    var run: () -> Void = run
    unsafe withUnsafeMutablePointer(to: &run) { pointer in
        unsafe measured({ unsafe $0?.assumingMemoryBound(to: (() -> Void).self).pointee() }, pointer)
    }
}
let allocationCount = allocation_count() - before
print("\(path.name) \(chosen.count) \(allocationCount)")
