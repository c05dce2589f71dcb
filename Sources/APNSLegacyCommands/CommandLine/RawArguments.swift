// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The arguments of the process as bytes.
///
/// Swift replaces what is not UTF-8 in a `String`, so that such a name would lead to no file or to another one.
enum RawArguments {
    /// Why the arguments cannot be read as text; `nil` if all of them are UTF-8.
    static var failure: CommandFailure? {
        var arguments: [[UInt8]] = []
        for index in 1..<max(1, Int(CommandLine.argc)) {
            guard let argument = unsafe CommandLine.unsafeArgv[index] else { break }
            arguments.append(unsafe Array(UnsafeRawBufferPointer(start: argument, count: strlen(argument))))
        }
        return self.failure(arguments) { path in
            unsafe (path + [0]).withUnsafeBytes { path in
                unsafe path.withMemoryRebound(to: CChar.self) { path in
                    unsafe path.baseAddress.map { unsafe access($0, F_OK) == 0 } ?? false
                }
            }
        }
    }

    /// Why arguments cannot be read as text.
    ///
    /// - Parameters:
    ///   - arguments: the arguments.
    ///   - isFile: whether a path leads to a file. Other arguments may be secret, and are not shown.
    /// - Returns: the failure; `nil` if all arguments are UTF-8.
    static func failure(_ arguments: [[UInt8]], isFile: ([UInt8]) -> Bool) -> CommandFailure? {
        for (index, argument) in arguments.enumerated() where String(validating: argument, as: UTF8.self) == nil {
            guard isFile(argument) else {
                return CommandFailure(.usage, "argument \(index + 1) is not UTF-8; use another name or value")
            }
            let name = argument.reduce(into: "") { name, byte in
                let isShown = (0x20..<0x7F).contains(byte)
                name += isShown ? String(UnicodeScalar(byte)) : "\\x" + String(byte, radix: 16, uppercase: true)
            }
            return CommandFailure(
                .usage,
                "the file name \"\(name)\" is not UTF-8; rename the file"
            )
        }
        return nil
    }
}
