// SPDX-License-Identifier: Apache-2.0

public import NIOCore

extension TLSHandler {
    /// What the channel is still to be told, in order.
    enum Outgoing {
        /// One record, or a few that belong together, how much plaintext it holds, and the promises of the writes that
        /// end in it.
        case record(ByteBuffer, plaintextByteCount: Int, RecordPromises)
        /// Close the channel, or its output, behind what was sent before.
        case close(CloseMode, EventLoopPromise<Void>?)
    }

    /// Where a record ends in the ciphertext, and what is in it.
    struct RecordEnd {
        let byteCount: Int
        let plaintextByteCount: Int
        let promises: RecordPromises
    }

    /// How many bytes of plaintext are encrypted at a time, before the channel is asked whether it takes more.
    private static let batchByteCount = 131_072

    /// How many such batches are written before other work of the event loop gets its turn.
    private static let batchCountMax = 16

    /// Keeps the bytes until they are flushed.
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

    /// Encrypts flushed bytes while the channel is writable, then sends close_notify if that is due.
    ///
    /// Calls out; when called again meanwhile, it leaves the work to the call that runs.
    func encryptFlushed(_ context: ChannelHandlerContext) {
        guard !self.isEncrypting, !self.isSending else { return }
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
            self.send(context)
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
        let wanted = min(self.plaintext.flushedBytes, Self.batchByteCount)
        let recordCountMax = wanted / TLSConnection.recordByteCountMax + 1
        let capacity = wanted + recordCountMax * TLSConnection.recordOverheadByteCount
        self.connection.write(to: &self.writtenCiphertext, capacity: capacity)
        var ends: [RecordEnd] = []
        ends.reserveCapacity(recordCountMax)
        var scratch = ByteBuffer()
        var step = TLSConnection.Step.complete
        var total = 0
        while self.plaintext.hasFlushed, total < Self.batchByteCount {
            let encrypted = self.plaintext.withNextRecord(
                byteCountMax: TLSConnection.recordByteCountMax,
                scratch: &scratch
            ) {
                // Writes without bytes have no record of their own.
                $0.isEmpty ? (0, .complete) : self.connection.encrypt($0)
            }
            step = encrypted.step
            guard case .complete = step else { break }
            total += encrypted.byteCount
            let promises = self.plaintext.consume(encrypted.byteCount)
            ends.append(
                RecordEnd(
                    byteCount: self.connection.ciphertextByteCount,
                    plaintextByteCount: encrypted.byteCount,
                    promises: promises
                )
            )
        }
        self.writtenCiphertext = self.collectCiphertext(ends)
        return step
    }

    /// Queues what OpenSSL wrote, cut where records end.
    ///
    /// - Parameter ends: Where each record ends, counted from the first, and the promises of the writes in it.
    /// - Returns: The memory of all, to be used again when the channel has written it.
    @discardableResult
    func collectCiphertext(_ ends: [RecordEnd] = []) -> ByteBuffer {
        var bytes = self.connection.takeCiphertext() ?? ByteBuffer()
        let start = bytes.readableBytes
        for end in ends {
            let count = end.byteCount - (start - bytes.readableBytes)
            let slice = bytes.readSlice(length: count) ?? ByteBuffer()
            self.outgoing.append(.record(slice, plaintextByteCount: end.plaintextByteCount, end.promises))
        }
        // Handshake messages and alerts belong to no write.
        if bytes.readableBytes > 0 {
            self.outgoing.append(.record(bytes, plaintextByteCount: 0, RecordPromises()))
        }
        return bytes
    }

    /// Gives the channel what is queued for it, in order, and flushes.
    ///
    /// Calls out. What is queued meanwhile is sent by the call that runs, so that nothing overtakes a record.
    func send(_ context: ChannelHandlerContext) {
        guard !self.isSending, !self.outgoing.isEmpty else { return }
        self.isSending = true
        while let next = self.outgoing.popFirst() {
            switch next {
            case .record(let bytes, let plaintextByteCount, let promises):
                let promise = self.promise(plaintextByteCount, promises, context)
                context.write(self.wrapOutboundOut(bytes), promise: promise)
                if case .record? = self.outgoing.first { continue }
                context.flush()
            case .close(let mode, let promise):
                self.closeChannel(context, mode: mode, promise: promise)
            }
        }
        self.isSending = false
        // What was flushed by those who were called had to wait for this.
        self.encryptFlushed(context)
    }

    /// The promises of the writes that end in a record, and of the count of bytes that have left.
    private func promise(
        _ plaintextByteCount: Int,
        _ promises: RecordPromises,
        _ context: ChannelHandlerContext
    ) -> EventLoopPromise<Void>? {
        let joined = promises.joined(on: context.eventLoop)
        guard plaintextByteCount > 0 else { return joined }
        let promise = joined ?? context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenSuccess { self.byteCountLeft += plaintextByteCount }
        return promise
    }

    private func closeChannel(_ context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if case .all = mode, !context.channel.isActive {
            // It was closed meanwhile, which is what was wanted.
            promise?.succeed(())
            context.close(promise: nil)
        } else {
            context.close(mode: mode, promise: promise)
        }
    }
}
