// SPDX-License-Identifier: Apache-2.0

/// What did not come true in time.
package struct Overdue: Error, CustomStringConvertible {
    package let description: String
}

/// Waits until something is true that no event tells of, such as what another process has written to a file.
///
/// This is the only wait of the tests that looks again and again. What has an event, a promise or a stream waits for
/// that.
///
/// - Throws: ``Overdue`` where it is not true in time.
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
