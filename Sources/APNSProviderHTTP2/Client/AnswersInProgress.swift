// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// The answers that have begun and are not complete, by stream.
///
/// Most answers are complete before the next one begins, so the newest is not in the dictionary.
struct AnswersInProgress {
    private var newest: (stream: UInt32, answer: PushAnswer)?
    private var others: [UInt32: PushAnswer] = [:]

    var isEmpty: Bool { self.newest == nil && self.others.isEmpty }

    /// The streams, in order.
    var streams: [UInt32] { (self.others.keys + [self.newest?.stream].compactMap(\.self)).sorted() }

    /// The bytes of bodies that are kept.
    var byteCount: Int {
        self.others.values.reduce(self.newest?.answer.body.readableBytes ?? 0) { $0 + $1.body.readableBytes }
    }

    subscript(stream: UInt32) -> PushAnswer? {
        get {
            if let newest = self.newest, newest.stream == stream { return newest.answer }
            return self.others.isEmpty ? nil : self.others[stream]
        }
        set {
            if self.newest?.stream == stream {
                self.newest = newValue.map { (stream, $0) }
            } else if let newValue, self.others.isEmpty || self.others[stream] == nil {
                if let newest = self.newest { self.others[newest.stream] = newest.answer }
                self.newest = (stream, newValue)
            } else if !self.others.isEmpty {
                self.others[stream] = newValue
            }
        }
    }
}
