// SPDX-License-Identifier: Apache-2.0

// The main function of libFuzzer. `Scripts/fuzz` builds one program, which runs the target of its own name, so that a
// link for each has the layout that OSS-Fuzz expects.

import Dispatch
import Foundation

nonisolated(unsafe) private var target = FuzzTarget.frames

@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
    _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// The package manager links a program with this function as its main function.
@_cdecl("Fuzz_main")
public func fuzzMain(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
    let name = CommandLine.arguments.first?.split(separator: "/").last.map(String.init) ?? ""
    guard let found = FuzzTarget(rawValue: name) else {
        print("the name of the program is none of: \(FuzzTarget.allCases.map(\.rawValue).joined(separator: " "))")
        return 64
    }
    target = found
    var (count, arguments) = (count, arguments)
    return runDriver(&count, &arguments, testOneInput)
}

private func testOneInput(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: data, count: count))
    do {
        try target.run(bytes)
        if target == .control { awaitControl(bytes) }
    } catch {
        fail(error)
    }
    return 0
}

/// Ends the program, which libFuzzer reports with the input; an optimized program prints no messages of traps.
private func fail(_ error: any Error) -> Never {
    FileHandle.standardError.write(Data("\(target.rawValue): \(error)\n".utf8))
    abort()
}

/// The only target that is asynchronous; the others do not pay for a task.
private func awaitControl(_ bytes: [UInt8]) {
    let done = DispatchSemaphore(value: 0)
    Task.detached {
        do { try await ControlFuzz.run(bytes) } catch { fail(error) }
        done.signal()
    }
    done.wait()
}
