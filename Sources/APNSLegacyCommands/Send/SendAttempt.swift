// SPDX-License-Identifier: Apache-2.0

import APNSHTTP2
import BatchFiles

/// One line of a batch on its way over HTTP/2.
struct SendAttempt: Sendable {
    let item: SendItem
    /// The same on every attempt, by name too.
    let request: PushRequest
    /// On how many streams it was written so far.
    var attempts = 0
    /// Whether it may have arrived already.
    var isDuplicate = false
    /// How often the service put it off.
    var putOffCount = 0
    /// How many other lines the service had answered when it first put this one off.
    var answeredCountThen: UInt64 = 0
}
