// SPDX-License-Identifier: Apache-2.0

/// A condition that was not met in time.
package struct Overdue: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}

/// Waits for a condition that no event announces, such as the content of a file written by another process.
///
/// This is the only polling in the tests. Waits for an event, a promise or a stream use that.
///
/// - Throws: ``Overdue`` if the condition is not met in time.
package func eventually(
    _ what: String,
    within limit: Duration = .seconds(20),
    _ isTrue: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !isTrue() {
        guard ContinuousClock.now < deadline else { throw Overdue(description: "not within \(limit): \(what)") }
        try await Task.sleep(for: .milliseconds(5))
    }
}
