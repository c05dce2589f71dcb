// SPDX-License-Identifier: Apache-2.0

import APNSWire
import CNGHTTP2
import NIOCore

/// The client side of one HTTP/2 connection, based on libnghttp2.
///
/// It does no I/O and has no clock: the caller passes in bytes of the service and receives ``Event``s, and passes in
/// requests and receives bytes for the service. The library calls back only while it is given bytes or asked for some,
/// and each callback only records an event, so that nothing is reentrant.
///
/// All unsafe accesses to the library's memory are in this file.
///
/// - SeeAlso: RFC 9113; the manual of libnghttp2, "Programmers' Guide".
@safe final class HTTP2Session {
    /// An event from the service.
    enum Event: Equatable {
        /// The service's settings; `streamCountMax` if they contain it.
        case settings(streamCountMax: UInt32?)
        /// A complete block of header fields; `status` is `nil` in trailers.
        case headers(stream: UInt32, status: Int?, fields: ResponseFields? = nil, isEnd: Bool)
        /// Bytes of a body; a frame may produce several of these events.
        case body(stream: UInt32, ByteBuffer)
        /// The end of a DATA frame, with its length including padding.
        case data(stream: UInt32, byteCount: Int, isEnd: Bool)
        /// The end of a stream without a complete answer: a RST_STREAM frame of either side, or a request that the
        /// library did not send, with code 7 (REFUSED_STREAM).
        case closed(stream: UInt32, code: UInt32)
        /// The service closes the connection gracefully, with its debug data.
        case goAway(last: UInt32, ByteBuffer)
    }

    /// The `nghttp2_session`.
    private let session: OpaquePointer
    private let idleByteCountMax: Int
    // Neither calls back, so that accesses never overlap, and need not be checked when the program runs.
    @exclusivity(unchecked) private var input: HTTP2Input
    /// Why nothing more is read and no more requests are written; a GOAWAY frame reports it to the service.
    private(set) var failure: HTTP2Failure?

    @exclusivity(unchecked) private var output: HTTP2Output
    private var hasSentGoAway = false

    private var goAwayLast: UInt32?

    /// The maximum size of a block of header fields, as defined in RFC 9113 (6.5.2); that of an answer has about 200
    /// bytes.
    static let headerByteCountMax = 16_384
    /// The maximum number of frames without progress until ``resetInputCounts()``.
    static let idleFrameCountMax = 10_000
    /// The maximum number of bytes without progress; the library does not report frames that it skips.
    static let idleByteCountMax = 1 << 20
    /// The maximum number of acknowledgements that wait for a service that does not read.
    static let acknowledgementCountMax = 1000
    /// The most parameters of a SETTINGS frame.
    static let settingCountMax = 32
    /// How much the service may send on all streams beyond the default window, in bytes.
    static let windowByteCount = 1 << 20
    /// SETTINGS_NO_RFC7540_PRIORITIES (RFC 9218, 2.1), which is missing in the headers of older versions.
    private static let noPrioritiesSetting: Int32 = 9
    private static let usualWindowByteCount = 65_535
    /// The maximum number of bytes passed to the library at a time, which limits the number of events.
    static let inputByteCountMax = 16_384

    init(streamCountMax: Int, idleByteCountMax: Int = HTTP2Session.idleByteCountMax) {
        self.idleByteCountMax = idleByteCountMax
        unsafe self.input = HTTP2Input(streamCountMax: streamCountMax)
        unsafe self.output = HTTP2Output(streamCountMax: streamCountMax)
        var session: OpaquePointer?
        var callbacks: OpaquePointer?
        var option: OpaquePointer?
        unsafe nghttp2_session_callbacks_new(&callbacks)
        unsafe nghttp2_option_new(&option)
        unsafe Self.setCallbacks(callbacks)
        unsafe nghttp2_option_set_max_outbound_ack(option, Self.acknowledgementCountMax)
        unsafe nghttp2_option_set_max_settings(option, Self.settingCountMax)
        unsafe nghttp2_option_set_max_reserved_remote_streams(option, 0)
        // The callbacks access this object through a pointer that each call sets.
        unsafe nghttp2_session_client_new2(&session, callbacks, nil, option)
        unsafe nghttp2_option_del(option)
        unsafe nghttp2_session_callbacks_del(callbacks)
        guard let session = unsafe session else { preconditionFailure("Out of memory.") }
        unsafe self.session = session
        unsafe nghttp2_session_set_user_data(session, Unmanaged.passUnretained(self).toOpaque())
        self.submitSettings()
    }

