// SPDX-License-Identifier: Apache-2.0

/// Reads what an earlier run left in a journal, in portions, so that a long journal takes little memory.
struct SendJournalReader {
    private let path: String
    private let input: String
    private var past = SendJournal.Past()
    /// The lines that the run that is being read intended to write, and did not.
    private var spared = LineSet()
    private var intendedThrough: UInt64 = 0
    private var lineCount = 0
    /// The octets behind the last line's end.
    private var rest: [UInt8] = []

    /// Octets of whole lines so far; what is behind them was cut off by a crash.
    private(set) var wholeOctetCount: UInt64 = 0

    /// What a journal begins with.
    static let title = "apns-legacy journal 1 "

    private static let lineOctetCountMax = 4096

    init(path: String, input: String) {
        self.path = path
        self.input = input
    }

    /// Takes the next octets of the file.
    mutating func take(_ octets: UnsafeRawBufferPointer) throws {
        for octet in octets {
            if octet != 0x0A {
                guard self.rest.count < SendJournalReader.lineOctetCountMax else {
                    throw self.refusal(self.lineCount + 1)
                }
                self.rest.append(octet)
                continue
            }
            self.lineCount += 1
            self.wholeOctetCount += UInt64(self.rest.count) + 1
            let text = String(decoding: self.rest, as: UTF8.self)
            self.rest.removeAll(keepingCapacity: true)
            if self.lineCount == 1 {
                try self.takeTitle(text)
            } else if !self.takeRecord(text) {
                throw self.refusal(self.lineCount)
            }
        }
    }

    /// What the whole file says.
    mutating func finish() throws -> SendJournal.Past {
        if self.lineCount == 0, !self.rest.isEmpty {
            // Only a title that was cut off may be overwritten; anything else is somebody's file.
            let (text, title) = (String(decoding: self.rest, as: UTF8.self), SendJournalReader.title)
            guard title.hasPrefix(text) || text.hasPrefix(title) else { throw self.refusal(1) }
        }
        self.endRun()
        return self.past
    }

    private func refusal(_ number: Int) -> CommandFailure {
        guard number > 1 else {
            return CommandFailure(.dataError, "\(self.path) is no journal of apns-legacy; give --journal another file.")
        }
        return CommandFailure(
            .dataError,
            "\(self.path), line \(number): this is no record; the journal is damaged. Nothing was sent."
        )
    }

    private func takeTitle(_ text: String) throws {
        guard text.hasPrefix(SendJournalReader.title) else { throw self.refusal(1) }
        guard text == SendJournalReader.title + self.input else {
            throw CommandFailure(
                .dataError,
                "\(self.path) is the journal of another batch: the input or the payload is not what it was. "
                    + "Give --journal another file, or remove this one to send everything."
            )
        }
    }

    /// - Returns: whether it is a record.
    private mutating func takeRecord(_ text: String) -> Bool {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        switch (words.first, words.count) {
        case ("complete", 1): self.past.isComplete = true
        case ("began", 2):
            guard let time = Int64(words[1]) else { return false }
            self.past.beganAt = min(self.past.beganAt ?? time, time)
        case ("listed", 2):
            guard let count = UInt64(words[1]) else { return false }
            self.past.unlistedCount -= min(count, self.past.unlistedCount)
        case ("run", 1): self.endRun()
        case ("intent", 2):
            guard let line = UInt64(words[1]), line < UInt64.max else { return false }
            self.intendedThrough = max(self.intendedThrough, line)
        case ("spare", 3):
            guard let lines = SendJournalReader.lines(words[1], words[2]) else { return false }
            self.spared.insert(lines)
        case (_, 6): return self.takeOutcome(words)
        default: return false
        }
        return true
    }

    private mutating func takeOutcome(_ words: [Substring]) -> Bool {
        guard let lines = SendJournalReader.lines(words[0], words[1]),
            let outcome = BatchOutcome.allCases.first(where: { words[2] == "\($0.name)" }),
            words[3] == "-" || UInt16(words[3]) != nil, words[4] == "-" || words[4] == "dup",
            let resultOctetCount = UInt64(words[5])
        else { return false }
        self.past.settled.insert(lines)
        if outcome == .rejected { self.past.unlistedCount += lines.upperBound - lines.lowerBound }
        self.past.tally.add(
            outcome,
            status: UInt16(words[3]),
            isDuplicate: words[4] == "dup",
            count: lines.upperBound - lines.lowerBound
        )
        self.past.resultOctetCount = max(self.past.resultOctetCount, resultOctetCount)
        return true
    }

    private mutating func endRun() {
        var first: UInt64 = 1
        for spared in self.spared.ranges where spared.lowerBound <= self.intendedThrough {
            self.past.doubted.insert(first..<max(first, spared.lowerBound))
            first = spared.upperBound
        }
        self.past.doubted.insert(first..<max(first, self.intendedThrough + 1))
        self.intendedThrough = 0
        self.spared = LineSet()
    }

    private static func lines(_ first: Substring, _ last: Substring) -> Range<UInt64>? {
        guard let first = UInt64(first), let last = UInt64(last), 1 <= first, first <= last, last < UInt64.max else {
            return nil
        }
        return first..<(last + 1)
    }
}
