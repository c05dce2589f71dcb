// SPDX-License-Identifier: Apache-2.0

public import NIOCore

extension TLSHandler {
    /// One record, or a few that belong together, for the channel.
    struct Record {
        let octets: ByteBuffer
        let plaintextOctetCount: Int
        let promises: RecordPromises
    }

    /// Where a record ends in the ciphertext, and what is in it.
    struct RecordEnd {
        let octetCount: Int
        let plaintextOctetCount: Int
        let promises: RecordPromises
    }

    /// How many octets of plaintext are encrypted at a time, before the channel is asked whether it takes more.
    private static let batchOctetCount = 65_536

    /// How many such batches are written before other work of the event loop gets its turn.
    private static let batchCountMax = 32

    /// Keeps the octets until they are flushed.
    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch (self.phase, self.output) {
        case (.ended, _):
            promise?.fail(ChannelError.ioOnClosedChannel)
        case (_, .closing), (_, .closed):
            promise?.fail(ChannelError.outputClosed)
        case (_, .open):
            self.plaintext.append(self.unwrapOutboundIn(data), promise: promise)
        }
    }

    /// Encrypts what was written, as much as the channel takes.
    public func flush(context: ChannelHandlerContext) {
        // After close was called, what comes later is not sent.
        guard case .open = self.output else { return }
        self.plaintext.markFlushed()
        self.encryptFlushed(context)
    }

    /// Goes on with what the channel could not take before.
    public func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.encryptFlushed(context)
        context.fireChannelWritabilityChanged()
    }

    /// Encrypts flushed octets while the channel is writable, then sends close_notify if that is due.
    ///
    /// Calls out; when called again meanwhile, it leaves the work to the call that runs.
    func encryptFlushed(_ context: ChannelHandlerContext) {
        guard !self.isEncrypting else { return }
        self.isEncrypting = true
        defer { self.isEncrypting = false }
        var batchCount = 0
        while self.isEncryptionDue, context.channel.isWritable {
            guard batchCount < Self.batchCountMax else {
                self.encryptLater(context)
                return
            }
            batchCount += 1
            let step = self.encryptBatch(context)
            self.sendRecords(context)
            switch step {
            case .complete: break
            case .wantsPeer: return
            case .failed(let error):
                self.fail(error, context: context)
                return
            }
        }
        self.closeOutputIfDue(context)
    }

    private var isEncryptionDue: Bool {
        guard case .open = self.phase else { return false }
        if case .closed = self.output { return false }
        return self.plaintext.hasFlushed
    }

    private func encryptLater(_ context: ChannelHandlerContext) {
        context.eventLoop.assumeIsolated().execute { [weak self] in
            guard let self, let context = self.context else { return }
            self.encryptFlushed(context)
        }
    }

    /// Encrypts the next batch into records; calls nobody.
    private func encryptBatch(_ context: ChannelHandlerContext) -> TLSConnection.Step {
        let wanted = min(self.plaintext.flushedOctets, Self.batchOctetCount)
        let recordCountMax = wanted / TLSConnection.recordOctetCountMax + 1
        self.connection.write(
            to: context.channel.allocator.buffer(
                capacity: wanted + recordCountMax * TLSConnection.recordOverheadOctetCount
            )
        )
        var ends: [RecordEnd] = []
        ends.reserveCapacity(recordCountMax)
        var scratch = ByteBuffer()
        var step = TLSConnection.Step.complete
        var total = 0
        while self.plaintext.hasFlushed, total < Self.batchOctetCount {
            let encrypted = self.plaintext.withNextRecord(
                octetCountMax: TLSConnection.recordOctetCountMax,
                scratch: &scratch
            ) {
                // Writes without octets have no record of their own.
                $0.isEmpty ? (0, .complete) : self.connection.encrypt($0)
            }
            step = encrypted.step
            guard case .complete = step else { break }
            total += encrypted.octetCount
            let promises = self.plaintext.consume(encrypted.octetCount)
            ends.append(
                RecordEnd(
                    octetCount: self.connection.ciphertextOctetCount,
                    plaintextOctetCount: encrypted.octetCount,
                    promises: promises
                )
            )
        }
        self.collectCiphertext(ends)
        return step
    }

    /// Queues what OpenSSL wrote, cut where records end.
    ///
    /// - Parameter ends: Where each record ends, counted from the first, and the promises of the writes in it.
    func collectCiphertext(_ ends: [RecordEnd] = []) {
        var octets = self.connection.takeCiphertext() ?? ByteBuffer()
        let start = octets.readableBytes
        for end in ends {
            let count = end.octetCount - (start - octets.readableBytes)
            let slice = octets.readSlice(length: count) ?? ByteBuffer()
            self.records.append(
                Record(octets: slice, plaintextOctetCount: end.plaintextOctetCount, promises: end.promises)
            )
        }
        // Handshake messages and alerts belong to no write.
        if octets.readableBytes > 0 {
            self.records.append(Record(octets: octets, plaintextOctetCount: 0, promises: RecordPromises()))
        }
    }

    /// Gives the queued records to the channel, in order, and flushes.
    ///
    /// Calls out. What is queued meanwhile is sent by the call that runs, so that no record overtakes another.
    func sendRecords(_ context: ChannelHandlerContext) {
        guard !self.isSendingRecords, !self.records.isEmpty else { return }
        self.isSendingRecords = true
        while !self.records.isEmpty {
            while let record = self.records.popFirst() {
                let promise = self.promise(of: record, context)
                context.write(self.wrapOutboundOut(record.octets), promise: promise)
            }
            context.flush()
        }
        self.isSendingRecords = false
    }

    /// The promises of the writes that end in the record, and of the count of octets that have left.
    private func promise(of record: Record, _ context: ChannelHandlerContext) -> EventLoopPromise<Void>? {
        let joined = record.promises.joined(on: context.eventLoop)
        guard record.plaintextOctetCount > 0 else { return joined }
        let promise = joined ?? context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenSuccess { self.octetCountLeft += record.plaintextOctetCount }
        return promise
    }
}
