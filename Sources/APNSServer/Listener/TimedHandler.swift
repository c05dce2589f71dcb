// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// A handler that stores its context while it is in a pipeline.
protocol TimedHandler: AnyObject {
    var context: ChannelHandlerContext? { get }
}

extension TimedHandler {
    /// Calls a closure after a delay, unless the handler has left its pipeline by then.
    ///
    /// Returns the timer; `nil` if the handler is in no pipeline.
    func after(
        _ delay: TimeAmount,
        _ body: @escaping (Self, ChannelHandlerContext) -> Void
    ) -> Scheduled<Void>? {
        self.context?.eventLoop.assumeIsolated().scheduleTask(in: delay) { [weak self] in
            if let self, let context = self.context { body(self, context) }
        }
    }
}
