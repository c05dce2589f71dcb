// SPDX-License-Identifier: Apache-2.0

/// The receiver of the pages of a drain: the caller's closure.
struct PageConsumer: Sendable {
    typealias Body = @Sendable (_ page: DeadTokenPage) async throws -> Void

    /// The maximum number of tokens of a page.
    let tokenCountMax: Int
    private let body: Body

    init(tokenCountMax: Int, _ body: @escaping Body) {
        self.tokenCountMax = max(1, tokenCountMax)
        self.body = body
    }

    /// Delivers a page, and distinguishes its errors from those of the spool and the connection.
    func take(_ page: DeadTokenPage) async throws(FeedbackError) {
        do { try await self.body(page) } catch { throw .notTaken(underlying: error) }
    }
}