    deinit { unsafe nghttp2_session_del(self.session) }

    private func submitSettings() {
        let settings = [
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                value: UInt32(Self.headerByteCountMax)
            ),
            // All streams have equal priority, so the library does not maintain a tree.
            nghttp2_settings_entry(settings_id: Self.noPrioritiesSetting, value: 1),
        ]
        self.check(
            unsafe nghttp2_submit_settings(self.session, UInt8(NGHTTP2_FLAG_NONE.rawValue), settings, settings.count)
        )
        let window = Int32(Self.usualWindowByteCount + Self.windowByteCount)
        self.check(unsafe nghttp2_session_set_local_window_size(self.session, 0, 0, window))
    }

    /// Ends the connection after a failed call, because of memory or incorrect use.
    private func check(_ result: Int32) {
        if result < 0 { self.fail(HTTP2Failure(code: HTTP2Failure.internalError)) }
    }

    // MARK: Reading

    /// Processes bytes of the service.
    func receive(_ bytes: ByteBuffer) {
        guard self.failure == nil else { return }
        guard unsafe self.input.countBytes(bytes.readableBytes) <= self.idleByteCountMax else {
            return self.fail(HTTP2Failure(code: HTTP2Failure.enhanceYourCalm))
        }
        let result = unsafe bytes.withUnsafeReadableBytes { raw in
            unsafe nghttp2_session_mem_recv(
                self.session,
                raw.baseAddress?.assumingMemoryBound(to: UInt8.self),
                raw.count
            )
        }
        if result < 0 {
            let isFlood = result == Int(NGHTTP2_ERR_FLOODED.rawValue) || result == Self.tooManyContinuations
            self.fail(HTTP2Failure(code: isFlood ? HTTP2Failure.enhanceYourCalm : HTTP2Failure.internalError))
        } else if self.failure != nil {
            self.terminate()
        } else if !self.hasSentGoAway, self.goAwayLast == nil,
            unsafe nghttp2_session_check_request_allowed(self.session) == 0, self.failure == nil
        {
            // The library ends the connection; its GOAWAY frame contains the reason.
            _ = self.serialize(atMost: .max)
        }
    }

    /// `NGHTTP2_ERR_TOO_MANY_CONTINUATIONS`, which is missing in the headers of older versions.
    private static let tooManyContinuations = -905

    /// The next event, in order of arrival.
    func nextEvent() -> Event? { unsafe self.input.nextEvent() }

    /// Resets the input limits, after time has passed or progress was made.
    func resetInputCounts() { unsafe self.input.resetCounts() }

    private func record(_ event: Event) {
        if unsafe !self.input.append(event) { self.inputExceedsLimit() }
    }

    private func inputExceedsLimit() {
        self.failure = self.failure ?? HTTP2Failure(code: HTTP2Failure.enhanceYourCalm)
    }

    /// Stops reading, and reports the reason to the service.
    func fail(_ failure: HTTP2Failure) {
        self.failure = self.failure ?? failure
        self.terminate()
    }

    private func terminate() {
        guard let failure = self.failure else { return }
        unsafe nghttp2_session_terminate_session(self.session, failure.code)
    }

    // MARK: Writing

    /// Whether a body waits for flow control, so that no more requests should be started.
    var isExhausted: Bool { unsafe self.output.isExhausted }

    /// The number of requests that were sent completely.
    var wholeRequestCount: Int { unsafe self.output.wholeRequestCount }

    /// Submits a request.
    ///
    /// Returns the number of its stream; `nil` if the numbers are used up.
    func submit(_ headers: HTTP2HeaderFields, body: ByteBuffer) -> UInt32? {
        guard self.failure == nil, !self.hasSentGoAway else { return nil }
        var provider = unsafe nghttp2_data_provider()
        unsafe provider.read_callback = Self.readBody
        let stream = unsafe headers.values.withUnsafeBufferPointer { values in
            unsafe withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: headers.fields.count) { fields in
                for (index, field) in headers.fields.enumerated() {
                    unsafe fields.initializeElement(at: index, to: Self.field(field, values))
                }
                return unsafe nghttp2_submit_request(
                    self.session,
                    nil,
                    fields.baseAddress,
                    headers.fields.count,
                    &provider,
                    nil
                )
            }
        }
        guard stream > 0 else { return nil }
        unsafe self.output.addBody(body, of: UInt32(stream), fits: self.fits(body))
        return UInt32(stream)
    }

    /// Names are never copied, but values always are: their memory is reused for the next request.
    private static func field(
        _ field: HTTP2HeaderFields.Field,
        _ values: UnsafeBufferPointer<UInt8>
    ) -> nghttp2_nv {
        var flags = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue)
        if !field.isIndexed { flags |= UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue) }
        let value = unsafe UnsafeBufferPointer(rebasing: values[field.value])
        return unsafe nghttp2_nv(
            name: UnsafeMutablePointer(mutating: field.name.utf8Start),
            value: UnsafeMutablePointer(mutating: value.baseAddress),
            namelen: field.name.utf8CodeUnitCount,
            valuelen: value.count,
            flags: flags
        )
    }

    /// Whether flow control permits sending the whole body now, after those that wait.
    private func fits(_ body: ByteBuffer) -> Bool {
        let initial = unsafe nghttp2_session_get_remote_settings(
            self.session,
            NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE
        )
        guard body.readableBytes <= Int(initial) else { return false }
        let window = unsafe nghttp2_session_get_remote_window_size(self.session)
        return unsafe self.output.unsentByteCount + body.readableBytes <= Int(window)
    }

    /// The streams whose request was not sent completely.
    var unfinishedStreams: [UInt32] { unsafe self.output.unfinishedStreams }

    /// The streams whose request is not complete in the first bytes for the service.
    func unfinishedStreams(inFirst byteCount: Int) -> [UInt32] {
        unsafe self.output.unfinishedStreams(inFirst: byteCount)
    }

    /// Resets a stream; the rest of its body is not sent.
    func reset(_ stream: UInt32, code: UInt32) {
        unsafe self.output.removeBody(of: stream)
        self.check(
            unsafe nghttp2_submit_rst_stream(
                self.session,
                UInt8(NGHTTP2_FLAG_NONE.rawValue),
                Int32(bitPattern: stream),
                code
            )
        )
    }

    /// Stops sending a body whose request was answered before it was sent completely.
    func stopSending(_ stream: UInt32) {
        if unsafe self.output.isUnfinished(stream) { self.reset(stream, code: HTTP2Failure.cancel) }
    }

    /// Sends a PING frame.
    func ping() {
        self.check(unsafe nghttp2_submit_ping(self.session, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil))
    }

    /// Sends a GOAWAY frame; what arrives until the connection is closed is still read.
    func goAway() {
        guard self.failure == nil, !self.hasSentGoAway else { return }
        self.check(
            unsafe nghttp2_submit_goaway(
                self.session,
                UInt8(NGHTTP2_FLAG_NONE.rawValue),
                0,
                UInt32(NGHTTP2_NO_ERROR.rawValue),
                nil,
                0
            )
        )
    }

    /// Bytes to send.
    ///
    /// There are none after a GOAWAY frame.
    ///
    /// Returns `nil` if there is nothing to send.
    func nextBytes(atMost limit: Int) -> ByteBuffer? {
        guard self.serialize(atMost: limit) else { return nil }
        return unsafe self.output.take()
    }

    /// Returns whether there is anything to send.
    private func serialize(atMost limit: Int) -> Bool {
        unsafe self.output.setByteCountMax(limit)
        while !self.hasSentGoAway, unsafe self.output.hasRoom {
            var bytes: UnsafePointer<UInt8>?
            let count = unsafe nghttp2_session_mem_send(self.session, &bytes)
            if count < 0 {
                self.failure = self.failure ?? HTTP2Failure(code: HTTP2Failure.internalError)
                self.hasSentGoAway = true
            }
            guard count > 0 else { break }
            let frame = unsafe UnsafeRawBufferPointer(start: bytes, count: count)
            if unsafe count >= Self.goAwayByteCountMin && frame[3] == UInt8(NGHTTP2_GOAWAY.rawValue) {
                unsafe self.sendsGoAway(frame)
            }
            unsafe self.output.append(frame)
        }
        return unsafe !self.output.isEmpty
    }
}

