// SPDX-License-Identifier: Apache-2.0

/// A script that completes command lines in a shell.
struct CompletionScript {
    private let generated: String

    /// - Parameters:
    ///   - generated: what the argument parser makes.
    ///   - program: the description of the program.
    init(_ generated: String, _ program: CommandDescription) { self.generated = generated }

    /// The script.
    var text: String { self.generated }
}
