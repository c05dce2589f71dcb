// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import Glibc

/// Takes the notifications of a batch from their source, and converts them to requests.
struct RequestSource: Sendable {
    let notifications: any NotificationSource
    let classifier: ResponseClassifier
    /// The maximum number of attempts for a notification that the service postpones.
    let tryCountMax: Int
    /// How a notification is converted to a request.
    private let requests: RequestRules
    private let configuration: PushConfiguration
    /// The maximum time for the remaining notifications when the source is stopped; then the rest is given up.
    let drainDurationMax: Duration

    init(_ source: any NotificationSource, _ configuration: PushConfiguration, _ options: HTTP2BatchOptions) {
        self.notifications = source
        self.requests = options.requests
        self.configuration = configuration
        self.drainDurationMax = options.drainDurationMax
        self.tryCountMax = options.tryCountMax
        self.classifier = ResponseClassifier(invalidTokenRunCountMax: options.invalidTokenRunCountMax)
    }

    /// Takes notifications from the source.
    ///
    /// Returns their number, those of them that can be sent, and whether there may be more.
    func take(
        _ countMax: Int,
        _ observer: DeliveryObserver
    ) -> (count: Int, pushes: [PendingPush], supply: ProviderSupply) {
        let (notifications, chunk, supply) = NotificationChunk.take(from: self.notifications, countMax: countMax)
        var pushes: [PendingPush] = []
        pushes.reserveCapacity(notifications.count)
        let now = UInt32(clamping: time(nil))
        for (index, notification) in notifications.enumerated() {
            let request = self.requests.request(for: notification, now: now)
            let limit = self.configuration.payloadByteCountMax(of: request.pushType)
            if let problem = request.problem(payloadByteCountMax: limit) {
                observer.settled(.invalid(problem))
                chunk.settle(index, notification.token, DeliveryReport(.invalid(problem)))
            } else {
                pushes.append(PendingPush(Submission(request, from: .source(chunk, index: index))))
            }
        }
        return (notifications.count, pushes, supply)
    }

    /// Whether the source was stopped and there is no connection for the rest.
    var isAbandoned: Bool { self.classifier.isConnectionLost && self.notifications.isStopped }
}
