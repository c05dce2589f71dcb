// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Logging
import NIOCore

// MARK: - The log and metrics

extension BinaryConnectionHandler {
    func reportAccepted(byteCount: Int) {
        let count = self.dispatcher.session.acceptedCount
        self.metrics.received(byteCount: byteCount, acceptedCount: Int(count - self.acceptedCountReported))
        self.acceptedCountReported = count
    }

    func logFault(_ context: ChannelHandlerContext) {
        if let fault = self.dispatcher.fault { self.logCut("bytes refused", "\(fault)", context) }
    }

    func logCut(_ message: Logger.Message, _ reason: String, _ context: ChannelHandlerContext) {
        self.admission.refusals.log(
            message,
            [
                LogKey.connection: "\(self.connection.number)", LogKey.refusalReason: "\(reason)",
                LogKey.remoteAddress: "\(ConnectionAdmission.address(of: context.channel))",
            ]
        )
    }

    func logSkipped(_ delivery: any DeliveryConnection, _ context: ChannelHandlerContext) {
        guard let skipped = self.dispatcher.takeSkipped() else { return }
        self.metrics.discarded(messageCount: skipped.count)
        delivery.discarded(messageCount: skipped.count)
        var metadata = self.discardMetadata
        metadata[LogKey.dropped] = "\(skipped.count)"
        metadata[LogKey.errorStatus] = "\(skipped.status)"
        self.admission.refusals.log("notifications rejected, no error response sent", metadata)
    }

    func logResponse(_ response: ErrorResponse) {
        self.logger.info(
            "error response sent",
            metadata: [
                LogKey.errorStatus: "\(response.status)", LogKey.identifier: "\(response.identifier)",
                LogKey.refusalReason: "\(self.isFaultReported ? self.dispatcher.faultReason : response.status.meaning)",
                LogKey.message: "\(self.dispatcher.session.acceptedCount + 1)",
                LogKey.dropped: "\(self.dispatcher.discardedCount)", LogKey.remoteAddress: "\(self.remoteAddress)",
            ]
        )
    }

    /// Logs how much was discarded.
    func logDiscarded() {
        if !self.isFaultReported, let delivery = self.delivery {
            let count = self.dispatcher.discardFault()
            if count > 0 {
                self.metrics.discarded(messageCount: count)
                delivery.discarded(messageCount: count)
            }
        }
        let (count, byteCount) = (self.dispatcher.discardedCount, self.dispatcher.unparsedByteCount)
        guard count > 0 || byteCount > 0 else { return }
        var metadata = self.discardMetadata
        metadata[LogKey.dropped] = "\(count)"
        metadata[LogKey.refusalReason] = "\(self.discardReason)"
        if byteCount > 0 { metadata[LogKey.unparsed] = "\(byteCount)" }
        if self.isFaultReported, self.isReset {
            metadata[LogKey.remedy] = "if the provider never reads error responses, set rejections: ignore"
        }
        self.admission.refusals.log("notifications discarded", metadata)
    }

    /// Logs how the connection ended, and its counts.
    func logClosed() {
        let (counts, discardedCount) = (self.dispatcher.counts, self.dispatcher.discardedCount)
        // It counts as discarded if the end does not name it. A probe is not a notification.
        let faultCount: UInt64 = self.dispatcher.faultNumber == nil || self.dispatcher.isFaultProbe ? 0 : 1
        let duration = Duration(self.connection.eventLoop.now - self.admittedAt)
        var metadata: Logger.Metadata = [
            LogKey.remoteAddress: "\(self.remoteAddress)",
            LogKey.closeReason: "\(self.closeReason ?? "closed by the gateway")",
            LogKey.connectionDuration: "\(duration)",
            LogKey.received: "\(counts.processed + faultCount + UInt64(discardedCount))",
            LogKey.delivered: "\(counts.delivered)", LogKey.rejected: "\(counts.rejected + faultCount)",
            LogKey.listed: "\(counts.listed)", LogKey.dropped: "\(discardedCount)",
        ]
        if counts.resent > 0 { metadata[LogKey.resent] = "\(counts.resent)" }
        if counts.unsettled > 0 { metadata[LogKey.unsettled] = "\(counts.unsettled)" }
        self.logger.info("connection closed", metadata: metadata)
    }

    private var discardMetadata: Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKey.connection: "\(self.connection.number)", LogKey.remoteAddress: "\(self.remoteAddress)",
        ]
        if let name = self.delivery?.providerName { metadata[LogKey.provider] = "\(name)" }
        return metadata
    }

    static func reason(of ending: GatewayEnding) -> String {
        switch (ending.response?.status ?? ending.status, ending.response) {
        case (let status?, _?) where ending.status == nil:
            "an error response asked the provider to resend them (status \(status.rawValue))"
        case (let status?, _?):
            "they followed message \(ending.number), which was rejected with status \(status)"
        case (let status?, nil):
            "they followed message \(ending.number), which was rejected with status \(status) (not sent)"
        case (nil, _): "the connection closed before they were accepted"
        }
    }
}