// MARK: Callbacks of the library

extension HTTP2Session {
    private static func setCallbacks(_ callbacks: OpaquePointer?) {
        unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, _, user in
            unsafe HTTP2Session.of(user).input.beginHeaders()
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _,
            _,
            name,
            nameCount,
            value,
            count,
            _,
            user in
            let name = unsafe UnsafeBufferPointer(start: name, count: nameCount)
            let value = unsafe UnsafeBufferPointer(start: value, count: count)
            return unsafe HTTP2Session.of(user).received(name, value)
        }
        // The library would ignore invalid fields, as harmless on the web, but the answer is not valid.
        unsafe nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks) { _, _, _, _, _, _, _, _ in
            NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
        }
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            _,
            _,
            stream,
            bytes,
            count,
            user in
            let bytes = unsafe UnsafeRawBufferPointer(start: bytes, count: count)
            unsafe HTTP2Session.of(user).record(.body(stream: UInt32(bitPattern: stream), ByteBuffer(bytes: bytes)))
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
            if let frame = unsafe frame { unsafe HTTP2Session.of(user).received(frame) }
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, code, user in
            unsafe HTTP2Session.of(user).closed(UInt32(bitPattern: stream), code)
            return 0
        }
        unsafe nghttp2_session_callbacks_set_send_data_callback(callbacks) { _, frame, header, count, _, user in
            guard let frame = unsafe frame, let header = unsafe header else {
                return NGHTTP2_ERR_CALLBACK_FAILURE.rawValue
            }
            let stream = unsafe UInt32(bitPattern: frame.pointee.hd.stream_id)
            return unsafe HTTP2Session.of(user).sends(header, byteCount: count, of: stream)
        }
    }

    private static func of(_ user: UnsafeMutableRawPointer?) -> HTTP2Session {
        guard let user = unsafe user else { preconditionFailure("A callback has no session.") }
        return unsafe Unmanaged<HTTP2Session>.fromOpaque(user).takeUnretainedValue()
    }

    private func received(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Int32 {
        if unsafe self.input.appendField(name, value) { return 0 }
        self.inputExceedsLimit()
        return NGHTTP2_ERR_PAUSE.rawValue
    }

    private func received(_ frame: UnsafePointer<nghttp2_frame>) {
        let header = unsafe frame.pointee.hd
        let stream = UInt32(bitPattern: header.stream_id)
        let isEnd = header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
        let isWithinLimit =
            switch UInt32(header.type) {
            case NGHTTP2_HEADERS.rawValue: unsafe self.input.appendHeaders(of: stream, isEnd: isEnd)
            case NGHTTP2_DATA.rawValue: unsafe self.input.appendData(of: stream, byteCount: header.length, isEnd: isEnd)
            default: unsafe self.input.countFrame()
            }
        if !isWithinLimit { self.inputExceedsLimit() }
        switch UInt32(header.type) {
        case NGHTTP2_SETTINGS.rawValue where header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0:
            let settings = unsafe frame.pointee.settings
            let entries = unsafe UnsafeBufferPointer(start: settings.iv, count: settings.niv)
            let streamCountMax = unsafe entries.last {
                $0.settings_id == Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue)
            }
            self.record(.settings(streamCountMax: streamCountMax?.value))
        case NGHTTP2_GOAWAY.rawValue:
            let goAway = unsafe frame.pointee.goaway
            let last = UInt32(bitPattern: unsafe goAway.last_stream_id)
            let bytes = unsafe UnsafeRawBufferPointer(start: goAway.opaque_data, count: goAway.opaque_data_len)
            self.goAwayLast = last
            self.record(.goAway(last: last, unsafe ByteBuffer(bytes: bytes)))
        default: break
        }
    }

    private func closed(_ stream: UInt32, _ code: UInt32) {
        unsafe self.output.removeBody(of: stream)
        // The previous event already contained the end of this stream.
        if unsafe code == 0 && stream == self.input.endedStream { return }
        self.record(.closed(stream: stream, code: code))
    }

    private func sendsGoAway(_ frame: UnsafeRawBufferPointer) {
        self.hasSentGoAway = true
        // The last stream, the code, and the library's debug data.
        let body = unsafe UnsafeRawBufferPointer(rebasing: frame[Self.frameHeaderByteCount...])
        let code = unsafe UInt32(bigEndian: body.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
        guard code != UInt32(NGHTTP2_NO_ERROR.rawValue), self.failure == nil else { return }
        self.failure = unsafe HTTP2Failure(code: code, detail: String(decoding: body.dropFirst(8), as: UTF8.self))
    }

    /// Returns how much of a body may be sent, which ``sends(_:byteCount:of:)`` then writes.
    private static let readBody: nghttp2_data_source_read_callback = { _, stream, _, limit, flags, _, user in
        guard let flags = unsafe flags else { return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
        let session = unsafe HTTP2Session.of(user)
        guard let byteCount = unsafe session.output.unsentByteCount(of: UInt32(bitPattern: stream)) else {
            // The stream was reset.
            return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
        }
        let count = min(limit, byteCount)
        unsafe flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_NO_COPY.rawValue)
        if count == byteCount { unsafe flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue) }
        return count
    }

    private func sends(_ header: UnsafePointer<UInt8>, byteCount: Int, of stream: UInt32) -> Int32 {
        let header = unsafe UnsafeRawBufferPointer(start: header, count: Self.frameHeaderByteCount)
        guard let isValid = unsafe self.output.appendFrame(header, byteCount: byteCount, of: stream) else {
            return NGHTTP2_ERR_WOULDBLOCK.rawValue
        }
        guard isValid else { return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue }
        self.resetInputCounts()
        return 0
    }

    private static let frameHeaderByteCount = 9
    private static let goAwayByteCountMin = 17
}

/// Why the connection can no longer be used, with an HTTP/2 error code.
///
/// - SeeAlso: RFC 9113, 7.
struct HTTP2Failure: Error, Equatable, CustomStringConvertible {
    var code: UInt32
    /// The description from libnghttp2.
    var detail = ""

    static let protocolError: UInt32 = 1
    static let internalError: UInt32 = 2
    static let refusedStream: UInt32 = 7
    static let cancel: UInt32 = 8
    static let enhanceYourCalm: UInt32 = 11

    var description: String {
        let detail = self.detail.isEmpty ? "" : ": \(self.detail)"
        let fault =
            self.code == Self.internalError ? "internal HTTP/2 error" : "the service violated the HTTP/2 protocol"
        return "\(fault) (code \(self.code)\(detail))"
    }
}
