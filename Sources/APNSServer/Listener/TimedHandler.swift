// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// A handler of one connection that knows its context as long as it is in a pipeline.
protocol TimedHandler: AnyObject {
    var context: ChannelHandlerContext? { get }
}

extension TimedHandler {
    /// Calls after a while, unless the handler has left its pipeline by then.
    ///
    /// - Returns: the timer; `nil` where the handler is in no pipeline.
    func after(
        _ delay: TimeAmount,
        _ body: @escaping (Self, ChannelHandlerContext) -> Void
    ) -> Scheduled<Void>? {
        self.context?.eventLoop.assumeIsolated().scheduleTask(in: delay) { [weak self] in
            if let self, let context = self.context { body(self, context) }
        }
    }
}
